"""Whether all accesses to a device's memory are ordered, by vector clocks: whatever order was drawn.

It knows nothing of who asked for which wait. It sees what was launched, what waits were really made, and what
the host has waited for, and so finds each that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.tools.simulated_gpu.pool import Chunk

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True

#: The host, among the streams.
HOST: Final = -1
#: So many clocks of past work are kept before those are dropped that the host has seen.
_MANY: Final = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that would go wrong on a device.

    kind    "missing wait", "use after free", "given out twice", "given back in use", "host read",
            "loop stopped" or "late failure"
    what    which work, which memory
    """

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Access(NamedTuple):
    """An access to some memory: the name of the work, its stream, and its position in that stream."""

    stream: int
    position: int
    name: str


class _ChunkAccesses:
    """The last write to some memory, and the last read of each stream since."""

    __slots__ = ("reads", "write")

    def __init__(self) -> None:
        self.write: Access | None = None
        self.reads: dict[int, Access] = {}


class AccessCheck:
    """The clocks of all streams and of the host.

    findings   what was found so far
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        #: {stream: {stream: how many of its pieces of work come before}}
        self._clocks: dict[int, dict[int, int]] = {HOST: {}}
        #: {(stream, position): the clock at the end of that work}
        self._ends: dict[tuple[int, int], dict[int, int]] = {}
        self._chunks: dict[int, _ChunkAccesses] = {}
        self._many = _MANY

    def find(self, kind: str, what: str) -> None:
        """Record a finding, once."""
        found = Finding(kind, what)
        if found not in self.findings:
            self.findings.append(found)

    def launched(self, stream: int, name: str, reads: Iterable[Chunk], writes: Iterable[Chunk]) -> Access:
        """The next work of a stream; the host gives it after all that it has waited for."""
        clock = self._clocks.setdefault(stream, {})
        _merge(clock, self._clocks[HOST])
        clock[stream] = clock.get(stream, 0) + 1
        self._ends[stream, clock[stream]] = dict(clock)
        access = Access(stream, clock[stream], name)
        self._look(access, clock, reads, writes)
        return access

    def waited(self, stream: int, other: int, position: int) -> None:
        """A stream waits for another to have done so many pieces of work."""
        _merge(self._clocks.setdefault(stream, {}), self._ends.get((other, position), {}))

    def host_waited(self, stream: int, position: int) -> None:
        """The host has waited for a stream to have done so many pieces of work."""
        self.waited(HOST, stream, position)
        if len(self._ends) > self._many:
            # What the host has seen comes before all that it launches: nobody needs to wait for it.
            seen = self._clocks[HOST]
            self._ends = {at: end for at, end in self._ends.items() if at[1] > seen.get(at[0], 0)}
            self._many = max(_MANY, 2 * len(self._ends))

    def host_reads(self, written: Access) -> None:
        """The host reads memory of its own that some work has written."""
        if self._clocks[HOST].get(written.stream, 0) < written.position:
            self.find(
                "missing wait",
                f"the host reads what '{written.name}' brings and does not wait for it, "
                f"piece {written.position} of stream {written.stream}",
            )

    def _look(
        self, access: Access, clock: dict[int, int], reads: Iterable[Chunk], writes: Iterable[Chunk]
    ) -> None:
        for chunk in reads:
            history = self._history(chunk)
            self._require(chunk, history.write, access, clock, "reads")
        for chunk in writes:
            history = self._history(chunk)
            for former in (history.write, *history.reads.values()):
                self._require(chunk, former, access, clock, "writes")
            history.write = access
            history.reads = {}
        for chunk in reads:
            self._history(chunk).reads[access.stream] = access

    def _require(
        self, chunk: Chunk, former: Access | None, access: Access, clock: dict[int, int], does: str
    ) -> None:
        if former is not None and clock.get(former.stream, 0) < former.position:
            self.find(
                "missing wait",
                f"'{access.name}' on stream {access.stream} {does} memory {chunk.number} and does not "
                f"wait for '{former.name}', piece {former.position} of stream {former.stream}",
            )

    def _history(self, chunk: Chunk) -> _ChunkAccesses:
        return self._chunks.setdefault(chunk.number, _ChunkAccesses())


def _merge(clock: dict[int, int], other: dict[int, int]) -> None:
    for stream, position in other.items():
        if position > clock.get(stream, 0):
            clock[stream] = position


__all__ = ["HOST", "Access", "AccessCheck", "Finding"]
