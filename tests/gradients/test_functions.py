"""Gradients of calls of functions: written out where a gradient goes through them, or called themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.ir.attrs import FuncAttr
from flowengine.testing.control import while_loop

AT = 0.7
FLOAT = 'attr { key: "T" value { type: DT_DOUBLE } }'
#: Functions of float64, among them the parts of a loop, and one that calls itself.
LIBRARY = """
library {
  function {
    signature { name: "square" input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    node_def { name: "m" op: "Mul" input: "a" input: "a" %(T)s }
    ret { key: "y" value: "m:z:0" }
  }
  function {
    signature { name: "thrice" input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    node_def { name: "c" op: "Const" attr { key: "dtype" value { type: DT_DOUBLE } }
      attr { key: "value" value { tensor { dtype: DT_DOUBLE tensor_shape {} double_val: 3 } } } }
    node_def { name: "inner" op: "PartitionedCall" input: "a"
      attr { key: "Tin" value { list { type: DT_DOUBLE } } }
        attr { key: "Tout" value { list { type: DT_DOUBLE } } }
      attr { key: "f" value { func { name: "same" } } } }
    node_def { name: "m" op: "Mul" input: "inner:output:0" input: "c:output:0" %(T)s }
    ret { key: "y" value: "m:z:0" }
  }
  function {
    signature { name: "same" input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    node_def { name: "i" op: "Identity" input: "a" %(T)s }
    ret { key: "y" value: "i:output:0" }
  }
  function {
    signature { name: "less" input_arg { name: "i" type: DT_INT32 }
      input_arg { name: "v" type: DT_DOUBLE }
      input_arg { name: "w" type: DT_DOUBLE } output_arg { name: "y" type: DT_BOOL } }
    node_def { name: "n" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 3 } } } }
    node_def { name: "l" op: "Less" input: "i" input: "n:output:0"
      attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "y" value: "l:z:0" }
  }
  function {
    signature { name: "round" input_arg { name: "i" type: DT_INT32 }
      input_arg { name: "v" type: DT_DOUBLE }
      input_arg { name: "w" type: DT_DOUBLE } output_arg { name: "j" type: DT_INT32 }
      output_arg { name: "u" type: DT_DOUBLE } output_arg { name: "x" type: DT_DOUBLE } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 1 } } } }
    node_def { name: "a" op: "AddV2" input: "i" input: "one:output:0"
      attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "m" op: "Mul" input: "v" input: "w" %(T)s }
    ret { key: "j" value: "a:z:0" } ret { key: "u" value: "m:z:0" } ret { key: "x" value: "w" }
  }
  function {
    signature { name: "halves" input_arg { name: "n" type: DT_INT32 }
      input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    node_def { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 0 } } } }
    node_def { name: "p" op: "Greater" input: "n" input: "zero:output:0"
      attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "c" op: "StatelessIf" input: "p:z:0" input: "n" input: "a"
      attr { key: "Tcond" value { type: DT_BOOL } }
      attr { key: "Tin" value { list { type: DT_INT32 type: DT_DOUBLE } } }
      attr { key: "Tout" value { list { type: DT_DOUBLE } } }
      attr { key: "then_branch" value { func { name: "again" } } }
      attr { key: "else_branch" value { func { name: "last" } } } }
    ret { key: "y" value: "c:output:0" }
  }
  function {
    signature { name: "again" input_arg { name: "n" type: DT_INT32 }
      input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 1 } } } }
    node_def { name: "less" op: "Sub" input: "n" input: "one:output:0"
      attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "m" op: "Mul" input: "a" input: "a" %(T)s }
    node_def { name: "more" op: "PartitionedCall" input: "less:z:0" input: "m:z:0"
      attr { key: "Tin" value { list { type: DT_INT32 type: DT_DOUBLE } } }
      attr { key: "Tout" value { list { type: DT_DOUBLE } } }
        attr { key: "f" value { func { name: "halves" } } } }
    ret { key: "y" value: "more:output:0" }
  }
  function {
    signature { name: "last" input_arg { name: "n" type: DT_INT32 }
      input_arg { name: "a" type: DT_DOUBLE }
      output_arg { name: "y" type: DT_DOUBLE } }
    ret { key: "y" value: "a" }
  }
}
""".replace("%(T)s", FLOAT)


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


@pytest.fixture
def graph() -> fe.Graph:
    return fe.Graph.from_graph_def(LIBRARY)


def function(name: str) -> FuncAttr:
    return FuncAttr(name)


def two_orders(graph: fe.Graph, y: fe.Tensor, x: fe.Tensor, feeds: Any) -> list[float]:
    (first,) = fe.gradients(y, x)
    assert isinstance(first, fe.Tensor)
    (second,) = fe.gradients(first, x)
    return [float(each) for each in evaluate(graph, [y, first, second], feeds)]


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_and_a_call_within(graph: fe.Graph, op: str) -> None:
    x = graph.placeholder("float64", [], name="x")
    (inner,) = getattr(graph.ops, op)([x], Tout=["float64"], f=function("thrice"))
    (y,) = graph.ops.PartitionedCall([inner], Tout=["float64"], f=function("square"), name="y")
    before = evaluate(graph, y, {x: 2.0})
    assert two_orders(graph, y, x, {x: 2.0}) == [before, 36.0, 18.0]
    assert graph.operation("y").type == "IdentityN"


def test_a_call_is_computed_again(graph: fe.Graph) -> None:
    """The body of a function that is called in a segment belongs to it."""
    x = graph.placeholder("float64", [], name="x")
    with graph.recompute():
        (inner,) = graph.ops.PartitionedCall([x], Tout=["float64"], f=function("square"), name="first")
        (y,) = graph.ops.PartitionedCall([inner], Tout=["float64"], f=function("square"), name="y")
    assert two_orders(graph, y, x, {x: 2.0}) == [16.0, 32.0, 48.0]
    copies = [node.name for node in graph if node.name.startswith("gradients/recompute/")]
    assert any(name.startswith("gradients/recompute/first/called/") for name in copies)


def test_a_session_that_has_run_goes_on(graph: fe.Graph) -> None:
    x = graph.placeholder("float64", [], name="x")
    (y,) = graph.ops.PartitionedCall([x], Tout=["float64"], f=function("square"), name="y")
    with fe.blocking.Session(graph) as session:
        assert session.run(y, {x: 3.0}) == 9.0
        (dx,) = fe.gradients(y, x)
        assert session.run([y, dx], {x: 3.0}) == [9.0, 6.0]


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize(("cond", "expected"), [(True, [4.0, 4.0, 2.0]), (False, [6.0, 3.0, 0.0])])
def test_if(graph: fe.Graph, op: str, cond: bool, expected: list[float]) -> None:
    x = graph.placeholder("float64", [], name="x")
    pred = graph.placeholder("bool", [], name="pred")
    (y,) = getattr(graph.ops, op)(
        pred, [x], Tout=["float64"], then_branch=function("square"), else_branch=function("thrice")
    )
    assert two_orders(graph, y, x, {x: 2.0, pred: cond}) == expected


@pytest.mark.parametrize(
    ("dtype", "cond", "taken"),
    [
        ("int32", -1, True),
        ("float64", 0.0, False),
        ("string", b"a", True),
        ("string", b"", False),
        ("bool", [False], True),
        ("int32", [0], True),
        ("float64", np.zeros([0]), False),
        ("float64", np.zeros([3, 0]), False),
    ],
)
def test_a_condition_may_be_of_any_type(graph: fe.Graph, dtype: str, cond: Any, taken: bool) -> None:
    """Also where only its rank is known: not zero, not empty, or a tensor with elements."""
    x = graph.placeholder("float64", [], name="x")
    pred = graph.placeholder(dtype, [None] * np.ndim(cond), name="pred")
    branches: dict[str, Any] = {"then_branch": function("square"), "else_branch": function("thrice")}
    (y,) = graph.ops.StatelessIf(pred, [x], Tout=["float64"], **branches)
    assert two_orders(graph, y, x, {x: 2.0, pred: cond}) == ([4.0, 4.0, 2.0] if taken else [6.0, 3.0, 0.0])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, [4.0, 4.0, 2.0]),
        (1, [6.0, 3.0, 0.0]),
        (2, [2.0, 1.0, 0.0]),
        (-1, [2.0, 1.0, 0.0]),
        (7, [2.0, 1.0, 0.0]),
    ],
)
def test_case(graph: fe.Graph, index: int, expected: list[float]) -> None:
    x = graph.placeholder("float64", [], name="x")
    chosen = graph.placeholder("int32", [], name="index")
    branches = [function("square"), function("thrice"), function("same")]
    (y,) = graph.ops.Case(chosen, [x], Tout=["float64"], branches=branches)
    assert two_orders(graph, y, x, {x: 2.0, chosen: index}) == expected


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_while(graph: fe.Graph, op: str) -> None:
    x = graph.placeholder("float64", [], name="x")
    loop = getattr(graph.ops, op)(
        [graph.constant(0), graph.constant(1.0, "float64"), x],
        cond=function("less"),
        body=function("round"),
        name="loop",
    )
    assert two_orders(graph, loop[1], x, {x: 2.0}) == [8.0, 12.0, 12.0]
    # What is handed on as it is leaves as it came.
    assert evaluate(graph, loop[2], {x: 2.0}) == 2.0


def test_what_only_zeros_are_made_of_is_not_connected() -> None:
    """The third variable of the loop leads to y by ZerosLike alone, which has no derivative."""
    graph = fe.Graph.from_graph_def(LIBRARY)
    x, z = (graph.placeholder("float64", [], name=name) for name in "xz")
    ops = graph.ops
    loop = ops.While(
        [graph.constant(0), graph.constant(1.0, "float64"), x], cond=function("less"), body=function("round")
    )
    other = ops.While([graph.constant(0), z, x], cond=function("less"), body=function("round"))
    y = ops.AddV2(loop[1], ops.ZerosLike(other[1]))
    dx, dz = fe.gradients(y, [x, z])
    assert dz is None
    assert evaluate(graph, dx, {x: 2.0, z: 5.0}) == 12.0


@pytest.mark.parametrize(("dtype", "is_connected"), [("int32", False), ("float64", True)])
def test_a_list_of_whole_numbers_has_no_gradient(graph: fe.Graph, dtype: str, is_connected: bool) -> None:
    ops = graph.ops
    x, z = (graph.placeholder("float64", [], name=name) for name in "xz")
    numbers = ops.EmptyTensorList(np.zeros(0, np.int32), 3, element_dtype=dtype)
    pushed = ops.TensorListPushBack(numbers, graph.constant(3, dtype))
    beside_x = ops.IdentityN([pushed, x])
    y = ops.IdentityN([beside_x[0], ops.Square(z)])[1]
    dx, dz = fe.gradients(y, [x, z])
    assert (dx is not None) == is_connected
    assert evaluate(graph, dz, {x: 1.0, z: 2.0}) == 4.0


def _calling_by(op: str, *, also: str = "") -> fe.Graph:
    """The library, whose recursive function calls itself by an op; `also` is a node of its body."""
    call = 'node_def { name: "more" op: "PartitionedCall"'
    assert call in LIBRARY
    return fe.Graph.from_graph_def(LIBRARY.replace(call, f'{also} node_def {{ name: "more" op: "{op}"'))


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_recursive_function_is_called_again(op: str) -> None:
    graph = _calling_by(op)
    x = graph.placeholder("float64", [], name="x")
    times = graph.placeholder("int32", [], name="times")
    (y,) = getattr(graph.ops, op)([times, x], Tout=["float64"], f=function("halves"))
    (dx,) = fe.gradients(y, x)
    np.testing.assert_allclose(evaluate(graph, [y, dx], {x: 1.1, times: 3}), [1.1**8, 8 * 1.1**7])


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_recursive_function_with_state_is_not(op: str) -> None:
    state = """node_def { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_DOUBLE } }
      attr { key: "shape" value { shape {} } } }"""
    graph = _calling_by(op, also=state)
    x = graph.placeholder("float64", [], name="x")
    (y,) = getattr(graph.ops, op)([2, x], Tout=["float64"], f=function("halves"))
    with pytest.raises(LookupError, match="of functions without state"):
        fe.gradients(y, x)


@pytest.mark.parametrize("name", ["square", "Square"])
def test_symbolic_gradient(graph: fe.Graph, name: str) -> None:
    """Of a function, and of an op of that name where there is none."""
    attrs = {"T": dtypes.float64} if name == "Square" else {}
    x = graph.placeholder("float64", [], name="x")
    (dx,) = graph.ops.SymbolicGradient([x, np.float64(10.0)], Tout=["float64"], f=FuncAttr(name, attrs))
    assert evaluate(graph, dx, {x: 3.0}) == 60.0


def test_the_second_derivative_of_a_recursive_function_is_refused(graph: fe.Graph) -> None:
    x = graph.placeholder("float64", [], name="x")
    (y,) = graph.ops.PartitionedCall([3, x], Tout=["float64"], f=function("halves"))
    (dx,) = fe.gradients(y, x)
    with pytest.raises(LookupError, match="'halves', a function that calls itself"):
        fe.gradients(dx, x)


@pytest.mark.parametrize("name", ["square", "Square", "in a loop"])
def test_a_symbolic_gradient_is_differentiated(graph: fe.Graph, name: str) -> None:
    """By the arguments of its function and by the gradient that it is given; also in a loop and a choice."""
    attrs = {"T": dtypes.float64} if name == "Square" else {}
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")
    seed = ops.Exp(x)

    if name == "in a loop":
        _, y = while_loop(
            graph,
            lambda i, v, s: ops.Less(i, 2),
            lambda i, v, s: [
                ops.AddV2(i, 1),
                ops.SymbolicGradient([v, s], Tout=["float64"], f=function("square"))[0],
            ],
            [graph.constant(0), x],
            invariants=[seed],
        )
        # 2 s (2 s v) = 4 x exp(2 x)
        expected = [4 * AT * np.exp(2 * AT), (4 + 8 * AT) * np.exp(2 * AT), (16 + 16 * AT) * np.exp(2 * AT)]
    else:
        (y,) = ops.SymbolicGradient([x, seed], Tout=["float64"], f=FuncAttr(name, attrs))
        expected = [2 * AT * np.exp(AT), (2 + 2 * AT) * np.exp(AT), (4 + 2 * AT) * np.exp(AT)]
    np.testing.assert_allclose(two_orders(graph, y, x, {x: AT}), expected, rtol=1e-12)


def test_the_gradient_that_the_library_says() -> None:
    named = LIBRARY.rstrip()[:-1] + ' gradient { function_name: "square" gradient_func: "wrong" } }'
    wrong = named.replace(
        "library {",
        """library { function {
        signature { name: "wrong" input_arg { name: "a" type: DT_DOUBLE }
          input_arg { name: "g" type: DT_DOUBLE }
          output_arg { name: "y" type: DT_DOUBLE } }
        node_def { name: "m" op: "Mul" input: "a" input: "g" %(T)s }
        ret { key: "y" value: "m:z:0" } }""".replace("%(T)s", FLOAT),
        1,
    )
    graph = fe.Graph.from_graph_def(wrong)
    x = graph.placeholder("float64", [], name="x")
    (y,) = graph.ops.PartitionedCall([x], Tout=["float64"], f=function("square"))
    (dx,) = fe.gradients(y, x)
    assert evaluate(graph, dx, {x: 3.0}) == 3.0
