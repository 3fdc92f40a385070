"""Filters that a variable holds are kept in order while they stay, and what is written is seen at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.pieces import Like, Same
from flowengine.kernels.load import registry
from flowengine.kernels.numpy.claims.chains import ChainGroups
from flowengine.kernels.onednn.library import search
from flowengine.passes.context import PassContext
from flowengine.resources.variable import Variable
from tests.passes.claiming import asking

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

SHAPE = (3, 3, 16, 24)
#: After so many calls filters that have not been written to are kept.
ENOUGH = 16


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution(held: bool) -> Callable[..., Any]:
    """A convolution with a bias behind it, whose filters a variable holds or not."""
    graph = fe.Graph()
    x, filters, bias = (graph.placeholder("float32", None, name=name) for name in ("x", "filters", "bias"))
    product = graph.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="product")
    graph.ops.BiasAdd(product, bias, name="y")
    kernel = registry("onednn").find(graph["product"]).bind(graph["product"])
    found = kernel.absorb([(graph["y"], 0)], {1} if held else ())  # type: ignore[attr-defined]
    assert found is not None
    compute: Callable[..., Any] = found[1]
    return compute


class Layer:
    def __init__(self) -> None:
        self.variable = Variable("filters", dtypes.float32, TensorShape(SHAPE))
        self.variable.assign(numbers(0, *SHAPE))
        self.x, self.bias = numbers(1, 1, 9, 9, SHAPE[2]), numbers(2, SHAPE[3])
        self._held, self._plain = convolution(True), convolution(False)

    def check(self) -> None:
        filters: Any = self.variable.read()
        got = self._held(self.x, filters, self.bias)
        np.testing.assert_array_equal(got, self._plain(self.x, filters.copy(), self.bias))

    def add(self, place: Any, number: float) -> None:
        array = self.variable.mutable()
        array[place] += np.float32(number)


def test_filters_that_stay_are_kept() -> None:
    layer = Layer()
    layer.check()
    assert not layer.variable.is_lent()
    for _ in range(ENOUGH):
        layer.check()
    assert layer.variable.is_lent()
    # No element that is looked at: it is the write that tells.
    layer.add((0, 0, 0, 1), 1.0)
    assert layer.variable.copies == 1
    layer.check()
    assert not layer.variable.is_lent()


def test_filters_that_are_trained_are_not_kept() -> None:
    layer = Layer()
    for _ in range(5 * ENOUGH):
        layer.check()
        layer.add(..., 0.125)
    assert layer.variable.copies == 0


def test_the_longer_filters_have_not_stayed_the_longer_others_must() -> None:
    layer = Layer()
    for _ in range(200):
        layer.check()
        layer.add((0, 0, 0, 1), 1.0)
    assert 0 < layer.variable.copies < 8


@settings(deadline=None)
@given(st.lists(st.sampled_from(["check", "some", "all", "one", "assign", "another"]), max_size=12))
def test_values_are_those_of_the_moment(actions: list[str]) -> None:
    layer = Layer()
    for number, action in enumerate(actions):
        if action == "some":
            layer.add((slice(None), 0), number)
        elif action == "all":
            layer.add(..., number)
        elif action == "one":
            layer.add((0, 0, 0, 1), number)
        elif action == "assign":
            layer.variable.assign(numbers(number, *SHAPE))
        elif action == "another":
            layer.x = numbers(number, 1 + number % 3, 9, 9, SHAPE[2])
        for _ in range(1 if action == "check" else ENOUGH):
            layer.check()


def test_what_a_variable_holds() -> None:
    graph = fe.Graph()
    ops = graph.ops
    reference = ops.VariableV2(shape=[2], dtype="float32", name="reference")
    read = ops.Identity(reference, name="read")
    handle = ops.VarHandleOp(shape=[2], dtype="float32", name="handle")
    value = ops.ReadVariableOp(handle, dtype="float32", name="value")
    again = ops.Identity(value, name="again")
    made = ops.Neg(again, name="made")
    constant = graph.constant(np.ones(2, np.float32), name="constant")
    every = (reference, read, value, again, made, constant, handle)

    def held(*feeds: Any) -> list[str]:
        context = PassContext(
            fetches=(made.port,), feeds=tuple(tensor.port for tensor in feeds), kernels=registry()
        )
        groups = ChainGroups(graph, asking(context))
        return [tensor.op.name for tensor in every if groups.is_held(tensor.port)]

    assert held() == ["reference", "read", "value", "again"]
    assert held(reference) == ["value", "again"]
    assert held(value) == ["reference", "read"]
    assert held(again) == ["reference", "read", "value"]


def held_of(graph: fe.Graph, *tensors: Any) -> list[bool]:
    groups = ChainGroups(
        graph, asking(PassContext(fetches=tuple(t.port for t in tensors), kernels=registry()))
    )
    return [groups.is_held(tensor.port) for tensor in tensors]


@pytest.mark.parametrize("op", ["Assign", "AssignAdd", "ApplyGradientDescent", "ScatterUpdate"])
def test_what_a_variable_holds_does_not_stay_where_the_graph_writes_to_it(op: str) -> None:
    graph = fe.Graph()
    ops = graph.ops
    written, other = (ops.VariableV2(shape=[2], dtype="float32", name=name) for name in ("written", "other"))
    tensors = (written, ops.Identity(written), other, ops.Identity(other))
    assert held_of(graph, *tensors) == [True] * 4
    value = graph.constant(np.ones(2, np.float32))
    if op == "ApplyGradientDescent":
        ops.ApplyGradientDescent(written, graph.constant(np.float32(0.1)), value)
    elif op == "ScatterUpdate":
        ops.ScatterUpdate(written, graph.constant(np.array([0, 1], np.int32)), value)
    else:
        getattr(ops, op)(written, value)
    assert held_of(graph, *tensors) == [False, False, True, True]


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("op", ["AssignVariableOp", "AssignAddVariableOp", "ResourceApplyGradientDescent"])
def test_what_a_handle_leads_to_does_not_stay_where_the_graph_writes_to_it(op: str, is_direct: bool) -> None:
    """Or hands the handle on to something that might."""
    graph = fe.Graph()
    ops = graph.ops
    written, other = (ops.VarHandleOp(shape=[2], dtype="float32", name=name) for name in ("written", "other"))
    tensors = tuple(ops.ReadVariableOp(handle, dtype="float32") for handle in (written, other))
    assert held_of(graph, *tensors) == [True, True]
    value = graph.constant(np.ones(2, np.float32))
    target = written if is_direct else ops.Identity(written)
    if op == "ResourceApplyGradientDescent":
        ops.ResourceApplyGradientDescent(target, graph.constant(np.float32(0.1)), value)
    else:
        getattr(ops, op)(target, value)
    assert held_of(graph, *tensors) == [False, True]


def test_reading_is_not_writing() -> None:
    graph = fe.Graph()
    ops = graph.ops
    handle = ops.VarHandleOp(shape=[2], dtype="float32", name="handle")
    value = ops.ReadVariableOp(handle, dtype="float32")
    ops.ReadVariableOp(handle, dtype="float32")
    ops.ResourceGather(handle, graph.constant(np.array([0], np.int32)), dtype="float32")
    ops.VariableShape(handle)
    ops.VarIsInitializedOp(handle)
    assert held_of(graph, value) == [True]


def test_constants_are_given_once_and_the_input_each_time() -> None:
    """Inputs at the same and at other addresses, of another shape in between, and other constants."""
    compute = convolution(False)
    made = [numbers(seed, *SHAPE) for seed in range(2)]
    constants = [np.frombuffer(array.tobytes(), np.float32).reshape(SHAPE) for array in made]
    bias = np.frombuffer(numbers(2, SHAPE[3]).tobytes(), np.float32)
    plain = convolution(False)
    inputs = [numbers(seed, 1 + seed % 2, 9, 9, SHAPE[2]) for seed in range(4)]
    for number, choice in [
        (0, 0),
        (0, 0),
        (2, 0),
        (1, 0),
        (1, 0),
        (3, 0),
        (0, 0),
        (0, 1),
        (2, 1),
        (2, 1),
        (0, 0),
    ]:
        inputs[number] += 1
        got = compute(inputs[number], constants[choice], bias)
        np.testing.assert_array_equal(got, plain(inputs[number], made[choice], bias.copy()))


@pytest.mark.parametrize("constant", [True, False])
def test_what_is_remembered_ends_with_the_library(monkeypatch: pytest.MonkeyPatch, constant: bool) -> None:
    """As it does in a fork, which has none of the library's threads."""
    compute = convolution(False)
    arrays = [numbers(0, *SHAPE), numbers(1, SHAPE[3])]
    if constant:
        arrays = [np.frombuffer(a.tobytes(), np.float32).reshape(a.shape) for a in arrays]
    x = numbers(2, 1, 9, 9, SHAPE[2])
    assert compute(x, *arrays) is not None
    monkeypatch.setattr("flowengine.kernels.onednn.convolution.library", lambda: None)
    assert compute(x, *arrays) is None


def test_operands_of_other_shapes_are_read_anew() -> None:
    """A number, a vector, a whole tensor and one that does not fit, in place of each other."""
    graph = fe.Graph()
    x, filters, other = (graph.placeholder("float32", None, name=name) for name in ("x", "filters", "other"))
    product = graph.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="product")
    graph.ops.Mul(product, other, name="y")
    kernel = registry("onednn").find(graph["product"]).bind(graph["product"])
    found = kernel.absorb([(graph["y"], 0)])  # type: ignore[attr-defined]
    assert found is not None
    images, weights = numbers(1, 1, 9, 9, SHAPE[2]), numbers(0, *SHAPE)
    plain = kernel(images, weights)
    for seed, shape in enumerate([(24,), (24,), (), (), (1, 9, 9, 24), (1, 1, 1, 24), (24,), (9, 24), ()]):
        factor = np.asarray(numbers(seed, *shape))
        made = found[1](images, weights, factor)
        assert (made is None) == (shape == (9, 24))
        if made is not None:
            np.testing.assert_array_equal(made, plain * factor)


def test_filters_that_are_asked_for_are_not_looked_at() -> None:
    """A piece made from given filters leaves the count of calls, and the filters kept, as they are."""
    layer = Layer()
    for _ in range(ENOUGH):
        filters: Any = layer.variable.read()
        layer._held.piece(layer.x, filters, layer.bias)  # type: ignore[attr-defined]
        del filters
    assert not layer.variable.is_lent()
    for _ in range(ENOUGH):
        layer.check()
    assert layer.variable.is_lent()


def test_filters_tell_of_themselves_when_it_is_known_whether_they_stay() -> None:
    layer = Layer()

    def told() -> Any:
        return layer._held.piece(layer.x, layer.variable.read(), layer.bias)  # type: ignore[attr-defined]

    assert told() is None
    layer.check()
    assert told() is None
    for _ in range(ENOUGH):
        layer.check()
    staying = told()
    assert staying is not None
    assert isinstance(staying.wants[1], Same)
    assert staying.wants[1].value is layer.variable.held()
    del staying
    layer.add(..., 1.0)
    # Others: they may stay as well, or be seen to change.
    for _ in range(ENOUGH):
        layer.check()
        layer.add(..., 1.0)
    changing = told()
    assert changing is not None
    assert changing.wants[1] == Like(SHAPE, np.dtype(np.float32))
