"""What the functions of this room do with their arguments first: find the graph, make tensors of them."""

from __future__ import annotations

from typing import Any

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def graph_of(what: str, *values: Any) -> Graph:
    """The graph of the first value that has one; InvalidArgumentError where none has."""
    for value in values:
        for each in value if isinstance(value, list | tuple) else (value,):
            graph = getattr(each, "graph", None)
            if isinstance(graph, Graph):
                return graph
    raise InvalidArgumentError(
        f"{what}: none of its arguments is a tensor of a graph; make one of them by graph.constant(...)"
    )


def convert(graph: Graph, value: Any, dtype: DType | None = None, name: str = "Const") -> Tensor:
    """A tensor as it is; what knows how becomes one; another value is made a constant."""
    if isinstance(value, Tensor):
        return value
    how = getattr(value, "__flowengine_tensor__", None)
    if how is not None:
        made: Tensor = how(graph, dtype, name)
        return made
    return graph.constant(value, dtype, name=name)


def cast(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor in a type; itself where it has it."""
    if tensor.dtype.base is dtype:
        return tensor
    result: Tensor = tensor.graph.ops.Cast(tensor, DstT=dtype, name="Cast")
    return result


def computing_type(tensor: Tensor) -> DType:
    """The type in which sums of a tensor's elements are kept: float64 of float64, else float32."""
    return dtypes.float64 if tensor.dtype.base is dtypes.float64 else dtypes.float32


def all_axes(tensor: Tensor) -> Tensor:
    """The numbers of all axes of a tensor, int32 (rank,): a constant where the rank is known."""
    graph = tensor.graph
    rank = tensor.shape.rank
    if rank is not None:
        return graph.constant(list(range(rank)), dtypes.int32, shape=[rank])
    found: Tensor = graph.ops.Range(0, graph.ops.Rank(tensor), 1)
    return found


__all__ = ["all_axes", "cast", "computing_type", "convert", "graph_of"]
