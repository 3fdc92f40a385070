"""Names, string attributes and constants of a graph are data, whatever they look like."""

from __future__ import annotations

import builtins
import re
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.names import is_valid_node_name
from flowengine.testing.control import while_loop

TEXTS = (
    "__import__('os').system('false')",
    "'''\"\"\"\\",
    "{0}{x!r}%s%(x)s${y}",
    "\n\r\t\x00",
    "# ]); raise SystemExit",
    "\u202e\u2028\ufeff",
    "a" * 5000,
    "../../etc/passwd",
    "\x1b[2J\x1b]0;title\x07",
    "None",
    "",
)
NAMES = (
    "lambda",
    "import",
    "__import__",
    "None",
    "exec",
    "0",
    "1e9",
    "a-b/c.d\\e>f_",
    "_private",
    "while/while",
    "a" * 5000,
)

hostile_bytes = st.one_of(st.sampled_from([t.encode() for t in TEXTS]), st.binary(max_size=20))


def run(graph: fe.Graph, fetches: Any, feeds: Any = None, targets: Any = ()) -> Any:
    async def main() -> Any:
        async with fe.Session(graph) as session:
            return await session.run(fetches, feeds, targets=targets)

    return trio.run(main)


@given(st.lists(hostile_bytes, min_size=1, max_size=4))
def test_string_constants_come_out_as_they_went_in(texts: list[bytes]) -> None:
    g = fe.Graph()
    value = g.constant(np.array(texts, dtype=object), "string")
    g.ops.ConcatV2([value, value], 0, name="both")
    read = fe.Graph.from_graph_def(g.to_graph_def().SerializeToString())
    assert list(run(read, "both:0")) == texts * 2


@given(st.one_of(st.sampled_from(NAMES), st.text(max_size=8)))
@example("^a")
@example("a:0")
@example(" ")
@example("a\x00b")
def test_node_names_are_legal_or_refused(name: str) -> None:
    """Never anything between: a name that is let in works as a name."""
    definition = fe.Graph()
    definition.constant(2.0, name="x")
    definition.ops.Mul(definition.tensor("x:0"), definition.tensor("x:0"), name="y")
    message = definition.to_graph_def()
    for node in message.node:
        if node.name == "x":
            try:
                node.name = name
            except (ValueError, UnicodeError):
                return  # no protocol buffer can say it
        node.input[:] = [name if i == "x" else i for i in node.input]
    try:
        graph = fe.Graph.from_graph_def(message.SerializeToString())
    except fe.errors.InvalidArgumentError:
        assert not is_valid_node_name(name) or name == "y"
        return
    assert run(graph, "y:0") == 4.0
    assert run(graph, f"{name}:0") == 2.0


@given(hostile_bytes)
def test_frame_names_may_be_anything(name: bytes) -> None:
    g = fe.Graph()
    ops = g.ops
    while_loop(g, lambda i: ops.Less(i, 3), lambda i: [ops.Add(i, 1)], [g.constant(0)], name="loop")
    message = g.to_graph_def()
    for node in message.node:
        if node.op == "Enter":
            node.attr["frame_name"].s = name
    graph = fe.Graph.from_graph_def(message.SerializeToString())
    assert run(graph, "loop/Exit:0") == 3


@given(hostile_bytes, hostile_bytes)
def test_names_of_resources_are_taken_as_they_are_or_refused(container: bytes, name: bytes) -> None:
    """Names that TensorFlow forbids are forbidden: see `ContainerInfo` there."""
    g = fe.Graph()
    ops = g.ops
    variable = ops.VariableV2(dtype="int32", shape=[], container=container, shared_name=name, name="v")
    ops.Identity(ops.Assign(variable, 7), name="assigned")
    if re.fullmatch(rb"([A-Za-z0-9.][A-Za-z0-9_.\-/]*)?", container) and not name.startswith(b"_"):
        assert run(g, "assigned:0") == 7
    else:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"container|shared_name"):
            run(g, "assigned:0")


@given(st.text(max_size=12))
def test_unknown_attributes_are_kept_and_mean_nothing(text: str) -> None:
    g = fe.Graph()
    g.constant(1.0, name="x")
    message = g.to_graph_def()
    message.node[0].attr["_" + text].s = text.encode("utf-8", "replace")
    graph = fe.Graph.from_graph_def(message.SerializeToString())
    assert run(graph, "x:0") == 1.0
    again = graph.to_graph_def().node[0].attr["_" + text].s
    assert again == text.encode("utf-8", "replace")


@pytest.mark.parametrize("name", ["y:0", "nobody:0", "", "x:-1", "x:1", "x:0:0", "x:99999999999999999999"])
def test_fetches_that_name_nothing_are_refused(name: str) -> None:
    g = fe.Graph()
    g.constant(1.0, name="x")
    with pytest.raises(fe.errors.OpError) as caught:
        run(g, name)
    assert type(caught.value) in (fe.errors.InvalidArgumentError, fe.errors.NotFoundError)


def test_nothing_of_a_graph_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building, planning and running touch neither eval, exec nor compile with text of the graph."""
    seen: list[str] = []
    for function in ("eval", "exec", "compile"):
        real = getattr(builtins, function)

        def watch(source: Any, *args: Any, _real: Any = real, **kwargs: Any) -> Any:
            if isinstance(source, str):
                seen.append(source)
            return _real(source, *args, **kwargs)

        monkeypatch.setattr(builtins, function, watch)
    g = fe.Graph()
    marked = "markedtext"
    ops = g.ops
    with g.name_scope(marked):
        x = g.placeholder("float32", [], name="x")
        ops.Mul(x, x, name="y")
        g.constant(marked.encode(), "string", name="text")
    for _ in range(50):
        run(g, [f"{marked}/y:0", f"{marked}/text:0"], {f"{marked}/x:0": 3.0})
    assert not [text for text in seen if marked in text]
