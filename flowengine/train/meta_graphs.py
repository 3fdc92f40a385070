"""MetaGraphDefs of savers: writing them beside checkpoints, and making a saver of one that was read.

That saver follows the SaverDef, or else saves the variables that the collections list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.collections import Collections
from flowengine.graphs.graph import Graph
from flowengine.graphs.meta_graph import to_meta_graph
from flowengine.graphs.saving import SaverNodes, add_saver_nodes
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.common.file_access import translated
from flowengine.train.retention import Retention
from flowengine.train.saveables import Saveable


@dataclass(frozen=True, slots=True)
class SaverFacts:
    """The parts that a saver is made from.

    content    the MetaGraphDef to write beside checkpoints
    nodes      the nodes that the SaverDef names, or None
    version    of the checkpoint format, as SaverDefs number them
    options    arguments for `Saver`
    var_list   without nodes: the variables to save, or None for all
    """

    content: bytes
    nodes: SaverNodes | None
    version: int
    options: dict[str, Any]
    var_list: dict[str, str] | None


def read_meta_graph(source: Any) -> SaverFacts:
    """The facts in a `.meta` file, its bytes, or a message.

    Raises NotFoundError for a missing file, InvalidArgumentError for what is no MetaGraphDef.
    """
    # Here because protobuf costs more to import than all of this package.
    from flowengine.ir.graphfile import load_meta_graph

    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if isinstance(source, str | os.PathLike):
        try:
            with open(source, "rb") as file:
                source = file.read()
        except OSError as error:
            raise translated(error, os.fspath(source)) from error
    meta = load_meta_graph(bytes(source)).meta_graph
    if meta is None:
        raise InvalidArgumentError("these bytes are no MetaGraphDef")
    content = meta.SerializeToString(deterministic=True)
    if not meta.HasField("saver_def"):
        return SaverFacts(content, None, 2, {}, _listed(meta))
    saver_def = meta.saver_def
    hours = saver_def.keep_checkpoint_every_n_hours
    options = {
        "max_to_keep": saver_def.max_to_keep,
        "keep_checkpoint_every_n_hours": hours if hours > 0 else None,
    }
    return SaverFacts(content, SaverNodes.of(saver_def), int(saver_def.version), options, None)


class GraphDescription:
    """The MetaGraphDef that a saver writes beside its checkpoints.

    content    the MetaGraphDef that the saver was made from, which it writes unchanged; else None
    train_op   the nodes that a training step runs; None for those that the graph lists under this name
    """

    def __init__(self, limits: Retention) -> None:
        """`limits` say how many checkpoints the SaverDef lets stay."""
        self.content: bytes | None = None
        self.train_op: Sequence[str] | None = None
        self._limits = limits
        #: Of the newest graph: the graph, its version, `train_op`, its collections, and the MetaGraphDef.
        self._made: tuple[NodeGraph, int, Sequence[str] | None, Collections, bytes] | None = None

    def maker(
        self, graph: Graph, nodes: SaverNodes | None, saveables: Sequence[Saveable]
    ) -> Callable[[], bytes]:
        """Return a function that makes the MetaGraphDef of the present graph, on a thread.

        nodes       the graph's nodes for saving; if None, the MetaGraphDef gets nodes that save `saveables`,
                    and the graph does not change

        It is made anew only if the graph or its collections have changed: a large graph takes its time.
        """
        version, train_op, collections = graph.version, self.train_op, graph.collections.copy()
        known = self._made
        if (
            known is not None
            and known[0] is graph
            and known[1:3] == (version, train_op)
            and known[3].lists_same(collections)
        ):
            content = known[4]
            return lambda: content
        copy = graph.snapshot()

        def make() -> bytes:
            described, added = (copy, nodes) if nodes is not None else _with_nodes(graph, copy, saveables)
            made = describe_saver(
                described,
                collections,
                added,
                max_to_keep=self._limits.newest,
                every_hours=self._limits.every_hours,
                train_op=train_op,
            )
            self._made = graph, version, train_op, collections, made
            return made

        return make


def _with_nodes(
    graph: Graph, nodes: NodeGraph, saveables: Sequence[Saveable]
) -> tuple[NodeGraph, SaverNodes]:
    """A graph of these nodes, and of others that save and restore."""
    grown = Graph(nodes, registry=graph.registry, producer=graph.producer, min_consumer=graph.min_consumer)
    grown.library = nodes.library
    return grown, add_saver_nodes(grown, saveables)


def describe_saver(
    graph: NodeGraph,
    collections: Collections,
    nodes: SaverNodes,
    *,
    max_to_keep: int,
    every_hours: float | None,
    train_op: Sequence[str] | None = None,
) -> bytes:
    """A MetaGraphDef of a graph and its collections, with the SaverDef of nodes in it.

    train_op   the nodes to list under this name in place of those that the collection has
    """
    from flowengine.ir.proto import SaverDef

    saver_def = SaverDef(
        filename_tensor_name=nodes.filename,
        save_tensor_name=nodes.save,
        restore_op_name=nodes.restore,
        max_to_keep=max_to_keep,
        # TensorFlow writes this number for never.
        keep_checkpoint_every_n_hours=10000.0 if every_hours is None else every_hours,
        version=SaverDef.V2,
    )
    meta = to_meta_graph(graph, collections)
    meta.saver_def.CopyFrom(saver_def)
    if train_op is not None:
        meta.collection_def["train_op"].node_list.value[:] = list(train_op)
    found: bytes = meta.SerializeToString(deterministic=True)
    return found


def _listed(meta: Any) -> dict[str, str] | None:
    """{name in the checkpoint: node} of the variables that a collection lists; None without it."""
    from flowengine.ir.proto import VariableDef

    entries = meta.collection_def["variables"].bytes_list.value if "variables" in meta.collection_def else ()
    if not entries:
        return None
    found = {}
    for entry in entries:
        variable = VariableDef.FromString(entry)
        if variable.HasField("save_slice_info_def"):
            raise InvalidArgumentError(
                f"'{variable.variable_name}' is a part of a larger variable, and the MetaGraphDef has no "
                "SaverDef that says how it is saved: give the saver a var_list"
            )
        name = variable.variable_name.rpartition(":")[0] or variable.variable_name
        found[name] = name
    return found
