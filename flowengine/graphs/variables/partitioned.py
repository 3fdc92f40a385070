"""Variables cut into parts along one axis, each another variable: `w/part_0`, `w/part_1`, ...

A checkpoint holds the parts as slices of one tensor, so that it can be restored into other parts, or whole.
`graphs.variables.partitioners` says into how many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert
from flowengine.graphs.operators import TensorOperators
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.values import to_value
from flowengine.graphs.variables.saved_slice import SavedSlice
from flowengine.graphs.variables.variable import GraphVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class PartitionedVariable(TensorOperators):
    """A variable in parts: `parts` in order, cut along `axis`.

    name, shape, dtype   of the whole

    Its methods are those of `flowengine.GraphVariable`, for a `value` or `delta` of the whole shape, and
    raise the same errors, such as InvalidArgumentError.

    >>> graph = fe.Graph()
    >>> cut = fe.partitioners.fixed_size(2)
    >>> table = graph.variable(np.zeros([4, 2], np.float32), name="table", partitioner=cut)
    >>> [part.name for part in table.parts], table.value().shape
    (['table/part_0:0', 'table/part_1:0'], TensorShape([4, 2]))
    >>> ones = np.ones([4, 2], np.float32)
    >>> alone = [table.assign_op(ones), table.assign_add_op(ones), table.assign_sub_op(ones)]
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     for changed in (table.assign(ones), table.assign_add(ones), table.assign_sub(ones), table.read()):
    ...         print(session.run(changed)[0].tolist())
    [1.0, 1.0]
    [2.0, 2.0]
    [1.0, 1.0]
    [1.0, 1.0]
    """

    def __init__(self, name: str, shape: TensorShape, parts: Sequence[GraphVariable], axis: int) -> None:
        self.name = name
        self._shape = shape
        self.parts = tuple(parts)
        self.axis = axis
        self._whole: Tensor | None = None

    def of_parts(self, parts: Sequence[GraphVariable]) -> PartitionedVariable:
        """Return this variable with other `parts`, such as those of a copy of the graph.

        >>> graph = fe.Graph()
        >>> cut = fe.partitioners.fixed_size(2)
        >>> table = graph.variable(np.zeros([4, 2], np.float32), name="table", partitioner=cut)
        >>> table.of_parts(table.parts)
        <PartitionedVariable 'table' of 2 parts shape=[4,2]>
        """
        return PartitionedVariable(self.name, self.shape, parts, self.axis)

    @property
    def graph(self) -> Graph:
        return self.parts[0].graph

    @property
    def shape(self) -> TensorShape:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self.parts[0].dtype

    def __repr__(self) -> str:
        return f"<PartitionedVariable '{self.name}' of {len(self.parts)} parts shape={self.shape}>"

    def value(self) -> Tensor:
        """Return the whole of it, the parts joined."""
        if len(self.parts) == 1:
            return self.parts[0].value()
        graph = self.graph
        with graph.name_scope(f"{self.name}/ConcatPartitions"):
            joined: Tensor = graph.ops.ConcatV2(
                [part.value() for part in self.parts], self.axis, name="concat"
            )
        return joined

    def read(self) -> Tensor:
        """Return the whole of it, read after the control dependencies around."""
        parts = [part.read() for part in self.parts]
        joined: Tensor = parts[0] if len(parts) == 1 else self.graph.ops.ConcatV2(parts, self.axis)
        return joined

    @property
    def initializer(self) -> Operation:
        """The operation that gives all parts their first values; a new one each time."""
        return self.graph.group(*(part.initializer for part in self.parts))

    def assign(self, value: Any, *, name: str | None = None) -> Tensor:
        """Set it to a value of its shape; what is returned is its value afterwards."""
        return self._after(self.assign_op(value, name=name))

    def assign_add(self, delta: Any, *, name: str | None = None) -> Tensor:
        """Add a value of its shape; what is returned is its value afterwards."""
        return self._after(self.assign_add_op(delta, name=name))

    def assign_sub(self, delta: Any, *, name: str | None = None) -> Tensor:
        """Subtract a value of its shape; what is returned is its value afterwards."""
        return self._after(self.assign_sub_op(delta, name=name))

    def assign_op(self, value: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that sets it to a value."""
        return self._changed("assign_op", value, name)

    def assign_add_op(self, delta: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that adds a value of its shape."""
        return self._changed("assign_add_op", delta, name)

    def assign_sub_op(self, delta: Any, *, name: str | None = None) -> Operation:
        """Return the operation alone that subtracts a value of its shape."""
        return self._changed("assign_sub_op", delta, name)

    def _changed(self, change: str, value: Any, name: str | None) -> Operation:
        """A change of each part by what is cut of a value for it."""
        graph = self.graph
        with graph.name_scope(name or change.removesuffix("_op")):
            whole = convert(graph, value, self.dtype)
            if not self.shape.is_compatible_with(whole.shape):
                raise InvalidArgumentError(
                    f"variable '{self.name}' is of shape {self.shape}, the value '{whole.name}' of "
                    f"{whole.shape}"
                )
            pieces: Sequence[Tensor] = [whole]
            if len(self.parts) > 1:
                lengths = [part.shape.as_list()[self.axis] or 0 for part in self.parts]
                pieces = graph.ops.SplitV(
                    whole, np.array(lengths, np.int64), self.axis, num_split=len(lengths)
                )
            return graph.group(
                *(getattr(part, change)(piece) for part, piece in zip(self.parts, pieces, strict=True))
            )

    def _after(self, change: Operation) -> Tensor:
        with self.graph.control_dependencies([change]):
            return self.read()

    def __flowengine_fetch__(self) -> Tensor:
        """Return the tensor that a step fetches: the whole, read by the same nodes each time."""
        if self._whole is None:
            with self.graph.scopes.outside(), self.graph.name_scope(None):
                self._whole = self.value()
        return self._whole

    def __flowengine_tensor__(
        self, graph: Graph, dtype: DType | None = None, name: str | None = None
    ) -> Tensor:
        """The whole of it, as a tensor."""
        return self.value()


def make_partitioned(
    graph: Graph,
    initial: Any,
    name: str,
    shape: Any,
    dtype: Any,
    partitioner: Callable[..., Collection[int]],
    **options: Any,
) -> PartitionedVariable:
    """A variable of a known shape in as many parts as a partitioner says; at most one axis is cut.

    Other arguments as `Graph.variable`. The first parts are longer by one where they cannot be equal.
    """
    if not callable(initial) and not isinstance(initial, Tensor):
        value, dtype = to_value(initial, None if dtype is None else as_dtype(dtype))
        initial = to_array(value)
    whole = TensorShape(initial.shape if shape is None and not callable(initial) else shape)
    dims = whole.as_tuple()
    if dims is None:
        raise InvalidArgumentError(f"variable '{name}': a shape to be cut must be known, not {whole}")
    kind = dtype if dtype is not None else getattr(initial, "dtype", "float32")
    counts = [int(count) for count in partitioner(whole, as_dtype(kind).base)]
    cut = [axis for axis, count in enumerate(counts) if count > 1]
    if len(counts) != len(dims) or len(cut) > 1 or min(counts, default=1) < 1:
        raise InvalidArgumentError(
            f"variable '{name}' of shape {whole}: a partitioner gives one count for each axis, of which one "
            f"may be above 1, not {counts}"
        )
    axis = cut[0] if cut else 0
    count = counts[axis] if counts else 1
    if dims and count > dims[axis]:
        raise InvalidArgumentError(f"variable '{name}': {dims[axis]} rows cannot be cut into {count} parts")
    parts, begin = [], 0
    with graph.name_scope(name) as scope:
        full_name = scope[:-1]
    for index in range(count):
        length = dims[axis] // count + (index < dims[axis] % count) if dims else 0
        part = tuple(length if each == axis else size for each, size in enumerate(dims))
        offset = tuple(begin if each == axis else 0 for each in range(len(dims)))
        with graph.name_scope(None):
            made = graph.variable(
                _of_part(initial, dims, offset, part),
                name=f"{full_name}/part_{index}",
                shape=part,
                dtype=dtype,
                **options,
            )
        assert isinstance(made, GraphVariable)
        made.save_slice = SavedSlice(full_name, dims, offset, part)
        parts.append(made)
        begin += length
    return PartitionedVariable(full_name, whole, parts, axis)


def _of_part(
    initial: Any, dims: tuple[int, ...], offset: tuple[int, ...], part: tuple[int, ...]
) -> Callable[..., Any]:
    """An initializer of one part."""
    if callable(initial):
        whole = getattr(initial, "of_part", None)
        found: Callable[..., Any] = initial if whole is None else whole(dims, offset)
        return found
    if isinstance(initial, Tensor):
        value = initial
        return lambda graph, shape, dtype: graph.ops.Slice(value, offset, part)
    where = tuple(slice(begin, begin + length) for begin, length in zip(offset, part, strict=True))
    piece = initial[where]
    return lambda graph, shape, dtype: graph.constant(piece, dtype, name="initial_value")


__all__ = ["PartitionedVariable", "make_partitioned"]
