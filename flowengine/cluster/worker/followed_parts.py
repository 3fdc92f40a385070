"""The parts of steps that a master wants traced or guarded, kept with their task until the master takes them.

FollowStep ──► announced ──► begun ──► ended ──► TakePart, or the end of the session or the master
"""

from __future__ import annotations

import io
from collections.abc import Callable
from time import perf_counter
from typing import Final

import numpy as np
import trio

from flowengine.cluster import messages as m
from flowengine.cluster.following import from_table
from flowengine.cluster.worker.registered_partitions import Registrar
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, FailedPreconditionError, NotFoundError
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.runtime.planning.planning_jobs import in_turns
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.tracing.event_encoding import encoded
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.turns import current_turns

#: The steps of one master that may be followed at a time. Masters take each part at the end of its step.
_STEPS_MAX: Final = 256


class FollowedPart:
    """A part of a step that is followed.

    options     trace and guard
    metadata    of the part; holds the recorder, once the part has begun
    guarded     the .npz file that the guard writes, in memory
    outcome     see `TracedTask`
    """

    def __init__(self, session: int, table: dict[str, object]) -> None:
        self.session = session
        self.options = from_table(table)
        self.metadata = RunMetadata()
        self.guarded = None if self.options.guard_file is None else io.BytesIO()
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

    async def wait_ended(self, seconds: float) -> None:
        """Wait until the part has ended, but not longer than so many seconds."""
        with trio.move_on_after(seconds):
            await self._has_ended.wait()


class FollowedParts:
    """The followed parts of one task.

    clock   the clock by which times leave the task
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = perf_counter
        self._by_step: dict[tuple[Registrar, int], FollowedPart] = {}

    def __len__(self) -> int:
        return len(self._by_step)

    def announce(self, registrar: Registrar, message: m.FollowStep) -> None:
        """Observe a step that is about to begin. Raises InvalidArgumentError for an unreadable request."""
        if sum(1 for master, _ in self._by_step if master == registrar) >= _STEPS_MAX:
            raise FailedPreconditionError(
                f"{_STEPS_MAX} traced or guarded steps of {registrar.task} run already: wait for one to end"
            )
        self._by_step[registrar, message.step] = FollowedPart(message.session, message.options)

    def find(self, registrar: Registrar, step: int) -> FollowedPart | None:
        """Return the part of a followed step; None for any other step."""
        return self._by_step.get((registrar, step))

    def forget(self, registrar: Registrar, session: int | None = None) -> None:
        """Forget the steps of a master, or of one of its sessions."""
        for key, followed in [*self._by_step.items()]:
            if key[0] == registrar and session in (None, followed.session):
                del self._by_step[key]

    async def take(self, registrar: Registrar, message: m.TakePart) -> tuple[m.TracePart, list[Value]]:
        """Return a part and forget it, once it has ended, or after the seconds that the message gives it.

        Raises NotFoundError for a step that was not announced.
        """
        followed = self._by_step.pop((registrar, message.step), None)
        if followed is None:
            raise NotFoundError(f"step {message.step} of {registrar.task} is not followed here")
        await followed.wait_ended(message.seconds)
        recorder, outcome = followed.metadata.trace, followed.outcome
        chunks, began = list[bytes](), 0.0
        if isinstance(recorder, Recorder):
            recorder.close()
            job = Piecework(_chunks(recorder, followed.metadata))
            await in_turns(job, current_turns())
            chunks = job.result()
            began = recorder.began + self.clock() - perf_counter()
        values = b"" if followed.guarded is None else followed.guarded.getvalue()
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


__all__ = ["FollowedPart", "FollowedParts"]
