"""Datasets written as graphs: a node for each dataset, constants for what it is made of, its functions.

Const ──► RangeDataset ──► MapDataset ──► _Retval 'dataset'
VarHandleOp, AssignVariableOp ─┘ a variable that the function uses, with the value that it has
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, UnimplementedError
from flowengine.ir.attrvalue import encode_attr
from flowengine.ir.names import RESULT
from flowengine.ir.proto import FunctionDefLibrary, GraphDef
from flowengine.ir.tensorproto import encode_tensor
from flowengine.kernels.data.written_handles import write_handle
from flowengine.ops.load import registry as op_registry
from flowengine.resources.data.dataset import DatasetValue
from flowengine.resources.data.sources import ListDataset
from flowengine.resources.function_calls import FunctionCaller

#: The node that says which dataset a graph is of.
RESULT_NAME: Final = "dataset"


class NotInGraphError(FailedPreconditionError):
    """The error for a dataset that uses a value which no graph can hold."""


class _DatasetGraph:
    """A graph that makes a dataset, while it is written.

    resources   whether variables, tables and what else a handle names are written with it
    """

    def __init__(self, *, resources: bool) -> None:
        self.graph = GraphDef()
        self.graph.versions.producer = 134
        self._resources = resources
        #: {identity of a dataset or resource: the node that gives it}
        self._names: dict[int, str] = {}
        self._functions: set[str] = set()

    def add(self, made: DatasetValue) -> str:
        """The name of the node that makes a dataset, added with all that it needs."""
        name = self._names.get(id(made))
        if name is not None:
            return name
        origin = made.origin
        op = origin.op or ("ListDataset" if isinstance(made, ListDataset) else "")
        if not op:
            raise UnimplementedError(f"{type(made).__name__} cannot be written as a graph")
        definition = op_registry()[op]
        inputs: list[str] = []
        for argument, value in zip(definition.inputs, origin.inputs, strict=True):
            values = value if argument.is_list else (value,)
            types = argument.types(origin.attrs)
            inputs += [self._input(each, dtype) for each, dtype in zip(values, types, strict=True)]
        name = self.node(op, inputs, **origin.attrs)
        if origin.caller is not None:
            self._add_functions(origin.caller)
        self._names[id(made)] = name
        return name

    def node(self, op: str, inputs: Sequence[str] = (), *, name: str = "", **attrs: Any) -> str:
        """The name of a new node: its op and a number, or the one that is given."""
        node = self.graph.node.add(name=name or f"{op}_{len(self.graph.node)}", op=op, input=inputs)
        for key, attr in attrs.items():
            node.attr[key].CopyFrom(encode_attr(attr))
        return str(node.name)

    def constant(self, value: Any, dtype: DType) -> str:
        """The name of a new node that gives a value."""
        name = self.node("Const", dtype=dtype)
        self.graph.node[-1].attr["value"].tensor.CopyFrom(encode_tensor(to_array(value), dtype))
        return name

    def _input(self, value: Any, dtype: DType) -> str:
        if isinstance(value, np.ndarray) and value.shape == () and value.dtype.hasobject:
            inside = value.item()
            value = value if isinstance(inside, bytes) else inside
        if isinstance(value, DatasetValue):
            return self.add(value)
        if dtype is dtypes.resource and self._resources:
            name = self._names.get(id(value)) or write_handle(self, value)
            if name is not None:
                self._names[id(value)] = name
                return name
        if dtype in (dtypes.resource, dtypes.variant):
            raise NotInGraphError(
                f"a dataset that uses a {type(value).__name__} cannot be written: a graph holds variables "
                "and tables with their values, and iterators by their names. Make the dataset anew where it "
                "is wanted, by the graph that made this one"
            )
        return self.constant(value, dtype)

    def _add_functions(self, caller: FunctionCaller) -> None:
        library = caller.library
        if not isinstance(library, FunctionDefLibrary):
            return
        for function in library.function:
            if function.signature.name not in self._functions:
                self._functions.add(function.signature.name)
                self.graph.library.function.add().CopyFrom(function)

    def finished(self, made: DatasetValue) -> bytes:
        """The graph of a dataset, serialised."""
        name = self.add(made)
        self.node(RESULT, [name], name=RESULT_NAME, T=dtypes.variant, index=0)
        content: bytes = self.graph.SerializeToString(deterministic=True)
        return content


def graph_of(made: DatasetValue) -> bytes:
    """A GraphDef that makes a dataset.

    A variable or table that the dataset uses becomes one of the graph's own, with the value that it has now;
    generators of seeds and caches begin anew. FailedPreconditionError where it uses anything else that only
    this process has.
    """
    return _DatasetGraph(resources=True).finished(made)


def graph_without_resources(made: DatasetValue) -> bytes:
    """As `graph_of`; NotInGraphError for a dataset that uses resources."""
    return _DatasetGraph(resources=False).finished(made)
