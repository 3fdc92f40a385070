"""Elements put together to batches, padded or not, and batches taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin, scalar, shape_of
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.elements import Element, ElementRun, HeldTensor, stack

#: Bytes of a batch that are put together within a fifth of a millisecond.
_LARGE: Final = 1024 * 1024


def batch_of(elements: ElementRun, types: Sequence[DType]) -> Element:
    """Elements stacked component by component; InvalidArgumentError where their shapes differ."""
    columns: list[Value] = []
    for index, column in enumerate(elements.columns):
        shape = shape_of(column[0])
        if not _are_scalars(column) and any(map(shape.__ne__, map(shape_of, column))):
            number, other = next(
                (place, shape_of(each)) for place, each in enumerate(column) if shape_of(each) != shape
            )
            raise InvalidArgumentError(
                f"Cannot batch tensors with different shapes in component {index}. First element had shape "
                f"{list(shape)} and element {number} had shape {list(other)}."
            )
        columns.append(stack(column, types[index], shape))
    return tuple(columns)


def _are_scalars(column: list[Value]) -> bool:
    """Whether these are texts, or numbers of one type, by themselves; quickly told."""
    kinds = set(map(type, column))
    return len(kinds) == 1 and issubclass(kinds.pop(), bytes | np.generic)


def _sizes(shape: Value, what: str) -> list[int]:
    """A vector of sizes as a list; InvalidArgumentError for another rank, before its rows are listed."""
    array = to_array(shape)
    if array.ndim != 1:
        raise InvalidArgumentError(f"{what} must be a vector, but has shape {list(array.shape)}")
    sizes: list[int] = array.tolist()
    return sizes


async def joined_beside(join: Callable[[ElementRun], Element], elements: ElementRun) -> Element:
    """A batch of elements, on a thread where many bytes would hold up the event loop.

    Cancelled, it waits for the thread.
    """
    size = len(elements) * sum(getattr(column[0], "nbytes", 0) for column in elements.columns)
    return join(elements) if size <= _LARGE else await trio.to_thread.run_sync(join, elements)


class BatchDataset(DerivedDataset):
    """`batch_size` elements at a time; the last may have fewer, unless it is dropped."""

    __slots__ = ("batch_size", "drop_remainder")

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, batch_size: Value, *others: Value) -> None:
        super().__init__(origin, input_dataset)
        self.batch_size = scalar(batch_size, "batch_size")
        if self.batch_size <= 0:
            raise InvalidArgumentError("Batch size must be greater than zero.")
        # The last input says so; the first version has none, the parallel one has one in between.
        self.drop_remainder = bool(others[-1]) if others else False

    def iterator(self, iteration: Iteration) -> DataIterator:
        found = self.source.batches(iteration, self)
        return _BatchIterator(iteration, self) if found is None else found

    def unnumbered(self) -> DatasetValue | None:
        # TensorFlow shuffles no batches of which one may be smaller.
        return super().unnumbered() if self.drop_remainder else self

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        first = number * self.batch_size
        numbers = range(first, first + self.batch_size)
        found = ElementRun()
        for at in numbers:
            found.append(await self.source.element_at(iteration, at))
        return await joined_beside(self.joined, found)

    def joined(self, elements: ElementRun) -> Element:
        """A batch of elements."""
        return batch_of(elements, self.types)

    def cardinality(self) -> int:
        there = self.source.cardinality()
        if there < 0:
            return there
        return there // self.batch_size + (not self.drop_remainder and there % self.batch_size > 0)


class _BatchIterator(DataIterator):
    __slots__ = ("_dataset", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, batched: BatchDataset) -> None:
        super().__init__(iteration)
        self._dataset = batched
        self.input: DataIterator | None = batched.source.iterator(iteration)

    async def next(self) -> Element | None:
        if self.input is None:
            return None
        made = self._dataset
        elements = await self.input.take(made.batch_size)
        if len(elements) < made.batch_size:
            self.input = None
            if not elements or made.drop_remainder:
                return None
        return await joined_beside(made.joined, elements)


class PaddedBatchDataset(BatchDataset):
    """Batches whose elements are padded to one shape, where sizes are -1 that of the largest."""

    __slots__ = ("fillings", "padded_shapes")

    NUMBERED = False

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        batch_size: Value,
        padded_shapes: tuple[Value, ...],
        padding_values: tuple[Value, ...],
        drop_remainder: Value = False,
    ) -> None:
        super().__init__(origin, input_dataset, batch_size, drop_remainder)
        if len(padded_shapes) != len(self.types):
            raise InvalidArgumentError(
                f"Number of padded shapes ({len(padded_shapes)}) must match the number of components "
                f"in the input dataset's elements ({len(self.types)})"
            )
        self.padded_shapes = [_sizes(each, "each of padded_shapes") for each in padded_shapes]
        self.fillings: list[Value] = []
        for index, value in enumerate(padding_values):
            if getattr(value, "ndim", 0):
                raise InvalidArgumentError(f"All padding values must be scalars; but {index} is not")
            self.fillings.append(value.item() if _holds_objects(value) else value)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _BatchIterator(iteration, self)

    def joined(self, elements: ElementRun) -> Element:
        return tuple([self._padded(index, column) for index, column in enumerate(elements.columns)])

    def _padded(self, index: int, column: list[Value]) -> Array:
        """One component of all elements, (elements, ...)."""
        sizes = list(self.padded_shapes[index])
        shapes = [shape_of(value) for value in column]
        for shape in shapes:
            if len(shape) != len(sizes):
                raise InvalidArgumentError(
                    "All elements in a batch must have the same rank as the padded shape for component"
                    f"{index}: expected rank {len(sizes)} but got element with rank {len(shape)}"
                )
        for axis, size in enumerate(self.padded_shapes[index]):
            largest = max(shape[axis] for shape in shapes)
            if size == -1:
                sizes[axis] = largest
            elif largest > size:
                raise DataLossError(
                    f"Attempted to pad to a smaller size than the input element: component {index} has "
                    f"{largest} along axis {axis}, where there is room for {size}"
                )
        numpy_type = self.types[index].as_numpy_dtype
        if all(shape == tuple(sizes) for shape in shapes):
            return stack(column, self.types[index], tuple(sizes))
        joined: Array = np.full((len(column), *sizes), self.fillings[index], dtype=numpy_type)
        for row, value, shape in zip(joined, column, shapes, strict=True):
            row[tuple(map(slice, shape))] = value
        return joined


def _holds_objects(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.hasobject


class DenseToSparseBatchDataset(DerivedDataset):
    """Batches of tensors of one component as sparse tensors: indices, values, dense shape."""

    __slots__ = ("batch_size", "row_shape")

    def __init__(self, origin: Origin, input_dataset: Any, batch_size: Value, row_shape: Value) -> None:
        super().__init__(origin, input_dataset)
        self.batch_size = scalar(batch_size, "batch_size")
        if self.batch_size <= 0:
            raise InvalidArgumentError("Batch size must be greater than zero.")
        self.row_shape = _sizes(row_shape, "row_shape")
        if len(self.source.types) > 1:
            raise InvalidArgumentError(
                "DenseToSparseBatchDataset only supports inputs with a single component."
            )

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SparseBatchIterator(iteration, self)

    def joined(self, elements: ElementRun) -> Element:
        """One component (3,): indices (n, 1 + rank), values (n,), dense shape (1 + rank,), each a variant."""
        sizes = [max(size, 0) for size in self.row_shape]
        indices, values = [], []
        for number, element in enumerate(elements):
            value = to_array(element[0])
            if value.ndim != len(self.row_shape):
                raise InvalidArgumentError(
                    f"Input element had shape ({list(value.shape)}) that is incompatible with the row shape "
                    f"({self.row_shape})."
                )
            for axis, size in enumerate(self.row_shape):
                if size == -1:
                    sizes[axis] = max(sizes[axis], value.shape[axis])
                elif value.shape[axis] > size:
                    raise DataLossError(
                        f"Input element had shape ({list(value.shape)}) that is larger than the row shape "
                        f"({self.row_shape})."
                    )
            places = np.indices(value.shape, np.int64).reshape(value.ndim, -1).T
            indices.append(np.concatenate([np.full((len(places), 1), number), places], axis=1))
            values.append(value.reshape(-1))
        parts = np.empty(3, dtype=object)
        parts[0] = HeldTensor(np.concatenate(indices).astype(np.int64))
        parts[1] = HeldTensor(np.concatenate(values))
        parts[2] = HeldTensor(np.array([len(elements), *sizes], np.int64))
        return (parts,)


class _SparseBatchIterator(DataIterator):
    __slots__ = ("_dataset", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, batched: DenseToSparseBatchDataset) -> None:
        super().__init__(iteration)
        self._dataset = batched
        self.input: DataIterator | None = batched.source.iterator(iteration)

    async def next(self) -> Element | None:
        if self.input is None:
            return None
        elements = await self.input.take(self._dataset.batch_size)
        if len(elements) < self._dataset.batch_size:
            self.input = None
        return self._dataset.joined(elements) if elements else None


class UnbatchDataset(DerivedDataset):
    """The rows of each element, which must have as many in all components."""

    __slots__ = ()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return RowsIterator(iteration, self.source.iterator(iteration))


class RowsIterator(DataIterator):
    """The rows of an iterator's elements."""

    __slots__ = ("current", "input", "row")

    FIELDS = ("current", "row")
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, source: DataIterator) -> None:
        super().__init__(iteration)
        self.input: DataIterator | None = source
        #: The element that is being taken apart, and its next row.
        self.current: list[Any] | None = None
        self.row = 0

    async def _next_batch(self) -> bool:
        assert self.input is not None
        element = await self.input.next()
        if element is None:
            self.input = None
            return False
        columns = [to_array(value) for value in element]
        for column in columns:
            if not column.ndim:
                raise InvalidArgumentError("Input element must have a non-scalar value in each component.")
            if len(column) != len(columns[0]):
                raise InvalidArgumentError(
                    "Input element must have the same batch size in each component. Component 0 had size "
                    f"{len(columns[0])} but another one had size {len(column)}."
                )
        self.current, self.row = columns, 0
        return True

    async def next(self) -> Element | None:
        while True:
            if self.current is not None and self.row < len(self.current[0]):
                self.row += 1
                return tuple([column[self.row - 1] for column in self.current])
            if self.input is None or not await self._next_batch():
                return None

    async def rows(self, count: int) -> Element | None:
        """The next `count` rows as one element, fewer only at the end; None after the last."""
        parts: list[list[Array]] = []
        missing = count
        while missing:
            if self.current is None or self.row >= len(self.current[0]):
                if self.input is None or not await self._next_batch():
                    break
                continue
            end = min(self.row + missing, len(self.current[0]))
            parts.append([column[self.row : end] for column in self.current])
            missing -= end - self.row
            self.row = end
        if not parts:
            return None
        return tuple([np.concatenate(columns) for columns in zip(*parts, strict=True)])


class RebatchDataset(DerivedDataset):
    """Each batch cut into as many smaller ones as there are replicas."""

    __slots__ = ("num_replicas",)

    def __init__(self, origin: Origin, input_dataset: Any, num_replicas: Value) -> None:
        super().__init__(origin, input_dataset)
        self.num_replicas = scalar(num_replicas, "num_replicas")
        if self.num_replicas < 1:
            raise InvalidArgumentError("num_replicas must be greater than zero.")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ReplicaBatchIterator(iteration, self)


class _ReplicaBatchIterator(DataIterator):
    __slots__ = ("_replicas", "current", "input", "row")

    FIELDS = ("current", "row")
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, cut: RebatchDataset) -> None:
        super().__init__(iteration)
        self._replicas = cut.num_replicas
        self.input: DataIterator | None = cut.source.iterator(iteration)
        self.current: list[Any] | None = None
        self.row = 0

    async def next(self) -> Element | None:
        while self.current is None or self.row >= len(self.current[0]):
            element = None if self.input is None else await self.input.next()
            if element is None:
                self.input = None
                return None
            self.current, self.row = [to_array(value) for value in element], 0
            if not all(column.ndim for column in self.current):
                raise InvalidArgumentError("Input element must have a non-scalar value in each component.")
        end = self.row + max(-(-len(self.current[0]) // self._replicas), 1)
        part = tuple([column[self.row : end] for column in self.current])
        self.row = end
        return part


class RebatchDatasetV2(DerivedDataset):
    """The rows of all batches in batches of other sizes, which follow each other in a round."""

    __slots__ = ("drop_remainder", "sizes")

    def __init__(self, origin: Origin, input_dataset: Any, batch_sizes: Value, drop_remainder: Value) -> None:
        super().__init__(origin, input_dataset)
        self.sizes: list[int] = to_array(batch_sizes).reshape(-1).tolist()
        self.drop_remainder = bool(drop_remainder)
        if not self.sizes or min(self.sizes) <= 0:
            raise InvalidArgumentError(f"batch_sizes must be positive, not {self.sizes}")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SizesIterator(iteration, self)


class _SizesIterator(DataIterator):
    __slots__ = ("_dataset", "input", "number")

    FIELDS = ("number",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, cut: RebatchDatasetV2) -> None:
        super().__init__(iteration)
        self._dataset = cut
        self.input = RowsIterator(iteration, cut.source.iterator(iteration))
        self.number = 0

    async def next(self) -> Element | None:
        size = self._dataset.sizes[self.number % len(self._dataset.sizes)]
        batch = await self.input.rows(size)
        if batch is None or (self._dataset.drop_remainder and len(batch[0]) < size):
            return None
        self.number += 1
        return batch
