"""A normalisation in training takes the Relu behind it along where nobody sees what lies between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.onednn import normalization
from flowengine.kernels.onednn.claims.rectify_norms import rectify_norms
from flowengine.kernels.onednn.library import search
from flowengine.passes.context import PassContext
from tests.effort import examples
from tests.passes.claiming import asking, claimed

needs_library = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def network(
    op: str = "FusedBatchNormV3", layout: str = "NHWC", epsilon: float = 1e-3, **changed: Any
) -> NodeGraph:
    """A normalisation `norm`, its Relu `relu`, and `z` made of that and of the mean."""
    g = fe.Graph()
    x, scale, offset = (g.placeholder("float32", name=name) for name in ("x", "scale", "offset"))
    nothing = g.constant(np.zeros(0, np.float32), name="nothing")
    attrs = {"is_training": True, "data_format": layout, "epsilon": epsilon, **changed}
    given = [scale, offset] if not attrs["is_training"] else [nothing, nothing]
    y, mean, *_ = getattr(g.ops, op)(x, scale, offset, *given, **attrs, name="norm")
    g.ops.Add(g.ops.Relu(y, name="relu"), mean, name="z")
    return g


def ops(
    graph: NodeGraph,
    *,
    fetches: tuple[str, ...] = ("z",),
    feeds: tuple[str, ...] = (),
    provider: str = "auto",
) -> list[str]:
    context = PassContext(
        fetches=tuple(OutputPort(name, 0) for name in fetches),
        feeds=tuple(OutputPort(name, 0) for name in feeds),
        kernels=registry(provider),
    )
    made = rectify_norms(graph, asking(context))
    return sorted(node.op for node in made if "Norm" in node.op or "Relu" in node.op)


APART = ["FusedBatchNormV3", "Relu"]


@needs_library
@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_both_become_one(op: str) -> None:
    assert ops(network(op)) == ["_BatchNormRelu"]


@needs_library
def test_statistics_may_be_fetched() -> None:
    context = PassContext(fetches=(OutputPort("norm", 1), OutputPort("z", 0)), kernels=registry("auto"))
    assert "relu" not in rectify_norms(network(), asking(context))


def test_with_given_statistics_they_stay() -> None:
    assert ops(network(is_training=False)) == APART


def test_what_is_seen_outside_stays() -> None:
    assert ops(network(), fetches=("norm", "z")) == APART
    assert ops(network(), fetches=("relu",)) == APART
    assert ops(network(), feeds=("norm",)) == APART


def test_what_another_takes_stays() -> None:
    graph = fe.Graph()
    x, vector = graph.placeholder("float32", name="x"), graph.placeholder("float32", name="scale")
    nothing = graph.constant(np.zeros(0, np.float32))
    y, *_ = graph.ops.FusedBatchNormV3(x, vector, vector, nothing, nothing, name="norm")
    graph.ops.Add(graph.ops.Relu(y), y, name="z")
    assert ops(graph) == APART


def test_a_relu_that_waits_stays() -> None:
    graph = fe.Graph()
    x, vector = graph.placeholder("float32", name="x"), graph.placeholder("float32", name="scale")
    nothing = graph.constant(np.zeros(0, np.float32))
    y, mean, *_ = graph.ops.FusedBatchNormV3(x, vector, vector, nothing, nothing, name="norm")
    with graph.control_dependencies([graph.ops.Neg(mean)]):
        graph.ops.Relu(y, name="z")
    assert ops(graph, fetches=("other",)) == APART


def test_numpy_computes_them_apart() -> None:
    assert ops(network(), provider="numpy") == APART


def test_only_where_products_may_be_fused() -> None:
    apart = PassContext(fetches=(OutputPort("z", 0),), kernels=registry(), fuse_contractions=False)
    assert claimed(graph := network(), apart, frozenset({"norm", "relu"})) is graph


ODD = st.sampled_from([0.0, -0.0, 1e-42, 1e20, -1e20, 3e38, float("nan"), float("inf"), float("-inf")])


@settings(max_examples=examples(80), deadline=None)
@given(
    st.data(),
    st.sampled_from(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]),
    st.sampled_from(["NHWC", "NCHW"]),
    st.sampled_from([0.0, 1.0, 1e3]),
    st.sampled_from([0, 0, 1, 5]),
)
def test_the_values_are_those_of_the_nodes_apart(
    data: st.DataObject, op: str, layout: str, far: float, odd: int
) -> None:
    """Whatever is in the input, the scale or the offset."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = (2, 5, 6, 16) if layout == "NHWC" else (2, 16, 5, 6)
    x = (random.standard_normal(shape) + far).astype(np.float32)
    scale, offset = (random.standard_normal(16).astype(np.float32) for _ in range(2))
    for _ in range(odd):
        array = data.draw(st.sampled_from([x, x, scale, offset]))
        array.reshape(-1)[data.draw(st.integers(0, array.size - 1))] = data.draw(ODD)
    graph = network(op, layout, 1e-3)
    together = rectify_norms(graph, asking(PassContext(fetches=(OutputPort("z", 0),), kernels=registry())))
    assert together is not graph
    nothing = np.zeros(0, np.float32)
    with np.errstate(all="ignore"):
        apart, joined = (
            registry().find(nodes["norm"]).bind(nodes["norm"])(x, scale, offset, nothing, nothing)
            for nodes in (graph, together)
        )
        y = registry().find(graph["relu"]).bind(graph["relu"])(apart[0])
    for mine, right in zip(joined, (y, *apart[1:]), strict=False):
        np.testing.assert_array_equal(mine, right)


@needs_library
async def test_a_hot_step_gives_what_a_cold_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    prepared: Callable[..., Any] = normalization.batch_norm

    def spy(*args: Any) -> Any:
        used.append(args[3])
        return prepared(*args)

    monkeypatch.setattr(normalization, "batch_norm", spy)
    graph = network()
    async with fe.Session(graph, config=fe.Config(kernel_provider="auto")) as session:
        random = np.random.default_rng(0)
        feed = {
            "x:0": random.standard_normal((2, 32, 32, 64)).astype(np.float32),
            "scale:0": random.standard_normal(64).astype(np.float32),
            "offset:0": random.standard_normal(64).astype(np.float32),
        }
        values = [await session.run("z:0", feed) for _ in range(12)]
        for value in values:
            np.testing.assert_array_equal(value, values[0])
        odd = feed["x:0"].copy()
        odd[0, 0, 0, 0] = np.nan
        value = await session.run("z:0", {**feed, "x:0": odd})
        assert np.isnan(value[..., 0]).all()
        assert not np.isnan(value[..., 1:]).any()
    assert set(used) == {False, True}
