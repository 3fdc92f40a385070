"""Traced and guarded steps in a box: a request of their own, whose record the host fetches after the step.

Nothing that the process in the box says is trusted: its events are read as those of any other task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import trio

from flowengine.cluster.followed_runs import add_part, keep_values, line_of
from flowengine.cluster.following import PARTS_SECONDS, to_table
from flowengine.cluster.messages import TracePart
from flowengine.core.errors import OpError
from flowengine.core.run_options import RunOptions
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.run_metadata import RunMetadata, check_metadata
from flowengine.runtime.tracing.clock_alignment import NO_OFFSET, ClockOffset, aligned
from flowengine.runtime.tracing.joint_trace import JointTrace
from flowengine.sandbox import messages as w
from flowengine.transport.peer import Peer

T = TypeVar("T")

#: The name of the process among `RunMetadata.traced_tasks`.
_TASK: Final = "sandbox"


async def run_followed(
    peer: Peer,
    graph: NodeGraph,
    number: int,
    run: Callable[[], Awaitable[T]],
    options: RunOptions,
    metadata: RunMetadata | None,
) -> T:
    """Run the one step of a prepared request with trace or guard, and return its result.

    number   of the request, which only this step uses
    run      runs the step

    However the step ends, `metadata` has its trace then, as far as the process answers. Raises the errors of
    the step.
    """
    check_metadata(options, metadata)
    await peer.call(w.FOLLOW, w.BoxFollow(number, to_table(options)).to_wire())
    trace: JointTrace | None = None
    offset = NO_OFFSET
    if metadata is not None and options.trace is not None:

        async def read() -> float:
            return float((await peer.call(w.READ_CLOCK)).result)

        offset = await aligned(read, perf_counter)
        trace = metadata.trace = JointTrace(perf_counter(), options.trace_events, partial(line_of, graph))
    take = partial(_take, peer, number, trace, offset)
    try:
        result = await run()
    except BaseException as error:
        values = b""
        # Also if the caller is cancelled: the part that ran says the most then.
        with trio.move_on_after(2 * PARTS_SECONDS, shield=True) as scope:
            values = await take()
        if scope.cancelled_caught and trace is not None:
            trace.add(_TASK, f"lost: its trace did not come within {2 * PARTS_SECONDS:g} s", offset)
        if values and options.guard_file is not None and isinstance(error, OpError):
            keep_values(values, options.guard_file, error)
        raise
    await take()
    return result


async def _take(peer: Peer, number: int, trace: JointTrace | None, offset: ClockOffset) -> bytes:
    """Fetch the record of the step into its trace; return the values that the guard kept, or b""."""
    try:
        reply = await peer.call(w.TAKE_PART, w.BoxTakePart(number, PARTS_SECONDS).to_wire())
        part = TracePart.from_wire(reply.result)
        tensors: Sequence[bytes] = [bytes(each) for each in reply.tensors]
        if trace is not None:
            await add_part(trace, _TASK, part, tensors[: part.chunks], offset)
        return tensors[-1] if part.has_values and tensors else b""
    except (OpError, TypeError) as error:
        if trace is not None:
            trace.add(_TASK, f"lost: {error}".partition("\n")[0], offset)
        return b""


__all__ = ["run_followed"]
