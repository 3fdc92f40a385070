"""A pooling keeps where its maxima are for its gradient: only for its own, and no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.onednn import pooling
from flowengine.kernels.onednn.claims.keep_maxima import keep_maxima
from flowengine.kernels.onednn.layers import poolings
from flowengine.kernels.onednn.library import search
from flowengine.passes.context import PassContext
from tests.effort import examples
from tests.passes.claiming import asking, claimed

needs_library = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

WINDOWS: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}


def network(**changed: Any) -> NodeGraph:
    """A pooling and a gradient, whose windows may differ."""
    g = fe.Graph()
    x, g_y = g.placeholder("float32", name="x"), g.placeholder("float32", name="g")
    g.placeholder("float32", name="other")
    y = g.ops.MaxPool(x, name="y", **WINDOWS)
    g.ops.MaxPoolGrad(x, y, g_y, name="dx", **{**WINDOWS, **changed})
    return g


def ops(graph: NodeGraph, *, feeds: tuple[str, ...] = ("x", "g"), provider: str = "auto") -> list[str]:
    context = PassContext(
        feeds=tuple(OutputPort(name, 0) for name in feeds),
        fetches=(OutputPort("dx", 0),),
        kernels=registry(provider),
    )
    made = keep_maxima(graph, asking(context, {"y", "dx"}))
    return sorted(node.op for node in made if "Pool" in node.op)


@needs_library
def test_a_pooling_and_its_gradient_become_a_pair() -> None:
    assert ops(network()) == ["_MaxPoolGradAtPlaces", "_MaxPoolWithPlaces"]


@pytest.mark.parametrize(
    "changed", [{"ksize": [1, 2, 2, 1]}, {"strides": [1, 1, 1, 1]}, {"padding": "VALID"}], ids=str
)
def test_windows_that_differ_are_no_pair(changed: dict[str, Any]) -> None:
    assert ops(network(**changed)) == ["MaxPool", "MaxPoolGrad"]


def test_a_gradient_of_something_else_is_none() -> None:
    graph = fe.Graph()
    x, other, g_y = (graph.placeholder("float32", name=name) for name in ("x", "other", "g"))
    graph.ops.MaxPoolGrad(x, graph.ops.MaxPool(other, name="y", **WINDOWS), g_y, name="dx", **WINDOWS)
    assert ops(graph) == ["MaxPool", "MaxPoolGrad"]


def test_fed_maxima_are_those_of_no_pooling() -> None:
    assert ops(network(), feeds=("x", "g", "y")) == ["MaxPool", "MaxPoolGrad"]


def test_numpy_keeps_nothing() -> None:
    assert ops(network(), provider="numpy") == ["MaxPool", "MaxPoolGrad"]


def test_only_what_is_large_and_may_be_fused() -> None:
    context = PassContext(fetches=(OutputPort("dx", 0),), kernels=registry())
    assert keep_maxima(graph := network(), asking(context)) is graph
    apart = PassContext(fetches=(OutputPort("dx", 0),), kernels=registry(), fuse_contractions=False)
    assert claimed(graph, apart, frozenset({"y", "dx"})) is graph


#: Elements among which many are equal, and what the libraries do not agree on.
ODD = st.sampled_from([0.0, 1.0, -1.0, 2.0, float("nan"), float("inf"), float("-inf")])


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2]),
    st.sampled_from(["SAME", "VALID"]),
    st.sampled_from(["NHWC", "NCHW"]),
    st.sampled_from([0, 3, 40]),
)
def test_the_values_are_those_of_the_nodes_apart(
    data: st.DataObject, window: int, stride: int, padding: str, layout: str, odd: int
) -> None:
    """Whatever is in the input: what a library cannot be trusted with is looked for again."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape, spatial = ((2, 5, 6, 16), (1, 2)) if layout == "NHWC" else ((2, 16, 5, 6), (2, 3))
    x = random.integers(-2, 3, shape).astype(np.float32)
    places = random.integers(0, x.size, odd)
    x.reshape(-1)[places] = [data.draw(ODD) for _ in range(odd)]
    sizes = [1] * 4, [1] * 4
    for axis in spatial:
        sizes[0][axis], sizes[1][axis] = window, stride
    attrs: dict[str, Any] = {
        "ksize": sizes[0],
        "strides": sizes[1],
        "padding": padding,
        "data_format": layout,
    }
    graph = fe.Graph()
    given_x, given_g = graph.placeholder("float32", name="x"), graph.placeholder("float32", name="g")
    y = graph.ops.MaxPool(given_x, name="y", **attrs)
    graph.ops.MaxPoolGrad(given_x, y, given_g, name="dx", **attrs)
    context = PassContext(
        feeds=(OutputPort("x", 0), OutputPort("g", 0)), fetches=(OutputPort("dx", 0),), kernels=registry()
    )
    together = keep_maxima(graph, asking(context, {"y", "dx"}))
    assert together is not graph

    def called(nodes: NodeGraph, name: str, *inputs: Any) -> Any:
        return registry().find(nodes[name]).bind(nodes[name])(*inputs)

    with np.errstate(all="ignore"):
        maxima = called(graph, "y", x)
        gradient = random.integers(-9, 10, maxima.shape).astype(np.float32)
        wanted = called(graph, "dx", x, maxima, gradient)
        made = called(together, "y", x)
        got = called(together, "dx", x, made[0], gradient, made[1])
    np.testing.assert_array_equal(made[0], maxima)
    np.testing.assert_array_equal(got, wanted)
    assert np.isnan(x).any() or np.isinf(x).any() or bool(made[1].size) == (search().library is not None)


@needs_library
async def test_a_hot_step_gives_the_gradient_of_a_cold_one(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    prepared = poolings.max_gradient_at_places

    def spy(*args: Any) -> Any:
        used.append(args)
        return prepared(*args)

    monkeypatch.setattr(pooling, "max_gradient_at_places", spy)
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 32, 32, 64], name="x")
    y = graph.ops.MaxPool(graph.ops.Relu(x), **WINDOWS)
    slope = graph.ops.MaxPoolGrad(y.op.inputs[0], y, graph.ops.Mul(y, y), name="dx", **WINDOWS)
    random = np.random.default_rng(0)
    async with fe.Session(graph, config=fe.Config(kernel_provider="auto")) as session:
        feed = random.standard_normal((2, 32, 32, 64)).astype(np.float32)
        values = [await session.run(slope, {x: feed}) for _ in range(12)]
        for value in values:
            np.testing.assert_array_equal(value, values[0])
        other = await session.run(slope, {x: -feed})
        assert not np.array_equal(other, values[0])
    assert 0 < len(used) < 13


@needs_library
@pytest.mark.parametrize("taken", ["fused", "by another"])
def test_the_gradient_of_the_relu_before_is_computed_along(taken: str) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x, gradient = graph.placeholder("float32", name="x"), graph.placeholder("float32", name="g")
    features = ops.Relu(x, name="features")
    y = ops.MaxPool(features, name="y", **WINDOWS)
    dx = ops.MaxPoolGrad(features, y, gradient, name="dx", **WINDOWS)
    ops.ReluGrad(dx, features, name="out")
    kernels = registry("onednn")
    fetches = ["out"] if taken == "fused" else ["out", "dx"]
    context = PassContext(
        feeds=(OutputPort("x", 0), OutputPort("g", 0)),
        fetches=tuple(OutputPort(name, 0) for name in fetches),
        kernels=kernels,
    )
    together = claimed(graph, context, frozenset({"features", "y", "dx", "out"}))
    assert (together["out"].op == "_FusedContraction") == (taken == "fused")
    random = np.random.default_rng(0)
    images = random.standard_normal((3, 15, 16, 37)).astype(np.float32)
    slope = random.integers(-9, 10, (3, 8, 8, 37)).astype(np.float32)  # sums of any order are the same

    def bound(nodes: NodeGraph, name: str) -> Any:
        return kernels.find(nodes[name]).bind(nodes[name])

    shown = np.maximum(images, 0)
    maxima, places = bound(together, "y")(shown)
    wanted = bound(graph, "out")(bound(graph, "dx")(shown, maxima, slope), shown)
    if taken == "fused":
        known = {("features", 0): shown, ("y", 0): maxima, ("y", 1): places, ("g", 0): slope}
        values = tuple(known[port.node, port.slot] for port in together["out"].inputs)
        made = bound(together, "out")(values)
        # What has no places to go by is computed node by node.
        emptied = tuple(value if value is not places else places[:0] for value in values)
        np.testing.assert_array_equal(bound(together, "out")(emptied), wanted)
    else:
        made = bound(together, "out")(bound(together, "dx")(shown, maxima, slope, places), shown)
    np.testing.assert_array_equal(made, wanted)
    # Where the Relu stops a gradient its sign goes as well, if it is stopped before it is placed.
    assert made[shown > 0].tobytes() == wanted[shown > 0].tobytes()
    if taken == "fused":
        assert not np.signbit(made[shown == 0]).any()
    else:
        assert made.tobytes() == wanted.tobytes()
