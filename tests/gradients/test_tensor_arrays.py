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


def by_array(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """x ** 3, element by element, out of one TensorArray into another."""
    ops = graph.ops
    array = ops.TensorArrayV3(3, dtype="float64", element_shape=[])
    filled = ops.TensorArrayScatterV3(array.handle, [0, 1, 2], x, array.flow)
    results = ops.TensorArrayV3(3, dtype="float64", element_shape=[])

    def body(i: fe.Tensor, flow: fe.Tensor, *fixed: fe.Tensor) -> list[fe.Tensor]:
        handle, source, out, _ = fixed
        value = ops.TensorArrayReadV3(handle, i, source, dtype="float64")
        cube = ops.Mul(ops.Mul(value, value), value)
        return [ops.AddV2(i, 1), ops.TensorArrayWriteV3(out, i, cube, flow)]

    _, flow = while_loop(
        graph,
        lambda i, flow, *fixed: ops.Less(i, fixed[-1]),
        body,
        [graph.constant(0), results.flow],
        invariants=[array.handle, filled, results.handle, graph.constant(3)],
    )
    gathered: fe.Tensor = ops.TensorArrayGatherV3(
        results.handle, [0, 1, 2], flow, dtype="float64", element_shape=[]
    )
    return gathered


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


@pytest.mark.parametrize("build", [by_array, by_list])
def test_element_by_element_to_the_second_order(build: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [3], name="x")
    y = build(graph, x)
    (first,) = fe.gradients(y, x)
    np.testing.assert_allclose(evaluate(graph, [y, first], {x: AT}), [AT**3, 3 * AT**2])
    assert isinstance(first, fe.Tensor)
    (second,) = fe.gradients(first, x)
    np.testing.assert_allclose(evaluate(graph, [y, first, second], {x: AT}), [AT**3, 3 * AT**2, 6 * AT])


def test_split_and_joined_again() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3], name="x")
    array = ops.TensorArrayV3(2, dtype="float64")
    lengths = graph.constant(np.array([1, 2]))
    flow = ops.TensorArraySplitV3(array.handle, ops.Mul(x, x), lengths, array.flow)
    joined = ops.TensorArrayConcatV3(array.handle, flow, dtype="float64")
    (dx,) = fe.gradients(ops.Mul(joined.value, x), x)
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
