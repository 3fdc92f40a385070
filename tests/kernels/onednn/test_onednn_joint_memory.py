"""Memory of layers that are computed as one program: who keeps what, filters that stay or change."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.pieces import FixedMemory, Placed
from flowengine.kernels.onednn.library import address, search
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.resources.variable import Variable
from tests.effort import examples
from tests.kernels.onednn.joint_kinds import drawn, locally_normalized
from tests.kernels.onednn.rig import ENOUGH, ONE, Rig, constant, numbers, same

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def test_memory_is_given_again_when_nobody_refers_to_it() -> None:
    graph = fe.Graph()
    x, y = (graph.placeholder("float32", None, name=name) for name in "xy")
    two: dict[str, Any] = {"ksize": [1, 3, 3, 1], **ONE}
    rig = Rig(graph, [graph.ops.AvgPool(x, **two), graph.ops.MaxPool(y, **two)])
    values = {"x": numbers(0, 2, 9, 9, 16), "y": numbers(1, 2, 9, 9, 16)}
    rig.join(**values)
    assert rig.joined == 2
    listed = rig.listed(values)
    first = rig.sequence.run(listed)
    copies = [array.copy() for array in first]
    held = first[1][:1]
    places = [address(array) for array in first]
    del first
    other = rig.sequence.run([-array for array in listed])
    assert address(other[0]) == places[0]
    assert address(other[1]) != places[1]
    np.testing.assert_array_equal(held, copies[1][:1])
    del held
    third = rig.sequence.run(listed)
    assert all(address(array) not in map(address, other) for array in third)
    same(third, copies)


def test_small_results_are_kept_and_large_ones_are_not() -> None:
    graph = fe.Graph()
    two: dict[str, Any] = {"ksize": [1, 3, 3, 1], **ONE}
    sizes = {"small": 8, "large": 64}
    rig = Rig(
        graph,
        [graph.ops.AvgPool(graph.placeholder("float32", None, name=name), **two) for name in sizes],
    )
    values = {name: numbers(0, 1, side, side, 16) for name, side in sizes.items()}
    rig.join(**values)
    assert rig.joined == 2
    seen = [weakref.ref(array) for array in rig.sequence.run(rig.listed(values))]
    assert [each() is not None for each in seen] == [True, False]


def test_what_a_program_is_called_with_lives_as_long_as_it() -> None:
    """Memory of its own: factors of a normalisation, filters in order."""
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    rig = Rig(graph, [graph.ops.AvgPool(locally_normalized(graph, x, "NHWC"), ksize=[1, 3, 3, 1], **ONE)])
    values = drawn(rig, 0, (2, 9, 9, 16), constants=True)
    owners: list[weakref.ref[Any]] = []
    make = JointProgram.__init__

    def told(self: JointProgram, pieces: Sequence[Placed], wanted: Any) -> None:
        for piece, _, _ in pieces:
            for _, sources in piece.calls:
                for source in sources:
                    if isinstance(source, FixedMemory):
                        owner = source.owner
                        each = owner if isinstance(owner, tuple) else (owner,)
                        owners.extend(map(weakref.ref, each))
        make(self, pieces, wanted)

    with mock.patch.object(JointProgram, "__init__", told):
        rig.join(**values)
    assert len(owners) >= 4
    gc.collect()
    assert rig.ran_joined(**values)
    assert all(owner() is not None for owner in owners)


def test_operands_that_are_one_object_at_first() -> None:
    """Two of what a convolution computes along may be one array in one run and two in the next."""
    graph = fe.Graph()
    x, w, b, c = (graph.placeholder("float32", None, name=name) for name in "xwbc")
    y = graph.ops.Add(graph.ops.BiasAdd(graph.ops.Conv2D(x, w, **ONE), b), c)
    rig = Rig(graph, [graph.ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE)])
    values = {
        "x": numbers(0, 1, 9, 9, 16),
        "w": numbers(1, 3, 3, 16, 24),
        "b": numbers(2, 24),
    }
    rig.join(**values, c=values["b"])
    rig.check(**values, c=numbers(3, 24))
    rig.check(**values, c=values["b"])


def test_a_constant_and_then_none() -> None:
    """Few rows by filters that may change are a product, by constants a convolution."""
    for inward, outward, side in [(64, 64, 7), (8, 256, 8), (16, 24, 4), (7, 90, 5)]:
        graph = fe.Graph()
        x, w = (graph.placeholder("float32", None, name=name) for name in "xw")
        rig = Rig(graph, [graph.ops.MaxPool(graph.ops.Conv2D(x, w, **ONE), ksize=[1, 2, 2, 1], **ONE)])
        filters = numbers(1, 1, 1, inward, outward)
        staying = constant(filters)
        for run in range(30):
            rig.check(x=numbers(run, 1, side, side, inward), w=filters if run % 7 > 4 else staying)


#: {kind of a view of (2, N, N, 64): the view, (2, N, N, 24)}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "first": lambda whole: whole[..., :24],
    "last": lambda whole: whole[..., 40:],
    "a copy": lambda whole: whole[..., :24].copy(),
    "every second": lambda whole: whole[..., 1:49:2],
    "turned": lambda whole: whole.transpose(0, 2, 1, 3)[..., :24],
    "backwards": lambda whole: whole[..., 23::-1],
    "upside down": lambda whole: whole[:, ::-1, :, :24],
    "repeated": lambda whole: np.broadcast_to(whole[0, 0, 0, :24], (*whole.shape[:3], 24)),
}


def _gated() -> Rig:
    graph = fe.Graph()
    g, features = (graph.placeholder("float32", None, name=name) for name in ("g", "features"))
    made = graph.ops.ReluGrad(g, features, name="node")
    return Rig(graph, [graph.ops.MaxPool(made, ksize=[1, 2, 2, 1], **ONE), made])


@pytest.mark.parametrize("side", [5, 40])
def test_gradients_with_gaps_between_are_gathered(side: int) -> None:
    """Parts of the gradient of a concatenation, as they lie; and all kinds of views after another."""
    changing = _gated()
    for kind, view in VIEWS.items():
        rig = _gated()
        for run in range(12):
            whole = numbers(run, 2, side, side, 64)
            whole[0, run % 2, 1] = [np.nan, np.inf, -np.inf, -0.0] * 16
            features = numbers(run + 7, 2, side, side, 24)
            rig.check(g=view(whole), features=features)
            changing.check(g=view(whole), features=features)
        assert rig.joined == (0 if kind in ("backwards", "upside down", "repeated") else 2), kind


class Held:
    """A chain whose first filters a variable holds."""

    SHAPE = (3, 3, 16, 24)

    def __init__(self) -> None:
        self.graph = graph = fe.Graph()
        ops = graph.ops
        x, b = (graph.placeholder("float32", None, name=name) for name in "xb")
        v = ops.VariableV2(shape=self.SHAPE, dtype="float32", name="v")
        y = ops.Relu(ops.BiasAdd(ops.Conv2D(x, v, **ONE), b))
        self.rig = Rig(graph, [ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE)])
        self.variable = Variable("v", dtypes.float32, TensorShape(self.SHAPE))
        self.variable.assign(numbers(0, *self.SHAPE))
        self.x, self.b = numbers(1, 2, 9, 9, 16), numbers(2, 24)

    def check(self, times: int = 1) -> bool:
        """Whether the last of so many runs, which are checked, used what is joined."""
        joined = False
        for _ in range(times):
            joined = self.rig.ran_joined(x=self.x, b=self.b, v=self.variable.read())
        return joined

    def add(self, place: Any, number: float) -> None:
        array = self.variable.mutable()
        array[place] += np.float32(number)


def test_filters_that_stay_are_packed_and_joined() -> None:
    held = Held()
    assert held.check(ENOUGH)
    assert held.variable.is_lent()
    # No element that is looked at: it is the write that tells.
    held.add((0, 0, 0, 1), 1.0)
    assert held.variable.copies == 1
    assert not held.check()
    assert held.check(20 * ENOUGH)


def test_filters_that_are_trained_are_joined_and_never_copied() -> None:
    held = Held()
    for _ in range(5 * ENOUGH):
        held.check()
        held.add(..., 0.125)
    assert held.check()
    assert held.variable.copies == 0


def test_filters_that_are_replaced_are_joined() -> None:
    held = Held()
    for seed in range(5 * ENOUGH):
        held.check()
        held.variable.assign(numbers(seed, *Held.SHAPE))
    assert held.check()


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(["check", "some", "all", "one", "assign", "another", "image"]), max_size=12))
def test_filters_are_those_of_the_moment(actions: list[str]) -> None:
    held = Held()
    for number, action in enumerate(actions):
        if action == "some":
            held.add((slice(None), 0), number)
        elif action == "all":
            held.add(..., number)
        elif action == "one":
            held.add((0, 0, 0, 1), number)
        elif action == "assign":
            held.variable.assign(numbers(number, *Held.SHAPE))
        elif action == "another":
            held.x = numbers(number, 1 + number % 3, 9, 9, 16)
        elif action == "image":
            held.x += 1
        held.check(1 if action == "check" else ENOUGH)


def test_results_that_others_take_are_arrays_of_their_own() -> None:
    """And stay as they are when the next run reuses the memory of the others."""
    graph = fe.Graph()
    ops = graph.ops
    x, w = (graph.placeholder("float32", None, name=name) for name in "xw")
    one = ops.Conv2D(x, w, **ONE)
    two = ops.MaxPool(one, ksize=[1, 3, 3, 1], **ONE)
    three = ops.Conv2D(two, w, **ONE)
    four = ops.Sub(three, one)  # tells nothing
    rig = Rig(graph, [two, four, three])
    w_value = numbers(1, 3, 3, 16, 16)
    kept = []
    for seed in range(6):
        got = rig.check(x=numbers(seed, 1, 8, 8, 16), w=w_value)
        kept.append((got, [array.copy() for array in got]))
    for got, copies in kept:
        same(got, copies)
    (unit,) = [unit for unit in rig.sequence._units if unit.joint is not None]
    assert isinstance(unit.joint, JointProgram)
    assert len(unit.joint._outs) == 3
    assert rig.joined == 3
