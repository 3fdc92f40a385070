"""Operators and subscripts beside NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flowengine as fe
from flowengine.core.dtypes import DType
from flowengine.graphs.conversion import convert


def value(tensor: Any) -> Any:
    """Return the value of a tensor in a step."""
    with fe.blocking.Session(tensor.graph) as session:
        return session.run(tensor)


class Held:
    """An object that stands for a tensor."""

    def __init__(self, tensor: fe.Tensor) -> None:
        self.graph = tensor.graph
        self._tensor = tensor
        self.asked: list[DType | None] = []

    def __flowengine_tensor__(self, graph: fe.Graph, dtype: DType | None, name: str | None) -> fe.Tensor:
        self.asked.append(dtype)
        return self._tensor


class NamedTensor(fe.Tensor):
    """A tensor of somebody else's class."""

    __slots__ = ()


BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_operators_are_numpys(dtype: str) -> None:
    graph = fe.Graph()
    x, y = np.array([[-3, 5, 7]], dtype), np.array([[2], [-4]], dtype)
    a, b = graph.constant(x), graph.constant(y)
    tensors, expected = [], []
    for apply in BINARY:
        tensors += [apply(a, b), apply(a, 2), apply(2, a), apply(a, y), apply(x, b), apply(a, Held(b))]
        expected += [apply(x, y), apply(x, 2), apply(2, x), apply(x, y), apply(x, y), apply(x, y)]
    tensors += [-a, abs(a), +a]
    expected += [-x, abs(x), x]
    with fe.blocking.Session(graph) as session:
        for found, wanted in zip(session.run(tensors), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_division_is_python_3s() -> None:
    graph = fe.Graph()
    assert (graph.constant([1, 2], "int32") / 2).dtype is fe.dtypes.float64
    assert (1 / graph.constant([1, 2], "int8")).dtype is fe.dtypes.float32
    np.testing.assert_array_equal(value(graph.constant([1, 2], "int64") / 4), [0.25, 0.5])
    np.testing.assert_array_equal(value(3.0 / graph.constant([1.0, 2.0])), [3.0, 1.5])


def test_logic_is_of_bits_for_integers() -> None:
    graph = fe.Graph()
    for dtype in (np.int32, np.bool_):
        x: Any = np.array([0, 1, 1], dtype)
        y: Any = np.array([1, 0, 1], dtype)
        a, b = graph.constant(x), graph.constant(y)
        with fe.blocking.Session(graph) as session:
            found = session.run([a & b, a | b, a ^ b, ~a, y & a])
        for got, want in zip(found, [x & y, x | y, x ^ y, ~x, x & y], strict=True):
            np.testing.assert_array_equal(got, want)
    with pytest.raises(TypeError, match="are for bool and for integers"):
        graph.constant(1.0) & 1.0


def test_matrix_products_choose_by_rank() -> None:
    graph = fe.Graph()
    x, y = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    assert (graph.constant(x) @ y).op.type == "MatMul"
    many = graph.constant(np.ones((5, 2, 3), np.float32)) @ y
    assert many.op.type == "BatchMatMulV2"
    assert many.shape.as_list() == [5, 2, 4]
    np.testing.assert_array_equal(value(x @ graph.constant(y)), x @ y)


def test_strings_are_joined() -> None:
    graph = fe.Graph()
    assert value("a" + graph.constant("b") + "c") == b"abc"


def test_equality_is_of_objects() -> None:
    graph = fe.Graph()
    x = graph.constant(1.0)
    same: object = graph.tensor(x.name)
    assert x == same
    assert x != graph.constant(1.0)
    assert len({x, same}) == 1


def test_nodes_have_the_operators_names() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    made = [x + 1, x - 1, x * 2, x / 2, x // 2, x % 2, x**2, x[0]]
    names = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "strided_slice"]
    assert [each.node_name for each in made] == names
    assert graph["add"].inputs[1].node == "add/y"


def subscripts(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    return hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)


@given(st.data())
def test_a_subscript_takes_what_numpy_takes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=4))
    x = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(subscripts(shape))
    graph = fe.Graph()
    found = graph.constant(x)[key]
    expected = x[key]
    assert found.shape.as_tuple() == expected.shape
    np.testing.assert_array_equal(value(found), expected)


@given(st.data())
def test_places_may_be_tensors(data: st.DataObject) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    row, start = data.draw(st.integers(-2, 1)), data.draw(st.integers(-5, 5))
    stop, step = data.draw(st.integers(-5, 5)), data.draw(st.sampled_from([-2, -1, 1, 3]))
    wide = data.draw(st.sampled_from(["int32", "int64"]))
    graph = fe.Graph()
    a, first = graph.constant(x), graph.constant(start, "int32")
    last = graph.constant(stop, wide)
    found = a[graph.constant(row, wide), ..., first : Held(last) : step]
    np.testing.assert_array_equal(value(found), x[row, ..., start:stop:step])


@pytest.mark.parametrize("is_beside_a_tensor", [False, True])
@pytest.mark.parametrize(
    ("place", "is_wide"), [(2**31 - 2, False), (2**31 - 1, True), (-(2**31), False), (-(2**31) - 1, True)]
)
def test_vectors_are_as_wide_as_the_end_of_a_place_needs(
    place: int, is_wide: bool, is_beside_a_tensor: bool
) -> None:
    """The end is one behind the place: of the last that fits 32 bits it does not fit any more."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, None])
    found = x[place, graph.constant(1, "int32") if is_beside_a_tensor else 1]
    assert found.dtype.name == "float32"
    wanted = "int64" if is_wide else "int32"
    assert [each.dtype.name for each in found.op.inputs[1:]] == [wanted] * 3


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("a", TypeError, "cannot be an index"),
        (True, TypeError, "cannot be an index"),
        (1.5, TypeError, "cannot be an index"),
        ((..., ...), ValueError, "at most one"),
        (slice(None, None, 0), ValueError, "cannot be 0"),
        ((0, 0, 0), ValueError, "StridedSlice"),
    ],
)
def test_a_subscript_that_there_is_not_is_an_error(key: Any, kind: type[Exception], text: str) -> None:
    x = fe.Graph().constant(np.ones((2, 2)))
    with pytest.raises(kind, match=text) as caught:
        x[key]
    assert isinstance(caught.value, fe.errors.InvalidArgumentError)
    assert "test_operators.py" in str(caught.value)


def test_an_index_of_many_or_of_truth_is_told_what_else_there_is() -> None:
    graph = fe.Graph()
    x = graph.constant([1, 2, 3])
    with pytest.raises(ValueError, match="gather"):
        x[graph.constant([0, 1])]
    with pytest.raises(TypeError, match="boolean_mask"):
        x[graph.constant([True, False, True])]


def test_a_shape_can_be_told() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", name="x")
    x.set_shape([None, 3])
    x.set_shape([2, None])
    assert (x + 1).shape.as_list() == [2, 3]
    with pytest.raises(ValueError, match="not compatible"):
        x.set_shape([4, 3])
    # A change that makes the graph infer again keeps what was said.
    graph.widen(graph["x"])
    assert x.shape.as_list() == [2, 3]


def test_what_stands_for_a_tensor_is_taken_everywhere() -> None:
    graph = fe.Graph()
    x = graph.constant([1.0, 2.0])
    held, named = Held(x), NamedTensor(graph, x.node_name, 0)
    ops = graph.ops
    for each in (held, named):
        np.testing.assert_array_equal(value(ops.Pack([each, x])), [[1, 2], [1, 2]])
        np.testing.assert_array_equal(value(ops.Add(1.0, each)), [2, 3])
        np.testing.assert_array_equal(value(ops.ConcatV2([[0.0], each], 0)), [0, 1, 2])
        np.testing.assert_array_equal(value(fe.reduce_sum([each, [1.0, 1.0]])), 5)
        assert convert(graph, each) == x
    assert fe.gradients(ops.Mul(held, held), named)[0] is not None


def test_conversion_says_what_it_wants() -> None:
    graph = fe.Graph()
    held = Held(graph.constant([0]))
    graph.ops.ExpandDims(graph.constant([1.0]), held)
    assert held.asked == [None]
    held = Held(graph.constant(True))
    graph.ops.LogicalNot(held)
    assert held.asked == [fe.dtypes.bool_]
    with pytest.raises(TypeError, match="must be float32"):
        convert(graph, Held(graph.constant(1)), "float32")
    with pytest.raises(ValueError, match="another graph"):
        convert(graph, Held(fe.Graph().constant(1)))
    assert convert(graph, [1, held._tensor.graph.constant(2)]).shape.as_list() == [2]


def test_errors_of_construction_are_pythons_and_name_the_line() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 3])
    with pytest.raises(TypeError, match=r"must be float32.*test_operators\.py") as wrong_type:
        x + graph.constant(1)
    with pytest.raises(ValueError, match=r"Dimensions must be equal.*test_operators\.py") as wrong_shape:
        x @ x
    with pytest.raises(TypeError, match="takes 2 inputs"):
        graph.ops["Add"](x)
    with pytest.raises(TypeError, match="no input or attribute"):
        graph.ops["Neg"](x, y=1)
    for caught in (wrong_type, wrong_shape):
        assert isinstance(caught.value, fe.errors.InvalidArgumentError)
