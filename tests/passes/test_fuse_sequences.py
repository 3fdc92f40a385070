"""Large nodes that follow one another run as one, with the values, errors and order that they had."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.traverse import topological_order
from flowengine.kernels.load import registry
from flowengine.kernels.numpy import sequences
from flowengine.kernels.onednn.library import search
from flowengine.passes.blocks import sequences as gathering
from flowengine.passes.blocks.cutting import BodyLimits
from flowengine.passes.blocks.sequences import fuse_sequences
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import partition
from tests.effort import examples

needs_library = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

SIDE = 6
KINDS = ("MatMul", "MatMul", "Relu", "Tanh", "Split", "Concat", "Identity", "StopGradient")


def after(graph: NodeGraph, fetches: Collection[str], costs: dict[str, float] | None = None) -> NodeGraph:
    """The graph with sequences of its products, all of which are heavy."""
    heavy = frozenset(node.name for node in graph if node.op == "MatMul")
    return fuse_sequences(graph, asked(fetches), heavy, costs or {})


def asked(fetches: Collection[str], provider: str = "numpy") -> PassContext:
    return PassContext(
        feeds=(OutputPort("x", 0),),
        fetches=tuple(OutputPort(n, 0) for n in fetches),
        kernels=registry(provider),
    )


def programs(graph: NodeGraph) -> list[str]:
    return sorted(repr(node.attrs["program"]) for node in graph if node.op == "_FusedSequence")


def run(graph: NodeGraph, fetch: str, feeds: dict[str, Any]) -> Any:
    """The value of a node, by its kernels one after the other."""
    kernels = registry("numpy")
    values: dict[OutputPort, Any] = {OutputPort(name, 0): value for name, value in feeds.items()}
    for name in topological_order(graph.nodes):
        node = graph[name]
        if node.op == "Const":
            values[OutputPort(name, 0)] = node.attrs["value"].value()
            continue
        if node.op in ("Placeholder", "NoOp"):
            continue
        inputs = iter([values[port] for port in node.inputs])
        grouped: list[Any] = []
        assert node.op_def is not None
        for arg in node.op_def.inputs:
            taken = tuple(next(inputs) for _ in arg.types(node.attrs))
            grouped.append(taken if arg.is_list else taken[0])
        result = kernels.find(node).bind(node)(*grouped)
        for slot, item in enumerate(result if isinstance(result, tuple) else (result,)):
            values[OutputPort(name, slot)] = item
    return values[OutputPort(fetch, 0)]


def square(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((SIDE, SIDE)).astype(np.float32)


def test_a_row_of_products_is_one_node() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    y = x
    for _ in range(3):
        y = graph.ops.Relu(graph.ops.MatMul(y, x))
    graph.ops.Neg(y, name="y")
    changed = after(graph, ["y"])
    assert programs(changed) == ["MatMul -> Relu -> MatMul -> Relu -> MatMul -> Relu"]
    feeds = {"x": square(0)}
    np.testing.assert_array_equal(run(changed, "y", feeds), run(graph, "y", feeds))


def test_what_hands_a_value_on_is_a_member_without_a_step() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    y = graph.ops.MatMul(graph.ops.Identity(x), x)
    between = graph.ops.Identity(graph.ops.StopGradient(y), name="between")
    z = graph.ops.MatMul(between, y, name="z")
    graph.ops.Add(graph.ops.Neg(graph.ops.Identity(z)), between, name="w")
    graph.ops.Neg(z, name="v")
    changed = after(graph, ["w", "v"])
    assert programs(changed) == ["MatMul -> MatMul"]
    (node,) = [node for node in changed if node.op == "_FusedSequence"]
    # The first result is given once though two take it, under two names, and so is the second.
    assert len(node.output_types) == 2
    assert "between" not in changed
    feeds = {"x": square(0)}
    for name in ("w", "v"):
        np.testing.assert_array_equal(run(changed, name, feeds), run(graph, name, feeds))
    # One that is fetched, and one that others wait for, are there.
    assert "between" in after(graph, ["w", "between"])
    with graph.control_dependencies([between.op]):
        graph.ops.Neg(x, name="late")
    waiting = after(graph, ["w", "late"])
    assert waiting["late"].control_inputs == (next(n.name for n in waiting if n.op == "_FusedSequence"),)


def test_a_sequence_ends_when_it_has_taken_long_enough() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    y = x
    for number in range(6):
        y = graph.ops.MatMul(y, x, name=f"product{number}")
    graph.ops.Neg(y, name="y")
    changed = after(graph, ["y"], {f"product{number}": 40_000.0 for number in range(6)})
    assert programs(changed) == ["MatMul -> MatMul"] * 3


def test_what_is_fetched_or_waited_for_keeps_its_place() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    one = ops.MatMul(x, x, name="one")
    two = ops.MatMul(one, x, name="two")
    with graph.control_dependencies([one.op]):
        later = ops.NoOp(name="later")
    with graph.control_dependencies([later]):
        three = ops.MatMul(two, x, name="three")
    four = ops.MatMul(three, x, name="four")
    ops.MatMul(four, x, name="five")
    changed = after(graph, ["five"])
    # `three` waits for `later`, which waits for `one`: they cannot be one node.
    assert programs(changed) == ["MatMul -> MatMul", "MatMul -> MatMul"]
    assert len(topological_order(changed.nodes)) == len(changed.nodes)
    assert changed["later"].control_inputs == ("two",)
    assert changed["four"].control_inputs == ("later",)
    feeds = {"x": square(1)}
    np.testing.assert_array_equal(run(changed, "five", feeds), run(graph, "five", feeds))


def test_nothing_waits_for_another_queue() -> None:
    graph = fe.Graph()
    ops = graph.ops
    queues = [ops.FIFOQueueV2(component_types=["float32"], name=f"queue{n}") for n in range(2)]
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    values = [ops.QueueDequeueV2(queue, component_types=["float32"])[0] for queue in queues]
    made = [ops.MatMul(x, x)]
    made += [ops.MatMul(value, value) for value in values]
    made += [ops.MatMul(product, x) for product in list(made)]
    for number, product in enumerate(made[3:]):
        ops.Neg(product, name=f"y{number}")
    changed = after(graph, ["y0", "y1", "y2"])
    assert programs(changed) == ["MatMul -> MatMul"] * 3


def test_an_error_is_of_the_node_that_raised_it() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    one = graph.ops.MatMul(x, x, name="one")
    two = graph.ops.MatMul(one, graph.constant(np.ones((3, 3), np.float32)), name="two")
    graph.ops.Neg(two, name="y")
    with pytest.raises(InvalidArgumentError) as caught:
        run(after(graph, ["y"]), "y", {"x": square(2)})
    assert caught.value.node_name == "two"


def test_values_are_let_go_of_when_nobody_needs_them() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    y = graph.ops.MatMul(graph.ops.MatMul(x, x), graph.ops.MatMul(x, x, name="other"))
    graph.ops.Neg(graph.ops.MatMul(y, x), name="y")
    (node,) = [node for node in after(graph, ["y"]) if node.op == "_FusedSequence"]
    dropped = [number for unit in node.attrs["program"]._units for number in unit.drops]
    assert sorted(dropped) == [0, 1, 2, 3]


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_random_graphs_keep_every_bit(data: st.DataObject) -> None:
    graph = fe.Graph()
    ops = graph.ops
    pool = [graph.placeholder("float32", [SIDE, SIDE], name="x")]
    for _ in range(data.draw(st.integers(3, 14))):
        kind = data.draw(
            st.sampled_from(
                ["MatMul", "MatMul", "Relu", "Tanh", "Split", "Concat", "Identity", "StopGradient"]
            )
        )
        one, other = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
        waits = data.draw(st.sampled_from([None, *pool[1:]]))
        with graph.control_dependencies([] if waits is None else [waits.op]):
            if kind == "MatMul":
                pool.append(ops.MatMul(one, other))
            elif kind == "Concat":
                both = ops.ConcatV2([one, other], graph.constant(0))
                pool.append(ops.MatMul(both, both, transpose_a=True))
            elif kind == "Split":
                parts = ops.Split(graph.constant(1), one, num_split=2)
                pool.append(ops.MatMul(parts[0], parts[1], transpose_b=True))
            else:
                pool.append(getattr(ops, kind)(one))
    fetches = data.draw(st.lists(st.sampled_from(pool[1:]), min_size=1, max_size=3))
    names = [tensor.op.name for tensor in fetches]
    changed = after(graph, names, {node.name: 900.0 for node in graph})
    assert len(topological_order(changed.nodes)) == len(changed.nodes)
    feeds = {"x": square(3)}
    for name in names:
        np.testing.assert_array_equal(run(changed, name, feeds), run(graph, name, feeds))


def test_a_hot_plan_runs_its_layers_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    begin_all = sequences.Sequence._begin

    def counted(sequence: sequences.Sequence, known: Any, turn: Any) -> Any:
        ran.append(repr(sequence))
        return begin_all(sequence, known, turn)

    monkeypatch.setattr(sequences.Sequence, "_begin", counted)
    graph = fe.Graph()
    size = 420  # some milliseconds: worth a thread
    monkeypatch.setattr(gathering, "SEQUENCE_LIMITS", BodyLimits(1 << 30, 1e9))
    x = graph.placeholder("float32", [size, size], name="x")
    y = x
    for _ in range(3):
        y = graph.ops.Tanh(graph.ops.MatMul(y, x))
    y = graph.ops.Neg(graph.ops.MatMul(y, graph.ops.MatMul(x, x)), name="y")
    value = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    with fe.blocking.Session(graph) as session:
        results = [session.run(y, {x: value}) for _ in range(9)]
    assert ran
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_what_comes_back_from_another_device_is_waited_for_by_no_sequence_that_it_needs() -> None:
    """A product, its tangent on the other device, a product of both: one sequence would wait for itself."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [SIDE, SIDE], name="x")
    here, there = (
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:CPU:1",
    )
    first = graph.ops.MatMul(x, x, name="first")
    second = graph.ops.MatMul(first, graph.ops.Tanh(first, name="far"), name="second")
    graph.ops.Neg(second, name="y")
    request = PassContext(
        feeds=(OutputPort("x", 0),), fetches=(OutputPort("y", 0),), kernels=registry("numpy")
    )
    where = {node.name: there if node.name == "far" else here for node in graph}
    parts = partition(graph, request, where, {here: 1, there: 2}).partitions
    near = next(part.graph for part in parts if part.device == here)
    assert {"_Send", "_Recv"} <= {node.op for node in near}
    assert programs(after(near, ["y"])) == []


def layers(*ops: str) -> NodeGraph:
    """Layers after one another, none of them heavy."""
    graph = fe.Graph()
    y = graph.placeholder("float32", None, name="x")
    windows = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    for op in ops:
        if op == "Conv2D":
            filters = graph.constant(np.ones((3, 3, 4, 4), np.float32))
            y = graph.ops.Conv2D(y, filters, strides=[1, 1, 1, 1], padding="SAME")
        elif op == "ConcatV2":
            y = graph.ops.ConcatV2([y, y], graph.constant(0))
        else:
            y = getattr(graph.ops, op)(y, **(windows if "Pool" in op else {}))
    graph.ops.Neg(y, name="y")
    return graph


@needs_library
@pytest.mark.parametrize(
    ("ops", "is_one"),
    [
        (("Conv2D", "Conv2D"), True),
        (("Conv2D", "MaxPool", "AvgPool"), True),
        (("Conv2D", "ConcatV2", "MaxPool"), True),
        (("Conv2D", "ConcatV2", "Relu", "MaxPool"), True),
        (("Conv2D", "ConcatV2", "Relu", "ConcatV2", "MaxPool"), True),
        (("Conv2D", "Relu", "Relu", "Relu", "MaxPool"), False),
        (("Conv2D", "Relu"), False),
        (("Conv2D",), False),
        (("ConcatV2", "Relu", "Relu"), False),
    ],
)
def test_light_layers_are_one_if_they_can_be_joined(ops: tuple[str, ...], is_one: bool) -> None:
    """Two that tell what they come to, and no more than as many that do not."""
    graph = layers(*ops)
    changed = fuse_sequences(graph, asked(["y"], "onednn"), (), {})
    assert programs(changed) == ([" -> ".join(ops)] if is_one else [])
    assert (changed is graph) == (not is_one)
    # Nothing of NumPy's is joined.
    assert fuse_sequences(graph, asked(["y"]), (), {}) is graph


@needs_library
def test_light_layers_take_no_longer_than_others() -> None:
    graph = layers(*["Conv2D"] * 6)
    costs = {node.name: 40_000.0 for node in graph if node.op == "Conv2D"}
    changed = fuse_sequences(graph, asked(["y"], "onednn"), (), costs)
    assert programs(changed) == ["Conv2D -> Conv2D"] * 3


@needs_library
def test_light_layers_give_what_they_gave() -> None:
    graph = layers("Conv2D", "ConcatV2", "MaxPool", "Conv2D", "AvgPool")
    changed = fuse_sequences(graph, asked(["y"], "onednn"), (), {})
    (node,) = [node for node in changed if node.op == "_FusedSequence"]
    kernels = registry("onednn")
    by_node = {n.name: kernels.find(n).bind(n) for n in graph if n.op not in ("Const", "Placeholder")}
    for number in range(6):
        x = np.random.default_rng(number).standard_normal((1, 7, 7, 4)).astype(np.float32)
        given = [x if port.node == "x" else changed[port.node].attrs["value"].value() for port in node.inputs]
        values: dict[str, Any] = {"x": x}
        for name in topological_order(graph.nodes):
            if graph[name].op == "Const":
                values[name] = graph[name].attrs["value"].value()
            elif name != "x":
                taken = [values[port.node] for port in graph[name].inputs]
                lists = graph[name].op == "ConcatV2"
                values[name] = by_node[name](*([tuple(taken[:2]), taken[2]] if lists else taken))
        (got,) = node.attrs["program"].run(given)
        np.testing.assert_array_equal(-got, values["y"])
    kinds = ("Conv2D", "ConcatV2", "MaxPool", "AvgPool")
    assert node.attrs["program"].joined == {member.name for member in graph if member.op in kinds}
