"""Memory that was lent to the stream and may not change before the other side has read it. Sans-I/O.

The receiver reads bytes that are sent without a copy from the sender's own pages. When the last piece of a
tensor has been given out, a PING follows it: its PONG, or that to any later one, confirms that the other side
has read everything before it, and the memory is released. While it is held here it counts as a reader of the
array: a kernel that would write in place makes a copy instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flowengine.transport.limits import LENT_PIECE_BYTES_MIN, LENT_TENSOR_BYTES_MIN


def is_worth_lending(size: int) -> bool:
    """Return whether a tensor of this size is sent faster without a copy."""
    return size >= LENT_TENSOR_BYTES_MIN


class LentMemory:
    """The memory that one side of a connection has lent and not got back."""

    __slots__ = ("_marked", "_ping", "_unmarked")

    def __init__(self, ping: Callable[[], int]) -> None:
        """`ping` sends a PING behind all bytes given out: it returns its number, 0 if none can be sent."""
        self._ping = ping
        #: {owner: its memory} while pieces of it may still be given out.
        self._unmarked: dict[object, memoryview] = {}
        #: (the number of the PING behind it, memory), in order.
        self._marked: deque[tuple[int, memoryview]] = deque()

    def give_out(self, owner: object, memory: memoryview, count: int) -> bool:
        """Give out the next `count` bytes of the owner, from the start of `memory`; return whether lent."""
        if not LENT_PIECE_BYTES_MIN <= count <= len(memory):
            return False
        # Any part of it keeps the whole array.
        self._unmarked.setdefault(owner, memory)
        return True

    def given_out(self, owner: object) -> None:
        """Give out no more pieces of this owner: if any were lent, a PING follows them.

        If no PING can be sent, the memory stays lent to the end.
        """
        if owner in self._unmarked and (number := self._ping()):
            self._marked.append((number, self._unmarked.pop(owner)))

    def returned(self, number: int) -> None:
        """Release the memory before this PING, because the other side has read it."""
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
