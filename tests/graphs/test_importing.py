"""Graphs imported into others, parts copied, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowengine as fe


def looping() -> fe.Graph:
    """y = x doubled n times, by a loop."""
    graph = fe.Graph()
    x, n = graph.placeholder("float32", [], name="x"), graph.placeholder("int32", [], name="n")
    _, y = graph.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 2), (0, x))
    fe.identity(y, name="y")
    return graph


def run(fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(fetches[0].graph) as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize("form", ["graph", "message", "bytes", "text"])
def test_a_graph_is_imported_twice(form: str) -> None:
    source = looping()
    message = source.to_graph_def()
    data: Any = {
        "graph": source,
        "message": message,
        "bytes": message.SerializeToString(),
        "text": str(message),
    }[form]
    graph = fe.Graph()
    start = graph.constant(3.0)
    names = ["y:0", "x", "n:0"]
    first, x, n = graph.import_graph_def(data, input_map={"x:0": start}, return_elements=names) or []
    second, _, count = (
        graph.import_graph_def(data, input_map={"x": first, "n:0": n}, return_elements=["y:0", "y", "n:0"])
        or []
    )
    assert (first.name, second.name) == ("import/y:0", "import_1/y:0")
    assert isinstance(x, fe.Operation)
    assert count == n
    frames = {node.attrs["frame_name"] for node in graph if "frame_name" in node.attrs}
    assert frames == {b"import/while/while_context", b"import_1/while/while_context"}
    assert isinstance(n, fe.Tensor)
    assert run([first, second], {n: 2}) == [12.0, 48.0]


def test_what_does_not_fit_is_told_and_adds_nothing() -> None:
    graph, source = looping(), looping()
    before = list(graph.nodes)
    with pytest.raises(ValueError, match="exists already"):
        graph.import_graph_def(source, prefix="")
    with pytest.raises(ValueError, match="nothing called nowhere"):
        graph.import_graph_def(source, input_map={"nowhere:0": 1.0})
    with pytest.raises(TypeError, match="'x:0' is float32"):
        graph.import_graph_def(source, input_map={"x:0": graph.tensor("n:0")})
    with pytest.raises(ValueError, match="NoSuchInput"):
        graph.import_graph_def('node { name: "a" op: "Neg" input: "NoSuchInput" }')
    # Of values that are no tensors yet, none has been made where another does not fit.
    with pytest.raises(ValueError, match="nothing called nowhere"):
        graph.import_graph_def(source, input_map={"x:0": 1.0, "nowhere:0": 1.0})
    with pytest.raises(TypeError, match="'n:0' is int32"):
        graph.import_graph_def(source, input_map={"x:0": 1.0, "n:0": 2.0})
    with pytest.raises(ValueError, match="exists already"):
        graph.import_graph_def(source, prefix="", input_map={"x:0": 1.0})
    assert list(graph.nodes) == before
    with pytest.raises(fe.errors.NotFoundError, match="return_elements"):
        graph.import_graph_def(source, return_elements=["nothing"])


def test_a_part_is_copied() -> None:
    source = fe.Graph()
    x = source.placeholder("float32", [], name="x")
    y = fe.square(x, name="y")
    z = fe.negative(y, name="z")
    fe.exp(z, name="beside")
    graph = fe.Graph()
    (whole,) = source.copy_into(graph, [z], prefix="all")
    (end,) = source.copy_into(graph, [z], prefix="part", input_map={"y": graph.constant(5.0)})
    assert set(graph.nodes) == {"Const", "all/x", "all/y", "all/z", "part/z"}
    assert run([whole, end], {"all/x:0": 3}) == [-9, -5]


def test_values_that_are_given_take_no_name_that_is_to_come() -> None:
    """Also where the nodes keep their own names."""
    source = fe.Graph()
    x = source.placeholder("float32", [], name="x")
    fe.add(x, source.constant(2.0, name="Const"), name="y")
    graph = fe.Graph()
    (y,) = graph.import_graph_def(source, prefix="", input_map={"x": 3.0}, return_elements=["y:0"]) or []
    assert set(graph.nodes) > {"Const", "x", "y"}
    assert run([y, graph.tensor("Const:0")]) == [5.0, 2.0]


def test_nothing_is_copied_for_no_outputs() -> None:
    """Also of a graph with branches, whose descriptions come along with their nodes only."""
    source = fe.Graph()
    x, p = source.placeholder("float32", [], name="x"), source.placeholder("bool", [], name="p")
    source.cond(p, lambda: x, lambda: -x)
    graph = fe.Graph()
    assert source.copy_into(graph, []) == []
    assert list(graph.nodes) == []


def test_functions_come_along() -> None:
    text = """
        library { function { signature { name: "Twice" input_arg { name: "v" type: DT_FLOAT }
            output_arg { name: "w" type: DT_FLOAT } }
          node_def { name: "sum" op: "Add" input: "v" input: "v" attr { key: "T" value { type: DT_FLOAT } } }
          ret { key: "w" value: "sum:z:0" } } }
        node { name: "a" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "b" op: "Twice" input: "a" }
    """
    graph = fe.Graph()
    found = [
        *(graph.import_graph_def(text, input_map={"a:0": 4.0}, return_elements=["b:0"]) or []),
        *(graph.import_graph_def(text, input_map={"a:0": 5.0}, return_elements=["b:0"]) or []),
    ]
    assert run(found) == [8.0, 10.0]
    with pytest.raises(ValueError, match="another function called 'Twice'"):
        graph.import_graph_def(text.replace('op: "Add"', 'op: "Mul"'))


@pytest.mark.parametrize("name", ["graph.pb", "graph.pbtxt"])
def test_a_graph_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    graph = looping()
    graph.save(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(b"node {") == name.endswith("txt")
    again = fe.Graph.load(tmp_path / name)
    assert again.to_graph_def() == graph.to_graph_def()
    assert [each.name for each in tmp_path.iterdir()] == [name]


def halving() -> fe.Graph:
    """out = in * 0.5 ** 3 + 1, by a loop and by nodes without inputs."""
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="in")
    halved = graph.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 0.5), (0, x))[1]
    fe.add(halved, 1.0, name="out")
    return graph


def test_a_graph_is_imported_within_branches_and_loops() -> None:
    graph = fe.Graph()
    x, p = graph.placeholder("float64", [], name="x"), graph.placeholder("bool", [], name="p")
    inner = halving()

    def imported(value: fe.Tensor) -> fe.Tensor:
        found = graph.import_graph_def(inner, input_map={"in": value}, return_elements=["out:0"])
        assert found is not None
        assert isinstance(found[0], fe.Tensor)
        return found[0]

    chosen = graph.cond(p, lambda: imported(x), lambda: x * 3.0)
    looped = graph.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, imported(v) + imported(x)), (0, x))[1]
    slopes = fe.gradients([chosen, looped], [x])
    with fe.blocking.Session(graph) as session:
        for taken in (True, False):
            found = session.run([chosen, looped, *slopes], {x: 16.0, p: taken})
            first = 16 / 8 + 1 + 16 / 8 + 1
            slope = (1 / 8 if taken else 3) + (1 / 8 + 1 / 8) / 8 + 1 / 8
            assert found == [3.0 if taken else 48.0, first / 8 + 1 + 3, slope]
