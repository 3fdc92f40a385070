"""Traced and guarded steps of a session at an address: what they leave at the tasks is fetched and merged."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO, Final, Protocol

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.following import PARTS_SECONDS, known_to, to_table
from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.run_options import RunOptions
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.planning.planning_jobs import in_turns
from flowengine.runtime.run_metadata import RunMetadata, check_metadata
from flowengine.runtime.tracing.clock_alignment import NO_OFFSET, ClockOffset, aligned
from flowengine.runtime.tracing.event_encoding import decoded
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.joint_trace import JointTrace
from flowengine.runtime.turns import current_turns
from flowengine.transport.calls.service import Reply

_tickets: Final = itertools.count(1)


class MasterPeer(Protocol):
    """A connection to a master, or a master of this process."""

    async def call(self, method: str, arguments: Any = None, tensors: Sequence[Value] = ()) -> Reply:
        """Call a method of the master."""


def line_of(graph: NodeGraph, name: str | None, op: str | None) -> str:
    """Return the line of the program that built a node; "" if the graph has no such node.

    Lines stay with the client, because a graph is sent without them.
    """
    node = graph[name] if name is not None and name in graph else None
    return node.creation_site if node is not None and node.op == op else ""


async def run_followed(
    peer: MasterPeer,
    graph: NodeGraph,
    message: m.Run,
    feeds: Sequence[Value],
    options: RunOptions,
    metadata: RunMetadata | None,
) -> Reply:
    """Run a step with trace or guard; return its reply.

    However the step ends, `metadata` has its trace then, as far as the tasks answer. Raises the errors of the
    step, and UnimplementedError if a task knows no such steps.
    """
    check_metadata(options, metadata)
    trace: JointTrace | None = None
    offset = NO_OFFSET
    ask = partial(known_to, "the master", partial(peer.call, m.READ_CLOCK))
    if metadata is not None and options.trace is not None:

        async def read() -> float:
            return float((await ask()).result)

        offset = await aligned(read, perf_counter)
        trace = metadata.trace = JointTrace(perf_counter(), options.trace_events, partial(line_of, graph))
    else:
        await ask()
    ticket = next(_tickets)
    request = m.RunFollowed(
        session=message.session,
        prepared=message.prepared,
        timeout_seconds=message.timeout_seconds,
        wants_metadata=message.wants_metadata,
        ticket=ticket,
        options=to_table(options),
    )
    take = partial(_take, peer, message.session, ticket, trace, offset)
    try:
        reply = await peer.call(m.RUN_FOLLOWED, request.to_wire(), feeds)
    except BaseException as error:
        values = b""
        # Also if the caller is cancelled: the part that ran says the most then.
        with trio.move_on_after(2 * PARTS_SECONDS, shield=True) as scope:
            values = await take(PARTS_SECONDS)
        if scope.cancelled_caught and trace is not None and not trace.tasks:
            trace.add("master", f"lost: its trace did not come within {2 * PARTS_SECONDS:g} s", offset)
        if values and options.guard_file is not None and isinstance(error, OpError):
            keep_values(values, options.guard_file, error)
        raise
    if reply.result is not None:
        await take(PARTS_SECONDS)
    return reply


async def _take(
    peer: MasterPeer,
    session: int,
    ticket: int,
    trace: JointTrace | None,
    offset: ClockOffset,
    seconds: float,
) -> bytes:
    """Fetch the parts of a step into its trace; return the values that the guard kept, or b""."""
    message = m.TakeTrace(session, ticket, seconds)
    try:
        reply = await peer.call(m.TAKE_TRACE, message.to_wire())
        return await _merge(reply, trace, offset)
    except OpError as error:
        if trace is not None:
            trace.add("master", f"lost: {error.message}", offset)
        return b""


async def _merge(reply: Reply, trace: JointTrace | None, offset: ClockOffset) -> bytes:
    tensors = [bytes(each) for each in reply.tensors]
    values = b""
    try:
        if trace is not None and reply.result["began"]:
            trace.began = reply.result["began"] - offset.seconds
        for task, table in reply.result["parts"].items():
            part = m.TracePart.from_wire(table["part"])
            chunks, tensors = tensors[: part.chunks], tensors[part.chunks :]
            if part.has_values:
                values, *tensors = tensors
            if trace is not None:
                await add_part(trace, task, part, chunks, offset.beyond(ClockOffset(*table["clock"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(f"the master's answer is no trace: {error!r}") from None
    return values


async def add_part(
    trace: JointTrace, task: str, part: m.TracePart, chunks: Sequence[bytes], offset: ClockOffset
) -> None:
    """Add the part of a task to a trace, in turns with other work.

    Raises InvalidArgumentError for chunks that are none.
    """
    job = Piecework(_decoding(chunks))
    await in_turns(job, current_turns())
    trace.add(task, part.outcome, offset, part.began, job.result(), part.dropped)


def _decoding(chunks: Sequence[bytes]) -> Pieces[list[TraceEvent]]:
    events: list[TraceEvent] = []
    for chunk in chunks:
        events += decoded(chunk)
        yield
    return events


def keep_values(values: bytes, file: str | BinaryIO, error: OpError) -> None:
    """Write the inputs and outputs of the node that the guard found, where the client runs."""
    if not isinstance(file, str):
        file.write(values)
        return
    file = file if file.endswith(".npz") else f"{file}.npz"
    try:
        Path(file).write_bytes(values)
    except OSError as failure:
        error.add_note(f"its values could not be kept in {file}: {failure.strerror}")
    else:
        error.add_note(f"its inputs and outputs are in {file}")


__all__ = ["MasterPeer", "add_part", "keep_values", "line_of", "run_followed"]
