"""Memory that was lent to the stream and may not change before the other side has read it. Sans-I/O.

What is sent without being copied is read by the receiver from the sender's own pages. When the last piece of
a tensor has been given out, a PING follows it: its PONG, or that to any later one, says that the other side
has read everything before it, and the memory is let go. While it is held here it counts as a reader of the
array: who would write in place makes a copy instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flowengine.transport.limits import LENT_PIECE_BYTES_MIN, LENT_TENSOR_BYTES_MIN


def is_worth_lending(size: int) -> bool:
    """Whether a tensor of this size goes out faster if it is not copied."""
    return size >= LENT_TENSOR_BYTES_MIN


class LentMemory:
    """The memory that one side of a connection has lent and not got back."""

    __slots__ = ("_marked", "_ping", "_unmarked")

    def __init__(self, ping: Callable[[], int]) -> None:
        """`ping` sends a PING behind all that was given out: its number, 0 where nothing more may be said."""
        self._ping = ping
        #: {who sends: its memory} while pieces of it may still be given out.
        self._unmarked: dict[object, memoryview] = {}
        #: (the number of the PING behind it, memory), in order.
        self._marked: deque[tuple[int, memoryview]] = deque()

    def give_out(self, owner: object, memory: memoryview, count: int) -> bool:
        """The next `count` bytes of the owner's go out, from the beginning of `memory`; whether as a loan."""
        if not LENT_PIECE_BYTES_MIN <= count <= len(memory):
            return False
        # Any part of it keeps the whole array.
        self._unmarked.setdefault(owner, memory)
        return True

    def given_out(self, owner: object) -> None:
        """No more pieces of this owner's are given out: if any were lent, a PING follows them.

        Where none can, the memory stays lent to the end.
        """
        if owner in self._unmarked and (number := self._ping()):
            self._marked.append((number, self._unmarked.pop(owner)))

    def returned(self, number: int) -> None:
        """The other side has read everything before this PING."""
        marked = self._marked
        while marked and marked[0][0] <= number:
            marked.popleft()

    def take(self) -> list[memoryview]:
        """Return the memory that is still lent, for its next keeper, and forget it here."""
        memory = [*self._unmarked.values(), *(memory for _, memory in self._marked)]
        self._unmarked.clear()
        self._marked.clear()
        return memory


__all__ = ["LentMemory", "is_worth_lending"]
