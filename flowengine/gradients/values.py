"""The forms that a gradient can have.

A gradient is absent (None), zero (made only where a function needs an array), or present: a `Tensor`, or an
`IndexedSlices` where only some rows of it are not zero.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

_log: Final = logging.getLogger("flowengine.gradients")
#: Elements of a dense gradient above which making it of slices is worth a line in the log.
_LARGE_ELEMENTS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class IndexedSlices:
    """Rows of a tensor of which the others are zero.

    values        (N, ...) the rows
    indices       (N,) int32 or int64, which rows they are; those of equal index add up
    dense_shape   (rank,) the shape of the whole, or None where nobody knows it

    >>> graph = fe.Graph()
    >>> table = graph.variable(np.ones([4, 2], np.float32))
    >>> grad, = fe.gradients(fe.reduce_sum(table.rows([0, 2])), table)
    >>> type(grad).__name__, grad.values.shape, fe.reduce_sum(grad).shape
    ('IndexedSlices', TensorShape([2, 2]), TensorShape([]))
    """

    values: Tensor
    indices: Tensor
    dense_shape: Tensor | None = None

    @property
    def dtype(self) -> DType:
        return self.values.dtype.base

    @property
    def graph(self) -> Graph:
        return self.values.graph

    def __flowengine_tensor__(self, graph: Graph, dtype: DType | None, name: str | None) -> Tensor:
        """The whole, the slices added up in zeros; InvalidArgumentError where its shape is unknown."""
        with graph.name_scope(name or "dense"):
            return dense(graph, graph.ops, self)


Gradient: TypeAlias = Tensor | IndexedSlices
#: What a gradient function returns: a gradient for each input, None where there is none.
Results: TypeAlias = Sequence[Gradient | None]


def dense(graph: Any, ops: Any, slices: IndexedSlices) -> Tensor:
    """Slices as one tensor; InvalidArgumentError where the dense shape is not known."""
    if slices.dense_shape is None:
        raise InvalidArgumentError(
            f"the slices '{slices.values.name}' cannot become one tensor: their dense shape is not known; "
            "give it to IndexedSlices as dense_shape"
        )
    known = graph.constant_value(slices.dense_shape)
    if known is None:
        _log.warning(
            "the gradient '%s' is made dense, of a shape that is not known: this may need much memory",
            slices.values.name,
        )
        rows = ops.StridedSlice(slices.dense_shape, [0], [1], [1], shrink_axis_mask=1)
    else:
        count = 1
        for dimension in known:
            count *= int(dimension)
        if count >= _LARGE_ELEMENTS:
            _log.warning(
                "the gradient '%s' is made dense: %d elements of which %s rows are not zero",
                slices.values.name,
                count,
                slices.values.shape[0],
            )
        rows = int(known[0])
        rows = graph.constant(rows, slices.dense_shape.dtype.base)
    result: Tensor = ops.UnsortedSegmentSum(slices.values, slices.indices, rows)
    return result
