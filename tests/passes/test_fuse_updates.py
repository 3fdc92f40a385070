"""A product and the descent along it are one, where nothing else takes the product, with the bits of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.dtypes import float32
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.onednn import elementwise
from flowengine.kernels.onednn.claims.fuse_updates import fuse_updates
from flowengine.kernels.onednn.library import search
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune
from flowengine.resources.variable import Variable
from tests.kernels.onednn.processor import HAS_PRODUCTS, needs_products
from tests.passes.claiming import asking

needs_library = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

ROWS, COLUMNS, BATCH = 1030, 2048, 8


class Step:
    """The graph that `tf.gradients` and an optimizer make of a dense layer's weights; the images are fed."""

    def __init__(
        self, *, reads_itself: bool = False, both_updates: bool = False, hands_on: bool = False
    ) -> None:
        self.graph = g = fe.Graph()
        ops = g.ops
        self.images = g.placeholder("float32", [BATCH, ROWS], name="images")
        self.errors = g.placeholder("float32", [BATCH, COLUMNS], name="errors")
        first = ops.Identity if hands_on else ops.Neg
        self.x, self.slope = first(self.images, name="x"), first(self.errors, name="slope")
        self.weights = ops.VariableV2(shape=[ROWS, COLUMNS], dtype="float32", name="weights")
        value = np.random.default_rng(5).standard_normal((ROWS, COLUMNS)).astype(np.float32)
        self.begin = ops.Assign(self.weights, g.constant(value), name="begin")
        rate = g.constant(np.float32(0.01))
        left = ops.MatMul(self.slope, self.weights, transpose_b=True, name="inward")
        if reads_itself:
            right = ops.MatMul(g.placeholder("float32", [ROWS, ROWS]), self.weights, name="product")
        else:
            right = ops.MatMul(self.x, self.slope, transpose_a=True, name="product")
        with g.control_dependencies([left.op, right.op]):
            both = ops.NoOp(name="both")
        with g.control_dependencies([both]):
            self.inward = ops.Identity(left, name="left")
            change = ops.Identity(right, name="change")
        self.update = ops.ApplyGradientDescent(self.weights, rate, change, name="update")
        if both_updates:
            ops.AssignSub(self.weights, change, name="more")


def after(
    step: Step, *, provider: str = "auto", fetches: tuple[str, ...] = (), feeds: tuple[str, ...] = ()
) -> NodeGraph:
    context = PassContext(
        feeds=tuple(OutputPort(name, 0) for name in feeds),
        fetches=tuple(OutputPort(name, 0) for name in fetches),
        targets=("update", "left"),
        kernels=registry(provider),
    )
    return fuse_updates(step.graph, asking(context, [node.name for node in step.graph]))


@needs_library
def test_the_update_takes_what_the_product_took() -> None:
    graph = after(Step())
    update = graph["update"]
    assert update.op == "_DescentByProduct"
    assert [port.node for port in update.inputs[2:]] == ["x", "slope"]
    assert "product" not in graph
    assert "change" not in graph
    # The weights are read by the other product first, and its taker waits for what it waited for.
    assert update.control_inputs == ("both",)
    assert graph["both"].control_inputs == ("inward", "x", "slope")


@pytest.mark.parametrize("kept", [("product",), ("change",)])
def test_a_product_that_others_take_stays(kept: tuple[str, ...]) -> None:
    step = Step()
    assert after(step, fetches=kept) is step.graph
    twice = Step(both_updates=True)
    assert after(twice) is twice.graph


def test_a_product_of_what_it_changes_stays() -> None:
    step = Step(reads_itself=True)
    assert after(step) is step.graph


def test_what_is_fed_is_waited_for_by_nobody() -> None:
    step = Step()
    assert after(step, feeds=("x", "slope")) is step.graph


@pytest.mark.parametrize("feeds", [("x", "slope"), ("x",), ("images", "errors"), ("product",), ("change",)])
def test_the_node_of_a_fed_value_need_not_be_there(feeds: tuple[str, ...]) -> None:
    """Graphs of hot plans are pruned: an unexpected node there kept the whole plan from being compiled."""
    step = Step(hands_on=True)
    context = PassContext(
        feeds=tuple(OutputPort(name, 0) for name in feeds), targets=("update", "left"), kernels=registry()
    )
    pruned = prune(step.graph, context)
    # Other nodes wait for the product, so that it stays when its value is fed.
    assert not set(feeds).intersection(pruned.nodes) - {"product"}
    claimed = fuse_updates(pruned, asking(context, [node.name for node in pruned]))
    if search().library is not None:
        assert (claimed["update"].op == "_DescentByProduct") == (feeds == ("images", "errors"))


def test_numpy_has_no_such_step() -> None:
    step = Step()
    assert after(step, provider="numpy") is step.graph


def stepped(left: bool, right: bool, shape: tuple[int, int], *, together: bool) -> Any:
    """A variable after a step, by one call or by two."""
    rows, columns = shape
    random = np.random.default_rng(1)
    values = [random.standard_normal((BATCH, size)).astype(np.float32) for size in shape]
    values[0] = values[0] if left else np.ascontiguousarray(values[0].T)
    values[1] = np.ascontiguousarray(values[1].T) if right else values[1]
    g = fe.Graph()
    a, b = (g.placeholder("float32", value.shape) for value in values)
    weights = g.ops.VariableV2(shape=[rows, columns], dtype="float32", name="weights")
    product = g.ops.MatMul(a, b, transpose_a=left, transpose_b=right, name="product")
    g.ops.ApplyGradientDescent(weights, g.constant(np.float32(0.3)), product, name="update")
    kernels: list[Any] = [registry("onednn").find(g[n]).bind(g[n]) for n in ("product", "update")]
    multiply, apply = kernels
    variable = Variable("weights", float32, TensorShape(shape))
    variable.assign(random.standard_normal(shape).astype(np.float32))
    lent = variable.read()
    before = np.array(lent)
    if together:
        assert apply.by_product(variable, np.float32(0.3), *values, left, right)
    else:
        apply(variable, np.float32(0.3), multiply(*values))
    np.testing.assert_array_equal(lent, before)
    return variable.read()


@needs_library
@needs_products
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("shape", [(1024, 2048), (1055, 2050)])
def test_no_bit_differs(left: bool, right: bool, shape: tuple[int, int]) -> None:
    changed = stepped(left, right, shape, together=True)
    np.testing.assert_array_equal(changed, stepped(left, right, shape, together=False))


def test_hot_steps_change_the_weights_as_cold_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    by_product = elementwise.Descent.by_product

    def spy(*given: Any) -> bool:
        done = by_product(*given)
        used.append(done)
        return done

    monkeypatch.setattr(elementwise.Descent, "by_product", spy)
    random = np.random.default_rng(2)
    feeds = [
        [random.standard_normal((BATCH, size)).astype(np.float32) for size in (ROWS, COLUMNS)]
        for _ in range(14)
    ]
    results = []
    for apart in (False, True):
        step = Step()
        config = fe.Config(fuse_contractions=not apart, kernel_provider="auto")
        with fe.blocking.Session(step.graph, config=config) as session:
            session.run(step.begin)
            inward = [
                session.run([step.inward, step.update.op], {step.images: x, step.errors: slope})[0]
                for x, slope in feeds
            ]
            results.append((inward, session.run(step.weights)))
        assert any(used) == (HAS_PRODUCTS and search().library is not None)
        assert len(used) < len(feeds)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@needs_library
@pytest.mark.parametrize("awaited", [False, True])
def test_a_product_of_what_another_variable_holds_stays(awaited: bool) -> None:
    """That variable's own update waits for the product: it must not come later than it does."""
    step = Step()
    g, ops = step.graph, step.graph.ops
    factor = ops.VariableV2(shape=[BATCH, ROWS], dtype="float32", name="factor")
    with g.control_dependencies(["x"] if awaited else []):
        read = ops.Identity(factor, name="read")
    product = ops.MatMul(ops.StopGradient(read), step.slope, transpose_a=True, name="held")
    ops.ApplyGradientDescent(step.weights, g.constant(np.float32(0.01)), product, name="descent")
    context = PassContext(fetches=(), feeds=(), targets=("descent",), kernels=registry("auto"))
    graph = fuse_updates(g, asking(context, {"held", "descent"}))
    assert graph["descent"].op == "ApplyGradientDescent"
