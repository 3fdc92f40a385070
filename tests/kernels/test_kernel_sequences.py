"""Sequences join what tells of itself, and give what their steps give one by one: with hand-made pieces.

The pieces here are made of what was seen when they were asked for, as those of a library are: one that is
used where something else is true gives wrong numbers.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import (
    Like,
    Piece,
    has_pieces,
    piece_of,
)
from flowengine.kernels.numpy import sequences
from flowengine.kernels.numpy.sequences import Progress, SequenceStep, fused_sequence
from tests.effort import examples
from tests.kernels.sequence_rig import CHAIN, ENOUGH, KINDS, TWO, Log, Rig, Silent, Telling, vector
from tests.kernels.turns import Turns


def test_steps_are_joined_when_they_have_been_seen() -> None:
    rig = Rig(2, CHAIN)
    rig.check(vector(0), vector(1))
    assert rig.sequence.joined == frozenset()
    for seed in range(5):
        rig.check(vector(seed), vector(seed + 1))
        assert rig.sequence.joined == rig.sequence.names == set(rig.names)
    assert rig.log.joined == rig.names


def test_one_that_tells_is_joined_to_nothing() -> None:
    rig = Rig(2, [("sum", [0, 1]), ("plain", [2, 0])])
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    assert not rig.sequence.joined
    assert not rig.log.joints


def test_what_lies_between_keeps_its_place_and_what_can_wait_waits() -> None:
    """sum0 -> plain1 -> sum2, and sum3 and sum4 beside: those run with sum0 in one."""
    steps = [("sum", [0, 1]), ("plain", [2]), ("sum", [3, 0]), ("sum", [0, 1]), ("sum", [5, 2])]
    rig = Rig(2, steps, [4, 6])
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    assert rig.log.ran == ["sum0", "sum3", "sum4", "plain1", "sum2"]
    assert rig.log.joined == ["sum0", "sum3", "sum4"]
    assert rig.sequence.joined == {"sum0", "sum3", "sum4"}


@pytest.mark.parametrize("kind", ["sized", "same"])
def test_what_must_be_known_before_is_not_made_in_the_same_joint(kind: str) -> None:
    rig = Rig(2, [("sum", [0, 1]), ("sum", [2, 1]), (kind, [0, 3]), ("sum", [4, 1])])
    for seed in range(3 * ENOUGH):
        rig.check(vector(seed), vector(seed + 1))
    # A vector that another kernel makes is another object in every run.
    assert {"sum0", "sum1"} <= rig.sequence.joined
    assert not any({"sum1", rig.names[2]} <= set(names) for names in _joints(rig))


def _joints(rig: Rig) -> list[list[str]]:
    return [[rig.names[place] for place in unit.places] for unit in rig.sequence._units if unit.joint]


def test_what_is_always_the_same_is_there_for_what_comes_behind() -> None:
    """It is given with the others, and who takes it is not in their joint."""
    rig = Rig(2, [("sum", [0, 1]), ("always", [2]), ("sum", [3, 4]), ("sum", [4, 3])], [5, 4, 6])
    for seed in range(2 * ENOUGH):
        rig.check(vector(seed), vector(9))
    assert rig.log.joined == rig.names
    assert _joints(rig) == [["sum0", "always1"], ["sum2", "sum3"]]


def test_sizes_that_are_equal_are_the_same_in_another_vector() -> None:
    rig = Rig(2, [("sized", [0, 1]), ("sum", [2, 0])])
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    rig.check(vector(5), vector(9))
    assert rig.log.joined == rig.names
    rig.check(vector(5), vector(8))
    assert rig.log.joined == []
    rig.check(vector(5), vector(9, size=3))
    assert rig.log.joined == []


def test_what_has_to_be_one_object_is_not_an_equal_one() -> None:
    rig = Rig(2, [("same", [0, 1]), ("sum", [2, 0])])
    constant = vector(9)
    for seed in range(ENOUGH):
        rig.check(vector(seed), constant)
    assert rig.log.joined == rig.names
    rig.check(vector(6), constant.copy())
    assert rig.log.joined == []
    rig.check(vector(6), constant)
    assert rig.log.joined == rig.names


def test_other_shapes_run_by_themselves_and_are_joined_anew() -> None:
    rig = Rig(2, CHAIN)
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    for misses in range(10):
        rig.check(vector(misses, 6), vector(9, 6))
        if rig.log.joined:
            break
    assert rig.log.joined == rig.names
    assert misses > 1  # one other shape in between is no reason
    # And back, after twice as many.
    again = 0
    for again in range(20):
        rig.check(vector(again), vector(9))
        if rig.log.joined:
            break
    assert rig.log.joined == rig.names
    assert again > misses


def test_shapes_that_take_turns_are_looked_at_less_and_less() -> None:
    rig = Rig(2, CHAIN)
    looks = []
    for number in range(400):
        size = 4 + number % 2
        before = len(rig.log.joints)
        rig.check(vector(number, size), vector(9, size))
        if len(rig.log.joints) > before:
            looks.append(number)
    assert 2 < len(looks) < 12
    assert looks[-1] - looks[-2] > looks[2] - looks[1]


def test_a_joint_that_is_never_possible_any_more_is_given_up() -> None:
    rig = Rig(2, CHAIN)
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    (joint,) = rig.log.joints
    gaps = np.arange(16.0)[::4]  # no piece is made of what has gaps
    for _ in range(20):
        rig.check(gaps, vector(9))
    assert rig.sequence.joined == frozenset()
    asked = joint.asked
    for _ in range(20):
        rig.check(gaps, vector(9))
    assert joint.asked == asked


def test_one_that_tells_later_is_joined_later() -> None:
    rig = Rig(2, [("sum", [0, 1]), ("sum", [2, 1]), ("late", [3, 0]), ("sum", [4, 1])])
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    assert rig.sequence.joined == {"sum0", "sum1"}
    for seed in range(40):
        rig.check(vector(seed), vector(9))
    assert rig.sequence.joined == set(rig.names)
    assert rig.log.joined == rig.names


def test_results_that_others_take_are_theirs_as_well() -> None:
    """A result of a joint goes to a kernel that is not joined, to another joint, and outside."""
    steps = [
        *(("sum", [0, 1]), ("pair", [2]), ("list", [3, 2, 4])),
        *(("sum", [5, 3]), ("sum", [6, 4]), ("list", [7, 6])),
    ]
    rig = Rig(2, steps, [8, 4, 6])
    for seed in range(2 * ENOUGH):
        rig.check(vector(seed), vector(seed + 1))
    assert [len(names) for names in _joints(rig)] == [2, 2]


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_kernel_gives_one_value_or_several(outputs: int) -> None:
    rig = Rig(2, CHAIN, [4, 2][:outputs])
    node = Node("sequence", "_FusedSequence", attrs={"program": rig.sequence})
    for seed in range(ENOUGH):
        values = (vector(seed), vector(9))
        made = fused_sequence(values, node=node)
        assert isinstance(made, tuple) == (outputs > 1)
        got = made if isinstance(made, tuple) else (made,)
        for mine, wanted in zip(got, rig.alone(values), strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_what_tells() -> None:
    log = Log()
    telling, silent = Telling("a", "sum", log), Silent("b", "sum", log)
    assert has_pieces(telling)
    assert not has_pieces(silent)
    assert piece_of(silent, [vector(0)]) is None
    piece = piece_of(telling, [vector(0)])
    assert piece is not None
    assert piece.wants == (Like((4,), np.dtype(np.float64)),)
    assert piece_of(telling, [vector(0)[::2]]) is None


def test_a_piece_that_gives_less_than_its_node_is_none() -> None:
    """It is of what the node would do in another case."""
    log = Log()
    kernel = Telling("pair", "pair", log)
    node = Node("pair", "Toy")
    assert SequenceStep(node, kernel, (0,), 2).piece([vector(0)]) is not None
    assert SequenceStep(node, kernel, (0,), 1).piece([vector(0)]) is None


@pytest.mark.parametrize("runs", range(5))
@pytest.mark.parametrize("place", range(4))
def test_an_error_is_of_the_step_that_raised_it(place: int, runs: int) -> None:
    """Before steps are joined, while they are looked at, and after: at its own node, and once."""
    steps = [("sum", [0]), ("sum", [4]), ("plain", [5]), ("sum", [6])]
    steps[place][1].append(1 if place < 2 else 2)
    rig = Rig(4, [("sum", [3]), *[(kind, [n + (n > 3) * 1 for n in taken]) for kind, taken in steps]])
    good = [vector(0), vector(1), vector(2), vector(3)]
    for _ in range(runs):
        rig.check(*good)
    bad = list(good)
    bad[1 if place < 2 else 2] = vector(1, 7)
    with pytest.raises(InvalidArgumentError, match="shapes differ") as caught:
        rig.sequence.run(bad)
    assert caught.value.node_name == rig.names[place + 1]
    assert caught.value.op_type == "Toy"
    for _ in range(ENOUGH):
        rig.check(*good)
    if runs > 1:
        assert rig.log.joined


def test_an_error_that_a_joint_meets_is_told_by_the_kernel() -> None:
    """A joint gives up on an error that nothing could foresee, and its members say whose error it is."""
    rig = Rig(2, CHAIN)
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    (joint,) = rig.log.joints

    def fail(*arguments: Any) -> list[Array]:
        raise InvalidArgumentError("no")

    ((label, _), sources) = joint._placed[1][0].calls[0]
    piece = joint._placed[1][0]
    broken = Piece((((label, fail), sources),), piece.wants, piece.results, piece.join)
    joint._placed = [joint._placed[0], (broken, *joint._placed[1][1:]), joint._placed[2]]
    rig.check(vector(7), vector(9))
    assert rig.log.joined == []
    rig.steps[1].function.compute = fail  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError) as caught:
        rig.sequence.run([vector(7), vector(9)])
    assert caught.value.node_name == rig.names[1]


def test_nobody_keeps_what_is_needed_no_more() -> None:
    steps = [
        *(("sum", [0, 1]), ("plain", [2]), ("plain", [3]), ("sum", [4, 0])),
        *(("sum", [5, 3]), ("plain", [6]), ("plain", [7])),
    ]
    rig = Rig(2, steps, [8])
    rig.log.look = rig.check_drops
    for seed in range(2 * ENOUGH):
        rig.check(vector(seed), vector(9))
        # What the last ones took is gone when they are done; what is given is not.
        last = rig.log.given[rig.names[-1]]
        assert last
    assert rig.sequence.joined


def test_inputs_are_let_go_of_when_nobody_needs_them() -> None:
    """Large ones, whose memory what comes behind can use; the caller has let go of them, too."""
    rig = Rig(2, [("sum", [0]), ("sum", [2]), ("plain", [3, 1]), ("plain", [4])])
    references: list[weakref.ref[Any]] = []
    is_gone: list[bool] = []

    def fresh(seed: int) -> list[Any]:
        values = [vector(seed), vector(9)]
        references.append(weakref.ref(values[0]))
        return values

    rig.log.look = lambda: is_gone.append(references[-1]() is None)
    for seed in range(2 * ENOUGH):
        rig.sequence.run(fresh(seed))
        assert is_gone[-1]


@st.composite
def rigs(draw: Any) -> Rig:
    inputs = draw(st.integers(1, 4))
    steps = []
    count = inputs
    for _ in range(draw(st.integers(2, 12))):
        kind = draw(st.sampled_from(KINDS))
        size = 2 if kind in ("sized", "same") else 1 if kind == "always" else draw(st.integers(1, 3))
        steps.append((kind, draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))))
        count += 2 if kind in TWO else 1
    gives = draw(st.lists(st.integers(inputs, count - 1), min_size=1, max_size=4, unique=True))
    return Rig(inputs, steps, gives)


@settings(max_examples=examples(100))
@given(rigs(), st.data())
def test_random_sequences_give_what_their_steps_give(rig: Rig, data: st.DataObject) -> None:
    """Over many runs with values, shapes and objects that change now and then."""
    rig.log.look = rig.check_drops
    pools = [[[vector(10 * i + k, size) for k in range(3)] for size in (3, 5)] for i in range(rig.inputs)]
    sizes = data.draw(st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=4, max_size=8))
    for size in sizes:
        for _ in range(data.draw(st.sampled_from([1, 1, 3, 6]))):
            chosen = [data.draw(st.sampled_from([0, 0, 0, 1, 2])) for _ in range(rig.inputs)]
            turns = Turns(data.draw(st.lists(st.booleans(), max_size=12)))
            rig.check(*[pool[size][choice] for pool, choice in zip(pools, chosen, strict=True)], turns=turns)


@settings(max_examples=30)
@given(rigs())
def test_what_settles_is_joined(rig: Rig) -> None:
    """Whatever tells and can have a neighbour has one after some runs."""
    values = [vector(seed) for seed in range(rig.inputs)]
    for _ in range(20):
        rig.check(*values)
    telling = [name for name in rig.names if not name.startswith(("plain", "list"))]
    assert rig.sequence.joined <= set(telling)
    if len(telling) == len(rig.names) and not any(kind in ("sized", "same", "always") for kind in rig.kinds):
        assert rig.sequence.joined == set(telling)
        assert rig.log.joined == rig.names


def test_many_threads_run_one_sequence() -> None:
    """Each with values of its own, some of other shapes, while it is looked at and joined."""
    steps = [
        *(("sum", [0, 1]), ("sum", [2, 0]), ("plain", [3])),
        *(("pair", [4, 0]), ("sized", [5, 1]), ("sum", [6, 7])),
    ]
    rig = Rig(2, steps, [8, 3])
    wrong: list[str] = []
    start = threading.Barrier(5)

    def runs(first: int) -> None:
        start.wait()
        for seed in range(first, first + 150):
            size = 6 if seed % 50 > 40 else 4
            values = vector(seed, size), vector(9, size)
            got = rig.sequence.run(values)
            for mine, wanted in zip(got, rig.alone(values), strict=True):
                if not np.array_equal(mine, wanted):
                    wrong.append(f"{seed}: {mine} for {wanted}")

    threads = [threading.Thread(target=runs, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    runs(5000)
    for thread in threads:
        thread.join()
    assert not wrong
    assert rig.log.joined


@pytest.mark.parametrize("kind", ["sum", "plain"])
def test_a_sequence_that_is_interrupted_at_once_takes_a_step_a_turn(kind: str) -> None:
    """Whether its steps are joined or not; and another run with other values may come in between."""
    rig = Rig(2, [(kind, [0, 1]), (kind, [2, 0]), (kind, [3, 1]), (kind, [4, 0])], [4, 5])
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    turns = Turns(itertools.repeat(True))
    rig.check(vector(7), vector(9), turns=turns)
    assert turns.count == 3
    values = vector(7), vector(9)
    progress = rig.sequence.begin(values, Turns([True]))
    assert isinstance(progress, Progress)
    rig.check(vector(8), vector(5))
    made = rig.sequence.go_on(progress, Turns([]))
    assert not isinstance(made, Progress)
    for mine, wanted in zip(made, rig.alone(values), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_a_turn_is_asked_only_when_it_may_be_over() -> None:
    rig = Rig(2, CHAIN)
    for seed in range(ENOUGH):
        rig.check(vector(seed), vector(9))
    turns = Turns(itertools.repeat(True))
    turns.ends = math.inf
    rig.sequence._units = rig.sequence._plain
    assert not isinstance(rig.sequence.begin([vector(0), vector(9)], turns), Progress)
    assert not turns.count


def test_looks_are_few_where_nothing_can_be_joined() -> None:
    rig = Rig(2, [("sum", [0, 1]), ("plain", [2, 0]), ("sum", [3, 0])])
    kernel = rig.steps[0].function
    asked = itertools.count()
    tell = kernel.piece  # type: ignore[attr-defined]
    kernel.piece = lambda *values: (next(asked), tell(*values))[1]  # type: ignore[attr-defined]
    for seed in range(300):
        rig.check(vector(seed), vector(9))
    assert next(asked) <= 4
    assert sequences._FIRST_LOOK == 2
