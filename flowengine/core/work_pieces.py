"""Work in pieces: done at once, or as much of it at a time as whoever has a turn may do.

    def added(numbers: list[int]) -> Pieces[int]:
        total = 0
        for number in numbers:
            total += number
            yield                        # here it may be interrupted
        return total

    at_once(added([1, 2, 3]))            # 6

    job = Piecework(added([1, 2, 3]))
    while not job.advance(perf_counter() + 0.001):
        ...                              # others have their turn
    job.result()                         # 6

A long pass or a plan is written once, as a generator, and knows neither clock nor event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter
from typing import Final, Generic, TypeAlias, TypeVar

from flowengine.core.collector import collection_paused

T = TypeVar("T")

#: Yields where it may be interrupted; what it returns is what it was for.
Pieces: TypeAlias = Generator[None, None, T]


def at_once(pieces: Pieces[T]) -> T:
    """All pieces, one after another."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


class Piecework(Generic[T]):
    """Work in pieces that may be left and gone on with, by one or by several in turns.

    is_over   nothing is left to do: there is a result, or it has failed
    """

    __slots__ = ("_pieces", "_results", "is_over")

    def __init__(self, pieces: Pieces[T]) -> None:
        self._pieces: Final = pieces
        #: The result, once there is one.
        self._results: list[T] = []
        self.is_over = False

    def advance(self, until: float) -> bool:
        """Do at least one piece, and more until a moment of `perf_counter`. True when nothing is left.

        Raises what the work raises, to whoever does that piece; the job is over then, and has no result.
        Where it is over already, nothing happens.
        """
        pieces = self._pieces
        with collection_paused():
            try:
                while not self.is_over:
                    next(pieces)
                    if perf_counter() >= until:
                        break
            except StopIteration as end:
                self._results.append(end.value)
                self.is_over = True
            except BaseException:
                self.is_over = True
                raise
        return self.is_over

    def give_up(self) -> None:
        """Leave it, for good."""
        self.is_over = True
        self._pieces.close()

    @property
    def has_failed(self) -> bool:
        """Whether there will be no result: somebody was told why, or it was given up."""
        return self.is_over and not self._results

    def result(self) -> T:
        """Return the result of the work."""
        return self._results[0]


__all__ = ["Pieces", "Piecework", "at_once"]
