"""The nodes that TensorFlow's Saver leaves in a graph, and the variables that they save and restore.

If they only read variables into a file and assign variables from one, a saver copies between the variables
and the file itself. That is faster, holds no second copy, and may restore some of the names only. If they do
more (tables, iterators, shapes that change), the saver runs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.saving import SaverNodes
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import HandsOn, Orders, Reads
from flowengine.train.saveables import Saveable, of_variable, variable_behind

#: {op: (position of the names, of shapes and slices or None, of the first tensor)}
_SAVES: Final = {"SaveV2": (1, 2, 3), "SaveSlices": (1, 2, 3), "Save": (1, None, 2)}
_RESTORES: Final = {"RestoreV2": (1, 2), "RestoreSlice": (1, 2), "Restore": (1, None)}

#: Other ops that nodes of a Saver may have.
_HARMLESS: Final = frozenset(
    {
        "Assign",
        "AssignVariableOp",
        "Const",
        "Identity",
        "NoOp",
        "Placeholder",
        "PlaceholderV2",
        "PlaceholderWithDefault",
        "VarHandleOp",
        "Variable",
        "VariableV2",
    }
)


def resolve(graph: NodeGraph, nodes: SaverNodes) -> list[Saveable] | None:
    """The variables that the nodes save and restore; None where they do anything else.

    Raises NotFoundError where the graph does not have the nodes.
    """
    saved: list[Saveable] = []
    for node in _behind(graph, parse_tensor_name(nodes.save)[0]):
        if node.op in _SAVES:
            found = _saved_by(graph, node)
            if found is None:
                return None
            saved += found
    restored = _restored(graph, nodes.restore)
    if restored is None or not saved:
        return None
    wanted = {(each.container, each.shared_name): (each.name, each.spec) for each in saved}
    return saved if wanted == restored and len(wanted) == len(saved) else None


def left_to_initialize(graph: NodeGraph, initializers: Iterable[str], restore: str) -> list[str]:
    """Return the initializers that do not undo what a saver's node has restored, in their order.

    initializers   nodes that each set a variable, fill a table, or begin an iterator; a group counts as its
                   members
    restore        the node that restores, such as "save/restore_all"

    Leaves out initializers of variables, tables and iterators that the node restores, because they would
    replace the restored values.
    """
    restored = {name for node in _behind(graph, restore) for name in _set_by(node)}
    left: dict[str, None] = {}
    waiting = list(initializers)[::-1]
    while waiting:
        node = graph[waiting.pop()]
        if node.has(Orders) and not node.inputs:
            waiting += reversed(node.control_inputs)
        elif restored.isdisjoint(_set_by(node)):
            left.setdefault(node.name)
    return list(left)


def _set_by(node: Node) -> set[str]:
    """The nodes of the variables that a node writes, and of the tables and iterators that it uses."""
    if node.has(Reads) or node.has(HandsOn):
        return set()
    types = zip(node.inputs, node.input_types(), strict=True)
    return {port.node for port, dtype in types if dtype.is_ref or dtype is dtypes.resource}


def _behind(graph: NodeGraph, name: str) -> Iterator[Node]:
    """A node and all that it waits for, each once."""
    waiting, seen = [name], {name}
    while waiting:
        node = graph[waiting.pop()]
        yield node
        for source in (*(port.node for port in node.inputs), *node.control_inputs):
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def _saved_by(graph: NodeGraph, node: Node) -> list[Saveable] | None:
    names_at, specs_at, first = _SAVES[node.op]
    names = _strings(graph, node.inputs[names_at])
    tensors = node.inputs[first:]
    specs = [b""] * len(tensors) if specs_at is None else _strings(graph, node.inputs[specs_at])
    if names is None or specs is None or not len(names) == len(specs) == len(tensors):
        return None
    found = []
    for name, spec, port in zip(names, specs, tensors, strict=True):
        variable = variable_behind(graph, graph[port.node])
        if variable is None:
            return None
        found.append(of_variable(variable, name, os.fsdecode(spec)))
    return found


def _restored(graph: NodeGraph, restore: str) -> dict[tuple[str, str], tuple[bytes, str]] | None:
    """{(container, name) of a variable: (name, slice) that is assigned to it}; None if more happens."""
    found: dict[tuple[str, str], tuple[bytes, str]] = {}
    for node in _behind(graph, restore):
        if node.op not in _HARMLESS and node.op not in _RESTORES:
            return None
        if node.op in ("Assign", "AssignVariableOp"):
            variable = variable_behind(graph, graph[node.inputs[0].node])
            source = _read_from(graph, node.inputs[1])
            if variable is None or source is None:
                return None
            saveable = of_variable(variable)
            found[saveable.container, saveable.shared_name] = source
    return found


def _read_from(graph: NodeGraph, port: OutputPort) -> tuple[bytes, str] | None:
    node = graph[port.node]
    while node.op == "Identity":
        port = node.inputs[0]
        node = graph[port.node]
    if node.op not in _RESTORES:
        return None
    names_at, specs_at = _RESTORES[node.op]
    names = _strings(graph, node.inputs[names_at])
    specs = [b""] * (port.slot + 1) if specs_at is None else _strings(graph, node.inputs[specs_at])
    if names is None or specs is None or port.slot >= min(len(names), len(specs)):
        return None
    return names[port.slot], os.fsdecode(specs[port.slot])


def _strings(graph: NodeGraph, port: OutputPort) -> list[bytes] | None:
    """The elements of a constant vector of strings; None where it is no constant."""
    value = graph[port.node].attrs.get("value")
    if graph[port.node].op != "Const" or not isinstance(value, TensorAttr):
        return None
    return list(to_array(value.value()).reshape(-1))
