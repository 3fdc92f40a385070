"""The driver: any order of nodes, loops, constants through small arithmetic, handles, contradictions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir import graph as ir
from flowengine.ir.graph import Node, OutputPort
from flowengine.ops.shape_inference import infer_shapes


def shape(tensor: Any) -> Any:
    return None if tensor.shape.dims is None else list(tensor.shape.dims)


def loop(graph: Graph, *initial: Tensor, body: Any, name: str = "loop") -> list[Tensor]:
    """While the first variable is below 10; returns what leaves the loop."""
    enters = [graph.ops.Enter(each, frame_name=name) for each in initial]
    merges = [graph.ops.Merge([enter, enter]).output for enter in enters]
    condition = graph.ops.LoopCond(
        graph.ops.Less(merges[0], graph.ops.Enter(10, frame_name=name, is_constant=True))
    )
    switches = [graph.ops.Switch(merge, condition) for merge in merges]
    results = body(*[switch.output_true for switch in switches])
    for merge, result in zip(merges, results, strict=True):
        graph.set_back_edge(merge, 1, graph.ops.NextIteration(result))
    return [graph.ops.Exit(switch.output_false) for switch in switches]


def test_loop_variables_of_one_shape_keep_it() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [None, 3])
    i, y = loop(graph, graph.constant(0), x, body=lambda i, y: (graph.ops.Add(i, 1), graph.ops.Tanh(y)))
    assert shape(i) == []
    assert shape(y) == [None, 3]


def test_a_loop_variable_that_grows_is_unknown_in_that_dimension_only() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [1, 3])
    inside = []

    def body(i: Tensor, y: Tensor) -> Any:
        doubled = graph.ops.ConcatV2([y, y], 0)
        inside.extend([y, doubled, graph.ops.Shape(doubled)])
        return graph.ops.Add(i, 1), doubled

    _, y = loop(graph, graph.constant(0), x, body=body)
    assert [shape(each) for each in (y, *inside)] == [[None, 3]] * 3 + [[2]]


def test_a_loop_variable_that_changes_its_rank_is_unknown() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [2])
    _, y = loop(
        graph, graph.constant(0), x, body=lambda i, y: (graph.ops.Add(i, 1), graph.ops.ExpandDims(y, 0))
    )
    assert shape(y) is None


def test_what_was_computed_from_a_relaxed_shape_is_computed_again() -> None:
    """Inside the body a Reshape asks for the value of Shape, first of the loop's first iteration only."""
    graph = Graph()
    flat = []

    def body(i: Tensor, y: Tensor) -> Any:
        size = graph.ops.Prod(graph.ops.Shape(y), 0)
        flat.append(graph.ops.Reshape(y, graph.ops.Pack([size])))
        return graph.ops.Add(i, 1), graph.ops.ConcatV2([y, y], 0)

    loop(graph, graph.constant(0), graph.placeholder("float32", [1, 3]), body=body)
    assert shape(flat[0]) == [None]


def test_nested_loops_settle() -> None:
    graph = Graph()

    def outer(i: Tensor, y: Tensor) -> Any:
        _, z = loop(
            graph,
            graph.ops.Identity(i),
            y,
            body=lambda j, z: (graph.ops.Add(j, 1), graph.ops.ConcatV2([z, z], 1)),
            name="inner",
        )
        return graph.ops.Add(i, 1), z

    _, y = loop(graph, graph.constant(0), graph.placeholder("float32", [2, 1]), body=outer)
    assert shape(y) == [2, None]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_nodes_does_not_matter(seed: int) -> None:
    graph = Graph()
    x = graph.placeholder("float32", [1, 3])
    _, y = loop(
        graph,
        graph.constant(0),
        x,
        body=lambda i, y: (graph.ops.Add(i, 1), graph.ops.ConcatV2([y, graph.ops.Mul(y, 2.0)], 0)),
    )
    graph.ops.Reshape(y, [-1])
    nodes = list(graph)
    random.Random(seed).shuffle(nodes)
    inferred = infer_shapes(ir.NodeGraph(nodes))
    for node in graph:
        for slot in range(len(node.output_types)):
            port = OutputPort(node.name, slot)
            assert inferred.shape(port) == graph.shape_of(port), port


def test_a_graph_that_grows_is_followed() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [2, 3])
    inferred = infer_shapes(graph)
    y = graph.ops.Neg(x)
    assert inferred.shape(y.port) == UNKNOWN_SHAPE
    inferred.update()
    assert inferred.shape(y.port) == TensorShape([2, 3])


def test_shapes_spelt_by_small_arithmetic() -> None:
    graph = Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [2, 3, 4])
    sizes = ops.Unpack(ops.Shape(x), num=3)
    rows = ops.Mul(sizes[0], sizes[1])
    assert shape(ops.Reshape(x, [rows, sizes[2]])) == [6, 4]
    assert shape(ops.Reshape(x, ops.ConcatV2([ops.Slice(ops.Shape(x), [0], [1]), [-1]], 0))) == [2, 12]
    half = ops.FloorDiv(ops.Size(x), 8)
    assert shape(ops.Fill(ops.Pack([half, ops.Sub(half, 1)]), 0.0)) == [3, 2]
    assert shape(ops.Sum(x, ops.Range(0, ops.Rank(x), 1))) == []
    assert shape(ops.Tile(x, ops.Cast(np.array([1, 2, 3], np.int64), DstT="int32"))) == [2, 6, 12]


def test_shapes_spelt_in_part() -> None:
    graph = Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [None, 3, 4])
    batch = ops.StridedSlice(ops.Shape(x), [0], [1], [1], shrink_axis_mask=1)
    assert shape(ops.Reshape(x, [batch, -1])) == [None, None]
    assert shape(ops.Reshape(x, [batch, 12])) == [None, 12]
    assert shape(ops.Fill(ops.ConcatV2([ops.Shape(x), [7]], 0), 0.0)) == [None, 3, 4, 7]
    last = ops.StridedSlice(ops.Shape(x), [1], [3], [1])
    assert shape(ops.RandomUniform(last, dtype="float32")) == [3, 4]
    assert shape(ops.Fill(graph.placeholder("int32", [2]), 0.0)) == [None, None]
    assert shape(ops.BroadcastTo(1.0, ops.Shape(x))) == [None, 3, 4]


def test_what_a_variable_holds_is_no_constant() -> None:
    graph = Graph()
    ops = graph.ops
    v = ops.VariableV2(shape=[2], dtype="int32")
    assigned = ops.Assign(v, [3, 4])
    assert shape(ops.Fill(assigned, 0.0)) == [None, None]
    assert shape(ops.Fill(ops.Identity(v), 0.0)) == [None, None]


def test_values_that_are_not_to_be_had_leave_the_shape_open() -> None:
    graph = Graph()
    ops = graph.ops
    assert shape(ops.Fill(ops.Pack([ops.FloorDiv(4, 0)]), 0.0)) == [None]
    assert shape(ops.Reshape(ops.Fill([100, 100], 1.0), ops.Cast([2.5, 4.0], DstT="int32"))) == [None, None]


def test_handles_lead_to_what_they_name() -> None:
    graph = Graph()
    ops = graph.ops
    variable = ops.VarHandleOp(dtype="float32", shape=[4, 3])
    inside = ops.Enter(ops.Identity(variable), frame_name="f", is_constant=True)
    assert shape(ops.ReadVariableOp(variable, dtype="float32")) == [4, 3]
    assert shape(ops.ReadVariableOp(inside, dtype="float32")) == [4, 3]
    assert shape(ops.ResourceGather(variable, np.zeros((5, 2), np.int32), dtype="float32")) == [5, 2, 3]
    queue = ops.FIFOQueueV2(component_types=["float32", "int32"], shapes=[[2], []])
    first, second = ops.QueueDequeueManyV2(queue, 7, component_types=["float32", "int32"])
    assert (shape(first), shape(second)) == ([7, 2], [7])
    array = ops.TensorArrayV3(3, dtype="float32", element_shape=[None, 2])
    assert shape(ops.TensorArrayReadV3(array.handle, 0, array.flow, dtype="float32")) == [None, 2]
    assert shape(ops.TensorArrayGatherV3(array.handle, [0, 1], array.flow, dtype="float32")) == [2, None, 2]


def test_old_placeholders_of_a_scalar_shape_may_have_any() -> None:
    definition = Graph().registry["Placeholder"]
    attrs = {"dtype": TENSOR_TYPE, "shape": TensorShape([])}
    node = Node("p", "Placeholder", attrs=attrs, op_def=definition, output_types=(TENSOR_TYPE,))
    assert infer_shapes(ir.NodeGraph([node], producer=21)).shape(OutputPort("p", 0)) == UNKNOWN_SHAPE
    assert infer_shapes(ir.NodeGraph([node], producer=24)).shape(OutputPort("p", 0)) == TensorShape([])


@pytest.mark.parametrize("op", ["Sum", "Max", "Mean"])
def test_axes_of_old_reductions_may_have_any_shape(op: str) -> None:
    text = (
        'node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} '
        'attr {{ key: "shape" value {{ shape {{ unknown_rank: true }} }} }} }} '
        'node {{ name: "axes" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT32 }} }} '
        'attr {{ key: "value" value {{ tensor {{ dtype: DT_INT32 int_val: 0 int_val: 2 '
        "tensor_shape {{ dim {{ size: 1 }} dim {{ size: 2 }} }} }} }} }} }} "
        'node {{ name: "y" op: "{}" input: "x" input: "axes" attr {{ key: "T" value {{ type: DT_FLOAT }} }} '
        'attr {{ key: "Tidx" value {{ type: DT_INT32 }} }} }} versions {{ producer: {} }}'
    )
    old = Graph.from_graph_def(text.format(op, 20))
    fed = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    slope = fe.gradients(old.tensor("y:0"), [old.tensor("x:0")])[0]
    with fe.blocking.Session(old) as session:
        found, by_x = session.run([old.tensor("y:0"), slope], {old.tensor("x:0"): fed})
    assert np.array_equal(found, getattr(np, op.lower())(fed, axis=(0, 2)))
    assert by_x.shape == fed.shape
    with (
        pytest.raises(InvalidArgumentError, match="Shape must be at most rank 1 but is rank 2"),
        fe.blocking.Session(Graph.from_graph_def(text.format(op, 21))) as session,
    ):
        session.run("y:0", {"x:0": fed})


def test_a_contradiction_is_noted_and_its_outputs_are_unknown() -> None:
    graph = Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [2, 3])
    y = ops.Neg(ops.MatMul(x, graph.placeholder("float32", [3, 4])))
    nodes = [
        Node(n.name, n.op, (OutputPort(x.node_name, 0),) * 2, (), n.attrs, "", n.op_def, n.output_types)
        if n.op == "MatMul"
        else n
        for n in graph
    ]
    inferred = infer_shapes(ir.NodeGraph(nodes))
    assert list(inferred.faults) == ["MatMul"]
    assert "must be equal, but are 3 and 2" in inferred.faults["MatMul"]
    assert inferred.shape(y.port) == UNKNOWN_SHAPE


def test_opaque_nodes_missing_inputs_and_cycles_are_unknown() -> None:
    neg = Graph().registry["Neg"]

    def node(name: str, source: str) -> Node:
        ports = (OutputPort(source, 0),)
        return Node(name, "Neg", ports, (), {"T": TENSOR_TYPE}, "", neg, (TENSOR_TYPE,))

    nodes = [Node("o", "Mystery"), node("a", "o"), node("b", "nowhere"), node("c", "d"), node("d", "c")]
    inferred = infer_shapes(ir.NodeGraph(nodes))
    assert [inferred.shape(OutputPort(n, 0)) for n in "oabcd"] == [UNKNOWN_SHAPE] * 5
    assert inferred.shapes("o") == ()


TENSOR_TYPE = Graph().constant(1.0).dtype
