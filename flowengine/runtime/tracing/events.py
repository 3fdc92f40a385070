"""Events: the pieces of a step with their times, as the caller sees them.

`recorder.py` writes raw records while the step runs; the events are made of them when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from flowengine.devices.launch_record import LaunchRecord

#: ((frame, iteration), ...) from the outermost loop in; () outside of loops.
Tag: TypeAlias = tuple[tuple[str, int], ...]

#: (type, shape, bytes) of an output.
OutputType: TypeAlias = tuple[str, tuple[int, ...], int]

#: The kinds of events in which the engine works for the step. All others are waits, or contain these.
WORK: Final = frozenset({"kernel", "block", "body", "call", "send"})
#: The kinds of events in which the step, or an item of it, waits.
WAITS: Final = frozenset({"wait", "async", "recv"})


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One piece of a step.

    kind      "kernel", an op by itself; "block", many nodes compiled into one function; "body", a part of a
              block with a loop, which stops when its turn is over; "node", a member of a block; "call", a
              function from its call to its results; "send", "recv"; "async", a kernel that may wait; "wait",
              with the reason as its name; "turn", a stretch in which one thread runs items; "plan" and
              "compile"; "copy" and "launch", the work of a device with streams
    name      of the node, or of the block
    op        the type of the node; of a block, "block"
    device    the complete name of the device
    thread    the thread that did it; of a launch, its stream; empty for what no thread does
    tag       ((frame, iteration), ...) in loops
    ready     seconds from the start of the step until its last input was there
    began, ended   likewise
    members   the names of the nodes that it stands for, if they are several
    outputs   (type, shape, bytes) of each output by slot; None for one that is not known
    line      file and line of the program that built the node, where they are known
    detail    more, by name: `cpu_seconds` and `core_wait_seconds` of a turn, `edge` of a transfer and the
              device `to` which it goes, `error`

    >>> graph = fe.Graph()
    >>> y = fe.tanh(graph.placeholder("float32", [2], name="x"), name="y")
    >>> metadata = fe.RunMetadata()
    >>> with fe.blocking.Session(graph) as session:
    ...     value = session.run(
    ...         y, {"x:0": [1.0, 2.0]}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
    ...     )
    >>> [event.op for event in metadata.events if event.kind == "kernel"]
    ['Tanh']
    """

    kind: str
    name: str
    op: str
    device: str
    thread: str
    began: float
    ended: float
    ready: float | None = None
    tag: Tag = ()
    members: tuple[str, ...] = ()
    outputs: tuple[OutputType | None, ...] = ()
    line: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Return the time from its beginning to its end."""
        return self.ended - self.began

    @property
    def output_bytes(self) -> int:
        """Return the bytes of its outputs, as far as they are known."""
        return sum(each[2] for each in self.outputs if each is not None)

    @property
    def queued(self) -> float:
        """Return the seconds from its last input to its beginning; 0 where that is not known."""
        return 0.0 if self.ready is None else max(0.0, self.began - self.ready)


def events_of_devices(launches: Sequence[LaunchRecord]) -> tuple[TraceEvent, ...]:
    """Return the work of devices with streams as events.

    Clocks of devices tell differences only, so the first launch is placed at the start of the step.
    """
    first = min((each.began for each in launches), default=0.0)
    return tuple(
        TraceEvent(
            kind="copy" if each.what.startswith("copy") else "launch",
            name=each.node or each.what,
            op=each.what,
            device=each.device,
            thread=each.stream,
            began=each.began - first,
            ended=each.ended - first,
        )
        for each in launches
    )


__all__ = ["WAITS", "WORK", "OutputType", "Tag", "TraceEvent", "events_of_devices"]
