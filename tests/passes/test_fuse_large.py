"""Chains over large tensors fused: the graph before and after, values equal to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.numpy import channels, fused
from flowengine.kernels.numpy.claims import chains
from flowengine.passes.context import HotContext, PassContext
from tests.effort import examples
from tests.passes.claiming import claimed

ROWS, COLUMNS = 24, 7


@pytest.fixture(autouse=True)
def _small_counts_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few elements, on several threads, so that small tensors go through what large ones do."""
    monkeypatch.setattr(fused, "LARGE", ROWS * COLUMNS)
    monkeypatch.setattr(channels, "_BLOCK", 32)
    monkeypatch.setattr(channels, "_SPREAD_MIN", 1)
    monkeypatch.setattr(channels, "_ROWS_MIN", 4)
    monkeypatch.setattr(channels, "_LONG_ROW", 20)


def after(
    graph: fe.Graph, fetches: Sequence[Any], heavy: Iterable[str] | None = None, **context: Any
) -> NodeGraph:
    """The graph with large nodes fused; all are large unless named."""
    names = frozenset(node.name for node in graph) if heavy is None else frozenset(heavy)
    request = PassContext(
        fetches=tuple(OutputPort(t.op.name, t.slot) for t in fetches), kernels=registry(), **context
    )
    return claimed(graph, request, names)


def programs(graph: NodeGraph) -> list[str]:
    return sorted(repr(node.attrs["program"]) for node in graph if "program" in node.attrs)


def run(graph: NodeGraph, node: str, feeds: dict[str, Any]) -> Any:
    """The value of a node, each computed by its kernel as a plan would bind it."""
    kernels, values = registry(), {OutputPort(name, 0): np.asarray(v) for name, v in feeds.items()}

    def value(port: OutputPort) -> Any:
        if port not in values:
            maker: Node = graph[port.node]
            inputs = [value(p) for p in maker.inputs]
            if maker.op == "Const":
                result = maker.attrs["value"].value()
            else:
                function = kernels.find(maker).bind(maker)
                as_list = maker.op in ("AddN", "_FusedElementwise", "_FusedContraction")
                result = function(tuple(inputs)) if as_list else function(*inputs)
            for slot, item in enumerate(result if isinstance(result, tuple) else (result,)):
                values[OutputPort(port.node, slot)] = item
        return values[port]

    with np.errstate(all="ignore"):
        return value(OutputPort(node, 0))


class Net:
    """relu(x w + b) * 2 + x2: before, and what becomes of it."""

    def __init__(self) -> None:
        self.graph = g = fe.Graph()
        ops = g.ops
        random = np.random.default_rng(0)
        self.x = g.placeholder("float32", [ROWS, 5], name="x")
        self.residue = g.placeholder("float32", [ROWS, COLUMNS], name="residue")
        self.product = ops.MatMul(self.x, g.constant(random.random((5, COLUMNS), np.float32)), name="product")
        self.sum = ops.BiasAdd(self.product, g.constant(random.random(COLUMNS, np.float32) - 2), name="sum")
        self.relu = ops.Relu(self.sum, name="relu")
        self.y = ops.Add(ops.Mul(self.relu, 2.0), self.residue, name="y")
        self.feeds = {
            "x": random.standard_normal((ROWS, 5)).astype(np.float32),
            "residue": random.standard_normal((ROWS, COLUMNS)).astype(np.float32),
        }

    def check(self, changed: NodeGraph) -> None:
        np.testing.assert_array_equal(run(self.graph, "y", self.feeds), run(changed, "y", self.feeds))


def test_a_product_takes_in_what_follows() -> None:
    net = Net()
    changed = after(net.graph, [net.y])
    assert programs(changed) == ["MatMul -> BiasAdd -> Relu -> Mul -> Add"]
    assert changed["y"].op == "_FusedContraction"
    assert "relu" not in changed
    net.check(changed)


def test_each_pass_can_be_switched_off() -> None:
    net = Net()
    changed = after(net.graph, [net.y], fuse_contractions=False)
    assert programs(changed) == ["BiasAdd -> Relu -> Mul -> Add"]
    net.check(changed)
    same = after(net.graph, [net.y], fuse_contractions=False, fuse_elementwise=False)
    assert same is net.graph


def test_what_is_not_heavy_stays() -> None:
    net = Net()
    assert after(net.graph, [net.y], heavy=()) is net.graph
    changed = after(net.graph, [net.y], heavy=["relu", "sum"])
    assert programs(changed) == ["BiasAdd -> Relu"]
    net.check(changed)


def test_what_takes_long_is_large_and_what_is_heavy_stays_heavy() -> None:
    net = Net()
    request = PassContext(fetches=(OutputPort("y", 0),), kernels=registry())
    costs = {"product": 400.0, "sum": 40.0, "relu": 30.0, "y": 1.0}
    hot = HotContext(request)
    made = claimed(net.graph, request, frozenset(), costs, hot=hot)
    assert programs(made) == ["MatMul -> BiasAdd -> Relu -> Mul -> Add"]
    assert hot.costs["y"] == 400.0  # one pass over memory
    assert hot.heavy == frozenset()
    claimed(net.graph, request, frozenset({"product"}), costs, hot=hot)
    assert hot.heavy == {"product", "y"}


def test_what_others_take_fetch_or_wait_for_stays() -> None:
    net = Net()
    changed = after(net.graph, [net.y, net.relu])
    assert changed["relu"].op == "_FusedContraction"
    assert programs(changed) == ["MatMul -> BiasAdd -> Relu", "Mul -> Add"]
    net.check(changed)
    net.graph.ops.Neg(net.sum, name="other")
    changed = after(net.graph, [net.y])
    assert programs(changed) == ["MatMul -> BiasAdd", "Relu -> Mul -> Add"]
    net = Net()
    with net.graph.control_dependencies([net.relu.op]):
        net.graph.ops.NoOp(name="later")
    changed = after(net.graph, [net.y])
    assert "relu" in changed
    net.check(changed)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("product", ["BiasAdd -> Relu -> Mul -> Add"]),
        ("sum", ["MatMul -> BiasAdd", "Relu -> Mul -> Add"]),
    ],
)
def test_what_is_fetched_within_stays(name: str, expected: list[str]) -> None:
    """Also where one node alone takes it."""
    net = Net()
    changed = after(net.graph, [net.y, net.graph.tensor(f"{name}:0")])
    assert programs(changed) == expected
    assert name in changed
    net.check(changed)


def test_a_chain_longer_than_one_group() -> None:
    """The last of each group is there for the next: none of them is left out."""
    graph = fe.Graph()
    y = graph.placeholder("float32", [ROWS, COLUMNS], name="x")
    count = 2 * chains.MEMBERS_MAX + 3
    for number in range(count):
        y = graph.ops.Tanh(y, name=f"node{number}")
    changed = after(graph, [y])
    assert [program.count("Tanh") for program in programs(changed)] == [
        3,
        chains.MEMBERS_MAX,
        chains.MEMBERS_MAX,
    ]
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    last = f"node{count - 1}"
    np.testing.assert_array_equal(run(changed, last, {"x": values}), run(graph, last, {"x": values}))


def test_control_inputs_come_along() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [ROWS, COLUMNS], name="x")
    first = graph.ops.NoOp(name="first")
    with graph.control_dependencies([first]):
        inner = graph.ops.Neg(x, name="inner")
    y = graph.ops.Tanh(inner, name="y")
    assert after(graph, [y])["y"].control_inputs == ("first",)


def test_inputs_of_other_shapes_go_through_whole() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    z = graph.placeholder("float32", None, name="z")
    y = graph.ops.Tanh(graph.ops.Mul(graph.ops.Add(x, z, name="sum"), 3.0), name="y")
    changed = after(graph, [y])
    assert programs(changed) == ["Add -> Mul -> Tanh"]
    random = np.random.default_rng(0)
    for one, other in (
        ((ROWS, COLUMNS), (ROWS, COLUMNS)),
        ((ROWS, COLUMNS), (COLUMNS,)),
        ((COLUMNS,), (ROWS, COLUMNS)),
        ((ROWS, COLUMNS), (ROWS, 1)),
        ((ROWS, 1), (1, COLUMNS)),
        ((2, ROWS, COLUMNS), (ROWS, COLUMNS)),
        ((ROWS, COLUMNS), ()),
        ((), ()),
        ((0, COLUMNS), (COLUMNS,)),
    ):
        feeds = {"x": random.random(one, np.float32), "z": random.random(other, np.float32)}
        expected, actual = run(graph, "y", feeds), run(changed, "y", feeds)
        assert np.shape(expected) == np.shape(actual)
        np.testing.assert_array_equal(expected, actual)
    turned = random.random((COLUMNS, ROWS), np.float32).T
    feeds = {"x": turned, "z": random.random((ROWS, COLUMNS), np.float32)}
    np.testing.assert_array_equal(run(graph, "y", feeds), run(changed, "y", feeds))


def test_an_input_is_never_written() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    y = graph.ops.Relu(graph.ops.Neg(x), name="y")
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    kept = values.copy()
    run(after(graph, [y]), "y", {"x": values})
    np.testing.assert_array_equal(values, kept)


def test_a_result_is_written_only_where_it_fits() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    y = graph.ops.Relu(graph.ops.Neg(x), name="y")
    program = after(graph, [y])["y"].attrs["program"]
    value = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    locked = np.empty((ROWS, COLUMNS), np.float32)
    locked.flags.writeable = False
    fitting = np.empty((ROWS, COLUMNS), np.float32)
    turned, wide = np.empty((COLUMNS, ROWS), np.float32), np.empty((ROWS, COLUMNS), np.float64)
    for out in (fitting, locked, turned, wide, None):
        found = program.run([value], out)
        assert (found is out) == (out is fitting)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.maximum(-value, 0))


def test_an_error_is_of_the_node_that_raised_it() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    z = graph.placeholder("float32", None, name="z")
    y = graph.ops.Tanh(graph.ops.ReluGrad(x, z, name="inner"), name="y")
    with pytest.raises(fe.errors.InvalidArgumentError, match="same shape") as caught:
        run(after(graph, [y]), "y", {"x": np.ones((ROWS, COLUMNS), np.float32), "z": np.ones(3, np.float32)})
    assert caught.value.node_name == "inner"


_UNARY = ["Neg", "Tanh", "Relu", "Relu6", "Exp", "Square", "Sigmoid", "Abs", "Elu", "Softplus", "Sqrt", "Erf"]
_BINARY = [
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "RealDiv",
    "Maximum",
    "Minimum",
    "SquaredDifference",
    "AddN",
    "ReluGrad",
]


@settings(max_examples=examples(60))
@given(st.data())
def test_random_chains_keep_every_bit(data: st.DataObject) -> None:
    graph = fe.Graph()
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    shapes = {"a": (ROWS, COLUMNS), "b": (ROWS, COLUMNS), "v": (COLUMNS,), "s": ()}
    feeds: dict[str, Any] = {}
    pool: list[Any] = []
    loose: list[Any] = []
    for name, shape in shapes.items():
        tensor = graph.placeholder(dtype, shape, name=name)
        feeds[name] = np.asarray(random.standard_normal(shape) * 3, dtype)
        (pool if len(shape) == 2 else loose).append(tensor)
    for _ in range(data.draw(st.integers(2, 9))):
        op = data.draw(st.sampled_from([*_UNARY, *_BINARY, "BiasAdd"]))
        x = data.draw(st.sampled_from(pool))
        if op in _UNARY:
            made = getattr(graph.ops, op)(x)
        elif op == "BiasAdd":
            made = graph.ops.BiasAdd(x, loose[0])
        elif op == "AddN":
            made = graph.ops.AddN([x, data.draw(st.sampled_from(pool))])
        else:
            z = data.draw(st.sampled_from(pool if op == "ReluGrad" else [*pool, *loose]))
            made = getattr(graph.ops, op)(*((z, x) if data.draw(st.booleans()) else (x, z)))
        pool.append(made)
    last = pool[-1]
    changed = after(graph, [last])
    np.testing.assert_array_equal(run(graph, last.op.name, feeds), run(changed, last.op.name, feeds))


def test_a_hot_plan_fuses_what_is_large_and_keeps_every_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run_chain = fused.Chain.run

    def counted(chain: fused.Chain, values: Any, out: Any = None) -> Any:
        ran.append(repr(chain))
        return run_chain(chain, values, out)

    monkeypatch.setattr(fused.Chain, "run", counted)
    random = np.random.default_rng(0)
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [None, 64, 64, 4], name="x")
    made = ops.Conv2D(
        x, graph.constant(random.random((3, 3, 4, 4), np.float32)), strides=[1, 1, 1, 1], padding="SAME"
    )
    made = ops.Relu(ops.BiasAdd(made, graph.constant(random.random(4, np.float32))))
    y = ops.Maximum(ops.Tanh(ops.Mul(made, 0.01)), ops.Sigmoid(ops.Neg(x)), name="y")
    value = random.standard_normal((9, 64, 64, 4)).astype(np.float32)
    results = []
    for wanted in (True, False):
        config = fe.Config(fuse_elementwise=wanted, fuse_contractions=wanted, kernel_provider="numpy")
        with fe.blocking.Session(graph, config=config) as session:
            results.append([session.run(y, {x: value}) for _ in range(11)])
            results[-1].append(session.run(y, {x: value[:1]}))
        assert bool(ran) is wanted
        ran.clear()
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
