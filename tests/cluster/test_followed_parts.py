"""A part of a followed step is taken as it is then, even if it has not ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.followed_part import FollowedPart
from flowengine.cluster.following import to_table
from flowengine.core.work_pieces import Pieces
from flowengine.devices.launch_record import LaunchRecord
from flowengine.runtime.tracing.event_encoding import decoded
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.recorder import Recorder
from tests.cluster.test_traced_steps import four_tasks, waiting_graph

DEVICE = "/job:worker/replica:0/task:0/device:CPU:0"


class WatchedRecorder(Recorder):
    """A recorder that says when its events begin to be made."""

    def __init__(self) -> None:
        super().__init__(1_000_000, has_nodes=True)
        self.is_taken = trio.Event()

    def made(self, launches: Sequence[LaunchRecord] = ()) -> Pieces[tuple[TraceEvent, ...]]:
        self.is_taken.set()
        return (yield from super().made(launches))

    def note(self, name: str) -> None:
        now = perf_counter()
        self.add(("kernel", name, DEVICE, "main", (), None, now, now, (), None))


async def test_a_part_that_still_runs_shows_what_it_waits_for(tmp_path: Path) -> None:
    """The other task does not wait for its end: what the part has begun is in the trace, as far as it is."""
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(waiting_graph(), target=target) as session,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_step_that_waits, session)
        worker = servers["/job:ps/task:1"].worker
        while not len(worker.followed):
            await trio.lowlevel.checkpoint()
        ((_, part),) = worker.followed._by_step.values()
        while part.outcome != "still ran":
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked(0.01)
        message, chunks = await part.taken(0.0, perf_counter)
        nursery.cancel_scope.cancel()
    assert message.outcome == "still ran"
    events = [event for chunk in chunks for event in decoded(chunk.tobytes())]
    (taken,) = [event for event in events if event.kind == "async"]
    assert taken.detail["unfinished"] is True
    assert "slow" in taken.detail["waits_for"]


async def _step_that_waits(session: fe.Session) -> None:
    options = fe.RunOptions(trace="nodes")
    await session.run("late:0", {"x:0": 1.0}, options=options, run_metadata=fe.RunMetadata())


async def test_a_part_that_still_runs_adds_nothing_to_what_is_taken() -> None:
    """It takes many turns to make the events, in which the part runs on."""
    part = FollowedPart(to_table(fe.RunOptions(trace="nodes")))
    part.begin()
    recorder = part.metadata.trace = WatchedRecorder()
    for _ in range(5000):
        recorder.note("before")
    added = 0
    async with trio.open_nursery() as nursery:

        async def run_on() -> None:
            nonlocal added
            await recorder.is_taken.wait()
            while True:
                recorder.note("after")
                added += 1
                await trio.lowlevel.checkpoint()

        nursery.start_soon(run_on)
        message, chunks = await part.taken(0.0, perf_counter)
        nursery.cancel_scope.cancel()
    assert added
    assert [event.name for chunk in chunks for event in decoded(chunk.tobytes())] == ["before"] * 5000
    assert (message.outcome, message.dropped) == ("still ran", 0)
