"""Gradients of TensorArrays and of lists of tensors, in loops, to the second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.control import while_loop

AT = np.array([0.5, 1.5, -0.7])


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def new_array(ops: Any, version: str, size: int) -> tuple[fe.Tensor, fe.Tensor]:
    """(handle, first flow) of a TensorArray of float64; before V3 any number may be the first flow."""
    made = getattr(ops, f"TensorArray{version}")(size, dtype="float64", clear_after_read=False)
    return (made.handle, made.flow) if version == "V3" else (made, ops.Identity(np.float32(0)))


def by_array(graph: fe.Graph, x: fe.Tensor, version: str = "V3") -> fe.Tensor:
    """x ** 3, element by element, out of one TensorArray into another."""

    def op(name: str, *inputs: Any, **attrs: Any) -> Any:
        return getattr(ops, f"TensorArray{name}{version}")(*inputs, **attrs)

    ops = graph.ops
    array, flow = new_array(ops, version, 3)
    filled = op("Scatter", array, [0, 1, 2], x, flow)
    results, flow = new_array(ops, version, 3)

    def body(i: fe.Tensor, flow: fe.Tensor, *fixed: fe.Tensor) -> list[fe.Tensor]:
        handle, source, out, _ = fixed
        value = op("Read", handle, i, source, dtype="float64")
        cube = ops.Mul(ops.Mul(value, value), value)
        return [ops.AddV2(i, 1), op("Write", out, i, cube, flow)]

    _, flow = while_loop(
        graph,
        lambda i, flow, *fixed: ops.Less(i, fixed[-1]),
        body,
        [graph.constant(0), flow],
        invariants=[array, filled, results, graph.constant(3)],
    )
    gathered: fe.Tensor = op("Gather", results, [0, 1, 2], flow, dtype="float64", element_shape=[])
    return gathered


def by_array_of_strings(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    return by_array(graph, x, "V2")


def by_list(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """The same with lists."""
    ops = graph.ops
    shape = np.zeros(0, np.int32)
    items = ops.TensorListFromTensor(x, shape)
    results = ops.TensorListReserve(shape, 3, element_dtype="float64")

    def body(i: fe.Tensor, built: fe.Tensor, *fixed: fe.Tensor) -> list[fe.Tensor]:
        value = ops.TensorListGetItem(fixed[0], i, shape, element_dtype="float64")
        cube = ops.Mul(ops.Mul(value, value), value)
        return [ops.AddV2(i, 1), ops.TensorListSetItem(built, i, cube)]

    _, built = while_loop(
        graph,
        lambda i, built, *fixed: ops.Less(i, fixed[-1]),
        body,
        [graph.constant(0), results],
        invariants=[items, graph.constant(3)],
    )
    stacked: fe.Tensor = ops.TensorListStack(built, shape, element_dtype="float64", num_elements=3)
    return stacked


@pytest.mark.parametrize("build", [by_array, by_array_of_strings, by_list])
def test_element_by_element_to_the_second_order(build: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [3], name="x")
    y = build(graph, x)
    (first,) = fe.gradients(y, x)
    np.testing.assert_allclose(evaluate(graph, [y, first], {x: AT}), [AT**3, 3 * AT**2])
    assert isinstance(first, fe.Tensor)
    (second,) = fe.gradients(first, x)
    np.testing.assert_allclose(evaluate(graph, [y, first, second], {x: AT}), [AT**3, 3 * AT**2, 6 * AT])


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_split_and_joined_again(version: str) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3], name="x")
    array, flow = new_array(ops, version, 2)
    lengths = graph.constant(np.array([1, 2]))
    flow = getattr(ops, f"TensorArraySplit{version}")(array, ops.Mul(x, x), lengths, flow)
    joined = getattr(ops, f"TensorArrayConcat{version}")(array, flow, dtype="float64")
    (dx,) = fe.gradients(ops.Mul(joined.value, x), x)
    np.testing.assert_allclose(evaluate(graph, dx, {x: AT}), 3 * AT**2)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_places_that_are_read_twice_add_up(version: str) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3], name="x")
    array, flow = new_array(ops, version, 4)
    flow = getattr(ops, f"TensorArrayScatter{version}")(array, [0, 1, 2], ops.Square(x), flow)
    flow = getattr(ops, f"TensorArrayWrite{version}")(array, 3, ops.Exp(ops.Sum(x, [0])), flow)
    gathered = getattr(ops, f"TensorArrayGather{version}")(array, [3, 0, 1, 2], flow, dtype="float64")
    once_more = getattr(ops, f"TensorArrayRead{version}")(array, 1, flow, dtype="float64")
    y = ops.AddV2(ops.Prod(gathered, [0]), ops.Mul(once_more, once_more))
    (first,) = fe.gradients(y, x)
    assert isinstance(first, fe.Tensor)
    (second,) = fe.gradients(first, x)
    product = np.exp(AT.sum()) * np.prod(AT**2)
    slopes = 1 + 2 / AT
    also = np.array([0, AT[1], 0])
    # The second derivative is that of the sum of the first.
    expected = [
        product * slopes + 4 * also**3,
        product * slopes * slopes.sum() - 2 * product / AT**2 + 12 * also**2,
    ]
    for got, want in zip(evaluate(graph, [first, second], {x: AT}), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_packed_and_unpacked() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3], name="x")
    array, flow = new_array(ops, "", 3)
    flow = ops.TensorArrayUnpack(array, ops.Square(x), flow)
    packed = ops.TensorArrayPack(array, flow, dtype="float64", element_shape=[])
    (dx,) = fe.gradients(ops.Mul(packed, x), x)
    np.testing.assert_allclose(evaluate(graph, dx, {x: AT}), 3 * AT**2)


def test_a_list_is_pushed_and_popped() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")
    shape = np.zeros(0, np.int32)
    items = ops.EmptyTensorList(shape, -1, element_dtype="float64")
    for _ in range(2):
        items = ops.TensorListPushBack(items, ops.Mul(x, x))
    popped = ops.TensorListPopBack(items, shape, element_dtype="float64")
    (dx,) = fe.gradients(ops.Mul(popped.tensor, x), x)
    np.testing.assert_allclose(evaluate(graph, dx, {x: 2.0}), 12.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_variable_is_differentiated_by_its_handle(sparse: bool) -> None:
    graph = fe.Graph()
    ops = graph.ops
    handle = ops.VarHandleOp(dtype="float64", shape=[3, 2], shared_name="v")
    start = ops.AssignVariableOp(handle, np.ones((3, 2)))
    if sparse:
        y = ops.ResourceGather(handle, [1, 1], dtype="float64")
        (found,) = fe.gradients(y, handle)
        assert isinstance(found, fe.IndexedSlices)
        fetches: list[Any] = [found.values, found.indices, found.dense_shape]
        expected: list[Any] = [np.ones((2, 2)), [1, 1], [3, 2]]
    else:
        value = ops.ReadVariableOp(handle, dtype="float64")
        (dense,) = fe.gradients(ops.Mul(value, value), handle)
        fetches, expected = [dense], [np.full((3, 2), 2.0)]
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[start])
        for got, want in zip(session.run(fetches), expected, strict=True):
            np.testing.assert_allclose(got, want)
