"""The nodes with which a graph saves and restores its variables, as TensorFlow's Saver leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import NodeGraph


class SavedTensor(Protocol):
    """One saved tensor, from which nodes are made: a variable's node, and its name in the checkpoint.

    spec   "" for the whole of it, else shape and slice as the ops write them: "4 5 0,2:-"
    """

    @property
    def name(self) -> bytes:
        """In the checkpoint."""

    @property
    def spec(self) -> str:
        """Of the slice."""

    @property
    def node(self) -> str:
        """The variable's node."""

    @property
    def dtype(self) -> DType:
        """Of the variable."""

    @property
    def shape(self) -> TensorShape:
        """Of the variable."""


@dataclass(frozen=True, slots=True)
class SaverNodes:
    """The nodes that a SaverDef names: the tensor that takes the file's name, and the nodes to run."""

    filename: str
    save: str
    restore: str

    @classmethod
    def of(cls, saver_def: Any) -> SaverNodes:
        """InvalidArgumentError where a name is missing."""
        names = (saver_def.filename_tensor_name, saver_def.save_tensor_name, saver_def.restore_op_name)
        if not all(names):
            raise InvalidArgumentError(
                "a SaverDef must name a filename tensor, a save tensor and a restore op; this one names "
                + ", ".join(repr(name) for name in names)
            )
        return cls(*names)


def add_saver_nodes(graph: Graph, saved: Sequence[SavedTensor], name: str = "save") -> SaverNodes:
    """Add nodes that save and restore variables, as TensorFlow's Saver does, so that it may use them."""
    with graph.name_scope(name):
        default = graph.constant("model", "string", name="filename")
        filename = graph.ops.PlaceholderWithDefault(default, shape=[], name="Const")
        names = [each.name for each in saved]
        specs = [each.spec.encode() for each in saved]
        types = [each.dtype for each in saved]
        variables = [graph.tensor(f"{each.node}:0") for each in saved]
        values = [
            graph.ops.ReadVariableOp(v, dtype=t) if _is_handle(graph, v) else v
            for v, t in zip(variables, types, strict=True)
        ]
        written = graph.ops.SaveV2(filename, names, specs, values, name="SaveV2")
        with graph.control_dependencies([written]):
            done = graph.ops.Identity(filename, name="control_dependency")
        restored = graph.ops.RestoreV2(filename, names, specs, dtypes=types, name="RestoreV2")
        assigned: list[Tensor | Operation] = []
        for each, variable, value in zip(saved, variables, restored, strict=True):
            if _is_handle(graph, variable):
                assigned.append(graph.ops.AssignVariableOp(variable, value))
            else:
                whole = each.shape.is_fully_defined
                assigned.append(graph.ops.Assign(variable, value, validate_shape=whole))
        restore = graph.group(*assigned, name="restore_all")
    return SaverNodes(filename.name, done.name, restore.name)


def _is_handle(graph: NodeGraph, variable: Tensor) -> bool:
    return graph[variable.node_name].op == "VarHandleOp"
