"""Streams whose work runs late: in an order that a seed draws among those that waits allow."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from flowengine.devices.launch_record import LaunchRecord

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True


class _StreamWait(NamedTuple):
    """A stream goes no further until another has done so many pieces of work."""

    stream: int
    position: int


class LateStreams:
    """Queues of work, one a stream. Work runs while somebody waits for it, and now and then by chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        #: How often something runs when something is launched: in some worlds streams are always behind.
        self._haste = self._random.choice([0.0, 0.0, 0.3, 0.9])
        self._queues: dict[int, deque[Callable[[], None] | _StreamWait]] = {}
        self._done: dict[int, int] = {}
        self._has_ended = False

    def launch(self, stream: int, work: Callable[[], None]) -> None:
        """Give a stream its next piece of work."""
        if self._has_ended:
            return
        self._queues.setdefault(stream, deque()).append(work)
        if self._random.random() < self._haste:
            self.run_one()

    def wait(self, stream: int, other: int, position: int) -> None:
        """All later work of a stream comes after so many pieces of another's."""
        if self._has_ended:
            return
        self._queues.setdefault(stream, deque()).append(_StreamWait(other, position))

    def has_reached(self, stream: int, position: int) -> bool:
        """Whether a stream has done so many pieces of work."""
        return self._done.get(stream, 0) >= position

    def run_all(self) -> None:
        """Let streams run until nothing is left."""
        while self.run_one():
            pass

    def end(self) -> None:
        """Do nothing any more: what was given is forgotten, and so is what comes."""
        self._has_ended = True
        self._queues.clear()

    def run_one(self) -> bool:
        """Do one piece of work of a stream that may go on; False if there is none."""
        able = [stream for stream in sorted(self._queues) if self._is_able(stream)]
        if not able:
            return False
        stream = self._random.choice(able)
        work = self._queues[stream].popleft()
        assert not isinstance(work, _StreamWait)
        work()  # which may be the last
        self._done[stream] = self._done.get(stream, 0) + 1
        return True

    def _is_able(self, stream: int) -> bool:
        """Whether a stream has work that waits for nothing; waits that are over leave its queue."""
        queue = self._queues[stream]
        while queue:
            first = queue[0]
            if not isinstance(first, _StreamWait):
                return True
            if not self.has_reached(*first):
                return False
            queue.popleft()
        return False


def noted(
    work: Callable[[], None], launches: list[LaunchRecord], node: str, what: str, device: str, stream: str
) -> Callable[[], None]:
    """Work that notes when it was done; see `LaunchRecord` for the rest."""

    def do() -> None:
        began = perf_counter()
        work()
        launches.append(LaunchRecord(node, what, device, stream, began, perf_counter()))

    return do


__all__ = ["LateStreams", "noted"]
