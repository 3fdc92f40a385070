"""The forms that a gradient can have, and the builder that a gradient function works with.

A gradient is absent (None), zero (made only where a function needs an array), or present: a `Tensor`, or an
`IndexedSlices` where only some rows of it are not zero.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.tensor import Operation, Tensor

if TYPE_CHECKING:
    from flowengine.gradients.regions import GradientRegion
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


class Backward:
    """A builder for a gradient function, for one op: nodes go where the gradient of that op belongs.

    graph    the graph that is extended
    ops      its constructors; a tensor of the forward graph may be given to each, wherever it lives: within
             the gradient of a loop it is replaced by its value in the iteration that is gone back through
    source   what tells this call's gradient TensorArrays from those of other calls
    """

    __slots__ = ("_memory", "graph", "op", "ops", "region")

    def __init__(self, region: GradientRegion, op: Operation) -> None:
        self.region = region
        self.op = op
        self.graph = region.graph
        self.ops = region.ops
        self._memory: dict[Any, Any] = {}

    @property
    def source(self) -> str:
        return self.region.call.source

    def here(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor at the place of the gradient; the same tensor in straight code."""
        return self.region.here(tensor)

    def constant(self, value: Any, dtype: DType | str | None = None) -> Tensor:
        """A Const at the place of the gradient."""
        return self.graph.constant(value, dtype)

    def control(self, tensors: Iterable[Tensor | Operation]) -> AbstractContextManager[None]:
        """Return a context whose new nodes run after these."""
        return self.graph.control_dependencies(tensors)

    def shape(self, tensor: Tensor, dtype: DType | str = "int32") -> Tensor:
        """The shape of a forward tensor, (rank,): a constant where the graph tells all of it."""
        from flowengine.gradients.shapes import shape_of

        key = (tensor, str(dtype))
        if key not in self._memory:
            self._memory[key] = shape_of(self, tensor, dtype)
        found: Tensor = self._memory[key]
        return found

    def zeros_like(self, tensor: Tensor) -> Tensor:
        """Zeros of a forward tensor's shape and type."""
        from flowengine.gradients.shapes import zeros_like

        return zeros_like(self, tensor)

    def sum_to(self, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """The gradient of `x` from that of an op that broadcasts `x` and `other` together.

        grad   of the broadcast shape; returned is its sum along the axes along which `x` was repeated, of
               the shape of `x`
        """
        from flowengine.gradients.shapes import sum_to

        return sum_to(self, grad, x, other)

    def real_or_conj(self, x: Tensor) -> Tensor:
        """The complex conjugate of a complex tensor, any other as it is."""
        if not x.dtype.is_complex:
            return x
        found: Tensor = self.ops.Conj(x)
        return found

    def dense(self, gradient: Gradient) -> Tensor:
        """A gradient as one tensor: the slices of an `IndexedSlices` added up in zeros.

        Raises InvalidArgumentError for slices whose dense shape nobody knows.
        """
        if isinstance(gradient, Tensor):
            return gradient
        return dense(self.graph, self.ops, gradient)

    def remembered(self, *tensors: Tensor) -> dict[Any, Any]:
        """Return the cache of this op's helpers, for helpers that are called twice."""
        return self._memory


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
