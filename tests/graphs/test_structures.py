"""Structures: flattened and packed; and what a session fetches and feeds of them."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.graphs.structures import assert_alike, flatten, map_structure, pack_like


@dataclass
class Holder:
    first: Any
    second: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


def structures() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.integers(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(OrderedDict),
            st.builds(Pair, inner, inner),
            st.builds(Holder, inner, inner),
        ),
        max_leaves=8,
    )


@given(structures())
def test_packing_is_the_inverse_of_flattening(structure: Any) -> None:
    leaves = flatten(structure)
    assert all(isinstance(each, int) for each in leaves)
    packed = pack_like(structure, leaves)
    assert packed == structure
    assert type(packed) is type(structure)
    assert flatten(map_structure(lambda each: each + 1, structure)) == [each + 1 for each in leaves]
    assert_alike(structure, packed)
    with pytest.raises(ValueError, match="places"):
        pack_like(structure, [*leaves, 0])


def test_a_class_of_structures_is_none_itself() -> None:
    assert flatten([Holder, Pair, Holder(1)]) == [Holder, Pair, 1, None]


def test_dictionaries_of_equal_keys_are_alike() -> None:
    one, two = OrderedDict(b=1, a=2), OrderedDict(a=3, b=4)
    assert flatten(one) == [2, 1]
    assert map_structure(lambda x, y: (x, y), one, two) == OrderedDict(b=(1, 4), a=(2, 3))
    counted: Any = defaultdict(list, a=[1])
    assert pack_like(counted, [5]).default_factory is list
    assert map_structure(lambda x: 10 * x, Counter(b=1, a=2)) == Counter(b=10, a=20)
    with pytest.raises(ValueError, match="keys"):
        map_structure(lambda x, y: x, {"a": 1}, {"b": 1})


def test_fetches_are_structures() -> None:
    graph = fe.Graph()
    x, v = graph.constant([1.0, 2.0]), graph.variable([5.0, 6.0], name="v")
    slices = fe.gradients(fe.gather(v, [1, 1]), v)[0]
    assert isinstance(slices, fe.IndexedSlices)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        got = session.run(
            OrderedDict(b=Holder(x, None), a=(None, v, Pair(x, [v])), slices=slices, op=v.initializer)
        )
    assert list(got) == ["b", "a", "slices", "op"]
    assert isinstance(got["b"], Holder)
    np.testing.assert_array_equal(got["b"].first, [1, 2])
    assert got["a"][0] is None
    np.testing.assert_array_equal(got["a"][1], [5, 6])
    assert isinstance(got["a"][2], Pair)
    assert isinstance(got["slices"], fe.IndexedSlices)
    np.testing.assert_array_equal(got["slices"].indices, [1, 1])
    assert got["op"] is None


def test_sparse_tensors_are_fed_and_fetched() -> None:
    graph = fe.Graph()
    x = fe.sparse_placeholder("float32", [None, 4], graph=graph)
    assert x.shape.rank == 2
    dense = graph.ops.SparseToDense(x.indices, x.dense_shape, x.values, 0.0)
    ragged = fe.RaggedTensor(graph.placeholder("int32", [None]), graph.placeholder("int64", [None]))
    one, other = (graph.placeholder("int32", []) for _ in range(2))
    value = fe.SparseTensor(np.array([[0, 1]], np.int64), np.array([3.0], np.float32), np.array([1, 4]))
    rows = fe.RaggedTensor(np.array([7, 8], np.int32), np.array([0, 2, 2]))
    with fe.blocking.Session(graph) as session:
        for _ in range(2):
            found, same, parts = session.run([dense, x, ragged], {x: value, ragged: rows})
            np.testing.assert_array_equal(found, [[0, 3, 0, 0]])
            assert isinstance(same, fe.SparseTensor)
            np.testing.assert_array_equal(same.indices, [[0, 1]])
            np.testing.assert_array_equal(parts.row_splits, [0, 2, 2])
        found = session.run(dense, {x: ([[0, 0]], [1.0], [2, 4])})
        assert found.shape == (2, 4)
        # Beside plain ones, before them and behind.
        for number, keys in enumerate(([one, x, other], [x, one, other], [one, other, x])):
            feeds: dict[Any, Any] = {key: value if key is x else number for key in keys}
            found = session.run([dense, one, other], feeds)
            np.testing.assert_array_equal(found[0], [[0, 3, 0, 0]])
            assert found[1:] == [number, number]
        with pytest.raises(fe.errors.InvalidArgumentError, match="takes 3 values"):
            session.run(dense, {x: ([[0, 0]], [1.0])})


def test_sparse_tensors_are_variables_of_loops() -> None:
    graph = fe.Graph()
    x = fe.SparseTensor(graph.constant([[1]], "int64"), graph.constant([2.0]), graph.constant([3], "int64"))
    assert x.shape.as_list() == [3]
    _, doubled = graph.while_loop(
        lambda i, s: i < 3,
        lambda i, s: (i + 1, fe.SparseTensor(s.indices, s.values * 2, s.dense_shape)),
        (0, x),
    )
    with fe.blocking.Session(graph) as session:
        assert session.run(doubled).values.tolist() == [16.0]


@attrs.define
class Layer:
    weights: Any
    _bias: Any
    size: int = attrs.field(init=False, default=3)


def test_attrs_classes_are_structures() -> None:
    layer = Layer(1, [2])
    assert flatten(layer) == [1, 2]
    made = map_structure(lambda one, other: one + other, layer, Layer(10, [20]))
    assert made == Layer(11, [22])
    graph = fe.Graph()
    start = Layer(graph.constant(1.0), [graph.constant(2.0)])
    _, last = graph.while_loop(
        lambda i, each: i < 3, lambda i, each: (i + 1, map_structure(lambda x: x * 2.0, each)), (0, start)
    )
    with fe.blocking.Session(graph) as session:
        assert session.run(last) == Layer(8.0, [16.0])
