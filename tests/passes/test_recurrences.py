"""Recurrences are the strongly connected components of loops: beside a closure of who reaches whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.traverse import sources
from flowengine.passes.blocks.recurrences import recurrences


def made(loops: int, links: list[tuple[int, int]], backs: list[int]) -> fe.Graph:
    """Loop variables, sums of drawn pairs of what is there so far, and for each variable what comes back."""
    g = fe.Graph()
    merges = []
    for _ in range(loops):
        entered = g.ops.Enter(g.constant(1.0), frame_name="loop")
        merges.append(g.ops.Merge([entered, entered]).output)
    values = list(merges)
    for left, right in links:
        values.append(g.ops.Add(values[left % len(values)], values[right % len(values)]))
    for merge, back in zip(merges, backs, strict=False):
        g.set_back_edge(merge, 1, g.ops.NextIteration(values[back % len(values)]))
    return g


def by_closure(g: fe.Graph) -> set[frozenset[str]]:
    """Nodes that reach each other, where there are several."""
    reached = {node.name: {name for name in sources(node) if name in g.nodes} for node in g}
    while True:
        more = {name: found.union(*(reached[each] for each in found)) for name, found in reached.items()}
        if more == reached:
            break
        reached = more
    return {
        frozenset({name, *(each for each in found if name in reached[each])})
        for name, found in reached.items()
        if name in found
    }


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12),
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
)
def test_they_are_those_of_a_closure(loops: int, links: list[tuple[int, int]], backs: list[int]) -> None:
    g = made(loops, links, backs)
    found = [frozenset(each) for each in recurrences(g)]
    assert len(set(found)) == len(found)
    assert set(found) == by_closure(g)
