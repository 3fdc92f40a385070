"""Profiles: the time of a traced step by op, node, scope or line of the program."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.tracing.events import WORK, TraceEvent

ProfileBy: TypeAlias = Literal["op", "node", "scope", "line"]

#: The rows of a profile that are printed.
_ROWS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One row of a profile.

    name      of the op, node, scope or line
    seconds   the time in which it ran, on all threads together
    share     of the time of all entries, from 0 to 1
    calls     how often it ran
    bytes     of its outputs, where they are known

    >>> fe.ProfileEntry("MatMul", 0.002, 0.5, 4, 1024).share
    0.5
    """

    name: str
    seconds: float
    share: float
    calls: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StepProfile:
    """The time of one step, the longest entries first; printed as a table.

    by        "op", "node", "scope" or "line"
    entries   the rows

    >>> fe.StepProfile("op", (fe.ProfileEntry("MatMul", 0.002, 1.0, 4, 1024),)).entries[0].name
    'MatMul'
    """

    by: str
    entries: tuple[ProfileEntry, ...]

    def __str__(self) -> str:
        rows = [("time", "share", "calls", "bytes", self.by)]
        rows += [
            (f"{1e3 * each.seconds:.3f} ms", f"{each.share:.1%}", str(each.calls), str(each.bytes), each.name)
            for each in self.entries[:_ROWS_MAX]
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
            for row in rows
        ]
        if len(self.entries) > _ROWS_MAX:
            lines.append(f"and {len(self.entries) - _ROWS_MAX} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from flowengine.core import html

        return html.table(
            (each.name, f"{1e3 * each.seconds:.3f} ms, {each.share:.1%}, {each.calls} calls")
            for each in self.entries[:_ROWS_MAX]
        )


def profile_of(events: Sequence[TraceEvent], by: ProfileBy) -> StepProfile:
    """Return the profile of a step.

    Members of blocks count instead of their block where they have times of their own. Raises
    InvalidArgumentError for another word than "op", "node", "scope" and "line".
    """
    if by not in ("op", "node", "scope", "line"):
        raise InvalidArgumentError(f'by is {by!r}: a profile is by "op", "node", "scope" or "line"')
    found: dict[str, list[float]] = {}
    for event in undivided(events):
        if by == "op":
            name = event.op
        elif by == "node":
            name = event.name
        elif by == "scope":
            name = event.name.rpartition("/")[0] or "(no scope)"
        else:
            name = event.line or "(not known)"
        entry = found.setdefault(name, [0.0, 0, 0])
        entry[0] += event.seconds
        entry[1] += 1
        entry[2] += event.output_bytes
    total = sum(seconds for seconds, _, _ in found.values()) or 1.0
    entries = [
        ProfileEntry(name, seconds, seconds / total, int(calls), int(size))
        for name, (seconds, calls, size) in found.items()
    ]
    return StepProfile(by, tuple(sorted(entries, key=lambda each: -each.seconds)))


def memory_table(holders: Mapping[str, int], peak: int | None) -> str:
    """Return the largest holders of memory at the peak of a step as a table.

    holders   `RunMetadata.peak_holders`; peak: `RunMetadata.peak_bytes`
    """
    total = peak or 1
    rows = [("bytes", "share", "node")]
    rows += [(f"{size:,}", f"{size / total:.1%}", name) for name, size in [*holders.items()][:_ROWS_MAX]]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"memory at the peak: {peak or 0:,} bytes"]
    lines += [f"{row[0].rjust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}" for row in rows]
    if len(holders) > _ROWS_MAX:
        lines.append(f"and {len(holders) - _ROWS_MAX} more")
    return "\n".join(lines)


def undivided(events: Sequence[TraceEvent]) -> Iterator[TraceEvent]:
    """Yield the events whose times add up to the step's work: none is part of another."""
    members: dict[tuple[str, str, str], list[float]] = {}
    for event in events:
        if event.kind == "node":
            members.setdefault((event.detail["block"], event.device, event.thread), []).append(event.began)
    for event in events:
        if (event.kind in WORK and event.kind != "call") or event.kind == "node":
            # A member of a claim has no members; its claim, which is named after one of them, has.
            within = members.get((event.name, event.device, event.thread))
            if (
                within is None
                or "claim" in event.detail
                or not _has_between(within, event.began, event.ended)
            ):
                yield event


def _has_between(times: Sequence[float], began: float, ended: float) -> bool:
    index = bisect_left(times, began)
    return index < len(times) and times[index] <= ended


__all__ = ["ProfileBy", "ProfileEntry", "StepProfile", "memory_table", "profile_of", "undivided"]
