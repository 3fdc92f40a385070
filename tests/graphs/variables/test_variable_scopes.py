"""Variable scopes: names, reuse, what is agreed on for a scope, and partitions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flowengine as fe


def test_names_follow_the_variable_scopes_alone() -> None:
    graph = fe.Graph()
    with graph.variable_scope("a"), graph.name_scope("n"), graph.variable_scope("b") as scope:
        w = graph.get_variable("w", [2])
        x = graph.constant(1.0, name="x")
    assert (w.name, x.name, scope.name, scope.name_scope) == ("a/b/w:0", "a/n/b/x:0", "a/b", "a/n/b/")
    with graph.variable_scope("a", reuse=True), graph.variable_scope("b"):
        assert graph.get_variable("w", [2]) is w
        assert graph.constant(1.0, name="x").name == "a_1/b/x:0"
    with graph.variable_scope(scope, reuse=True):
        assert graph.get_variable("w") is w
        assert graph.constant(1.0, name="x").name == "b/x:0"


def test_reuse() -> None:
    graph = fe.Graph()
    with graph.variable_scope("a"):
        w = graph.get_variable("w", [2])
        with pytest.raises(fe.errors.InvalidArgumentError, match="exists already"):
            graph.get_variable("w", [2])
        assert graph.get_variable("w", [2], reuse="auto") is w
    with graph.variable_scope("a", reuse=True):
        with pytest.raises(fe.errors.InvalidArgumentError, match="no variable 'a/v'"):
            graph.get_variable("v", [2])
        with pytest.raises(
            fe.errors.InvalidArgumentError, match=re.escape("get_variable was called with [3]")
        ):
            graph.get_variable("w", [3])
        with pytest.raises(fe.errors.InvalidArgumentError, match="get_variable was called with int32"):
            graph.get_variable("w", [2], dtype="int32")
    with graph.variable_scope("a", reuse="auto"):
        v = graph.get_variable("v", [2])
        assert graph.get_variable("v", [2]) is v


def test_default_names_are_counted_below_the_scope_around() -> None:
    graph = fe.Graph()
    found = []
    for _ in range(2):
        with graph.variable_scope("a"):
            for _ in range(2):
                with graph.variable_scope(None, default_name="dense") as scope:
                    found.append(scope.name)
    # Opened again by its name, a scope counts those within anew, so that the same names are found.
    assert found == ["a/dense", "a/dense_1", "a/dense", "a/dense_1"]
    with pytest.raises(fe.errors.InvalidArgumentError, match="default_name"):
        graph.variable_scope(None).__enter__()


def test_what_a_scope_agrees_on() -> None:
    graph = fe.Graph()
    with graph.variable_scope(
        "a",
        initializer=fe.initializers.constant(3.0),
        regularizer=lambda x: graph.ops.L2Loss(x),
        dtype="float64",
        use_resource=False,
    ):
        w = graph.get_variable("w", [2])
        with graph.variable_scope("b", dtype="float32"):
            v = graph.get_variable("v", [1], initializer=fe.initializers.ones())
    assert (w.dtype.name, v.dtype.name, w.is_resource, v.is_resource) == ("float64", "float32", False, False)
    penalties = graph.collection("regularization_losses")
    assert [each.name for each in penalties] == ["a/w/Regularizer/L2Loss:0", "a/b/v/Regularizer/L2Loss:0"]
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[w.initializer, v.initializer])
        assert session.run(penalties) == [9, 0.5]


def test_a_getter_stands_between() -> None:
    graph = fe.Graph()
    seen: list[str] = []

    def noting(mark: str) -> Any:
        def getter(usual: Any, name: str, **arguments: Any) -> Any:
            seen.append(f"{mark} {name}")
            return usual(name, **arguments)

        return getter

    with graph.variable_scope("a", getter=noting("outer")), graph.variable_scope("b", getter=noting("inner")):
        assert graph.get_variable("w", [2]).name == "a/b/w:0"
    assert seen == ["inner a/b/w", "outer a/b/w"]


def test_integers_are_zero_and_texts_need_an_initializer() -> None:
    graph = fe.Graph()
    n = graph.get_variable("n", [2], dtype="int32")
    with fe.blocking.Session(graph) as session:
        session.run(n.initializer)
        assert session.run(n.value()).tolist() == [0, 0]
    with pytest.raises(fe.errors.InvalidArgumentError, match="needs an initializer"):
        graph.get_variable("s", [2], dtype="string")


@pytest.mark.parametrize("initial", ["array", "initializer", "tensor"])
def test_a_variable_in_parts(initial: str) -> None:
    graph = fe.Graph()
    value = np.arange(14, dtype=np.float64 if initial == "array" else np.float32).reshape(7, 2)
    given: Any = {
        "array": value,
        "initializer": fe.initializers.constant(2.0),
        "tensor": graph.constant(value),
    }[initial]
    shape = [7, 2] if initial == "initializer" else None
    dtype = "float64" if initial == "initializer" else None
    w = graph.variable(given, name="w", shape=shape, dtype=dtype, partitioner=fe.partitioners.fixed_size(3))
    assert w.dtype.name == dtype or w.dtype.name == value.dtype.name
    assert [part.name for part in w.parts] == ["w/part_0:0", "w/part_1:0", "w/part_2:0"]
    assert [part.shape.as_tuple() for part in w.parts] == [(3, 2), (2, 2), (2, 2)]
    assert [part.save_slice.spec for part in w.parts if part.save_slice is not None] == [
        "7 2 0,3:-",
        "7 2 3,2:-",
        "7 2 5,2:-",
    ]
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[part.initializer for part in w.parts])
        wanted = np.full([7, 2], 2.0) if initial == "initializer" else value
        assert np.array_equal(session.run(w.value()), wanted)


def test_partitioners_count() -> None:
    f32, shape = fe.dtypes.float32, fe.TensorShape([1000, 8])
    assert fe.partitioners.fixed_size(3)(shape, f32) == [3, 1]
    assert fe.partitioners.fixed_size(3, axis=-1)(shape, f32) == [1, 3]
    assert fe.partitioners.by_shard_bytes(8000)(shape, f32) == [4, 1]
    assert fe.partitioners.by_shard_bytes(8000, max_shards=2)(shape, f32) == [2, 1]
    assert fe.partitioners.min_max(8, min_slice_bytes=16000)(shape, f32) == [2, 1]
    assert fe.partitioners.min_max(8)(shape, f32) == [1, 1]
    with pytest.raises(fe.errors.InvalidArgumentError, match="at least one part"):
        fe.partitioners.fixed_size(0)
    assert fe.partitioners.min_max(8, min_slice_bytes=1)(fe.TensorShape([3]), f32) == [3]
    for parts, least in ((0, 1), (1, 0)):
        with pytest.raises(fe.errors.InvalidArgumentError, match="are at least 1"):
            fe.partitioners.min_max(parts, min_slice_bytes=least)


def test_what_is_cut_has_a_known_shape() -> None:
    graph = fe.Graph()
    initial = graph.placeholder("float32", name="any")
    with pytest.raises(fe.errors.InvalidArgumentError, match="'w': a shape to be cut must be known, not"):
        graph.variable(initial, name="w", partitioner=fe.partitioners.fixed_size(2))


def test_variance_scaling_of_a_part_is_that_of_the_whole() -> None:
    graph = fe.Graph()
    whole = graph.get_variable("w", [400, 40], initializer=fe.initializers.glorot_uniform(seed=3))
    parts = graph.get_variable(
        "p",
        [400, 40],
        initializer=fe.initializers.glorot_uniform(seed=3),
        partitioner=fe.partitioners.fixed_size(2),
    )
    limit = np.sqrt(6 / 440)
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[v.initializer for v in graph.collection("variables")])
        for value in session.run([whole.value(), parts.value()]):
            assert 0.99 * limit < np.abs(value).max() <= limit
