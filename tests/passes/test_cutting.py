"""However a block is cut: every member once, in order, convex pieces, whole conditionals, the limits kept."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from flowengine.ir.graph import Node, OutputPort
from flowengine.passes.blocks.cutting import BodyLimits, cut, predicates
from flowengine.passes.blocks.region_units import Conditions, Unit, arranged, unit_of_node


@dataclass
class Block:
    """Units in topological order, what each comes behind, and what those take that were measured."""

    units: list[Unit]
    before: dict[str, set[str]]
    costs: dict[str, float]


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """Drawn edges; some units stand under conditions, on either side of a few predicates."""
    count = draw(st.integers(0, 40))
    units: list[Unit] = []
    before: dict[str, set[str]] = {}
    for index in range(count):
        sources = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        names = [f"n{source}" for source in sorted(sources)]
        unit = unit_of_node(Node(f"n{index}", "Any", tuple(OutputPort(name, 0) for name in names)), index)
        drawn = draw(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=2))
        conditions: Conditions = frozenset((OutputPort(f"p{pred}", 0), side) for pred, side in drawn)
        unit.conditions = conditions
        units.append(unit)
        before[unit.name] = set(names)
    costs = (
        draw(st.dictionaries(st.sampled_from([u.name for u in units]), st.floats(0, 900))) if units else {}
    )
    return Block(arranged(units), before, costs)


limits = st.builds(BodyLimits, st.integers(1, 12), st.floats(0, 2000))


@given(blocks(), limits)
def test_each_piece_comes_behind_those_in_front_of_it(block: Block, limits: BodyLimits) -> None:
    pieces = cut(block.units, block.costs, limits)
    assert [unit for piece in pieces for unit in piece] == block.units, "every member once, in its order"
    assert all(pieces)
    piece_of = {unit.name: number for number, piece in enumerate(pieces) for unit in piece}
    # So no way that leaves a piece comes back to it: pieces are convex, and none waits for one behind it.
    assert all(
        piece_of[name] <= piece_of[unit.name] for unit in block.units for name in block.before[unit.name]
    )


@given(blocks(), limits)
def test_a_conditional_is_in_one_piece(block: Block, limits: BodyLimits) -> None:
    pieces = cut(block.units, block.costs, limits)
    for number, piece in enumerate(pieces):
        inside = {pred for unit in piece for pred in predicates(unit)}
        others = [unit for other in pieces[:number] + pieces[number + 1 :] for unit in other]
        assert inside.isdisjoint(pred for unit in others for pred in predicates(unit))


@st.composite
def conditionals(draw: st.DrawFn) -> tuple[list[Unit], list[set[str]]]:
    """Units one behind the other, and the names of those that each conditional is, Switch to Merge."""
    units: list[Unit] = []
    wholes: list[set[str]] = []

    def put(op: str, conditions: Conditions = frozenset()) -> Unit:
        unit = unit_of_node(Node(f"n{len(units)}", op), len(units))
        unit.conditions = conditions
        units.append(unit)
        return unit

    for number in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(0, 4))):
            put("Any")
        predicate = OutputPort(f"p{number}", 0)
        first = len(units)
        put("Switch").predicate = predicate
        for side in draw(st.lists(st.integers(0, 1), max_size=4)):
            put("Any", frozenset({(predicate, side)}))
        put("Merge").chooser = (predicate, draw(st.integers(0, 1)))
        wholes.append({unit.name for unit in units[first:]})
    return units, wholes


@given(conditionals(), limits)
def test_a_conditional_is_never_parted_from_its_switch_or_its_merge(
    drawn: tuple[list[Unit], list[set[str]]], limits: BodyLimits
) -> None:
    units, wholes = drawn
    pieces = [{unit.name for unit in piece} for piece in cut(units, {}, limits)]
    for whole in wholes:
        assert any(whole <= piece for piece in pieces)


@given(blocks(), limits)
def test_a_piece_keeps_to_the_limits_but_for_conditionals(block: Block, limits: BodyLimits) -> None:
    for piece in cut(block.units, block.costs, limits):
        if any(predicates(unit) for unit in piece):
            continue
        assert len(piece) <= limits.members
        took = sum(block.costs.get(unit.name, 0.0) for unit in piece)
        assert len(piece) == 1 or took <= limits.microseconds


@given(blocks(), limits)
def test_no_piece_is_shorter_than_it_must_be(block: Block, limits: BodyLimits) -> None:
    """The first unit of a piece would have been too much for the one before, unless a conditional ends it."""
    pieces = cut(block.units, block.costs, limits)
    for piece, following in itertools.pairwise(pieces):
        took = sum(block.costs.get(unit.name, 0.0) for unit in piece)
        cost = block.costs.get(following[0].name, 0.0)
        assert len(piece) >= limits.members or took + cost > limits.microseconds


@given(blocks(), limits)
def test_equal_times_cut_alike(block: Block, limits: BodyLimits) -> None:
    once = cut(block.units, block.costs, limits)
    same = BodyLimits(limits.members, limits.microseconds)
    again = cut(list(block.units), dict(reversed(block.costs.items())), same)
    assert once == again


@given(blocks(), st.integers(1, 12))
def test_without_learned_times_blocks_are_cut_by_count_alone(block: Block, members: int) -> None:
    assert cut(block.units, {}, BodyLimits(members, 0.0)) == cut(block.units, {}, BodyLimits(members, 1e9))
