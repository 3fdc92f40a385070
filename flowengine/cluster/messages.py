"""Messages between master, workers and clients: the methods of the calls between them.

A message is a small record whose fields travel as one msgpack map; tensors and graphs travel beside it. Each
field of a record from outside is checked: a record that passes has the right fields of the right types.

    client -> master    CreateSession ExtendSession Prepare Run CloseSession Reset ListDevices Status
                        RandomPlaces SetRandomPlaces ReadClock RunFollowed TakeTrace
    master -> worker    RegisterGraph RunGraph ProbeStep GiveUp EndSteps DeregisterGraphs ListDevices Reset
                        RandomPlaces SetRandomPlaces ReadClock FollowStep TakePart
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self, get_type_hints

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.transport.calls.templates import CallTemplate
from flowengine.transport.errors import error_from_wire, error_to_wire

#: The number of requests whose plans a session keeps, at the master and at the client alike. The least
#: recently used one is dropped first.
REQUESTS_MAX: Final = 512

CREATE_SESSION: Final = "create_session"
EXTEND_SESSION: Final = "extend_session"
PREPARE: Final = "prepare"
RUN: Final = "run"
CLOSE_SESSION: Final = "close_session"
RESET: Final = "reset"
RANDOM_PLACES: Final = "random_places"
SET_RANDOM_PLACES: Final = "set_random_places"
LIST_DEVICES: Final = "list_devices"
STATUS: Final = "status"
DRAIN: Final = "drain"
READ_CLOCK: Final = "read_clock"
RUN_FOLLOWED: Final = "run_followed"
TAKE_TRACE: Final = "take_trace"
FOLLOW_STEP: Final = "follow_step"
TAKE_PART: Final = "take_part"
REGISTER_GRAPH: Final = "register_graph"
RUN_GRAPH: Final = "run_graph"
PROBE_STEP: Final = "probe_step"
GIVE_UP: Final = "give_up"
END_STEPS: Final = "end_steps"
DEREGISTER_GRAPHS: Final = "deregister_graphs"


def _is_list(kind: type) -> Any:
    return lambda value: type(value) is list and all(type(each) is kind for each in value)


def _are_integers(values: list[Any]) -> bool:
    # There are two or none, and a generator would cost more than the rest of its message.
    for value in values:  # noqa: SIM110
        if type(value) is not int:
            return False
    return True


def _is_table(value: Any) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)


#: Annotation -> a test whether a value has that type. Unions with None are allowed, too.
_CHECKS: Final[dict[Any, Any]] = {
    int: lambda value: type(value) is int,
    bool: lambda value: type(value) is bool,
    str: lambda value: type(value) is str,
    float: lambda value: type(value) in (int, float),
    float | None: lambda value: value is None or type(value) in (int, float),
    list[int]: _is_list(int),
    list[str]: _is_list(str),
    list[dict[str, Any]]: lambda value: type(value) is list and all(map(_is_table, value)),
    dict[str, Any]: _is_table,
    dict[str, int]: lambda value: _is_table(value) and all(type(each) is int for each in value.values()),
    dict[str, str]: lambda value: _is_table(value) and all(type(each) is str for each in value.values()),
}


_checks_of_class: Final[dict[type, tuple[tuple[str, Any], ...]]] = {}


@dataclass(frozen=True)
class Message:
    """A record that can be sent."""

    def to_wire(self) -> dict[str, Any] | None:
        """Return the record in a form that msgpack can write."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def _checks(cls) -> tuple[tuple[str, Any], ...]:
        """Return (field, its check) of each field, looked up once."""
        found = _checks_of_class.get(cls)
        if found is None:
            hints = get_type_hints(cls)
            found = tuple((each.name, _CHECKS[hints[each.name]]) for each in fields(cls))
            _checks_of_class[cls] = found
        return found

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record. Raises InvalidArgumentError that names the invalid field."""
        if not _is_table(data):
            raise InvalidArgumentError(f"{cls.__name__} is a map of fields, not a {type(data).__name__}")
        values = []
        for name, check in cls._checks():
            if name not in data:
                raise InvalidArgumentError(f"{cls.__name__} has no {name}")
            value = data[name]
            if not check(value):
                raise InvalidArgumentError(f"{cls.__name__}.{name} is of the wrong type: {value!r:.100}")
            values.append(value)
        return cls(*values)


@dataclass(frozen=True)
class CreateSession(Message):
    """A request to open a session on the graph that is the one tensor beside it. Answer: its number.

    config    the fields of a `Config` that the client gave
    """

    config: dict[str, Any]


@dataclass(frozen=True)
class ExtendSession(Message):
    """A request to replace a session's graph by the extended one beside it. Answer: nothing."""

    session: int


@dataclass(frozen=True)
class Prepare(Message):
    """A request to make the plan of a request. Answer: its number.

    dropped    numbers of requests that the client has forgotten
    """

    session: int
    feeds: list[str]
    fetches: list[str]
    targets: list[str]
    dropped: list[int]


class Run(NamedTuple):
    """A request to run a prepared request on the feeds beside it. Answer: {task: metadata}, values beside.

    The answer is None if the master has dropped the request: nothing has run, and the client prepares again.

    Each step sends one, so it travels as an array of its fields.
    """

    session: int
    prepared: int
    timeout_seconds: float | None = None
    wants_metadata: bool = False

    def to_wire(self) -> Run:
        """Return the record in a form that msgpack can write."""
        return self

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record. Raises InvalidArgumentError if it is not one."""
        if (type(data) is list or type(data) is cls) and len(data) == 4:
            session, prepared, timeout, wants_metadata = data
            if (
                type(session) is type(prepared) is int
                and (timeout is None or type(timeout) in (int, float))
                and type(wants_metadata) is bool
            ):
                return cls(session, prepared, timeout, wants_metadata)
        raise InvalidArgumentError(
            f"Run is an array of a session, a request, seconds or None and a bool, not {data!r:.100}"
        )


@dataclass(frozen=True)
class RunFollowed(Message):
    """A request to run a prepared request, traced or under the guard. Feeds and answer as of a `Run`.

    ticket    the client's number of the step, for its `TakeTrace`; every such step must be followed by one
    options   trace and guard, as `following.to_table` wrote it
    """

    session: int
    prepared: int
    timeout_seconds: float | None
    wants_metadata: bool
    ticket: int
    options: dict[str, Any]


@dataclass(frozen=True)
class TakeTrace(Message):
    """A request for the trace of a followed step, which is forgotten then.

    Answer: {"began": the start of the step by the master's clock, "parts": {task: a `TracePart` and more}},
    with the chunks of all parts beside it, and the values that the guard kept.

    seconds   how long a part that has not ended is waited for
    """

    session: int
    ticket: int
    seconds: float


@dataclass(frozen=True)
class FollowStep(Message):
    """A notice that a step, which is about to begin, is traced or runs under the guard. Answer: nothing.

    options   trace and guard, as `following.to_table` wrote it
    """

    session: int
    step: int
    options: dict[str, Any]


@dataclass(frozen=True)
class TakePart(Message):
    """A request for a task's part of a followed step, which is forgotten then. Answer: a `TracePart`.

    seconds   how long a part that has not ended is waited for
    """

    step: int
    seconds: float


@dataclass(frozen=True)
class TracePart(Message):
    """A task's part of a followed step. The chunks of its events come beside it, then the guard's values.

    outcome      how it ended, as in `TracedTask`
    began        its start by the clock of the task
    dropped      the number of events that found no room
    chunks       the number of chunks
    has_values   whether the guard has kept values here: the last tensor is a .npz file
    """

    outcome: str
    began: float
    dropped: int
    chunks: int
    has_values: bool


@dataclass(frozen=True)
class StepEnd(Message):
    """The end of a step, or of a task's part of it. It travels as None if it has nothing to report.

    error       {} or what `error_to_table` wrote
    is_derived  the error only reports another task's error
    metadata    the metadata that the caller asked for
    """

    error: dict[str, Any] = field(default_factory=dict)
    is_derived: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any] | None:
        """Return the record in a form that msgpack can write."""
        return super().to_wire() if self.error or self.metadata else None

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record. Raises InvalidArgumentError that names the invalid field."""
        return cls() if data is None else super().from_wire(data)


#: The end of nearly every part.
WELL: Final = StepEnd()


@dataclass(frozen=True)
class SessionNumber(Message):
    """A request to close a session. Answer: nothing."""

    session: int


@dataclass(frozen=True)
class Reset(Message):
    """A request to clear containers ([] for all) on one task, or through its master on all (`everywhere`)."""

    containers: list[str]
    everywhere: bool


@dataclass(frozen=True)
class RandomPlaces(Message):
    """A query for the positions of these sequences of random nodes: see `kernels.common.generators`.

    Answer: {sequence: position}.
    """

    sequences: list[str]


@dataclass(frozen=True)
class SetRandomPlaces(Message):
    """A request to set these sequences of random nodes to positions, on every task; the others begin anew."""

    sequences: list[str]
    places: dict[str, str]


@dataclass(frozen=True)
class RegisterGraph(Message):
    """A task's partitions of a request, to be kept. Their graphs come beside it, then the functions' library.

    handle        the master's name for it
    session       the session of the client; state that belongs to it alone goes with it
    partitions    {"device", "feeds": [positions], "fetches": [positions], "targets": [names]} of each
    feeds, fetches    names of all feeds and fetches of the request
    tasks         {task: incarnation} of the tasks that take part
    partners      {task: address} of those that this task exchanges tensors with
    """

    handle: int
    session: int
    partitions: list[dict[str, Any]]
    feeds: list[str]
    fetches: list[str]
    tasks: dict[str, int]
    partners: dict[str, str]


#: The form of a `RunGraph` in nearly every step: without tensors, with one range of ended steps.
RUN_GRAPH_AGAIN: Final = CallTemplate(
    RUN_GRAPH, lambda handle, step, first, last: [handle, step, [first, last], False], numbers=4
)


class RunGraph(NamedTuple):
    """A request to run a task's partitions once, on the feeds beside it. Answer: a `StepEnd`.

    ended    steps that are over everywhere, as first, last, first, last, ...

    Each task gets one in each step, so it travels as an array of its fields.
    """

    handle: int
    step: int
    ended: list[int]
    wants_metadata: bool

    def to_wire(self) -> RunGraph:
        """Return the record in a form that msgpack can write."""
        return self

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record. Raises InvalidArgumentError if it is not one."""
        if type(data) is list and len(data) == 4:
            handle, step, ended, wants_metadata = data
            if (
                type(handle) is type(step) is int
                and type(wants_metadata) is bool
                and type(ended) is list
                and (not ended or _are_integers(ended))
            ):
                return cls(handle, step, ended, wants_metadata)
        raise InvalidArgumentError(
            f"RunGraph is an array of a handle, a step, ended steps and a bool, not {data!r:.100}"
        )


@dataclass(frozen=True)
class ProbeStep(Message):
    """A query for the status of a task's part of a step.

    Answer: a `PartStatus`, or None while it does something.
    """

    step: int


@dataclass(frozen=True)
class PartStatus(Message):
    """A part of a step that waits for other tasks and does nothing else, or is over.

    sent, received    messages of the step to and from other tasks
    first             the place of the Recvs to give up first, as (minus their depth in frames, numbers of
                      the iterations ...); [] if none waits
    """

    sent: int
    received: int
    first: list[int]


@dataclass(frozen=True)
class GiveUp(Message):
    """An order to give up the Recvs at this place of a step: no values will come. Answer: nothing."""

    step: int
    first: list[int]


@dataclass(frozen=True)
class EndSteps(Message):
    """Steps that are over everywhere, as first, last, first, last, ..."""

    ended: list[int]


@dataclass(frozen=True)
class DeregisterGraphs(Message):
    """An order to forget the graphs under these handles, and the state of ended sessions."""

    handles: list[int]
    sessions: list[int]


def error_to_table(error: BaseException) -> dict[str, Any]:
    """Write an error as a table, with the place where it happened."""
    code, message, details = error_to_wire(error)
    return {"code": code, "message": message, "details": details}


def error_from_table(table: dict[str, Any]) -> OpError:
    """Read the error from a table."""
    code, message, details = table.get("code"), table.get("message"), table.get("details")
    if type(code) is not int or type(message) is not str or type(details) is not dict:
        raise InvalidArgumentError("an error has a code, a message and details")
    return error_from_wire(code, message, details)
