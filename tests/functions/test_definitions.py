"""Functions that Python functions build: what they take, capture and give, written and read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.definitions import _parameter_names


def run(graph: fe.Graph, fetches: Any, feeds: dict[str, Any], targets: Any = ()) -> Any:
    """The values of the graph and of what is read of its GraphDef, which must be the same."""
    found = []
    for each in (graph, fe.Graph.from_graph_def(graph.to_graph_def())):
        with fe.blocking.Session(each) as session:
            if targets:
                session.run([], targets=targets)
            found.append(session.run(fetches, feeds))
    np.testing.assert_equal(found[0], found[1])
    return found[0]


def test_a_function_is_called_with_tensors_and_values() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32", "float32"])
    def scaled(x: fe.Tensor, by: fe.Tensor) -> fe.Tensor:
        return x * by

    x = graph.placeholder("float32", [2], name="x")
    y, z = scaled(x, 3.0, name="y"), scaled(x, x, name="z")
    assert (y.op.type, y.name, scaled.name) == ("PartitionedCall", "y:0", "scaled")
    assert [each.tolist() for each in run(graph, ["y:0", "z:0"], {"x:0": [1.0, 2.0]})] == [[3, 6], [1, 4]]
    assert repr(scaled) == "<function 'scaled' of float32, float32>"
    assert z.dtype is fe.dtypes.float32


def test_what_it_gives_has_the_shapes_that_its_inputs_allow() -> None:
    graph = fe.Graph()

    @fe.function(graph, [("float32", [2, 3]), graph.placeholder("float32", [3, 4], name="like")])
    def product(a: fe.Tensor, b: fe.Tensor) -> list[Any]:
        return [fe.matmul(a, b), 7]

    found, seven = product(np.ones([2, 3], np.float32), np.ones([3, 4], np.float32))
    assert found.shape.as_list() == [2, 4]
    assert seven.dtype is fe.dtypes.int32


def test_a_node_may_wait_for_an_argument() -> None:
    """An argument is there when the body begins: it is no node, and there is no edge from one."""
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def waiting(x: fe.Tensor) -> fe.Tensor:
        with x.graph.control_dependencies([x.op]):
            return x.graph.constant(2.0)

    waiting(graph.placeholder("float32", [], name="x"), name="y")
    assert run(graph, "y:0", {"x:0": 1.0}) == 2
    (definition,) = graph.to_graph_def().library.function
    assert not any(name.startswith("^") for node in definition.node_def for name in node.input)


def test_functions_call_functions() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def inner(x: fe.Tensor) -> fe.Tensor:
        return x + 1.0

    @fe.function(graph, ["float32"])
    def twice(x: fe.Tensor) -> Any:
        return inner(inner(x))

    twice(1.0, name="y")
    assert run(graph, "y:0", {}) == 3


def test_a_function_of_a_body_alone_comes_along() -> None:
    graph = fe.Graph()

    def outer(x: fe.Tensor) -> Any:
        @fe.function(x.graph, ["float32"])
        def inner(y: fe.Tensor) -> fe.Tensor:
            return y * 2.0

        return inner(x)

    fe.function(graph, ["float32"])(outer)(3.0, name="y")
    assert run(graph, "y:0", {}) == 6

    @fe.function(graph, ["float32"], name="other")
    def other(x: fe.Tensor) -> Any:
        @fe.function(x.graph, ["float32"])
        def inner(y: fe.Tensor) -> fe.Tensor:
            return y * 4.0

        return inner(x)

    with pytest.raises(InvalidArgumentError, match="another function called 'inner' already"):
        other(1.0)


def test_a_function_may_call_itself() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["int32"], outputs=["int32"], stateful=False)
    def factorial(n: fe.Tensor) -> fe.Tensor:
        @fe.function(graph, ["int32"])
        def one(n: fe.Tensor) -> Any:
            return 1

        @fe.function(graph, ["int32"])
        def more(n: fe.Tensor) -> Any:
            return n * factorial(n - 1)

        branches: dict[str, Any] = {"then_branch": one.attr, "else_branch": more.attr}
        result: fe.Tensor = n.graph.ops.StatelessIf(n <= 1, [n], Tout=["int32"], **branches)[0]
        return result

    n = graph.placeholder("int32", [], name="n")
    assert factorial(n, name="y").op.type == "PartitionedCall"
    assert run(graph, "y:0", {"n:0": 10}) == 3628800


def test_what_calls_itself_says_what_it_gives() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["int32"])
    def forever(n: fe.Tensor) -> Any:
        return forever(n)

    with pytest.raises(InvalidArgumentError, match=r"function 'forever' calls itself: declare its results"):
        forever(1)

    @fe.function(graph, ["int32"], outputs=["float32"])
    def wrong(n: fe.Tensor) -> fe.Tensor:
        return n

    with pytest.raises(InvalidArgumentError, match=r"'wrong' returns \['int32'\]; outputs= declares"):
        wrong(1)


def test_a_variable_that_is_captured_is_the_same_in_all_calls() -> None:
    graph = fe.Graph()
    variable = graph.variable(np.array([1, 2], np.float32), name="v")
    x = graph.placeholder("float32", [2], name="x")

    @fe.function(graph, [("float32", [2])])
    def added(by: fe.Tensor) -> fe.Tensor:
        ops = by.graph.ops
        with by.graph.control_dependencies([ops.AssignAddVariableOp(variable.handle, by)]):
            result: fe.Tensor = ops.ReadVariableOp(variable.handle, dtype="float32")
        return result

    first = added(x, name="first")
    with graph.control_dependencies([first]):
        added(x, name="second")
    assert added.captures == [variable.handle]
    assert added.is_stateful
    assert first.op.type == "StatefulPartitionedCall"
    found = run(graph, ["first:0", "second:0"], {"x:0": [1.0, 1.0]}, [variable.initializer.name])
    assert [each.tolist() for each in found] == [[2, 3], [3, 4]]


def test_what_is_captured_in_a_function_within_is_captured_by_those_around_it() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")

    @fe.function(graph, [])
    def outer(body: fe.Graph) -> Any:
        @fe.function(graph, ["float32"])
        def inner(y: fe.Tensor) -> fe.Tensor:
            return y * x

        return [inner(x, graph=body), x]

    found = outer(name="y")
    assert outer.captures == [x]
    assert len(found) == 2
    assert run(graph, ["y:0", "y:1"], {"x:0": 3.0}) == [9, 3]


def test_a_function_for_its_effect_gives_an_operation() -> None:
    graph = fe.Graph()
    variable = graph.variable(np.float32(0), name="v")

    @fe.function(graph, ["float32"])
    def assign(x: fe.Tensor) -> None:
        x.graph.ops.AssignVariableOp(variable.handle, x)

    assert isinstance(assign(4.0, name="set"), fe.Operation)
    assert run(graph, variable.value().name, {}, ["set"]) == 4


def test_inputs_that_do_not_fit_are_told() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def identity(x: fe.Tensor) -> fe.Tensor:
        return x

    with pytest.raises(InvalidArgumentError, match="'identity' takes 1 inputs; 2 are given"):
        identity(1.0, 2.0)
    with pytest.raises(InvalidArgumentError, match=r"takes float32 as input 0, not 'n:0' \(int32\)"):
        identity(graph.placeholder("int32", name="n"))

    @fe.function(graph, ["float32"], name="identity")
    def again(x: fe.Tensor) -> fe.Tensor:
        return x + x

    assert again.name == "identity_1"


@pytest.mark.parametrize("text", ["nowhere", "nowhere:y:0", "there:z:0", "there:y:1", "x:1"])
def test_a_body_that_takes_from_what_it_has_not_is_told(text: str) -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def twice(x: Any) -> Any:
        return x.graph.ops.Neg(x.graph.ops.Neg(x, name="there"), name="behind")

    twice(graph.constant(1.0))
    written = graph.to_graph_def()
    (function,) = written.library.function
    (behind,) = [node for node in function.node_def if node.name == "behind"]
    assert behind.input[0] == "there:y:0"
    behind.input[0] = text
    (call,) = [node.name for node in written.node if node.op not in ("Const", "NoOp")]
    with pytest.raises(fe.errors.InvalidArgumentError, match=f"uses '{text}', which it does not have"):
        run(fe.Graph.from_graph_def(written), f"{call}:0", {})


def test_arguments_are_called_as_those_of_the_python_function() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32", "float32"])
    def named(first: fe.Tensor, Second: fe.Tensor, by: float = 2.0) -> fe.Tensor:
        return first * Second * by

    @fe.function(graph, ["float32", "float32"])
    def unnamed(*each: fe.Tensor) -> fe.Tensor:
        return each[0] * each[1]

    @fe.function(graph, ["float32", "float32"])
    def exact(a: fe.Tensor, b: fe.Tensor) -> fe.Tensor:
        return a - b

    calls = [named(2.0, 3.0), unnamed(2.0, 3.0), exact(2.0, 3.0)]
    assert [each.op.name for each in calls] == ["named", "unnamed", "exact"]
    assert run(graph, [each.name for each in calls], {}) == [12, 6, -1]
    library = {each.signature.name: each.signature for each in graph.to_graph_def().library.function}
    assert [each.name for each in library["named"].input_arg] == ["first", "second"]
    assert [each.name for each in library["exact"].input_arg] == ["a", "b"]
    assert [each.name for each in library["unnamed"].input_arg] == ["arg_0", "arg_1"]


def test_an_effect_makes_a_function_stateful() -> None:
    graph = fe.Graph()
    variable = graph.variable(1.0, name="v")

    @fe.function(graph, ["float32"])
    def pure(x: fe.Tensor) -> fe.Tensor:
        return -x

    @fe.function(graph, ["float32"])
    def adds(x: fe.Tensor) -> fe.Tensor:
        ops = x.graph.ops
        with x.graph.control_dependencies([ops.AssignAddVariableOp(variable.handle, x)]):
            return ops.Identity(x)

    assert pure.is_stateful is False
    assert adds.is_stateful is True


def test_an_effect_that_was_denied_is_named() -> None:
    graph = fe.Graph()
    variable = graph.variable(1.0, name="v")

    @fe.function(graph, ["float32"], outputs=["float32"], stateful=False)
    def adds(x: fe.Tensor) -> fe.Tensor:
        ops = x.graph.ops
        with x.graph.control_dependencies([ops.AssignAddVariableOp(variable.handle, x, name="adding")]):
            return ops.Identity(x)

    with pytest.raises(InvalidArgumentError, match="'adds' is declared stateless, but 'adding' has effects"):
        adds(1.0)


@pytest.mark.parametrize("spec", [("float32",), ("float32", [2], "x"), ()])
def test_an_input_is_a_type_or_a_type_and_a_shape(spec: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a data type"):
        fe.function(fe.Graph(), [spec])


def test_what_calls_itself_captures_nothing() -> None:
    graph = fe.Graph()
    outside = graph.placeholder("int32", [], name="outside")

    @fe.function(graph, ["int32"], outputs=["int32"])
    def endless(n: fe.Tensor) -> Any:
        return endless(n) + outside

    with pytest.raises(InvalidArgumentError, match="'endless' calls itself and uses 'outside"):
        endless(1)

    @fe.function(graph, ["int32"], outputs=["int32"])
    def chosen(n: fe.Tensor) -> Any:
        branches = [chosen.attr, chosen.attr]
        return n.graph.ops.Case(n, [n + outside], branches=branches, Tout=["int32"])[0]

    with pytest.raises(InvalidArgumentError, match="'chosen' calls itself and uses 'outside"):
        chosen(1)


def test_of_a_function_that_is_being_built_only_what_was_said_is_known() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["int32"], outputs=["int32"])
    def again(n: fe.Tensor) -> Any:
        with pytest.raises(
            InvalidArgumentError, match="is still being built: its captures are not known yet"
        ):
            _ = again.captures
        called = again(n)
        assert isinstance(called, fe.Tensor)
        return called

    again(1)
    assert again.captures == []


def test_an_operation_is_no_result() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["int32"])
    def effect(n: fe.Tensor) -> Any:
        return [n, n.graph.ops.NoOp(name="effect")]

    with pytest.raises(InvalidArgumentError, match="'effect' is an operation without a value"):
        effect(1)


@pytest.mark.parametrize("place", ["start", "limit", "delta"])
def test_the_bounds_of_a_counted_loop_are_scalars(place: str) -> None:
    graph = fe.Graph()

    @fe.function(graph, ["int32", "float32"])
    def body(i: fe.Tensor, x: fe.Tensor) -> fe.Tensor:
        return x + 1.0

    bounds = {"start": 0, "limit": 3, "delta": 1}
    given = [np.array([value] if name == place else value, np.int32) for name, value in bounds.items()]
    inputs = [*map(graph.constant, given), [graph.constant(0.0)]]
    graph.create_op("For", inputs, {"body": body.attr, "T": ["float32"]}, "loop")
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(InvalidArgumentError, match=f"{place} must be a scalar"),
    ):
        session.run("loop:0")


class _Strange:
    """A callable that cannot say what it takes."""

    __signature__ = 3

    def __call__(self, x: fe.Tensor) -> fe.Tensor:
        return -x


def test_what_cannot_say_what_it_takes_has_numbered_arguments() -> None:
    graph = fe.Graph()
    negated = fe.function(graph, ["float32"], name="negated")(_Strange())
    assert run(graph, [negated(2.0).name], {}) == [-2]
    (written,) = graph.to_graph_def().library.function
    assert [each.name for each in written.signature.input_arg] == ["arg_0"]
    assert _parameter_names(min, 2) == ["arg_0", "arg_1"]
