"""Batch normalisation folded into filters: the graph before and after, and values that stay close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import prepare
from flowengine.passes.simplify.fold_batch_norm import fold_batch_norms

FOLDED = fe.Config()
APART = fe.Config(fold_batch_norms=False)
#: What the pass promises, of the largest value.
TOLERANCE = 1e-5


class Net:
    """A convolution, normalised."""

    def __init__(
        self,
        norm: str = "FusedBatchNorm",
        convolution: str = "Conv2D",
        layout: str = "NHWC",
        *,
        training: bool = False,
        seed: int = 0,
    ) -> None:
        self.graph = g = fe.Graph()
        ops = g.ops
        random = np.random.default_rng(seed)

        def floats(*shape: int) -> Any:
            return g.constant(random.random(shape, np.float32) + np.float32(0.25))

        shape = (2, 5, 6, 3) if layout == "NHWC" else (2, 3, 5, 6)
        self.value = random.standard_normal(shape).astype(np.float32)
        x = g.placeholder("float32", shape, name="x")
        width = 4 if convolution == "Conv2D" else 6
        filters = floats(3, 3, 3, width if convolution == "Conv2D" else 2)
        made = getattr(ops, convolution)(
            x, filters, strides=[1, 1, 1, 1], padding="SAME", data_format=layout, name="conv"
        )
        self.made = made
        vectors = [floats(width) for _ in range(4)]
        if norm == "Mul":
            ops.Mul(vectors[0], made, name="y")
        elif norm == "BatchNormWithGlobalNormalization":
            ops.BatchNormWithGlobalNormalization(
                made, *vectors, variance_epsilon=1e-3, scale_after_normalization=True, name="y"
            )
        else:
            empty = g.constant(np.zeros(0, np.float32))
            statistics = [empty, empty] if training else vectors[2:]
            getattr(ops, norm)(
                made, *vectors[:2], *statistics, is_training=training, data_format=layout, name="y"
            )

    def after(self, **request: Any) -> dict[str, str]:
        """{name: op} of what a step that fetches y runs."""
        context = PassContext(
            fetches=(OutputPort("y", 0),), feeds=(OutputPort("x", 0),), fold_batch_norms=True, **request
        )
        return {node.name: node.op for node in prepare(self.graph, context)}

    def values(self, fetches: Any = "y:0") -> tuple[Any, Any]:
        """(without, with) the pass."""
        found = []
        for config in (APART, FOLDED):
            with fe.blocking.Session(self.graph, config=config) as session:
                found.append(session.run(fetches, {"x:0": self.value}))
        return found[0], found[1]


def check(net: Net) -> None:
    plain, folded = net.values()
    assert folded.shape == plain.shape
    assert np.abs(folded - plain).max() <= TOLERANCE * np.abs(plain).max()


def test_before_and_after() -> None:
    net = Net()
    assert set(net.after().values()) == {"Const", "Conv2D", "BiasAdd"}
    assert net.after()["y"] == "BiasAdd"
    check(net)


def test_it_is_on_unless_it_is_switched_off() -> None:
    with fe.blocking.Session(Net().graph, config=APART) as session:
        assert "FusedBatchNorm" in session.explain("y:0", ["x:0"])
    with fe.blocking.Session(Net().graph, config=FOLDED) as session:
        assert "BiasAdd" in session.explain("y:0", ["x:0"])


@given(
    st.sampled_from(
        ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Mul", "BatchNormWithGlobalNormalization"]
    ),
    st.sampled_from(["Conv2D", "DepthwiseConv2dNative"]),
    st.integers(0, 1000),
)
def test_values_stay_within_the_tolerance(norm: str, convolution: str, seed: int) -> None:
    net = Net(norm, convolution, seed=seed)
    assert net.after()["y"] in (convolution, "BiasAdd")
    check(net)


def test_channels_may_come_first() -> None:
    net = Net(layout="NCHW")
    assert net.after()["y"] == "BiasAdd"
    check(net)


def test_statistics_of_a_batch_stay() -> None:
    assert Net(training=True).after()["y"] == "FusedBatchNorm"


@pytest.mark.parametrize("wanted", ["conv:0", "y:1"])
def test_what_is_fetched_stays(wanted: str) -> None:
    net = Net()
    plain, folded = net.values(["y:0", wanted])
    for one, other in zip(plain, folded, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_convolution_that_others_take_stays() -> None:
    net = Net()
    net.graph.ops.Neg(net.made, name="other")
    plain, folded = net.values(["y:0", "other:0"])
    np.testing.assert_array_equal(plain[0], folded[0])


def test_a_graph_without_any_is_returned_itself() -> None:
    graph = fe.Graph()
    graph.constant(1.0)
    assert fold_batch_norms(graph, PassContext()) is graph


def test_what_would_not_be_finite_stays() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [1, 2, 2, 1], name="x")
    filters = graph.constant(np.full((1, 1, 1, 1), 1e30, np.float32))
    made = graph.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME")
    one, large = graph.constant(np.ones(1, np.float32)), graph.constant(np.full(1, 1e20, np.float32))
    graph.ops.FusedBatchNorm(made, large, one, one, one, is_training=False, name="y")
    context = PassContext(fetches=(OutputPort("y", 0),), feeds=(OutputPort("x", 0),), fold_batch_norms=True)
    assert prepare(graph, context)["y"].op == "FusedBatchNorm"


def test_plans_of_a_graph_share_the_filters() -> None:
    net = Net()
    net.graph.ops.Neg(net.graph.tensor("y:0"), name="z")

    def filters(fetch: str) -> Any:
        context = PassContext(
            fetches=(OutputPort(fetch, 0),), feeds=(OutputPort("x", 0),), fold_batch_norms=True
        )
        graph = prepare(net.graph, context)
        return graph[graph["conv"].inputs[1].node].attrs["value"]

    assert filters("y") is filters("z")


@pytest.mark.parametrize("variance", [-1e-3, -1.0])
def test_factors_that_are_not_finite_are_told_to_nobody(variance: float) -> None:
    """Infinite where variance takes epsilon away, NaN where it is less: no warning, and nothing folded."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [1, 2, 2, 1], name="x")
    one, zero = graph.constant(np.ones(1, np.float32)), graph.constant(np.zeros(1, np.float32))
    filters = graph.constant(np.ones((1, 1, 1, 1), np.float32))
    made = graph.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME")
    spread = graph.constant(np.full(1, variance, np.float32))
    graph.ops.FusedBatchNorm(
        made, one, zero, zero, spread, is_training=False, epsilon=float(np.float32(1e-3)), name="y"
    )
    context = PassContext(fetches=(OutputPort("y", 0),), feeds=(OutputPort("x", 0),), fold_batch_norms=True)
    assert prepare(graph, context)["y"].op == "FusedBatchNorm"
