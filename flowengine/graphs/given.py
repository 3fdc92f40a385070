"""Values that callers give where a graph or its file is expected, and what to write for the wrong ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.paths import path_text
from flowengine.graphs.errors import ConstructionTypeError
from flowengine.ir.graph import Node, NodeGraph

#: Endings of files that hold graphs.
_SUFFIXES: Final = (".pb", ".pbtxt", ".meta")


def is_path(data: Any) -> bool:
    """Tell whether data that should be a graph is the name of a file: a text form has braces."""
    if isinstance(data, os.PathLike):
        return True
    return isinstance(data, str) and "{" not in data and data.strip().lower().endswith(_SUFFIXES)


def graph_path(given: Any) -> str:
    """Return the path given to `Graph.load`; InvalidArgumentError for a graph, its bytes or anything else."""
    if isinstance(given, NodeGraph):
        return path_text(given, "fe.Graph.load", "it is already a graph, so use it directly")
    if isinstance(given, bytes | bytearray | memoryview) or hasattr(given, "SerializeToString"):
        return path_text(given, "fe.Graph.load", "fe.Graph.from_graph_def(data) reads bytes and messages")
    return path_text(given, "fe.Graph.load")


def model_path(given: Any, function: str) -> str:
    """Return the path of a SavedModel's folder; InvalidArgumentError for a graph or any other value."""
    is_graph = isinstance(given, NodeGraph)
    return path_text(given, function, "fe.Session(graph) runs a graph" if is_graph else "")


def checked_nodes(nodes: Any) -> Iterable[Node]:
    """Return the nodes given to `Graph`; ConstructionTypeError for a path, a graph's bytes or its message."""
    advice = _advice(nodes)
    if advice:
        raise ConstructionTypeError(f"fe.Graph takes nodes, and {advice}")
    found: Iterable[Node] = nodes
    return found


def checked_graph(graph: Any) -> NodeGraph:
    """Return the graph given to `Session`; InvalidArgumentError for a path or any other value."""
    if isinstance(graph, NodeGraph):
        return graph
    advice = _advice(graph) or f"this is {graph!r:.80}"
    raise InvalidArgumentError(f"fe.Session takes a Graph, and {advice}")


def need_graph(graph: Any, call: str) -> None:
    """Check the argument `graph` of a function; ConstructionTypeError, with the call to write, for no graph.

    call   such as "cell.zero_state(graph, batch_size)"
    """
    if not isinstance(graph, NodeGraph):
        raise ConstructionTypeError(f"{graph!r:.80} is no Graph: write {call}")


def _advice(given: Any) -> str:
    """Say what a wrong value is and what makes a graph of it; "" if it is neither file nor message."""
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        if os.path.isfile(os.path.join(path, "saved_model.pb")):
            return f"{path!r} is the path of a SavedModel: fe.saved_model.load(path)"
        return f"{path!r} is a path: fe.Graph.load(path)"
    if isinstance(given, bytes | bytearray | memoryview) or hasattr(given, "SerializeToString"):
        return f"this is a {type(given).__name__}: fe.Graph.from_graph_def(data)"
    return ""


__all__ = ["checked_graph", "checked_nodes", "graph_path", "is_path", "model_path", "need_graph"]
