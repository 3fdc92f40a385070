"""The directory of a SavedModel as what there is to run: a graph, its signatures, how it is restored.

    saved = read_saved_model("export/1")
    saved.signatures["serving_default"].inputs["x"]

TensorFlow 1 and 2 leave the same things in a graph for whoever runs it by names: a node that restores the
variables from `variables/`, and one that initializes tables and the like after that. `loading.restore` runs
both; nothing runs here, and nothing of the engine is imported.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.core.public_names.deprecated import warn_renamed
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node
from flowengine.ir.graphdef import read_into
from flowengine.ir.graphfile import load_saved_model
from flowengine.ir.opdef import OpRegistry
from flowengine.ir.proto import AssetFileDef, GraphDef, MetaGraphDef, VariableDef
from flowengine.ir.stripping import UnknownAttr, drop_later_defaults, take_unknown_attrs
from flowengine.ir.traits import GivesVariable
from flowengine.ops.load import registry as standard_registry
from flowengine.saved_model.object_graph import ObjectGraph, objects_of
from flowengine.saved_model.signatures import SignatureFacts, signature_facts

#: Where a SavedModel has its checkpoint and its other files.
VARIABLES: Final = "variables"
ASSETS: Final = "assets"
#: A signature that stands for the node that initializes, and one for the node that trains.
INIT_OP: Final = "__saved_model_init_op"
TRAIN_OP: Final = "__saved_model_train_op"
#: The collections in which older exports name the same.
_INIT_COLLECTIONS: Final = ("saved_model_main_op", "legacy_init_op")
_TRAIN_COLLECTION: Final = "saved_model_train_op"
_ASSETS_COLLECTION: Final = "saved_model_assets"
_VARIABLE_COLLECTIONS: Final = ("variables", "local_variables", "model_variables", "trainable_variables")


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """A variable of an export: its node, and whether training changes it."""

    name: str
    node: str
    dtype: DType
    shape: TensorShape
    trainable: bool


@dataclass(frozen=True, slots=True, repr=False)
class SavedGraph:
    """A graph of a SavedModel with its facts, before anything has run; `read_saved_model` returns it.

    path         the directory
    tags         the purpose of this graph, such as "serve"
    signatures   {name: SignatureFacts}, without those that only name a node
    checkpoint   the prefix of its variables; None if it has none
    restoring    (tensor that takes the checkpoint's prefix, node to run), or None
    initializing node to run after that, or None
    training     node to run for a training step, or None
    feeds        {tensor: bytes} of the asset files that are not constants of the graph
    variables    by name: of the object that was saved, or else of the node
    objects      the Python objects that were saved; None for an export of TensorFlow 1
    meta_graph   the MetaGraphDef itself
    other_tags   the tags of each other graph that the directory has

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> saved = fe.saved_model.read_saved_model("export")
    >>> saved.tags, saved.signatures["double"], saved.variables
    (('serve',), <SignatureFacts 'double' (x float32 [] -> y float32 [])>, {})
    """

    path: Path
    tags: tuple[str, ...]
    graph: Graph
    signatures: Mapping[str, SignatureFacts]
    checkpoint: str | None
    restoring: tuple[str, str] | None
    initializing: str | None
    training: str | None
    feeds: Mapping[str, bytes]
    variables: Mapping[str, StoredVariable]
    objects: ObjectGraph | None
    meta_graph: MetaGraphDef
    other_tags: tuple[tuple[str, ...], ...] = ()

    @property
    def initialising(self) -> str | None:
        """The old name of `initializing`; emits a DeprecationWarning."""
        warn_renamed("SavedGraph.initialising", "SavedGraph.initializing")
        return self.initializing

    def __repr__(self) -> str:
        named = ", ".join(self.signatures) or "no signatures"
        return f"<SavedGraph '{self.path}' of {self.graph!r} with {named}>"


def read_saved_model(
    path: str | os.PathLike[str],
    tags: str | Collection[str] | None = None,
    *,
    registry: OpRegistry | None = None,
    ignored: list[UnknownAttr] | None = None,
) -> SavedGraph:
    """Read a SavedModel's graph and what belongs to it; its variables stay in their files.

    path       its directory, with `saved_model.pb` in it
    tags       which graph of several: its tags, all of them; None for the only one, the one for serving, or
               if there is none the one without tags
    registry   the ops that the graph may use, by default this package's
    ignored    a list to which attributes that ops here lack are added, for a tool that looks at the graph
               without running it; None if they are faults

    Raises NotFoundError if there is no SavedModel or no graph with these tags, InvalidArgumentError for a
    damaged one. It reads files, so call it on a thread if an event loop must not wait.
    """
    given = Path(os.fspath(path))
    found = load_saved_model(given, tags)
    meta, directory = found.meta_graph, found.directory
    assert meta is not None
    assert directory is not None
    graph_def = found.graph_def
    if ignored is not None:
        known = registry or standard_registry()
        if found.producer_ops is not None:
            drop_later_defaults(graph_def, found.producer_ops, known)
        ignored += take_unknown_attrs(graph_def, known)
    feeds = _place_assets(graph_def, _assets(meta), directory)
    graph, objects = _graph_of(graph_def, meta, registry)
    checkpoint = directory / VARIABLES / VARIABLES
    stored = any(os.path.exists(f"{checkpoint}{ending}") for ending in (".index", ""))
    restoring = None
    if meta.HasField("saver_def") and meta.saver_def.restore_op_name:
        restoring = (meta.saver_def.filename_tensor_name, _node(meta.saver_def.restore_op_name))
    signatures = {
        name: signature_facts(name, found.signatures[name])
        for name in sorted(found.signatures)
        if name not in (INIT_OP, TRAIN_OP)
    }
    return SavedGraph(
        path=directory,
        tags=tuple(meta.meta_info_def.tags),
        graph=graph,
        signatures=signatures,
        checkpoint=str(checkpoint) if stored else None,
        restoring=restoring,
        initializing=_named(meta, INIT_OP, _INIT_COLLECTIONS, graph),
        training=_named(meta, TRAIN_OP, (_TRAIN_COLLECTION,), graph),
        feeds=feeds,
        variables=variables_of(graph, meta, objects),
        objects=objects,
        meta_graph=meta,
        other_tags=found.other_tags,
    )


def _graph_of(
    graph_def: GraphDef, meta: MetaGraphDef, registry: OpRegistry | None
) -> tuple[Graph, ObjectGraph | None]:
    """The graph, in which one object's variable is one, and the objects."""
    graph = _read(graph_def, meta, registry)
    objects = objects_of(meta, graph)
    copies = {} if objects is None else objects.copies
    if copies:
        nodes = {node.name: node for node in graph_def.node}
        for name, held in copies.items():
            attrs = graph[held].attrs
            nodes[name].attr["container"].s = attrs["container"]
            nodes[name].attr["shared_name"].s = attrs["shared_name"]
        graph = _read(graph_def, meta, registry)
        objects = objects_of(meta, graph)
    return graph, objects


def _read(graph_def: GraphDef, meta: MetaGraphDef, registry: OpRegistry | None) -> Graph:
    graph = Graph(registry=registry)
    info = meta.meta_info_def
    producer_ops = info.stripped_op_list if info.HasField("stripped_op_list") else None
    read_into(graph, graph_def, graph.registry, producer_ops=producer_ops)
    graph._unread_collections = meta.collection_def or None
    return graph


def _assets(meta: MetaGraphDef) -> list[AssetFileDef]:
    """The files that a graph names, by its field for them or else by the collection of older exports."""
    if meta.asset_file_def or _ASSETS_COLLECTION not in meta.collection_def:
        return list(meta.asset_file_def)
    held = meta.collection_def[_ASSETS_COLLECTION].any_list.value
    return [AssetFileDef.FromString(each.value) for each in held]


def _place_assets(graph_def: GraphDef, assets: Iterable[AssetFileDef], directory: Path) -> dict[str, bytes]:
    """Put the files' present paths into the constants that name them; {tensor: path} of the others.

    Raises InvalidArgumentError for a file that would lie outside of the directory.
    """
    held = (directory / ASSETS).resolve()
    paths = {}
    for each in assets:
        file = directory / ASSETS / each.filename
        if held not in file.resolve().parents:
            raise InvalidArgumentError(f"{directory}: the asset {each.filename!r} is not in its {ASSETS}/")
        paths[parse_tensor_name(each.tensor_info.name)[0]] = (each.tensor_info.name, os.fsencode(file))
    feeds = dict(paths.values())
    if paths:
        for node in graph_def.node:
            if node.name in paths and node.op == "Const":
                name, content = paths[node.name]
                del node.attr["value"].tensor.string_val[:]
                node.attr["value"].tensor.tensor_content = b""
                node.attr["value"].tensor.string_val.append(content)
                del feeds[name]
    return feeds


def _named(meta: MetaGraphDef, signature: str, collections: Iterable[str], graph: Graph) -> str | None:
    """The node that a signature, or a collection of older exports, stands for.

    Raises NotFoundError where the graph does not have it, InvalidArgumentError where there are several.
    """
    if signature in meta.signature_def:
        names = [each.name for each in meta.signature_def[signature].outputs.values()]
    else:
        held = (meta.collection_def[key].node_list.value for key in collections if key in meta.collection_def)
        names = next((list(each) for each in held if each), [])
    if not names:
        return None
    if len(names) > 1:
        raise InvalidArgumentError(f"'{signature}' must be one node, not {', '.join(names)}")
    name = _node(names[0])
    if name not in graph:
        raise NotFoundError(f"the graph has no node '{name}', which is its '{signature}'")
    return name


def variables_of(graph: Graph, meta: MetaGraphDef, objects: ObjectGraph | None) -> dict[str, StoredVariable]:
    """{name: variable}: those that objects stand for, under the objects' names; else all of the graph."""
    if objects is not None:
        return _variables_of_objects(graph, objects)
    trainable = _listed(meta, "trainable_variables")
    knows = any(key in meta.collection_def for key in _VARIABLE_COLLECTIONS)
    return {
        node.name: _variable(node.name, node, not knows or node.name in trainable)
        for node in graph
        if node.has(GivesVariable)
    }


def _variables_of_objects(graph: Graph, objects: ObjectGraph) -> dict[str, StoredVariable]:
    found: dict[str, StoredVariable] = {}
    for name, place in objects.variables:
        port = objects.ports.get(place)
        if port is not None and name not in found and graph[port.node].has(GivesVariable):
            trainable = objects.proto.nodes[place].variable.trainable
            found[name] = _variable(name, graph[port.node], trainable)
    return found


def _variable(name: str, node: Node, trainable: bool) -> StoredVariable:
    trait = node.trait(GivesVariable)
    assert trait is not None
    shape, dtype = node.attrs.get("shape"), node.attrs.get(trait.dtype)
    return StoredVariable(
        name,
        node.name,
        dtype.base if isinstance(dtype, DType) else node.output_types[0].base,
        shape if isinstance(shape, TensorShape) else TensorShape(None),
        trainable,
    )


def _listed(meta: MetaGraphDef, key: str) -> set[str]:
    """The nodes of the variables that a collection lists."""
    if key not in meta.collection_def:
        return set()
    entries = map(VariableDef.FromString, meta.collection_def[key].bytes_list.value)
    return {_node(each.variable_name) for each in entries}


def _node(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]
