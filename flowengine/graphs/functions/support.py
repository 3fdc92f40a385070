"""Helpers for the functions in this package: finding the graph, and calling one constructor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.graphs.conversion import TensorLike, convert, graph_of, stands_for_tensor
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def call(op: str, *inputs: Any, name: str | None = None, graph: Graph | None = None, **attrs: Any) -> Any:
    """Call the constructor of an op in the graph of its inputs, and return its result."""
    return getattr(graph_of(*inputs, graph=graph).ops, op)(*inputs, name=name, **attrs)


def one(op: str, *inputs: Any, name: str | None = None, graph: Graph | None = None, **attrs: Any) -> Tensor:
    """The output of an op that has one."""
    found: Tensor = call(op, *inputs, name=name, graph=graph, **attrs)
    return found


def tensor_of(value: TensorLike, *others: Any, dtype: DType | None = None) -> Tensor:
    """Convert a value to a tensor of its graph, or else of that of the others."""
    return convert(graph_of(value, *others), value, dtype)


def alike(*values: TensorLike) -> list[Tensor]:
    """Values as tensors of one type: that of the first symbolic one."""
    graph = graph_of(*values)
    dtype = next(convert(graph, each).dtype.base for each in values if stands_for_tensor(each))
    return [convert(graph, each, dtype) for each in values]


def axes_of(x: Tensor, axis: Any) -> Any:
    """The axes along which to reduce: all of them where `axis` is None."""
    if axis is not None:
        return (
            list(axis) if isinstance(axis, Iterable) and not isinstance(axis, Tensor | np.ndarray) else axis
        )
    rank = x.shape.rank
    if rank is not None:
        return x.graph.constant(np.arange(rank, dtype=np.int32))
    return x.graph.ops.Range(0, x.graph.ops.Rank(x), 1)


def dimension(x: Tensor, axis: int) -> int | None:
    """Return the size of an axis, or None if the graph does not know it."""
    return None if x.shape.rank is None else x.shape[axis]
