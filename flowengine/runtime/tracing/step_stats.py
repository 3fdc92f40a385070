"""The times of a traced step in TensorFlow's form, for TensorBoard's graph page and TensorFlow's timeline.

Source: the fields of `RunMetadata`, `StepStats` and `NodeExecStats` in TensorFlow's step_stats.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto.step_stats_pb2 import DeviceStepStats, NodeExecStats, RunMetadata
from flowengine.ir.proto.types_pb2 import DataType
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.profile import undivided

#: Kinds beside work that have a node of the graph.
_OTHERS: Final = frozenset({"async", "call", "copy", "launch", "recv"})


def step_stats(events: Sequence[TraceEvent], epoch: float) -> RunMetadata:
    """Return the times of the nodes of a step.

    epoch   the time at which the step began, in seconds since 1970

    A node that shares a block's time, because a provider computes several as one, gets an equal part of it.
    """
    devices: dict[str, DeviceStepStats] = {}
    threads: dict[tuple[str, str], int] = {}
    found = RunMetadata()
    for event in [*undivided(events), *(each for each in events if each.kind in _OTHERS)]:
        stats = devices.get(event.device)
        if stats is None:
            stats = devices[event.device] = found.step_stats.dev_stats.add(device=event.device)
        thread = threads.setdefault((event.device, event.thread), len(threads))
        stats.thread_names[thread] = event.thread or event.kind
        stats.node_stats.extend(_nodes(event, thread, epoch))
    return found


def _nodes(event: TraceEvent, thread: int, epoch: float) -> Iterator[NodeExecStats]:
    names = event.members or (event.name,)
    seconds = event.seconds / len(names)
    for index, name in enumerate(names):
        began = epoch + event.began + index * seconds
        ready = epoch + event.ready if event.ready is not None else began
        node = NodeExecStats(
            node_name=name,
            timeline_label=f"{name} = {event.op}()",
            thread_id=thread,
            scheduled_micros=_micros(ready),
            scheduled_nanos=_nanos(ready),
            all_start_micros=_micros(began),
            all_start_nanos=_nanos(began),
            op_end_rel_micros=max(1, round(1e6 * seconds)),
            op_end_rel_nanos=_nanos(seconds),
            all_end_rel_micros=max(1, round(1e6 * seconds)),
            all_end_rel_nanos=_nanos(seconds),
        )
        # The outputs of nodes that run as one are those of the node that the others are named after.
        outputs = event.outputs if name == event.name else ()
        for slot, each in enumerate(outputs or (("", (), 0),)):
            if each is None:
                continue
            dtype, shape, size = each
            described = node.output.add(slot=slot).tensor_description
            number = _number(dtype)
            if number is not None:
                described.dtype = DataType.ValueType(number)
            described.shape.SetInParent()
            for length in shape:
                described.shape.dim.add(size=length)
            described.allocation_description.requested_bytes = size
            described.allocation_description.allocated_bytes = size
            described.allocation_description.allocator_name = "cpu"
        yield node


def _number(name: str) -> int | None:
    try:
        dtype: DType = as_dtype(name)
    except (InvalidArgumentError, TypeError):
        return None
    return dtype.number


def _micros(seconds: float) -> int:
    return int(1e6 * seconds)


def _nanos(seconds: float) -> int:
    return int(1e9 * seconds)


__all__ = ["step_stats"]
