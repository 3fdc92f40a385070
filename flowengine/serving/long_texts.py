"""Texts that are read and written while others have their turns."""

from __future__ import annotations

import time
from typing import Any, Final, TypeVar

import trio

from flowengine.core.thread_switching import switching_quickly
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.serving.text.reading import SLICE_BYTES

T = TypeVar("T")

#: Seconds that a thread which reads or writes a long text leaves to others after each piece.
_PAUSE: Final = 0.0002


class TextThread:
    """The thread that reads and writes long texts; short ones are read and written at once.

    One long text has its turn at a time, so that what else runs has the rest of the processor.
    """

    def __init__(self) -> None:
        self._limiter: trio.CapacityLimiter | None = None

    async def finish(self, pieces: Pieces[T], size: int) -> T:
        """Finish work on a text of so many bytes, and return its result. Cancelled, it ends after a piece."""
        if size <= SLICE_BYTES:
            return at_once(pieces)
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(1)
        result: T = await trio.to_thread.run_sync(_with_pauses, pieces, limiter=self._limiter)
        return result


def _with_pauses(pieces: Pieces[Any]) -> Any:
    with switching_quickly():
        while True:
            trio.from_thread.check_cancelled()
            try:
                next(pieces)
            except StopIteration as end:
                return end.value
            time.sleep(_PAUSE)


__all__ = ["TextThread"]
