"""The recorder: keeps the raw records of one step, and makes events of them when somebody asks.

Writing a record must take less than a microsecond, so a record holds what is at hand: the node, the times,
the types of values. Threads write to it, too: each record is one `append`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from time import perf_counter, time
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.work_pieces import Pieces, at_once
from flowengine.devices.launch_record import LaunchRecord
from flowengine.ir.graph import Node
from flowengine.kernels.provider import every_member, program_of
from flowengine.passes.blocks.compiled_regions import PAUSE, ClockedRegion
from flowengine.runtime.tracing.claim_times import MemberRows, is_claim, member_events
from flowengine.runtime.tracing.events import OutputType, Tag, TraceEvent, events_of_devices

#: (kind, node or name, device, thread, tag, ready or None, began, ended, outputs, detail). Outputs are
#: (type, shape, bytes) of each, or None; or (type, shape) of the one output of a plain kernel.
Raw: TypeAlias = tuple[
    str, Node | str, str, str, Tag, float | None, float, float, Sequence[Any], Mapping[str, Any] | None
]
#: The times of the members of one call of a block: (its node, its region, device, thread, tag, began, marks)
Marks: TypeAlias = tuple[Node, ClockedRegion, str, str, Tag, float, list[tuple[Any, ...]]]

#: Takes (number of a member or PAUSE, time, iterations of the loops around it).
Mark: TypeAlias = Callable[[tuple[Any, ...]], None]

_ADMISSION: Final = "admission: other steps run"
#: The detail of an event that had not ended when the step did.
UNFINISHED: Final = {"unfinished": True}

#: The events that are made between two moments at which others may go on: about 5 ms.
_PIECE: Final = 1000


class Recorder:
    """The records of one step.

    has_nodes   whether members of blocks have times of their own
    began       the start of the step, by `perf_counter`; `epoch` the same by the clock of the machine
    dropped     the number of records that found no room
    """

    def __init__(self, events_max: int, *, has_nodes: bool) -> None:
        """`events_max`: how many events are kept; the later ones are only counted."""
        self.has_nodes = has_nodes
        self.epoch = time()
        self.began = perf_counter()
        self.dropped = 0
        self._events_max = events_max
        #: The number of members' times that were kept, or that there is room for.
        self._marked = 0
        self._is_over = False
        self._raw: list[Raw] = []
        self._marks: list[Marks] = []
        #: {(device, thread): the times of members of claims there}
        self._claims: dict[tuple[str, str], MemberRows] = {}
        #: Functions that record the unfinished work of the parts that run, up to a moment.
        self._unfinished: list[Callable[[float], None]] = []
        self._events: tuple[TraceEvent, ...] | None = None

    def add(self, raw: Raw) -> None:
        """Keep a record."""
        if len(self._raw) + self._marked < self._events_max:
            self._raw.append(raw)
        elif not self._is_over:
            self.dropped += 1

    def begin_part(self, unfinished: Callable[[float], None]) -> None:
        """Follow a part of the step; `unfinished` records the work that has begun, as it is at a moment."""
        self._unfinished.append(unfinished)

    def end_part(self, unfinished: Callable[[float], None]) -> None:
        """Record what a part leaves unfinished, because it has ended."""
        self._unfinished.remove(unfinished)
        unfinished(perf_counter())

    def close(self) -> None:
        """Keep nothing more, because the step has ended: calls of functions may outlive it.

        Work that parts have begun and not finished is recorded as unfinished.
        """
        if not self._is_over:
            now = perf_counter()
            for unfinished in self._unfinished:
                unfinished(now)
        self._is_over = True
        self._events_max = 0

    def adder(self, count: int) -> Callable[[Raw], None]:
        """Return the function that keeps up to so many records, of one thread, in the shortest time."""
        if len(self._raw) + self._marked + count <= self._events_max:
            return self._raw.append
        return self.add

    def begin_earlier(self, waited: float, admission: float, device: str) -> None:
        """Let the step begin so many seconds before this recorder, of which some waited for other steps."""
        if waited <= 0:
            return
        now = self.began
        self.began -= waited
        self.epoch -= waited
        admitted = self.began + min(admission, waited)
        if admission > 0:
            self.wait(_ADMISSION, device, self.began, admitted)
        self.add(("plan", "planning", device, "", (), None, admitted, now, (), None))

    def refuse(self, waited: float) -> None:
        """Record that the step waited so many seconds for admission, and did not begin."""
        now = self.began
        self.began -= waited
        self.epoch -= waited
        self.wait(_ADMISSION, "", self.began, now, is_unfinished=True)

    def marks_of(self, block: Node, region: ClockedRegion, device: str, thread: str, tag: Tag) -> Mark:
        """Begin a call of a block; return the function that takes the times of its members."""
        marks: list[tuple[Any, ...]] = []
        if self._is_over:
            return marks.append
        self._marks.append((block, region, device, thread, tag, perf_counter(), marks))
        has_room = len(self._raw) + self._marked + len(region.marked) <= self._events_max
        if has_room and not region.is_generator:
            self._marked += len(region.marked)
            return marks.append

        def mark(found: tuple[Any, ...]) -> None:
            if self._has_room():
                marks.append(found)

        return mark

    def member_times(self, device: str, thread: str) -> MemberRows:
        """Return the list of a thread for the times of members of claims."""
        return self._claims.setdefault((device, thread), MemberRows(self._has_room_in_claim))

    def _has_room_in_claim(self) -> bool:
        """As `_has_room`, for a member of a claim, which is not shown without the claim's own event."""
        return self._has_room(1)

    def _has_room(self, left: int = 0) -> bool:
        """Take the room for a member's time, if so many events more would fit as well; else count it."""
        if len(self._raw) + self._marked + left < self._events_max:
            self._marked += 1
            return True
        if not self._is_over:
            self.dropped += 1
        return False

    def wait(
        self,
        reason: str,
        device: str,
        began: float,
        ended: float,
        node: Node | str = "",
        *,
        is_unfinished: bool = False,
    ) -> None:
        """Record that the step, or a node of it, waited; `is_unfinished` if the reason did not go away."""
        detail: dict[str, Any] = {"node": _name(node)} if node else {}
        if is_unfinished:
            detail |= UNFINISHED
        self.add(("wait", reason, device, "", (), None, began, ended, (), detail or None))

    def called(self, name: str, device: str, thread: str, began: float) -> None:
        """Record a call of a function by a resource, which ends now; `thread` if one thread did all of it."""
        kind = "body" if thread else "call"
        self.add((kind, name, device, thread, (), None, began, perf_counter(), (), {"function": name}))

    def events(self, launches: Sequence[LaunchRecord] = ()) -> tuple[TraceEvent, ...]:
        """Return the events, in the order in which they began; what contains others comes first.

        launches   the work of devices with streams in this step
        """
        return at_once(self.made(launches))

    def made(self, launches: Sequence[LaunchRecord] = ()) -> Pieces[tuple[TraceEvent, ...]]:
        """Make the same in pieces, for a task of a cluster that answers others meanwhile."""
        if self._events is None:
            found = []
            for event in chain(map(self._event, self._raw), self._nodes(), events_of_devices(launches)):
                found.append(event)
                if not len(found) % _PIECE:
                    yield
            claims = [event for event in found if is_claim(event)]
            for event in member_events(claims, self._claims, self.began):
                found.append(event)
                if not len(found) % _PIECE:
                    yield
            found.sort(key=lambda event: (event.began, -event.ended))
            self._events = tuple(found)
            self._raw, self._marks, self._claims = [], [], {}
        return self._events

    def _event(self, raw: Raw) -> TraceEvent:
        kind, node, device, thread, tag, ready, began, ended, outputs, detail = raw
        start = self.began
        name = _name(node)
        return TraceEvent(
            kind=kind,
            name=name,
            op=_op(node, kind),
            device=device,
            thread=thread,
            began=began - start,
            ended=ended - start,
            ready=None if ready is None else ready - start,
            tag=tag,
            members=_members(node),
            outputs=_outputs(outputs),
            line="" if isinstance(node, str) else node.creation_site,
            detail={} if detail is None else dict(detail),
        )

    def _nodes(self) -> Iterator[TraceEvent]:
        start = self.began
        for block, region, device, thread, tag, before, marks in self._marks:
            for number, now, *iterations in marks:
                if number == PAUSE:
                    (thread,) = iterations
                else:
                    node, frames = region.marked[number]
                    yield TraceEvent(
                        kind="node",
                        name=node.name,
                        op=node.op,
                        device=device,
                        thread=thread,
                        began=before - start,
                        ended=now - start,
                        tag=tag + tuple(zip(frames, iterations, strict=True)),
                        members=_members(node),
                        line=node.creation_site,
                        detail={"block": block.name},
                    )
                before = now


def _name(node: Node | str) -> str:
    return node if isinstance(node, str) else node.name


def _op(node: Node | str, kind: str) -> str:
    if isinstance(node, str):
        return kind
    return "block" if "program" in node.attrs and kind in {"block", "body"} else node.op


def _members(node: Node | str) -> tuple[str, ...]:
    """Return the nodes that a block, or a node that a provider has made, stands for."""
    if isinstance(node, str):
        return ()
    program = node.attrs.get("program")
    units = getattr(program, "units", None)
    if units is not None:
        return tuple(sorted(name for unit in units for name in unit.names))
    body = program_of(node.attrs)
    return () if body is None else tuple(sorted(every_member(body)))


def _outputs(values: Sequence[Any]) -> tuple[OutputType | None, ...]:
    """Return the types of the outputs by slot, without unknown ones at the end."""
    if len(values) == 2 and values[0] is not None and not isinstance(values[0], tuple):
        dtype, shape = values
        if not isinstance(dtype, np.dtype):
            return ()  # a list of tensors, or a resource
        return (_output(dtype, shape, math.prod(shape) * dtype.itemsize),)
    found = [None if each is None else _output(*each) for each in values]
    while found and found[-1] is None:
        found.pop()
    return tuple(found)


def _output(dtype: Any, shape: Any, size: Any) -> OutputType:
    return ("string" if dtype == np.dtype(object) else str(dtype), tuple(shape), int(size))


__all__ = ["UNFINISHED", "Mark", "Marks", "Raw", "Recorder"]
