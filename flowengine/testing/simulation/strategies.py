"""Hypothesis strategies for faults: they shrink to few, short and early ones.

@given(fault_schedules(["ps0", "worker0", "client"]))
def test_it(faults): play_synchronous(0, faults=faults)
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from flowengine.testing.simulation.faults import BETWEEN_TWO, DEADLY, Fault, FaultKind

#: Seconds that a fault lasts, the harmless ones first.
_SECONDS = (0.001, 0.01, 0.1, 1.0, 5.0, 12.0, 40.0)


@st.composite
def faults(
    draw: st.DrawFn,
    hosts: Sequence[str],
    kinds: Sequence[FaultKind] = tuple(FaultKind),
    pieces_max: int = 400,
    immortal: frozenset[str] = frozenset(),
) -> Fault:
    """One fault of these hosts; those that are `immortal` are not killed."""
    kind = draw(st.sampled_from(kinds))
    host = draw(st.sampled_from([name for name in hosts if kind not in DEADLY or name not in immortal]))
    other = ""
    if kind in BETWEEN_TWO:
        other = draw(st.sampled_from([name for name in hosts if name != host]))
    after = draw(st.integers(0, pieces_max))
    return Fault(after, kind, host, other, draw(st.sampled_from(_SECONDS)))


def fault_schedules(
    hosts: Sequence[str],
    *,
    count_max: int = 4,
    kinds: Sequence[FaultKind] = tuple(FaultKind),
    pieces_max: int = 400,
    immortal: frozenset[str] = frozenset(),
) -> st.SearchStrategy[list[Fault]]:
    """Up to so many faults, one after another, at most `pieces_max` pieces apart."""
    return st.lists(faults(hosts, kinds, pieces_max, immortal), max_size=count_max)


__all__ = ["fault_schedules", "faults"]
