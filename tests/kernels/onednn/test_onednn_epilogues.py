"""Nodes behind a convolution, which are computed with it to the values that they have one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.onednn.library import search
from flowengine.passes.context import HotContext, PassContext
from tests.passes.claiming import claimed

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

SIZE, DEPTH, WIDTH = 9, 16, 24


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(graph: NodeGraph, fetched: str, feeds: dict[str, Any]) -> Any:
    """The value of a node, by oneDNN's kernels one by one."""
    values: dict[OutputPort, Any] = {OutputPort(name, 0): value for name, value in feeds.items()}
    kernels = registry("onednn")

    def value(port: OutputPort) -> Any:
        if port not in values:
            node = graph[port.node]
            inputs = [value(p) for p in node.inputs]
            if node.op == "Const":
                result = node.attrs["value"].value()
            else:
                function = kernels.find(node).bind(node)
                fused = node.op.startswith("_Fused")
                result = function(tuple(inputs)) if fused else function(*inputs)
            for slot, item in enumerate(result if isinstance(result, tuple) else (result,)):
                values[OutputPort(port.node, slot)] = item
        return values[port]

    with np.errstate(all="ignore"):
        return value(OutputPort(fetched, 0))


def fused(graph: NodeGraph, fetched: str) -> NodeGraph:
    context = PassContext(fetches=(OutputPort(fetched, 0),), kernels=registry("onednn"))
    heavy = frozenset(n.name for n in graph if n.op not in ("Const", "Placeholder"))
    return claimed(graph, context, heavy)


def absorbed(graph: NodeGraph, fetched: str) -> bool:
    """Whether one call computes it, with nothing left for a chain."""
    program = graph[fetched].attrs["program"]
    return program._whole is not None and program._rest is None


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_chains_behind_convolutions(data: st.DataObject) -> None:
    graph = fe.Graph()
    ops = graph.ops
    op = data.draw(st.sampled_from(["Conv2D", "DepthwiseConv2dNative"]))
    size = data.draw(st.sampled_from([1, SIZE]))
    window = data.draw(st.sampled_from([1, 3])) if size > 1 else 1
    x = graph.placeholder("float32", None, name="x")
    feeds = {"x": numbers(0, 2, size, size, DEPTH)}
    width = WIDTH if op == "Conv2D" else DEPTH
    filters = numbers(1, window, window, DEPTH, WIDTH if op == "Conv2D" else 1)
    if data.draw(st.booleans()):
        weights = graph.constant(filters)
    else:
        weights = graph.placeholder("float32", None, name="weights")
        feeds["weights"] = filters
    y = getattr(ops, op)(x, weights, strides=[1, 1, 1, 1], padding="SAME")
    follows = st.sampled_from(["BiasAdd", "Norm", "Relu", "Relu6", "Add", "Sub", "Mul"])
    for seed, follower in enumerate(data.draw(st.lists(follows, min_size=1, max_size=4))):
        if follower in ("Relu", "Relu6"):
            y = getattr(ops, follower)(y)
        elif follower == "BiasAdd":
            y = ops.BiasAdd(y, graph.constant(numbers(seed, width)))
        elif follower == "Norm":
            vectors = [graph.constant(numbers(seed + i, width)) for i in range(3)]
            variance = graph.constant(np.abs(numbers(seed + 9, width)) + 0.1)
            y = ops.FusedBatchNorm(y, vectors[0], vectors[1], vectors[2], variance, is_training=False)[0]
        else:
            shape = data.draw(st.sampled_from([(), (width,), (2, size, size, width), (2, 1, 1, width)]))
            name = f"operand{seed}"
            feeds[name] = np.asarray(numbers(seed, *shape), np.float32)
            y = getattr(ops, follower)(y, graph.placeholder("float32", None, name=name))
    name = y.op.name
    changed = fused(graph, name)
    wanted, got = run(graph, name, feeds), run(changed, name, feeds)
    np.testing.assert_array_equal(got, wanted)
    assert np.array_equal(np.signbit(got), np.signbit(wanted))


def _net(bias: int = WIDTH, last: str = "Relu") -> tuple[fe.Graph, dict[str, Any]]:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", None, name="x")
    filters = graph.constant(numbers(1, 3, 3, DEPTH, WIDTH))
    y = ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="conv")
    y = ops.BiasAdd(y, graph.placeholder("float32", None, name="bias"), name="sum")
    getattr(ops, last)(y, name="y")
    return graph, {"x": numbers(0, 1, SIZE, SIZE, DEPTH), "bias": numbers(2, bias)}


clips = pytest.mark.parametrize("clip", ["Relu", "Relu6"])


@clips
def test_one_call_computes_all(clip: str) -> None:
    graph, feeds = _net(last=clip)
    changed = fused(graph, "y")
    assert absorbed(changed, "y")
    np.testing.assert_array_equal(run(changed, "y", feeds), run(graph, "y", feeds))


@clips
def test_a_nan_stays(clip: str) -> None:
    graph, feeds = _net(last=clip)
    feeds["x"][0, 4, 4, 0] = np.nan
    got = run(fused(graph, "y"), "y", feeds)
    np.testing.assert_array_equal(got, run(graph, "y", feeds))
    assert np.isnan(got[0, 3:6, 3:6]).all()
    assert not np.isnan(got[0, 0]).any()


@clips
def test_relu_gives_all_as_numpy_does_but_minus_infinity(clip: str) -> None:
    """The only difference is the stated tolerance: NaN for -inf, of which the node by itself makes 0."""
    graph, feeds = _net(last=clip)
    edges = [-np.inf, np.inf, np.nan, -3e38, 3e38, -0.0, 0.0, -1e-38, 1e-38, -1e-45, 1e-45, 3e-39, 1.5]
    six = np.float32(6)
    edges += [-6, 5.5, 6, np.nextafter(six, np.float32(0)), np.nextafter(six, np.float32(7)), 7]
    feeds["x"][...] = 0
    feeds["bias"][: len(edges)] = edges
    wanted, got = run(graph, "y", feeds), run(fused(graph, "y"), "y", feeds)
    assert np.isnan(got[..., 0]).all()
    assert (wanted[..., 0] == 0).all()
    np.testing.assert_array_equal(got[..., 1:], wanted[..., 1:])
    assert not np.signbit(got[..., 3:]).any()


def _normalized_net(shape: tuple[int, ...]) -> tuple[fe.Graph, dict[str, Any]]:
    """Statistics that are fed, as variables' are no constants."""
    graph = fe.Graph()
    ops = graph.ops
    feeds = {"x": numbers(0, 1, SIZE, SIZE, DEPTH), "weights": numbers(1, *shape)}
    y = ops.Conv2D(
        graph.placeholder("float32", None, name="x"),
        graph.placeholder("float32", None, name="weights"),
        strides=[1, 1, 1, 1],
        padding="SAME",
    )
    vectors = []
    for seed, name in enumerate(("scale", "offset", "mean", "variance")):
        feeds[name] = np.abs(numbers(seed, shape[-1])) + np.float32(0.1)
        vectors.append(graph.placeholder("float32", None, name=name))
    y = ops.FusedBatchNormV3(y, *vectors, is_training=False, name="norm")[0]
    ops.Relu(ops.AddV2(y, graph.placeholder("float32", None, name="rest")), name="y")
    feeds["rest"] = numbers(9, 1, SIZE, SIZE, shape[-1])
    return graph, feeds


def test_a_normalisation_by_given_statistics_is_computed_along() -> None:
    graph, feeds = _normalized_net((3, 3, DEPTH, WIDTH))
    changed = fused(graph, "y")
    assert absorbed(changed, "y")
    assert "norm" not in changed
    np.testing.assert_array_equal(run(changed, "y", feeds), run(graph, "y", feeds))
    assert (run(graph, "y", feeds) > 0).any()


def test_statistics_of_another_length_are_told_as_by_the_node_itself() -> None:
    graph, feeds = _normalized_net((3, 3, DEPTH, WIDTH))
    feeds["mean"] = feeds["mean"][1:]
    with pytest.raises(fe.errors.InvalidArgumentError, match="estimated_mean") as caught:
        run(fused(graph, "y"), "y", feeds)
    assert caught.value.node_name == "norm"


@clips
def test_nothing_below_zero_has_a_sign(clip: str) -> None:
    graph, feeds = _net(last=clip)
    got = run(fused(graph, "y"), "y", feeds)
    assert (got == 0).any()
    assert not np.signbit(got).any()


def test_a_bias_of_another_length_is_told_as_by_the_node_itself() -> None:
    graph, feeds = _net(bias=3)
    with pytest.raises(fe.errors.InvalidArgumentError) as caught:
        run(fused(graph, "y"), "y", feeds)
    assert caught.value.node_name == "sum"


def test_what_others_take_as_well_is_not_absorbed() -> None:
    graph, feeds = _net()
    graph.ops.Neg(graph.tensor("sum:0"), name="other")
    graph.ops.Add(graph.tensor("y:0"), graph.tensor("other:0"), name="both")
    changed = fused(graph, "both")
    np.testing.assert_array_equal(run(changed, "both", feeds), run(graph, "both", feeds))


def test_a_normalisation_whose_statistics_are_taken_stays() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", None, name="x")
    y = ops.Conv2D(x, graph.constant(numbers(1, 3, 3, DEPTH, WIDTH)), strides=[1, 1, 1, 1], padding="SAME")
    ones = graph.constant(np.ones(WIDTH, np.float32))
    normed = ops.FusedBatchNorm(y, ones, ones, ones, ones, is_training=False, name="normed")
    ops.Mul(normed[0], normed[0], name="twice")
    ops.Neg(normed[1], name="statistics")
    feeds = {"x": numbers(0, 1, SIZE, SIZE, DEPTH)}
    for fetched in ("twice", "statistics"):
        changed = fused(graph, fetched)
        assert "normed" in changed
        np.testing.assert_array_equal(run(changed, fetched, feeds), run(graph, fetched, feeds))


def _constant(array: Any) -> Any:
    """The array as a graph's constants are: over bytes that cannot change."""
    return np.frombuffer(array.tobytes(), np.float32).reshape(array.shape)


def test_what_is_remembered_of_constants_is_of_those_constants_and_that_shape() -> None:
    graph, _ = _net()
    program = fused(graph, "y")["y"].attrs["program"]
    inputs = fused(graph, "y")["y"].inputs
    filters = [_constant(numbers(seed, 3, 3, DEPTH, WIDTH)) for seed in (1, 2)]
    biases = [_constant(numbers(seed, WIDTH)) for seed in (3, 4)]
    changing = numbers(5, WIDTH)
    kernels = registry("onednn")
    convolve, add, relu = (kernels.find(graph[n]).bind(graph[n]) for n in ("conv", "sum", "y"))
    for x_seed, filter_, bias in (
        *((0, filters[0], biases[0]), (1, filters[0], biases[0]), (2, filters[1], biases[0])),
        *((3, filters[1], biases[1]), (4, filters[1], changing), (5, filters[1], biases[1])),
    ):
        for count in (1, 2):
            x = numbers(x_seed, count, SIZE, SIZE, DEPTH)
            values = {"x": x, "bias": bias}
            got = program.run([values.get(port.node, filter_) for port in inputs])
            np.testing.assert_array_equal(got, relu(add(convolve(x, filter_), bias)))
        changing *= 2


@pytest.mark.parametrize(("cost", "together"), [(None, True), (5.0, True), (4.0, False)])
def test_convolutions_that_cost_next_to_nothing_stay_as_they_are(cost: float | None, together: bool) -> None:
    graph, _ = _normalized_net((3, 3, DEPTH, WIDTH))
    context = PassContext(fetches=(OutputPort("y", 0),), kernels=registry("onednn"))
    costs = {} if cost is None else {node.name: cost for node in graph if node.op == "Conv2D"}
    hot = HotContext(context)
    changed = claimed(graph, context, frozenset(), costs, hot=hot)
    assert ("norm" not in changed) == together
    assert not hot.heavy
