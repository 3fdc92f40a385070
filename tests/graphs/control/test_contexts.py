"""MetaGraphs carry the branches and loops that TensorFlow differentiates by."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe

TENSORFLOW: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON", "")
HERE: Final = Path(__file__).parent
FEEDS: Final = {"x": np.array([[1, 2, 3], [-1, 0.5, 0.25]]), "n": np.int32(4)}


def built() -> fe.Graph:
    """Loops, conditionals, nests of both, and loops over rows; y is their sum."""
    graph = fe.Graph()
    x, n = graph.placeholder("float64", [None, 3], name="x"), graph.placeholder("int32", [], name="n")

    def body(i: Any, v: Any) -> Any:
        def inner(j: Any, w: Any) -> Any:
            return j + 1, graph.cond(fe.reduce_sum(w) > 5.0, lambda: w * 0.5, lambda: w + fe.reduce_mean(x))

        deeper = graph.while_loop(lambda j, w: j < 2, inner, (0, v))[1]
        return i + 1, graph.cond(fe.equal(i % 2, 0), lambda: deeper * 1.5, lambda: v - x * 0.1)

    parts = [
        graph.while_loop(lambda i, v: i < n, body, (0, x), maximum_iterations=10)[1],
        graph.map(lambda row: fe.reduce_sum(fe.exp(row * 0.1)) * row[::-1], x),
        graph.scan(lambda so_far, row: so_far * row + fe.sin(row), x),
        graph.fold(lambda so_far, row: so_far + row * so_far * 0.2, x, np.ones(3)),
        graph.case([(n > 10, lambda: x * 2.0), (n > 3, lambda: x * x)], lambda: x + 1.0),
        graph.switch_case(n % 3, [lambda: x * 1.0, lambda: fe.tanh(x), lambda: x * 3.0]),
        graph.cond(n > 3, lambda: grown(graph, x), lambda: x),
    ]
    fe.add_n([fe.reduce_sum(each * each) for each in parts], name="y")
    return graph


def grown(graph: fe.Graph, x: fe.Tensor) -> Any:
    return graph.while_loop(lambda v: fe.reduce_sum(v) < 50.0, lambda v: v * 1.3 + x * x, x)


def slope_here(graph: fe.Graph) -> tuple[Any, Any]:
    """y, and its gradient at x."""
    (slope,) = fe.gradients(graph.tensor("y:0"), graph.tensor("x:0"))
    with fe.blocking.Session(graph) as session:
        y, found = session.run(["y:0", slope], {f"{name}:0": value for name, value in FEEDS.items()})
    return y, found


def slope_in_tensorflow(path: Path) -> tuple[Any, Any]:
    """The same of a file, imported and differentiated by TensorFlow."""
    command = [TENSORFLOW, str(HERE / "contexts_in_tensorflow.py"), "slope", str(path)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(made.stdout)
    return found["y"], np.array(found["slope"])


def written(graph: fe.Graph, path: Path) -> Path:
    path.write_bytes(graph.to_meta_graph().SerializeToString())
    return path


@pytest.mark.skipif(
    not TENSORFLOW, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 1.15"
)
def test_tensorflow_differentiates_what_is_built_here(tmp_path: Path) -> None:
    graph = built()
    path = written(graph, tmp_path / "graph.meta")
    again = written(fe.Graph.load(path), tmp_path / "again.meta")
    y, slope = slope_here(graph)
    for each in (path, again):
        theirs, their_slope = slope_in_tensorflow(each)
        np.testing.assert_allclose(theirs, y, rtol=1e-12)
        np.testing.assert_allclose(their_slope, slope, rtol=1e-10)


@pytest.mark.skipif(
    not TENSORFLOW, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 1.15"
)
def test_tensorflow_differentiates_its_own_graph_after_a_round_trip(tmp_path: Path) -> None:
    graph = fe.Graph.load(HERE / "contexts_of_tensorflow.meta")
    y, slope = slope_in_tensorflow(written(graph, tmp_path / "graph.meta"))
    known = json.loads((HERE / "contexts_of_tensorflow.json").read_text())
    np.testing.assert_allclose(y, known["y"], rtol=1e-12)
    np.testing.assert_allclose(slope, known["slope"], rtol=1e-10)


def test_contexts_of_tensorflow_are_read_and_its_graph_is_differentiated() -> None:
    graph = fe.Graph.load(HERE / "contexts_of_tensorflow.meta")
    known = json.loads((HERE / "contexts_of_tensorflow.json").read_text())
    y, slope = slope_here(graph)
    np.testing.assert_allclose(y, known["y"], rtol=1e-12)
    np.testing.assert_allclose(slope, known["slope"], rtol=1e-10)


@pytest.mark.parametrize("name", ["here", "of TensorFlow"])
@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        lambda graph: pickle.loads(pickle.dumps(graph)),
    ],
)
def test_contexts_come_back(name: str, again: Callable[[fe.Graph], fe.Graph]) -> None:
    graph = built() if name == "here" else fe.Graph.load(HERE / "contexts_of_tensorflow.meta")
    other = again(graph)
    meta = graph.to_meta_graph()
    assert {"cond_context", "while_context"} <= set(meta.collection_def)
    assert other.to_meta_graph() == meta
    for node in graph:
        before, after = graph.context_of(node.name), other.context_of(node.name)
        assert (before.name if before else None) == (after.name if after else None), node.name


def test_a_loop_grows_in_the_frame_that_its_nodes_name(tmp_path: Path) -> None:
    """A gradient adds to the loop: to its frame, whatever the context is called."""
    wanted = slope_here(built())
    meta = built().to_meta_graph()
    for node in meta.graph_def.node:
        if "frame_name" in node.attr:
            node.attr["frame_name"].s += b"_as_it_was_before"
    (tmp_path / "renamed.meta").write_bytes(meta.SerializeToString())
    for got, want in zip(slope_here(fe.Graph.load(tmp_path / "renamed.meta")), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_loop_that_was_read_is_known_around_its_nodes() -> None:
    graph = copy.copy(built())
    inside = next(each for each in graph.operations() if each.type == "NextIteration").inputs[0]
    with pytest.raises(fe.errors.InvalidArgumentError, match="hands values out as its results"):
        graph.cond(graph.tensor("n:0") > 1, lambda: inside * 1, lambda: inside * 2)


def test_what_a_context_says() -> None:
    graph = fe.Graph()
    p, x = graph.placeholder("bool", [], name="p"), graph.placeholder("float32", [], name="x")
    graph.cond(p, lambda: x + 1.0, lambda: graph.while_loop(lambda v: v < 10.0, lambda v: v + x, x))
    from flowengine.ir.proto import CondContextDef

    listed = graph.to_meta_graph().collection_def["cond_context"].bytes_list.value
    taken, other = (CondContextDef.FromString(each) for each in listed)
    assert (taken.branch, taken.pred_name, taken.pivot_name) == (1, "cond/pred_id:0", "cond/switch_t:0")
    assert dict(taken.values_def.external_values) == {
        "cond/pred_id:0": "cond/pred_id:0",
        "x:0": "cond/Switch_1:1",
    }
    (nested,) = other.nested_contexts
    loop = nested.while_ctxt
    assert loop.context_name == "cond/while/while_context"
    assert loop.pivot_name == "cond/while/LoopCond:0"
    assert len(loop.loop_enter_names) == len(loop.loop_exit_names) == 1
    assert set(loop.values_def.values) < set(other.values_def.values) | set(loop.values_def.external_values)


def test_a_branch_within_a_loop_is_in_that_loop_and_one_around_it_in_none() -> None:
    graph = fe.Graph()
    p, x = graph.placeholder("bool", [], name="p"), graph.placeholder("float32", [], name="x")
    seen: dict[str, Any] = {}

    def note(where: str, value: fe.Tensor) -> fe.Tensor:
        seen[where] = graph.scopes.context
        return value * 2.0

    def body(v: fe.Tensor) -> fe.Tensor:
        note("loop", v)
        result: fe.Tensor = graph.cond(p, lambda: note("within", v), lambda: v + 1.0)
        return result

    graph.cond(p, lambda: graph.while_loop(lambda v: v < 10.0, body, note("around", x)), lambda: x)
    assert seen["loop"].is_loop
    assert seen["loop"].loop is seen["within"].loop is seen["loop"]
    assert seen["around"].loop is None


def test_contexts_come_along_where_a_graph_is_imported_or_copied(tmp_path: Path) -> None:
    source = built()
    graph, other = fe.Graph(), fe.Graph()
    graph.import_graph_def(source, prefix="inner")
    x = other.placeholder("float64", [None, 3], name="fed")
    (y,) = source.copy_into(other, [source.tensor("y:0")], prefix="part", input_map={"x:0": x})
    for made, scope in ((graph, "inner/"), (other, "part/")):
        for node in source:
            if scope + node.name in made:
                before, after = source.context_of(node.name), made.context_of(scope + node.name)
                assert (scope + before.name if before else None) == (after.name if after else None), node.name
        meta = made.to_meta_graph()
        listed = {
            key: len(meta.collection_def[key].bytes_list.value) for key in ("cond_context", "while_context")
        }
        assert listed == {key: len(source.collection(key)) for key in listed}
    again = fe.Graph.load(written(other, tmp_path / "other.meta"))
    (slope,) = fe.gradients(again.tensor(y.name), again.tensor("fed:0"))
    known, expected = slope_here(source)
    with fe.blocking.Session(again) as session:
        value, found = session.run([y.name, slope], {"fed:0": FEEDS["x"], "part/n:0": FEEDS["n"]})
    np.testing.assert_allclose(value, known, rtol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_part_of_a_body_is_copied_without_its_loop() -> None:
    graph, other = fe.Graph(), fe.Graph()
    made: list[fe.Tensor] = []

    def body(v: fe.Tensor) -> fe.Tensor:
        made.extend([v, fe.sin(fe.exp(v))])
        return made[1]

    graph.while_loop(lambda v: v < 10.0, body, graph.constant(1.0))
    x = other.placeholder("float32", [], name="x")
    graph.copy_into(other, [made[1]], input_map={made[0].name: x})
    assert [node.op for node in other] == ["Placeholder", "Exp", "Sin"]
    assert not other.to_meta_graph().collection_def
