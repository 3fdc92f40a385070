"""A part of a step that is traced or guarded, in the process that runs it, until another process takes it."""

from __future__ import annotations

import io
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import trio

from flowengine.cluster import messages as m
from flowengine.cluster.following import from_table
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.runtime.planning.planning_jobs import in_turns
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.tracing.event_encoding import encoded
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.turns import current_turns


class FollowedPart:
    """A part of a step that is followed.

    options     trace and guard
    metadata    of the part; holds the recorder, once the part has begun
    outcome     see `TracedTask`
    """

    def __init__(self, table: dict[str, Any]) -> None:
        """`table`: trace and guard, as `following.to_table` wrote it; InvalidArgumentError for another."""
        self.options = from_table(table)
        self.metadata = RunMetadata()
        self.outcome = "did not begin"
        self._has_ended = trio.Event()
        self._has_ended.set()

    def begin(self) -> None:
        """Record that the part runs."""
        self.outcome = "still ran"
        self._has_ended = trio.Event()

    def end(self, error: BaseException | None) -> None:
        """Record how the part has ended."""
        if error is None:
            self.outcome = "ended"
        elif isinstance(error, (CancelledError, trio.Cancelled)):
            self.outcome = "cancelled"
        else:
            self.outcome = f"failed: {error}".partition("\n")[0]
        self._has_ended.set()

    async def taken(self, seconds: float, clock: Callable[[], float]) -> tuple[m.TracePart, list[Value]]:
        """Return the part, with its chunks and the guard's values, once it has ended.

        seconds   how long a part that has not ended is waited for
        clock     the clock by which times leave this process
        """
        with trio.move_on_after(seconds):
            await self._has_ended.wait()
        recorder, outcome = self.metadata.trace, self.outcome
        chunks, began = list[bytes](), 0.0
        if isinstance(recorder, Recorder):
            recorder.close()
            job = Piecework(_chunks(recorder, self.metadata))
            await in_turns(job, current_turns())
            chunks = job.result()
            began = recorder.began + clock() - perf_counter()
        kept = self.options.guard_file
        values = kept.getvalue() if isinstance(kept, io.BytesIO) else b""
        part = m.TracePart(
            outcome=outcome,
            began=began,
            dropped=0 if recorder is None else recorder.dropped,
            chunks=len(chunks),
            has_values=bool(values),
        )
        return part, [np.frombuffer(each, np.uint8) for each in (*chunks, *([values] if values else []))]


def _chunks(recorder: Recorder, metadata: RunMetadata) -> Pieces[list[bytes]]:
    events = yield from recorder.made(metadata.launches or ())
    return (yield from encoded(events))


__all__ = ["FollowedPart"]
