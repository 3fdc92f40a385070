"""Tensors that are held as several: sparse ones and ragged ones.

Both are structures of tensors (`graphs.structures`): a loop carries them, a conditional returns them, and a
session fetches and feeds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flowengine.core import dtypes
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


@dataclass(frozen=True, slots=True)
class SparseTensor:
    """A tensor that holds only some of its elements; the others are zero.

    indices       (n, rank) int64, where they are, in row-major order
    values        (n,) of any type
    dense_shape   (rank,) int64

    In a graph these are Tensors; a value that a session returns, or is fed, has arrays in their places.

    >>> graph = fe.Graph()
    >>> x = fe.sparse_placeholder("float32", [None, 3], graph=graph)
    >>> total = fe.reduce_sum(x.values)
    >>> with fe.blocking.Session(graph) as session:
    ...     print(session.run(total, {x: fe.SparseTensor([[0, 1], [2, 0]], [1.5, 2.0], [3, 3])}))
    3.5
    """

    indices: Any
    values: Any
    dense_shape: Any

    @property
    def graph(self) -> Graph:
        found: Graph = self.values.graph
        return found

    @property
    def dtype(self) -> DType:
        return as_dtype(self.values.dtype).base

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole, as far as the graph alone determines it."""
        if not isinstance(self.dense_shape, Tensor):
            return TensorShape([int(each) for each in self.dense_shape])
        known = self.graph.constant_value(self.dense_shape)
        if known is not None:
            return TensorShape([int(each) for each in known])
        rank = self.dense_shape.shape[0] if self.dense_shape.shape.rank else None
        return TensorShape(None if rank is None else [None] * rank)


@dataclass(frozen=True, slots=True)
class RaggedTensor:
    """Rows of different lengths, one after the other.

    values       (n, ...) the elements of all rows, or a RaggedTensor if the rows have rows
    row_splits   (rows + 1,) int64 or int32: the start of each row, and the end of the last

    >>> rows = fe.RaggedTensor(np.array([1, 2, 3]), np.array([0, 2, 3]))  # [[1, 2], [3]]
    """

    values: Any
    row_splits: Any

    @property
    def graph(self) -> Graph:
        found: Graph = self.row_splits.graph
        return found

    @property
    def dtype(self) -> DType:
        return as_dtype(self.values.dtype).base


def sparse_placeholder(
    dtype: Any, shape: Any = None, name: str = "Placeholder", *, graph: Graph
) -> SparseTensor:
    """Add a SparseTensor that every step must feed, by a SparseTensor of arrays or three arrays in a tuple.

    dtype   of the values
    shape   of the whole tensor, as far as it is known
    graph   the graph to add it to

    Raises InvalidArgumentError for a dtype or shape that cannot be.

    >>> fe.sparse_placeholder("int32", [None, 4], name="words", graph=fe.Graph()).indices
    <Tensor 'words/indices:0' shape=[?,2] dtype=int64>
    """
    rank = TensorShape(shape).rank
    with graph.name_scope(name):
        return SparseTensor(
            graph.placeholder(dtypes.int64, [None, rank], name="indices"),
            graph.placeholder(dtype, [None], name="values"),
            graph.placeholder(dtypes.int64, [rank], name="shape"),
        )
