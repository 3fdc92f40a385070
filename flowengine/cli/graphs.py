"""The GRAPH argument: a file or a SavedModel directory, read into a graph, and names looked up in it."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from flowengine.cli.failure import UNREADABLE_GRAPH, USAGE, CommandError
from flowengine.cli.models.wrong_paths import (
    SAVED_MODEL,
    describe_file,
    describe_folder,
    describe_missing,
    not_a_graph,
)
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.names import parse_tensor_name
from flowengine.ir.graph import OutputPort
from flowengine.ir.traits import GivesVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.ir.stripping import UnknownAttr
    from flowengine.saved_model.reading import SavedGraph
    from flowengine.saved_model.signatures import SignatureFacts


#: Gives a command `--tag`, for `load_graph`.
tag_option = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Select a graph of a SavedModel by its tags; '' means the graph without tags.",
)


@dataclass(frozen=True, slots=True)
class GraphSource:
    """A graph and what came with it.

    signatures   the ways to call it that a MetaGraphDef or SavedModel gives it
    meta         the MetaGraphDef; None where there was a bare GraphDef
    saved        what else there is of a SavedModel's directory; None for a file
    """

    graph: Graph
    signatures: dict[str, SignatureFacts] = field(default_factory=dict)
    meta: Any = None
    saved: SavedGraph | None = None

    @property
    def hidden(self) -> frozenset[str]:
        """The nodes with which the engine saves, restores and initializes: nobody runs them by name."""
        if self.meta is None:
            return frozenset()
        saver = self.meta.saver_def
        names = {saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name}
        found = {name.removeprefix("^").partition(":")[0] for name in names if name}
        if self.saved is not None and self.saved.initializing is not None:
            found.add(self.saved.initializing)
        return frozenset(found)


def load_graph(
    path: str, tags: Sequence[str] = (), *, ignored: list[UnknownAttr] | None = None
) -> GraphSource:
    """The graph in a GraphDef or MetaGraphDef file (binary or text) or a SavedModel directory.

    `-` is standard input; `tags` say which graph of a SavedModel: an empty one, that without tags. `ignored`
    gets the attributes that ops here lack, for a command that runs nothing; without it they are faults.
    Raises CommandError (an unreadable graph) with the first fault of several.
    """
    try:
        if os.path.isdir(path) or os.path.basename(path) in SAVED_MODEL:
            try:
                return _load_saved_model(path, tags, ignored)
            except InvalidArgumentError:
                bare = None if tags else _graph_named_as_saved_model(path)
                if bare is None:
                    raise
                return _load_file(bare, ignored)
        if tags:
            raise CommandError(f"--tag {tags[0]}: {path} is no SavedModel's directory", USAGE)
        return _load_file(path, ignored)
    except OSError as error:
        text = describe_missing(path) or f"cannot read {path}: {error.strerror}"
        raise CommandError(text, UNREADABLE_GRAPH) from error
    except InvalidArgumentError as error:
        text = error.faults[0] if error.faults else str(error)
        more = f" (and {len(error.faults) - 1} more faults)" if len(error.faults) > 1 else ""
        raise CommandError(f"{path} is no graph that can be run: {text}{more}", UNREADABLE_GRAPH) from error
    except OpError as error:
        raise CommandError(f"cannot read {path}: {error}", UNREADABLE_GRAPH) from error


def _graph_named_as_saved_model(path: str) -> str | None:
    """Return the file that is called like a SavedModel's but holds a GraphDef alone."""
    from flowengine.ir import graphfile

    files = [os.path.join(path, name) for name in SAVED_MODEL] if os.path.isdir(path) else [path]
    file = next(filter(os.path.isfile, files), None)
    if file is None:
        return None
    try:
        found = graphfile.load_graph(_read(file))
    except InvalidArgumentError:
        return None
    return file if found.meta_graph is None and found.graph_def.node else None


def _load_saved_model(path: str, tags: Sequence[str], ignored: list[UnknownAttr] | None) -> GraphSource:
    from flowengine.saved_model.reading import read_saved_model

    if os.path.isdir(path) and not any(os.path.exists(os.path.join(path, name)) for name in SAVED_MODEL):
        raise CommandError(describe_folder(path), UNREADABLE_GRAPH)
    named = [tag for tag in tags if tag] if tags else None
    saved = read_saved_model(path, named, ignored=ignored)
    return GraphSource(saved.graph, dict(saved.signatures), saved.meta_graph, saved)


def _load_file(path: str, ignored: list[UnknownAttr] | None) -> GraphSource:
    from flowengine.graphs.graph import Graph
    from flowengine.ir import graphfile
    from flowengine.ir.graphdef import read_into
    from flowengine.ir.stripping import drop_later_defaults, take_unknown_attrs

    data = _read(path)
    try:
        found = graphfile.load_graph(data)
        # Bytes of another format may parse, as fields that no graph has.
        fault = None if found.graph_def.node else describe_file(path, data)
    except InvalidArgumentError as error:
        raise CommandError(not_a_graph(path, data, error.message), UNREADABLE_GRAPH) from error
    if fault is not None:
        raise CommandError(fault, UNREADABLE_GRAPH)
    graph = Graph()
    if ignored is not None:
        if found.producer_ops is not None:
            drop_later_defaults(found.graph_def, found.producer_ops, graph.registry)
        ignored += take_unknown_attrs(found.graph_def, graph.registry)
    read_into(graph, found.graph_def, graph.registry, producer_ops=found.producer_ops)
    if not found.signatures:
        return GraphSource(graph, meta=found.meta_graph)
    from flowengine.saved_model.signatures import signature_facts

    signatures = {name: signature_facts(name, found.signatures[name]) for name in sorted(found.signatures)}
    return GraphSource(graph, signatures, found.meta_graph)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def find_port(graph: Graph, text: str, code: int, what: str, *, is_fed: bool = False) -> OutputPort:
    """`y` or `y:1` as an output of the graph; CommandError with `code` if it has no such output.

    What is fed is named in full where its node has several outputs.
    """
    try:
        port = OutputPort(*parse_tensor_name(text))
    except InvalidArgumentError:
        port = OutputPort(text, 0)
    check_node(graph, port.node, code, what)
    node = graph[port.node]
    if node.op_def is not None and port.slot >= len(node.output_types):
        count = len(node.output_types)
        hint = f": run it with --target {node.name}" if not count else ""
        outputs = "no output" if not count else f"{count} output{'s' if count > 1 else ''}"
        raise CommandError(f"{what} {text}: '{node.name}' ({node.op}) has {outputs}{hint}", code)
    if is_fed and port.node == text and len(node.output_types) > 1:
        last = len(node.output_types) - 1
        raise CommandError(
            f"{what} {text}: '{text}' ({node.op}) has {last + 1} outputs: write {text}:0 to {text}:{last}",
            code,
        )
    return port


def value_at(graph: Graph, port: OutputPort) -> str:
    """The tensor to fetch for an output: a resource variable's value rather than its handle.

    Where nothing in the graph reads the variable, the graph grows by a node that does.
    """
    node = graph[port.node]
    variable = node.trait(GivesVariable)
    if variable is None or node.output_types[port.slot].is_ref:
        return str(port)
    from flowengine.graphs.reading import readers_of, value_of

    dtype = node.attrs[variable.dtype]
    assert isinstance(dtype, DType)
    return value_of(graph, node.name, dtype, readers_of(graph))


def check_node(graph: Graph, name: str, code: int, what: str) -> None:
    """CommandError with `code` if the graph has no node of this name."""
    if name in graph:
        return
    alike = difflib.get_close_matches(name, graph.nodes, n=3, cutoff=0.6)
    hint = f"; did you mean {', '.join(alike)}?" if alike else ""
    raise CommandError(f"{what} {name}: the graph has no node of this name{hint}", code)
