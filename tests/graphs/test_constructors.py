"""Constructors: types found from inputs, values made constants, errors that say what to do."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes as dt
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.signature import signature
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import OutputPort
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.load import registry


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_one_output_is_a_tensor(graph: Graph) -> None:
    x = graph.placeholder("float32", [None, 3], name="x")
    y = graph.ops.Neg(x, name="y")
    assert isinstance(y, Tensor)
    assert (y.name, y.dtype, y.shape) == ("y:0", dt.float32, TensorShape([None, 3]))
    assert y.op.node.inputs == (OutputPort("x", 0),)
    assert y.op.node.attrs == {"T": dt.float32}
    assert y.op.inputs == (x,)


def test_several_outputs_have_the_names_of_the_signature(graph: Graph) -> None:
    switch = graph.ops.Switch(graph.constant(1.0), True)
    assert switch.output_false.slot == 0
    assert switch.output_true.name == "Switch:1"
    first, second = switch
    assert (first, second) == (switch.output_false, switch.output_true)


def test_no_output_is_an_operation(graph: Graph) -> None:
    done = graph.ops.NoOp(name="done")
    assert isinstance(done, Operation)
    assert (done.name, done.type, done.outputs) == ("done", "NoOp", ())


def test_a_list_of_outputs_is_a_tuple(graph: Graph) -> None:
    parts = graph.ops.Split(0, graph.placeholder("float32", [6]), num_split=3)
    assert [p.name for p in parts] == ["Split:0", "Split:1", "Split:2"]
    a, b = graph.ops.IdentityN([1.0, 2])
    assert (a.dtype, b.dtype) == (dt.float32, dt.int32)
    values, lengths = graph.ops.ShapeN([np.zeros((2, 3), np.float32), np.ones(4, np.float32)])
    assert (values.shape, lengths.shape) == (TensorShape([2]), TensorShape([1]))


def test_values_take_the_type_of_the_tensor_beside_them(graph: Graph) -> None:
    x = graph.placeholder("float64", [2])
    assert graph.ops.Add(x, 1).dtype is dt.float64
    assert graph.ops.Add(1, x).dtype is dt.float64
    assert graph.ops.AddN([[3, 4], x, [1, 2]]).dtype is dt.float64
    assert graph.ops.Add(x, 1).op.inputs[1].op.get_attr("value").value().dtype == np.float64


def test_values_alone_have_their_own_type(graph: Graph) -> None:
    assert graph.ops.Add(1, 2).dtype is dt.int32
    assert graph.ops.Add(1.5, 2.5).dtype is dt.float32
    assert graph.ops.Neg(np.float64(1)).dtype is dt.float64
    assert graph.ops.Identity("text").dtype is dt.string
    assert graph.ops.Add(1, 2, T="int64").dtype is dt.int64
    # Indices default to int32 and may be int64.
    assert graph.ops.Reshape([1.0, 2.0], [2, 1]).op.get_attr("Tshape") is dt.int32
    assert graph.ops.Reshape([1.0, 2.0], np.array([2, 1])).op.get_attr("Tshape") is dt.int64


def test_constants_made_of_values_are_named_by_node_and_argument(graph: Graph) -> None:
    graph.ops.Add(1, 2, name="sum")
    graph.ops.AddN([1.0, 2.0], name="total")
    assert list(graph.nodes) == ["sum/x", "sum/y", "sum", "total/inputs_0", "total/inputs_1", "total"]


def test_lists_that_hold_tensors_are_packed(graph: Graph) -> None:
    size = graph.placeholder("int32", [])
    y = graph.ops.Reshape(graph.placeholder("float32", None), [size, -1, 3])
    assert y.op.inputs[1].op.type == "Pack"
    assert y.shape == TensorShape([None, None, 3])
    nested = graph.ops.Identity([[size, 1], [2, size]])
    assert nested.shape == TensorShape([2, 2])


def test_references_are_taken_as_such_and_as_values(graph: Graph) -> None:
    v = graph.ops.VariableV2(shape=[2], dtype="float32")
    assert v.dtype is dt.float32.ref
    assigned = graph.ops.Assign(v, [1.0, 2.0])
    assert assigned.dtype is dt.float32.ref
    negated = graph.ops.Neg(v)
    assert negated.dtype is dt.float32
    with pytest.raises(InvalidArgumentError, match="'ref' must be a reference to a variable, but 'Neg:0'"):
        graph.ops.Assign(negated, [1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match="'ref' must be a tensor of type float32_ref"):
        graph.ops["Assign"](3.0, v)


def test_inputs_by_name(graph: Graph) -> None:
    a, b = graph.placeholder("float32", [2, 3]), graph.placeholder("float32", [4, 3])
    y = graph.ops.MatMul(b=b, a=a, transpose_b=True)
    assert y.op.inputs == (a, b)
    assert graph.ops.MatMul(a, b=b, transpose_b=True).op.inputs == (a, b)
    with pytest.raises(InvalidArgumentError, match="'a' is given twice"):
        graph.ops["MatMul"](a, b, a=a)


def test_attributes_are_converted_and_completed(graph: Graph) -> None:
    x = graph.placeholder(np.float32, (1, 4, 4, 1))
    y = graph.ops.MaxPool(x, ksize=np.array([1, 2, 2, 1]), strides=(1, 2, 2, 1), padding="SAME")
    attrs = y.op.node.attrs
    assert attrs["ksize"] == (1, 2, 2, 1)
    assert attrs["padding"] == b"SAME"
    assert attrs["data_format"] == b"NHWC"
    assert graph.ops.LeakyRelu(x, alpha=0.1).op.get_attr("alpha") == np.float32(0.1)
    call = graph.ops.PartitionedCall([x], Tout=["float32"], f="body")
    assert call[0].op.get_attr("f") == FuncAttr("body")
    assert graph.ops.Placeholder(dtype="int32", shape=None).shape.dims is None
    assert graph.ops.MatMul([[1.0]], [[1.0]], T=None).dtype is dt.float32


def test_underscored_attributes_are_kept_as_they_are(graph: Graph) -> None:
    y = graph.ops["NoOp"](_flag=True, _name="text", _sizes=[1, 2], _kind=dt.int32)
    attrs = y.node.attrs
    assert (attrs["_flag"], attrs["_name"], attrs["_sizes"], attrs["_kind"]) == (
        True,
        b"text",
        (1, 2),
        dt.int32,
    )


FAULTS: list[tuple[Any, str]] = [
    (lambda g, x: g.ops.MatMul(x), r"MatMul takes 2 inputs \(a, b\); 1 are given"),
    (lambda g, x: g.ops.AddN(x), "AddN: input 'inputs' is a list"),
    (lambda g, x: g.ops.AddN([x], N=2), "has 1 tensors, but N is 2"),
    (lambda g, x: g.ops.AddN([]), "must be at least 1"),
    (
        lambda g, x: g.ops.MatMul(x, x, transpos_a=True),
        "no input or attribute 'transpos_a'; did you mean 'transpose_a'",
    ),
    (lambda g, x: g.ops.Neg(x, color=3), "no input or attribute 'color'; it has: T, x"),
    (lambda g, x: g.ops.Add(x, g.constant(1)), r"'y' must be float32 \(T, as x\), but 'Const:0' is int32"),
    (
        lambda g, x: g.ops.Add(x, "text"),
        r"'y' must be float32 \(T, as x\): 'text' is string and cannot become float32",
    ),
    (lambda g, x: g.ops.Switch(x, 1), "'pred' must be bool: 1 is int32"),
    (lambda g, x: g.ops.Switch(x, x), "'pred' must be bool, but 'x:0' is float32"),
    (lambda g, x: g.ops.Neg(None), "None is not a tensor"),
    (lambda g, x: g.ops.Neg([[1], [2, 3]]), "is not a tensor"),
    (lambda g, x: g.ops.Neg("text"), "'x' cannot be string .T.; allowed: .*float32"),
    (lambda g, x: g.ops.Neg(g.ops.NoOp()), "is not a tensor|pass one of its outputs"),
    (lambda g, x: g.ops.Add(x, g.ops.NoOp()), "is the operation 'NoOp'; pass one of its outputs"),
    (lambda g, x: g.ops.Cast(x), "attribute 'DstT' .type. is missing"),
    (lambda g, x: g.ops.Cast(x, DstT="flot"), "'flot' is not a data type"),
    (
        lambda g, x: g.ops.MaxPool(x, ksize=2, strides=[1], padding="SAME"),
        "'ksize' .list.int..: 2 is not a list",
    ),
    (
        lambda g, x: g.ops.MaxPool(x, ksize=[1] * 4, strides=[1] * 4, padding="SAM"),
        "'padding' cannot be SAM; allowed: SAME, VALID",
    ),
    (
        lambda g, x: g.ops.MaxPool(x, ksize=[1], strides=[1] * 4, padding="SAME"),
        "'ksize' has length 1; it must be at least 4",
    ),
    (lambda g, x: g.ops.MatMul(x, x, transpose_a=1), "1 is not True or False"),
    (lambda g, x: g.ops.Placeholder(dtype="int32", shape=3), "3 is not a shape: write .3."),
    (lambda g, x: g.ops.ReadVariableOp(3, dtype="float32"), "must be a tensor of type resource, not 3"),
    (lambda g, x: g.ops.Add(x, Graph().constant(1.0)), "'Const:0', which belongs to another graph"),
    (lambda g, x: g.create_op("Neg", []), "Neg takes 1 inputs; 0 are given"),
    (lambda g, x: g.ops.LeakyRelu(x, alpha=1e60), "does not fit into a float32"),
    (lambda g, x: g.ops.OneHot(1, 2, 1.0, 0.0, axis=2**70), "does not fit into 64 bits"),
]


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_what_does_not_fit_is_said(graph: Graph, number: int) -> None:
    build, message = FAULTS[number]
    x = graph.placeholder("float32", [2, 2], name="x")
    with pytest.raises(InvalidArgumentError, match=message):
        build(graph, x)


def test_arguments_that_do_not_fit_add_nothing(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError):
        graph.ops.Select(True, [1.0], "text")
    assert len(graph) == 0


def test_contradicting_shapes_are_told_where_the_node_is_written(graph: Graph) -> None:
    x = graph.placeholder("float32", [2, 3])
    with pytest.raises(InvalidArgumentError) as caught:
        graph.ops.MatMul(x, x, name="product")
    assert "product" not in graph
    text = str(caught.value)
    assert text.startswith("MatMul 'product': Dimensions must be equal, but are 3 and 2")
    assert "[inputs: [2,3], [2,3]]" in text
    assert f"{__file__}:" in text


def test_an_unknown_op_is_told_with_its_neighbours(graph: Graph) -> None:
    unknown = "matmul"
    with pytest.raises(AttributeError, match="no op is called 'matmul'; did you mean MatMul"):
        getattr(graph.ops, unknown)
    with pytest.raises(NotFoundError, match="Op type not registered 'Nothing'"):
        graph.create_op("Nothing")


def test_the_creation_site_is_the_callers_line(graph: Graph) -> None:
    frame = inspect.currentframe()
    assert frame is not None
    made = graph.ops.NoOp()
    line = frame.f_lineno - 1
    assert made.node.creation_site == f"{__file__}:{line} in test_the_creation_site_is_the_callers_line"
    assert graph.constant(1).op.node.creation_site.startswith(f"{__file__}:")
    assert graph.group(made).node.creation_site.startswith(f"{__file__}:")


def test_ops_of_ones_own() -> None:
    own = OpRegistry(parent=registry())
    own.register(
        OpDef.build(
            "Twice",
            inputs=["x: T"],
            outputs=["y: T"],
            attrs=["T: {float, double}"],
            shape=lambda c: [c.input(0)],
        )
    )
    graph = Graph(registry=own)
    y = graph.ops["Twice"](graph.ops.Neg([1.0, 2.0]))
    assert (y.name, y.dtype, y.shape) == ("Twice:0", dt.float32, TensorShape([2]))
    assert "Twice" in dir(graph.ops)
    with pytest.raises(AttributeError, match="no op is called 'Twice'"):
        Graph().ops["Twice"](1.0)


def test_help_shows_the_signature(graph: Graph) -> None:
    text = pydoc.plain(pydoc.render_doc(graph.ops.Conv2D))
    assert "Conv2D(input, filter, *, name=None" in text
    assert "data_format: string in {'NHWC', 'NCHW'} = 'NHWC'" in text
    assert list(inspect.signature(graph.ops.MatMul).parameters)[:3] == ["a", "b", "name"]
    assert "MatMul" in dir(graph.ops)


def test_every_op_has_a_constructor(graph: Graph) -> None:
    for name in registry():
        constructor = getattr(graph.ops, name)
        assert constructor.__name__ == name
        assert constructor.__doc__
        assert "name" in inspect.signature(constructor).parameters


def test_tensors_are_values_and_have_none(graph: Graph) -> None:
    x = graph.placeholder("float32", [2], name="x")
    assert x == graph.tensor("x:0")
    assert {x: 1}[graph.tensor("x:0")] == 1
    assert x != Graph().placeholder("float32", [2], name="x")
    assert x.op == graph.operation("x")
    misuses: tuple[Any, ...] = (bool, iter, len, np.asarray, float, int, complex, round)
    for misuse in misuses:
        with pytest.raises(TypeError, match="'x:0' stands for a value that exists only while a session runs"):
            misuse(x)
    assert repr(x) == "<Tensor 'x:0' shape=[2] dtype=float32>"
    assert repr(x.op) == "<Operation 'x' type=Placeholder>"


def test_what_is_not_there_is_not_found(graph: Graph) -> None:
    graph.constant(1.0, name="one")
    with pytest.raises(NotFoundError, match="no node named 'two'"):
        graph.operation("two")
    with pytest.raises(NotFoundError, match="no node named 'two'"):
        graph.tensor("two:0")
    with pytest.raises(InvalidArgumentError, match="has 1 outputs; there is no 'one:1'"):
        graph.tensor("one:1")
    with pytest.raises(InvalidArgumentError, match="is not the name of a tensor"):
        graph.tensor("one")


def test_scalar_constant_has_rank_zero(graph: Graph) -> None:
    assert graph.constant(3).shape == SCALAR


def test_outputs_have_names_also_where_one_is_a_list(graph: Graph) -> None:
    x = graph.placeholder("float32", [4, 2])
    made = graph.ops.Batch(
        [x, x], num_batch_threads=1, max_batch_size=4, batch_timeout_micros=0, grad_timeout_micros=0
    )
    assert made._fields == ("batched_tensors", "batch_index", "id")
    assert [each.name for each in made.batched_tensors] == ["Batch:0", "Batch:1"]
    assert (made.batch_index.name, made.id.name) == ("Batch:2", "Batch:3")


def test_an_op_by_its_name(graph: Graph) -> None:
    x = graph.placeholder("float32", [2])
    assert graph.ops["Neg"](x).op.type == "Neg"
    with pytest.raises(AttributeError, match=r"no op is called 'Nag'; did you mean .*Neg"):
        graph.ops["Nag"](x)


def test_an_op_whose_attribute_is_called_like_an_input_has_a_signature_that_says_little() -> None:
    odd = OpDef.parse("Odd(x: float32) -> y: float32", "x: int = 1")
    assert str(signature(odd)) == "(*inputs, **attrs)"
    even = OpDef.parse("Even(x: float32) -> y: float32", "n: int = 1")
    assert str(signature(even)) == "(x, *, name=None, n=1)"
