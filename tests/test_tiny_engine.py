"""The engine in one file, `docs/tiny_engine.py`, gives what the engine itself gives."""

from __future__ import annotations

import importlib.util
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import flowengine as fe

ROOT = Path(__file__).resolve().parent.parent

COMPUTE: dict[str, Any] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Less": operator.lt,
    "Greater": operator.gt,
    "Neg": operator.neg,
    "LoopCond": lambda x: x,
    "Identity": lambda x: x,
}


@pytest.fixture(scope="module")
def tiny() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiny_engine", ROOT / "docs" / "tiny_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_engine"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def loop(graph: fe.Graph, name: str, start: Any, limit: Any, body: Any) -> Any:
    """`while x < limit: x = body(x)`."""
    entered = graph.ops.Enter(start, frame_name=name)
    bound = graph.ops.Enter(limit, frame_name=name, is_constant=True)
    now, _ = graph.ops.Merge([entered, entered])
    out, again = graph.ops.Switch(now, graph.ops.LoopCond(graph.ops.Less(now, bound)))
    graph.set_back_edge(now, 1, graph.ops.NextIteration(body(again)))
    return graph.ops.Exit(out)


def branch(graph: fe.Graph, x: Any, limit: Any, below: Any, above: Any) -> Any:
    """`below(x)` if x is not greater than the limit, else `above(x)`."""
    low, high = graph.ops.Switch(x, graph.ops.Greater(x, limit))
    return graph.ops.Merge([below(low), above(high)])[0]


def both(tiny: ModuleType, graph: fe.Graph, result: Any, x: float) -> tuple[Any, Any]:
    """Return the engine's result and the tiny engine's when x is fed."""

    def compute(node: Any) -> Any:
        if node.op == "Const":
            value = node.attrs["value"].value()
            return lambda: [value]
        function = COMPUTE.get(node.op)
        return None if function is None else lambda *args: [function(*args)]

    nodes = [
        tiny.Node(
            name=node.name,
            op=node.op,
            inputs=tuple((port.node, port.slot) for port in node.inputs),
            compute=compute(node),
            frame=node.attrs.get("frame_name", b"").decode(),
            constant=node.attrs.get("is_constant", False),
        )
        for node in graph
    ]
    engine = tiny.TinyEngine(nodes)
    port = (result.port.node, result.port.slot)
    (token,) = engine.run({("x", 0): x}, [port])
    with fe.blocking.Session(graph) as session:
        try:
            value = session.run(result, {"x:0": x})
        except fe.errors.InvalidArgumentError:
            value = tiny.DEAD  # fetching a dead value is an error there
    return value, token


def within(graph: fe.Graph, value: float, *frames: str) -> Any:
    """A constant in every iteration of these frames, the outermost first."""
    tensor = graph.constant(value, "float32")
    for frame in frames:
        tensor = graph.ops.Enter(tensor, frame_name=frame, is_constant=True)
    return tensor


def a_branch(graph: fe.Graph, x: Any) -> Any:
    return branch(graph, x, within(graph, 10), graph.ops.Neg, lambda v: graph.ops.Mul(v, v))


def a_loop(graph: fe.Graph, x: Any) -> Any:
    return loop(graph, "a", x, within(graph, 100), lambda v: graph.ops.Add(v, within(graph, 1, "a")))


def a_loop_in_a_branch(graph: fe.Graph, x: Any) -> Any:
    return branch(graph, x, within(graph, 10), lambda v: a_loop(graph, v), graph.ops.Neg)


def a_branch_in_a_loop(graph: fe.Graph, x: Any) -> Any:
    def body(v: Any) -> Any:
        chosen = branch(graph, v, within(graph, 10, "a"), graph.ops.Identity, lambda w: graph.ops.Add(w, w))
        return graph.ops.Add(chosen, within(graph, 1, "a"))

    return loop(graph, "a", x, within(graph, 100), body)


def a_loop_in_a_loop(graph: fe.Graph, x: Any) -> Any:
    def inner(v: Any) -> Any:
        return graph.ops.Add(v, within(graph, 3, "a", "b"))

    def body(v: Any) -> Any:
        return graph.ops.Add(loop(graph, "b", v, within(graph, 20, "a"), inner), within(graph, 7, "a"))

    return loop(graph, "a", x, within(graph, 50), body)


def what_was_not_taken(graph: fe.Graph, x: Any) -> Any:
    low, _ = graph.ops.Switch(x, graph.ops.Greater(x, within(graph, 10)))
    return graph.ops.Neg(low)


@pytest.mark.parametrize("x", [-3.0, 0.5, 9.0, 10.5, 200.0])
@pytest.mark.parametrize(
    "build",
    [a_branch, a_loop, a_loop_in_a_branch, a_branch_in_a_loop, a_loop_in_a_loop, what_was_not_taken],
)
def test_it_says_what_the_engine_says(
    tiny: ModuleType, build: Callable[[fe.Graph, Any], Any], x: float
) -> None:
    graph = fe.Graph()
    result = build(graph, graph.placeholder("float32", [], name="x"))
    value, token = both(tiny, graph, result, x)
    assert (value is tiny.DEAD) == (token is tiny.DEAD)
    if value is not tiny.DEAD:
        assert value == token
