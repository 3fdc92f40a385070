"""Wrong uses while a graph is built: errors are of one class, ours and Python's, and name the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe

FOREIGN: Final = fe.Graph().placeholder("float32", [2, 3], name="foreign")


class Wrong:
    """Each takes a graph, x (2, 3) of float32, n one int32 and p one bool."""

    types: Final[dict[str, Callable[..., Any]]] = {
        "'n:0' is int32; it must be float32": lambda g, x, n, p: fe.matmul(x, n),
        "AddV2: input 'y' must be float32 (T, as x), but 'n:0' is int32": lambda g, x, n, p: x + n,
        "'a' cannot be an index: a subscript has integers": lambda g, x, n, p: x["a"],
        "1.5 cannot be an index": lambda g, x, n, p: x[1.5],
        "input 'shape' cannot be string (Tshape); allowed: int32": lambda g, x, n, p: fe.reshape(x, "a"),
        "input 'values[1]' must be float32 (T), but 'n:0' is int32": lambda g, x, n, p: fe.concat([x, n], 0),
        "'x:0' stands for a value that exists only": lambda g, x, n, p: fe.concat(x, 1),
        "it has no truth value here; build a conditional": lambda g, x, n, p: bool(x),
        "it has no length here; look at its shape": lambda g, x, n, p: len(x),
        "it has no elements here; use fe.unstack": lambda g, x, n, p: [*x],
        "it has no array here; a session's run returns one": lambda g, x, n, p: np.array(x),
        "Sum: input 'reduction_indices' cannot be string": lambda g, x, n, p: fe.reduce_sum(x, "a"),
        "pred is True, not a tensor": lambda g, x, n, p: g.cond(True, lambda: x, lambda: x),
        "'x:0' is float32; it must be bool": lambda g, x, n, p: g.cond(x, lambda: x, lambda: x),
        "the branches are functions without arguments": lambda g, x, n, p: g.cond(p, x, x),
        "the branches return float32 ('cond/Switch_1:1') and int32": lambda g, x, n, p: g.cond(
            p, lambda: x, lambda: n
        ),
        "the results of the branches are not alike: one is a tuple": lambda g, x, n, p: g.cond(
            p, lambda: (x, x), lambda: x
        ),
        "one branch returns None and the other": lambda g, x, n, p: g.cond(p, lambda: x, lambda: None),
        "case takes pairs of a bool tensor and a function": lambda g, x, n, p: g.case(p),
        "case takes pairs of a bool tensor": lambda g, x, n, p: g.case([(p, x)]),
        "branch_index is an integer; 'x:0' is float32": lambda g, x, n, p: g.switch_case(x, [lambda: x]),
        "switch_case takes functions without arguments": lambda g, x, n, p: g.switch_case(n, []),
        "input 'y' must be int32 (T, as x): 1.5 is float32": lambda g, x, n, p: g.while_loop(
            lambda i: i < 3, lambda i: i + 1.5, 0
        ),
        "'while/Merge:0' is int32; it must be bool": lambda g, x, n, p: g.while_loop(
            lambda i: i, lambda i: i + 1, 0
        ),
        "loop_vars and the result of the body are not alike": lambda g, x, n, p: g.while_loop(
            lambda i: i < 3, lambda i: (i, i), 0
        ),
        "maximum_iterations is one integer; 'while/maximum_iterations:0' is string": lambda g, x, n, p: (
            g.while_loop(lambda i: i < 3, lambda i: i + 1, 0, maximum_iterations="a")
        ),
        "the function returns 2 values; dtype lists 1": lambda g, x, n, p: g.map(
            lambda r: (r, r), x, dtype="float32"
        ),
        "the initializer and the result of the function are not alike": lambda g, x, n, p: g.scan(
            lambda a, r: (a, r), x
        ),
        "'n:0' is int32; it must": lambda g, x, n, p: g.tensor_array("float32", 3).write(0, n),
        "input 'size' must be int32: 'a' is string": lambda g, x, n, p: g.tensor_array("float32", "a"),
        "3 is no function": lambda g, x, n, p: g.call(3, [x], "float32"),
        "the inputs of a call are a list": lambda g, x, n, p: g.call(lambda a: a, x, "float32"),
        "give a list of tensors and operations: write [": lambda g, x, n, p: g.control_dependencies(x),
        "a name must be a str, not 3": lambda g, x, n, p: g.operation(3),
        "a name must be a str, not 4": lambda g, x, n, p: g.tensor(4),
        "the name of a node must be a str, not 3": lambda g, x, n, p: g.ops.Neg(x, name=3),
        "the inputs of Neg are a list": lambda g, x, n, p: g.create_op("Neg", x),
        "Neg has no input or attribute 'U'; it has: T": lambda g, x, n, p: g.create_op("Neg", [x], {"U": 3}),
        "Neg takes 1 inputs; 2 are given": lambda g, x, n, p: g.create_op("Neg", [x, x]),
        "Neg takes 1 inputs (x); 0 are given": lambda g, x, n, p: g.ops.Neg(),
        "attribute 'strides' (list(int)): 3 is not a list": lambda g, x, n, p: g.ops.MaxPool(
            x, ksize=[1, 1, 1, 1], strides=3, padding="SAME"
        ),
        "Pack: input 'values' is a list; write [": lambda g, x, n, p: g.ops.Pack(x),
        "input 'inputs[1]' must be float32 (T), but": lambda g, x, n, p: g.ops.AddN([x, n]),
        "input_map: 'in:0' is float32; 'n:0' is int32": lambda g, x, n, p: g.import_graph_def(
            imported(), input_map={"in:0": n}
        ),
        "a GraphDef is bytes, text, its message or a Graph, not 3": lambda g, x, n, p: g.import_graph_def(3),
        "3 is not a Tensor of a graph": lambda g, x, n, p: fe.gradients(3, x),
        "SelectV2: input 'condition' must be bool": lambda g, x, n, p: fe.where(x, x),
        "OneHot: input 'indices' cannot be float32 (TI)": lambda g, x, n, p: fe.one_hot(x, 3),
        "'x:0' is float32; it must be": lambda g, x, n, p: g.assert_that(x, [x]),
    }
    values: Final[dict[str, Callable[..., Any]]] = {
        "Dimensions must be equal, but are 3 and 2": lambda g, x, n, p: fe.matmul(x, x),
        "'foreign:0' belongs to another graph": lambda g, x, n, p: fe.matmul(x, FOREIGN),
        "input 'y' is 'foreign:0', which belongs to another graph": lambda g, x, n, p: x + FOREIGN,
        "Index out of range using input dim 2": lambda g, x, n, p: x[0, 0, 0],
        "slice index 5 of dimension 0 out of bounds": lambda g, x, n, p: x[5],
        "Cannot reshape a tensor with 6 elements": lambda g, x, n, p: fe.reshape(x, [4]),
        "reduction axis must be in the range [-2, 2)": lambda g, x, n, p: fe.reduce_sum(x, axis=3),
        "none of the arguments is a tensor of a graph": lambda g, x, n, p: fe.zeros([2]),
        "'float99' is not a data type": lambda g, x, n, p: g.placeholder("float99"),
        "None is not a data type": lambda g, x, n, p: g.placeholder(None),
        "'abc' is not a shape: a list of sizes": lambda g, x, n, p: g.placeholder("float32", "abc"),
        "3 is not a shape: write [3]": lambda g, x, n, p: x.set_shape(3),
        "a dimension is negative": lambda g, x, n, p: g.placeholder("float32", [-5]),
        "shapes [2,3] and [7] are not compatible": lambda g, x, n, p: x.set_shape([7]),
        "[[1, 2], [3]] is not a tensor": lambda g, x, n, p: g.constant([[1, 2], [3]]),
        "None is not a tensor: does a function return nothing?": lambda g, x, n, p: g.map(lambda r: None, x),
        "is a function, not a tensor: call it": lambda g, x, n, p: g.constant(len),
        "is not a tensor: convert it to a list": lambda g, x, n, p: g.cond(
            p, lambda: (each for each in [x]), lambda: (each for each in [x])
        ),
        "1.5 is float32 and cannot become int32": lambda g, x, n, p: g.constant(1.5, "int32"),
        "3 elements cannot fill the shape [2]": lambda g, x, n, p: g.constant([1, 2, 3], shape=[2]),
        "one has the keys ['a'], the other ['b']": lambda g, x, n, p: g.cond(
            p, lambda: {"a": x}, lambda: {"b": x}
        ),
        "'text' is string and cannot become float32": lambda g, x, n, p: g.cond(p, lambda: x, lambda: "text"),
        "say what is the same in every iteration by shape_invariants": lambda g, x, n, p: g.while_loop(
            lambda v: n < 3, lambda v: fe.concat([v, v], 0), x
        ),
        "a loop without variables never ends": lambda g, x, n, p: g.while_loop(lambda: p, lambda: (), []),
        "which does not fit shape_invariants [4,3]": lambda g, x, n, p: g.while_loop(
            lambda v: p, lambda v: v, x, shape_invariants=fe.TensorShape([4, 3])
        ),
        "parallel_iterations is at least 1, not 0": lambda g, x, n, p: g.while_loop(
            lambda i: i < 3, lambda i: i + 1, 0, parallel_iterations=0
        ),
        "which is not around here": lambda g, x, n, p: escaped(g, x, p),
        "'n:0' is a scalar: elems must have rows": lambda g, x, n, p: g.map(lambda r: r, n),
        "elems is empty: give at least one tensor": lambda g, x, n, p: g.map(lambda r: r, []),
        "tensor_array needs size=, or dynamic_size=True": lambda g, x, n, p: g.tensor_array("float32"),
        "the call returns 1 tensors; 2 shapes are given": lambda g, x, n, p: g.call(
            lambda a: a, [x], ["float32"], shapes=[[1], [2]]
        ),
        "an initializer makes values of a known shape": lambda g, x, n, p: g.get_variable("v"),
        "is declared with shape [2]; its initial value has []": lambda g, x, n, p: g.variable(1.0, shape=[2]),
        "3.5 is a value, whose shape is its own": lambda g, x, n, p: g.get_variable(
            "v", [2], initializer=3.5
        ),
        "there is no initializer 'zero'; did you mean 'zeros'": lambda g, x, n, p: g.get_variable(
            "v", [2], initializer="zero"
        ),
        "3 is neither a Tensor nor an Operation": lambda g, x, n, p: g.group(3),
        "'foreign:0' belongs to": lambda g, x, n, p: g.control_dependencies([FOREIGN]),
        "cannot read 'nonsense:x:y' in the device": lambda g, x, n, p: entered(g.device("/nonsense:x:y")),
        "'a b' cannot be the name of a node": lambda g, x, n, p: entered(g.name_scope("a b")),
        "'x' is not the name of a tensor": lambda g, x, n, p: g.tensor("x"),
        "'x' (Placeholder) has 1 outputs; there is no 'x:4'": lambda g, x, n, p: g.tensor("x:4"),
        "attribute 'padding' cannot be WRONG; allowed: SAME": lambda g, x, n, p: g.ops.MaxPool(
            x, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="WRONG"
        ),
        "Pack: attribute 'N' is 0; it must be at least 1": lambda g, x, n, p: g.ops.Pack([]),
        "this text is no GraphDef": lambda g, x, n, p: g.import_graph_def(b"garbage"),
        "input_map: the graph has nothing called nothing": lambda g, x, n, p: g.import_graph_def(
            imported(), input_map={"nothing": x}
        ),
        "'foreign:0' belongs to another graph than the first y": lambda g, x, n, p: fe.gradients(x, FOREIGN),
        "dropout takes keep_prob or rate": lambda g, x, n, p: fe.nn.dropout(x),
        "is not a multiple of 2": lambda g, x, n, p: fe.split(x, 2, axis=1),
    }


def imported() -> fe.Graph:
    other = fe.Graph()
    fe.square(other.placeholder("float32", name="in"), name="out")
    return other


def entered(context: Any) -> None:
    with context:
        pass


def escaped(graph: fe.Graph, x: fe.Tensor, p: fe.Tensor) -> None:
    """A tensor of one loop is used in another."""
    inside = []

    def body(v: fe.Tensor) -> fe.Tensor:
        inside.append(v)
        return v + 1.0

    graph.while_loop(lambda v: p, body, x)
    graph.while_loop(lambda v: p, lambda v: v + inside[0], x)


@pytest.mark.parametrize(
    ("kind", "said", "use"),
    [
        *((TypeError, said, use) for said, use in Wrong.types.items()),
        *((ValueError, said, use) for said, use in Wrong.values.items()),
    ],
)
def test_wrong_use(kind: type[Exception], said: str, use: Callable[..., Any]) -> None:
    graph = fe.Graph()
    x, n = graph.placeholder("float32", [2, 3], name="x"), graph.placeholder("int32", [], name="n")
    with pytest.raises(kind) as caught:
        use(graph, x, n, graph.placeholder("bool", [], name="p"))
    error = caught.value
    assert isinstance(error, fe.errors.InvalidArgumentError)
    assert said in str(error)
    assert "test_wrong_uses.py:" in str(error)
    assert error.__cause__ is None


@pytest.mark.parametrize("value", [object(), {1: 2}, 1j, [1, object()]])
def test_what_is_no_value_of_an_attribute(value: Any) -> None:
    graph = fe.Graph()
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"attribute '_mark': .* is no attribute value"):
        graph.ops.NoOp(_mark=value)  # type: ignore[call-arg]
