"""Eleven graphs of loops, conditionals, training and queues, for the CPU and a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import flowengine as fe

FLOATS: Final = np.linspace(-1, 1, 6, dtype=np.float32)


@dataclass
class GpuGraph:
    """The runs of a graph: `setup` once, then `fetches` with each of the feeds."""

    graph: fe.Graph
    fetches: Sequence[Any]
    feeds: Sequence[Mapping[str, Any]]
    setup: Sequence[Any] = ()


def _x(g: fe.Graph, shape: Sequence[int] = (6,)) -> Any:
    return g.placeholder("float32", list(shape), name="x")


def _feeds(count: int = 3) -> list[dict[str, Any]]:
    return [{"x:0": FLOATS * (1 + i)} for i in range(count)]


def counted_loop() -> GpuGraph:
    g = fe.Graph()
    x, n = _x(g), g.placeholder("int32", [], name="n")
    i, y = g.while_loop(
        lambda i, v: i < n, lambda i, v: [i + 1, g.ops.Tanh(v * 1.5) + 0.1], [g.constant(0), x]
    )
    return GpuGraph(g, [i, y], [{"x:0": FLOATS, "n:0": np.int32(k)} for k in (0, 1, 7)])


def loop_until_small() -> GpuGraph:
    g = fe.Graph()
    x = _x(g)
    i, y = g.while_loop(
        lambda i, v: fe.reduce_sum(v * v) > 0.01, lambda i, v: [i + 1, v * 0.5], [g.constant(0), x]
    )
    return GpuGraph(g, [i, y], _feeds())


def nested_loops() -> GpuGraph:
    g = fe.Graph()
    x = _x(g)

    def inner(i: Any, v: Any) -> Any:
        return g.while_loop(lambda j, w: j < i, lambda j, w: [j + 1, w + v * 0.1], [g.constant(0), v])[1]

    _, y = g.while_loop(lambda i, v: i < 4, lambda i, v: [i + 1, inner(i, v)], [g.constant(0), x])
    return GpuGraph(g, [y], _feeds())


def branches() -> GpuGraph:
    g = fe.Graph()
    x, p = _x(g), g.placeholder("bool", [], name="p")
    near = g.cond(p, lambda: g.ops.Exp(x), lambda: x - 1.0)
    far = g.cond(fe.reduce_sum(near) > 5.0, lambda: near * 2.0, lambda: g.ops.Neg(near))
    return GpuGraph(
        g, [far, near], [{"x:0": FLOATS * k, "p:0": np.bool_(p)} for k in (1, 2) for p in (False, True)]
    )


def branch_in_loop() -> GpuGraph:
    g = fe.Graph()
    x = _x(g)

    def body(i: Any, v: Any) -> list[Any]:
        is_odd = g.ops.Equal(g.ops.FloorMod(i, g.constant(2)), g.constant(1))
        return [i + 1, g.cond(is_odd, lambda: v * 1.5, lambda: v + 0.25)]

    _, y = g.while_loop(lambda i, v: i < 6, body, [g.constant(0), x])
    return GpuGraph(g, [y], _feeds())


def trained_by_momentum() -> GpuGraph:
    g = fe.Graph()
    random = np.random.default_rng(3)
    x = _x(g, (4, 6))
    w = g.variable(random.normal(0, 0.4, (6, 3)).astype(np.float32), name="w")
    b = g.variable(np.zeros(3, np.float32), name="b")
    hidden = g.ops.Relu(g.ops.BiasAdd(g.ops.MatMul(x, w.value()), b.value()))
    loss = fe.reduce_mean(fe.square(hidden - 1.0))
    train = fe.optimizers.Momentum(0.1, 0.9).minimize(loss)
    rows = random.normal(size=(4, 6)).astype(np.float32)
    return GpuGraph(g, [loss, train], [{"x:0": rows}] * 4, ["initialize"])


def trained_images() -> GpuGraph:
    g = fe.Graph()
    random = np.random.default_rng(4)
    x = _x(g, (2, 6, 6, 1))
    f = g.variable(random.normal(0, 0.4, (3, 3, 1, 2)).astype(np.float32), name="f")
    w = g.variable(random.normal(0, 0.4, (18, 3)).astype(np.float32), name="w")
    features = g.ops.Relu(g.ops.Conv2D(x, f.value(), strides=[1, 1, 1, 1], padding="SAME"))
    pooled = g.ops.MaxPool(features, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    scores = g.ops.MatMul(g.ops.Reshape(pooled, [2, 18]), w.value())
    losses, _ = g.ops.SparseSoftmaxCrossEntropyWithLogits(scores, g.constant([0, 2]))
    loss = fe.reduce_mean(losses)
    train = fe.optimizers.Adam(0.05).minimize(loss)
    images = random.normal(size=(2, 6, 6, 1)).astype(np.float32)
    return GpuGraph(g, [loss, train], [{"x:0": images}] * 4, ["initialize"])


def table_of_rows() -> GpuGraph:
    g = fe.Graph()
    x, ids = _x(g, (3, 2)), g.placeholder("int32", [3], name="ids")
    v = g.ops.VarHandleOp(shape=[5, 2], dtype="float32", shared_name="table")
    begin = g.ops.AssignVariableOp(v, np.arange(10, dtype=np.float32).reshape(5, 2))
    before = g.ops.ResourceGather(v, ids, dtype="float32")
    with g.control_dependencies([before.op]):
        add = g.ops.ResourceScatterAdd(v, ids, x)
    with g.control_dependencies([add]):
        after = g.ops.ReadVariableOp(v, dtype="float32")
    feeds = [{"x:0": FLOATS.reshape(3, 2), "ids:0": np.array(i, np.int32)} for i in ([0, 1, 1], [4, 4, 4])]
    return GpuGraph(g, [before, after], feeds, [begin])


def through_a_queue() -> GpuGraph:
    g = fe.Graph()
    x = _x(g)
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[6]])
    put = g.ops.QueueEnqueueV2(queue, [g.ops.Exp(x)])
    with g.control_dependencies([put]):
        (taken,) = g.ops.QueueDequeueV2(queue, component_types=["float32"])
    return GpuGraph(g, [taken * 2.0, fe.reduce_sum(taken)], _feeds())


def counter_and_average() -> GpuGraph:
    """A variable that is fetched, sent and updated in one step, by what shapes and a counter say."""
    g = fe.Graph()
    x = _x(g)
    mean = g.ops.VariableV2(shape=[6], dtype="float32", name="mean")
    count = g.ops.VariableV2(shape=[], dtype="int32", name="count")
    begin = [g.ops.Assign(mean, np.zeros(6, np.float32)).op, g.ops.Assign(count, np.int32(0)).op]
    before = g.ops.Identity(mean)
    with g.control_dependencies([before.op]):
        number = g.ops.AssignAdd(count, g.constant(1))
        share = 1.0 / g.ops.Cast(number, DstT="float32")
        update = g.ops.AssignAdd(mean, (x - before) * share)
    return GpuGraph(g, [before, update, number], _feeds(4), begin)


def recurrent_gradients() -> GpuGraph:
    """A recurrent net over an array of its inputs: its outputs, and the gradients that come back."""
    g = fe.Graph()
    x = g.placeholder("float32", [6, 1], name="x")
    scale = g.constant(np.float32(0.7))
    given = g.tensor_array("float32", 6, element_shape=[1]).unstack(x)
    made = g.tensor_array("float32", 6, element_shape=[1])

    def body(i: Any, state: Any, outputs: Any) -> list[Any]:
        state = g.ops.Tanh(state * scale + given.read(i))
        return [i + 1, state, outputs.write(i, state)]

    start = g.constant(np.zeros(1, np.float32))
    _, state, outputs = g.while_loop(lambda i, s, o: i < 6, body, [g.constant(0), start, made])
    stacked = outputs.stack()
    loss = fe.reduce_sum(stacked * stacked) + fe.reduce_sum(state)
    return GpuGraph(
        g, [stacked, *fe.gradients(loss, [x, scale])], [{"x:0": value["x:0"][:, None]} for value in _feeds()]
    )


#: {name: makes the graph}
GRAPHS: Final[dict[str, Callable[[], GpuGraph]]] = {
    make.__name__: make
    for make in (
        counted_loop,
        loop_until_small,
        nested_loops,
        branches,
        branch_in_loop,
        trained_by_momentum,
        trained_images,
        table_of_rows,
        through_a_queue,
        counter_and_average,
        recurrent_gradients,
    )
}


async def values_of(session: fe.Session, made: GpuGraph) -> list[list[Any]]:
    """Return the fetched values of each run, in a new session."""
    if list(made.setup) == ["initialize"]:
        await session.initialize()
    elif made.setup:
        await session.run((), targets=list(made.setup))
    return [list(await session.run(list(made.fetches), dict(feeds))) for feeds in made.feeds]


async def of_the_cpu(name: str) -> list[list[Any]]:
    """Return the values that the runs of a graph give on the CPU."""
    made = GRAPHS[name]()
    async with fe.Session(made.graph) as session:
        return await values_of(session, made)


def alike(got: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> None:
    """The same values are there, within what sums in another order make."""
    assert len(got) == len(wanted)
    for far, near in zip(got, wanted, strict=True):
        for a, b in zip(far, near, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


__all__ = ["GRAPHS", "GpuGraph", "alike", "of_the_cpu", "values_of"]
