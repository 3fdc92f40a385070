"""A part of a followed step is taken as it is then, even if it has not ended."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import trio

import flowengine as fe
from flowengine.cluster.followed_part import FollowedPart
from flowengine.cluster.following import to_table
from flowengine.core.work_pieces import Pieces
from flowengine.devices.launch_record import LaunchRecord
from flowengine.runtime.tracing.event_encoding import decoded
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.recorder import Recorder

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
