"""Datasets as graphs and back, and where iterators stand, as values that a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from flowengine.ir.attrvalue import encode_attr
from flowengine.ir.graph import NodeGraph
from flowengine.ir.graphdef import graph_from_def
from flowengine.ir.names import ARGUMENT, RESULT
from flowengine.ir.proto import FunctionDefLibrary, GraphDef, NodeDef
from flowengine.ir.tensorproto import VariantData, encode_tensor
from flowengine.ir.traits import Constant
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.iterators import checked_iterator
from flowengine.kernels.data.outside_state import FAIL, IGNORE, WARN, check_outside_state
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry as op_registry
from flowengine.resources.calling import FunctionCaller
from flowengine.resources.data.dataset import DatasetValue, checked_dataset, text
from flowengine.resources.data.sources import ListDataset
from flowengine.resources.data.state_coding import decode_state, encode_state

#: The node that says which dataset a graph is of.
_RESULT_NAME = "dataset"


class _NotInGraphError(FailedPreconditionError):
    """What a dataset uses is in no graph."""


class _DatasetGraph:
    """A graph that makes a dataset, while it is written."""

    def __init__(self) -> None:
        self.graph = GraphDef()
        self.graph.versions.producer = 134
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
        name = f"{op}_{len(self.graph.node)}"
        node = self.graph.node.add(name=name, op=op, input=inputs)
        for key, attr in origin.attrs.items():
            node.attr[key].CopyFrom(encode_attr(attr))
        if origin.caller is not None:
            self._add_functions(origin.caller)
        self._names[id(made)] = name
        return name

    def _input(self, value: Any, dtype: DType) -> str:
        if isinstance(value, np.ndarray) and value.shape == () and isinstance(value.item(), DatasetValue):
            value = value.item()
        if isinstance(value, DatasetValue):
            return self.add(value)
        if dtype in (dtypes.resource, dtypes.variant):
            raise _NotInGraphError(
                f"a dataset that uses a {type(value).__name__} cannot be written: it is not in the graph"
            )
        node: NodeDef = self.graph.node.add(name=f"Const_{len(self.graph.node)}", op="Const")
        node.attr["dtype"].CopyFrom(encode_attr(dtype))
        node.attr["value"].tensor.CopyFrom(encode_tensor(to_array(value), dtype))
        return node.name

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
        result = self.graph.node.add(name=_RESULT_NAME, op=RESULT, input=[name])
        result.attr["T"].CopyFrom(encode_attr(dtypes.variant))
        result.attr["index"].i = 0
        content: bytes = self.graph.SerializeToString(deterministic=True)
        return content


def graph_of(made: DatasetValue) -> bytes:
    """A GraphDef that makes a dataset. FailedPreconditionError for one that uses resources."""
    return _DatasetGraph().finished(made)


def dataset_of_graph(content: bytes, ctx: KernelContext, caller: FunctionCaller | None) -> DatasetValue:
    """The dataset that a GraphDef makes. InvalidArgumentError for a graph that makes none."""
    proto = GraphDef()
    try:
        proto.ParseFromString(content)
    except Exception as error:
        raise InvalidArgumentError("graph_def is no serialized GraphDef") from error
    if proto.HasField("library") and caller is not None:
        caller = caller.of_library(proto.library)
    graph = graph_from_def(proto, op_registry())
    wanted = [node for node in graph if node.op == RESULT or node.name == _RESULT_NAME]
    if not wanted or not wanted[0].inputs:
        raise InvalidArgumentError(f"the graph has no node '{_RESULT_NAME}' that says which dataset it is of")
    context = KernelContext(
        resources=ctx.resources,
        step_container=ctx.step_container,
        device=ctx.device,
        files=ctx.files,
        python_calls=ctx.python_calls,
        functions=caller,
        kernels=ctx.kernels,
    )
    context.memory = ctx.memory
    kernels = kernel_registry("numpy") if ctx.kernels is None else ctx.kernels
    values: dict[tuple[str, int], Any] = {}
    for name in _in_order(graph, wanted[0].inputs[0].node):
        node = graph[name]
        given = [values[port] for port in node.inputs]
        constant = node.trait(Constant)
        if node.op == ARGUMENT:
            raise InvalidArgumentError("a dataset's graph has no arguments")
        if constant is not None:
            values[name, 0] = node.attrs[constant.value].value()
            continue
        found = kernels.find(node)
        if found.is_async:
            raise InvalidArgumentError(f"'{name}' ({node.op}) waits: it cannot be part of a dataset's graph")
        keywords = {"ctx": context} if found.takes_context else {}
        made = found.bind(node)(*_grouped(node, given), **keywords)
        outputs = made if len(node.output_types) > 1 else (made,)
        values.update({(name, slot): value for slot, value in enumerate(outputs)})
    return checked_dataset(values[wanted[0].inputs[0]], "what the graph makes")


def _grouped(node: Any, given: list[Any]) -> Iterator[Any]:
    """Inputs as a kernel takes them: those of a list as one tuple."""
    at = 0
    for argument in node.op_def.inputs:
        count = len(argument.types(node.attrs))
        yield tuple(given[at : at + count]) if argument.is_list else given[at]
        at += count


def _in_order(graph: NodeGraph, last: str) -> list[str]:
    """The nodes that one needs, each behind its inputs."""
    order: list[str] = []
    known: set[str] = set()
    stack = [(last, False)]
    while stack:
        name, is_ready = stack.pop()
        if is_ready:
            order.append(name)
        elif name not in known:
            known.add(name)
            stack.append((name, True))
            stack += [(port.node, False) for port in graph[name].inputs]
    return order


@kernel("DatasetToGraph", heavy=False)
def dataset_to_graph(input_dataset: Any, *, allow_stateful: bool) -> bytes:
    """A serialized GraphDef (string, rank 0) that makes the dataset.

    FailedPreconditionError where its functions keep state outside of it, unless that is allowed, and where
    they use a resource.
    """
    made = checked_dataset(input_dataset)
    check_outside_state(made, WARN if allow_stateful else FAIL)
    return graph_of(made)


@kernel("DatasetToGraphV2", heavy=False)
def dataset_to_graph_v2(input_dataset: Any, *, external_state_policy: int) -> bytes:
    """As `dataset_to_graph`, where `external_state_policy` says what is done of state outside."""
    made = checked_dataset(input_dataset)
    # TensorFlow takes any other number for that of the default.
    check_outside_state(made, external_state_policy if external_state_policy in (IGNORE, FAIL) else WARN)
    return graph_of(made)


@kernel("DatasetFromGraph", heavy=False)
def dataset_from_graph(graph_def: Any, *, ctx: KernelContext) -> DatasetValue:
    """The dataset (variant, rank 0) that a serialized GraphDef makes."""
    return dataset_of_graph(text(graph_def, "graph_def"), ctx, ctx.functions)


@kernel("SerializeIterator", heavy=False)
async def serialize_iterator(resource_handle: Any, *, external_state_policy: int) -> VariantData:
    """Where an iterator stands (variant, rank 0), with the graph of its dataset if that has one.

    external_state_policy   what is done where functions of the pipeline keep state outside of it

    FailedPreconditionError before the iterator has a dataset. Cancelled, it leaves the iterator as it is.
    """
    found = checked_iterator(resource_handle)
    state = await found.state()
    made = found.dataset
    if made is None:  # it was deleted meanwhile
        raise found.missing()
    check_outside_state(made, external_state_policy)
    try:
        graph = graph_of(made)
    except _NotInGraphError:
        graph = None
    return encode_state({"graph": graph, "state": state}, graph_of)


@kernel("DeserializeIterator", heavy=False)
async def deserialize_iterator(resource_handle: Any, serialized: Any, *, ctx: KernelContext) -> None:
    """Have an iterator go on where another stood, in the same dataset, begun or not.

    Where the dataset uses resources the iterator goes on in its own: FailedPreconditionError before it has
    one. Cancelled, it may leave the iterator at the beginning.
    """
    found = checked_iterator(resource_handle)
    caller = ctx.functions
    kept = decode_state(serialized, lambda graph: dataset_of_graph(graph, ctx, caller))
    made = found.dataset if kept["graph"] is None else dataset_of_graph(kept["graph"], ctx, caller)
    if made is None:
        raise FailedPreconditionError(
            "the iterator whose place was saved uses resources, so that its dataset was not saved with it: "
            "begin this iterator with the same dataset before it is restored"
        )
    await found.restore(made, kept["state"])
