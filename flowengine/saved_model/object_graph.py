"""The objects of a SavedModel of TensorFlow 2, and which of the graph's tensors stand for them.

TensorFlow 2 saves a tree of Python objects: variables, tables, functions, under the names of attributes. The
graph beside it has nodes for them, under names that say little. What joins both: a call in the graph hands a
function what the object graph says that it captures, and the function that restores assigns to its arguments
what the checkpoint has under the objects' paths.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.objectgraph import object_graph_of
from flowengine.ir.proto import FunctionDef, FunctionDefLibrary, MetaGraphDef, NodeDef
from flowengine.ir.proto.saved_object_graph_pb2 import SavedFunction, SavedObjectGraph
from flowengine.ir.tensorproto import decode_tensor
from flowengine.ir.traits import GivesVariable

#: In a checkpoint's keys it stands between an object's path and what of the object it is.
_ATTRIBUTES = "/.ATTRIBUTES/"


def objects_of(meta: MetaGraphDef, graph: Graph) -> ObjectGraph | None:
    """The objects of a MetaGraphDef; None where it has none, as those of TensorFlow 1.

    Raises InvalidArgumentError for what is no object graph.
    """
    found = object_graph_of(meta)
    if found is None:
        return None
    count = len(found.nodes)
    if any(not 0 <= child.node_id < count for node in found.nodes for child in node.children):
        raise InvalidArgumentError("the SavedModel's object graph names objects that it does not have")
    return ObjectGraph(found, meta, graph) if count else None


@dataclass(frozen=True)
class ObjectGraph:
    """The objects, by their place among the nodes; 0 is the root."""

    proto: SavedObjectGraph
    meta: MetaGraphDef
    graph: Graph

    @cached_property
    def paths(self) -> Mapping[int, tuple[str, ...]]:
        """{object: names of attributes that lead to it from the root}: the shortest, of those the first."""
        found: dict[int, tuple[str, ...]] = {0: ()}
        waiting = deque([0])
        while waiting:
            place = waiting.popleft()
            for child in self.proto.nodes[place].children:
                if child.node_id not in found:
                    found[child.node_id] = (*found[place], child.local_name)
                    waiting.append(child.node_id)
        return found

    @cached_property
    def ports(self) -> Mapping[int, OutputPort]:
        """{object: the graph's output that stands for it} of variables, tables, constants and files."""
        found: dict[int, OutputPort] = {}
        for place, node in enumerate(self.proto.nodes):
            kind = node.WhichOneof("kind")
            if kind == "constant" and node.constant.operation in self.graph:
                found[place] = OutputPort(node.constant.operation, 0)
            elif kind == "asset" and node.asset.asset_file_def_index < len(self.meta.asset_file_def):
                held = self.meta.asset_file_def[node.asset.asset_file_def_index].tensor_info.name
                found[place] = OutputPort(held.partition(":")[0], 0)
        for place, port in self._restored():
            found.setdefault(place, port)
        for call in self.graph:
            for place, port in self._captured_by(call):
                found.setdefault(place, port)
        return found

    @cached_property
    def copies(self) -> Mapping[str, str]:
        """{node: the node whose variable it means} of nodes of one object's variable beside the restored one.

        TensorFlow 2.21 writes such for Keras' variables: the function that restores is given a copy of what
        the signatures read.
        """
        restored = dict(self._restored())
        found: dict[str, str] = {}
        for call in self.graph:
            for place, port in self._captured_by(call):
                held = restored.get(place)
                if held is not None and held.node != port.node and self._is_variable(port, held):
                    found[port.node] = held.node
        return found

    def _is_variable(self, *ports: OutputPort) -> bool:
        return all(self.graph[port.node].has(GivesVariable) for port in ports)

    @property
    def variables(self) -> Iterator[tuple[str, int]]:
        """(name, object) of each variable, those that a function uses before copies that none does."""
        used = {place for each in self.proto.concrete_functions.values() for place in each.bound_inputs}
        places = [
            place for place, node in enumerate(self.proto.nodes) if node.WhichOneof("kind") == "variable"
        ]
        for place in sorted(places, key=lambda each: each not in used):
            name = self.proto.nodes[place].variable.name
            yield name or ".".join(self.paths.get(place, ())), place

    @property
    def functions(self) -> Iterator[tuple[str, SavedFunction]]:
        """(path with dots, function) of what may be called, the nearest to the root first."""
        for place, path in self.paths.items():
            node = self.proto.nodes[place]
            if node.WhichOneof("kind") == "function" and node.function.concrete_functions:
                yield ".".join(path), node.function

    def object_at(self, path: str) -> int | None:
        """The object at a checkpoint's path, `layer/kernel`; None where there is none."""
        place = 0
        for part in path.split("/"):
            name = _unescaped(part)
            found = [child.node_id for child in self.proto.nodes[place].children if child.local_name == name]
            if not found:
                return None
            place = found[0]
        return place

    def _captured_by(self, node: Node) -> Iterator[tuple[int, OutputPort]]:
        """Yield the captured inputs that a call passes to its function after the arguments."""
        called = node.attrs.get("f")
        if not isinstance(called, FuncAttr) or called.name not in self.proto.concrete_functions:
            return
        bound = list(self.proto.concrete_functions[called.name].bound_inputs)
        if len(bound) <= len(node.inputs):
            yield from zip(bound, node.inputs[len(node.inputs) - len(bound) :], strict=True)

    def _restored(self) -> Iterator[tuple[int, OutputPort]]:
        """Yield the inputs that the restoring function sets, by the paths in the checkpoint's keys."""
        name = self.meta.saver_def.restore_op_name
        if name not in self.graph:
            return
        call = self.graph[name]
        called = call.attrs.get("f")
        function = _function(self.graph, called.name) if isinstance(called, FuncAttr) else None
        if function is None:
            return
        keys = _restored_keys(function)
        for argument, port in zip(function.signature.input_arg, call.inputs, strict=False):
            key = keys.get(argument.name)
            place = None if key is None else self.object_at(key.partition(_ATTRIBUTES)[0])
            if place is not None:
                yield place, port


def _unescaped(part: str) -> str:
    """The attribute's name in a part of a path, in which a point is doubled and `.S` is a slash."""
    pieces = part.split("..")
    return ".".join(piece.replace(".S", "/") for piece in pieces)


def _function(graph: Graph, name: str) -> FunctionDef | None:
    library = graph.library
    held = library.function if isinstance(library, FunctionDefLibrary) else ()
    return next((each for each in held if each.signature.name == name), None)


def _restored_keys(function: FunctionDef) -> dict[str, str]:
    """{argument: the key in the checkpoint whose tensor the function gives it}."""
    nodes = {node.name: node for node in function.node_def}
    arguments = {each.name for each in function.signature.input_arg}
    found = {}
    for node in function.node_def:
        if len(node.input) > 1 and node.input[0] in arguments:
            key = _key_behind(nodes, node.input[1])
            if key is not None:
                found[node.input[0]] = key
    return found


def _key_behind(nodes: Mapping[str, NodeDef], source: str) -> str | None:
    """The checkpoint's key of a tensor that was read and at most handed on; None for any other."""
    node = nodes.get(source.partition(":")[0])
    while node is not None and node.op == "Identity":
        source = node.input[0]
        node = nodes.get(source.partition(":")[0])
    if node is None or node.op != "RestoreV2":
        return None
    names = nodes.get(node.input[1].partition(":")[0])
    if names is None or names.op != "Const":
        return None
    keys = to_array(decode_tensor(names.attr["value"].tensor)).reshape(-1)
    index = int(source.rpartition(":")[2])
    return os.fsdecode(keys[index]) if index < len(keys) else None
