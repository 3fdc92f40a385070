"""Datasets of tensors, of their rows, of numbers, and of what functions give."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import (
    INFINITE,
    DataIterator,
    DatasetValue,
    Iteration,
    Origin,
    checked_dataset,
    checked_number,
    scalar,
)
from flowengine.resources.data.random import RandomNumbers
from flowengine.resources.elements import Element, ElementRun

#: Elements that a source gives between two looks at the clock.
_LOOK_EVERY = 16


class TensorDataset(DatasetValue):
    """One element: the components themselves."""

    __slots__ = ("components",)

    NUMBERED = True

    def __init__(self, origin: Origin, components: tuple[Value, ...]) -> None:
        super().__init__(origin)
        self.components = tuple(components)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ListIterator(iteration, [self.components])

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        checked_number(number, 1)
        return self.components

    def cardinality(self) -> int:
        return 1


class TensorSliceDataset(DatasetValue):
    """The rows of the components, which have as many."""

    __slots__ = ("columns", "count")

    NUMBERED = True

    def __init__(self, origin: Origin, components: tuple[Value, ...]) -> None:
        super().__init__(origin)
        self.columns = tuple([to_array(value) for value in components])
        for index, column in enumerate(self.columns):
            if not column.ndim:
                raise InvalidArgumentError(
                    f"All components must be at least 1-dimensional, component {index} is not"
                )
            if len(column) != len(self.columns[0]):
                raise InvalidArgumentError(
                    "All components must have the same size in the 0th dimension, component "
                    f"{index} has {len(column)}, the first one {len(self.columns[0])}"
                )
        self.count = len(self.columns[0])

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SliceIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        place = checked_number(number, self.count)
        return tuple([column[place] for column in self.columns])

    def cardinality(self) -> int:
        return self.count


class _ListIterator(DataIterator):
    """Elements of a list."""

    __slots__ = ("_elements", "place")

    FIELDS = ("place",)

    def __init__(self, iteration: Iteration, elements: list[Element]) -> None:
        super().__init__(iteration)
        self._elements = elements
        self.place = 0

    async def next(self) -> Element | None:
        if self.place >= len(self._elements):
            return None
        if not self.place % _LOOK_EVERY:
            await self.iteration.breathe()
        self.place += 1
        return self._elements[self.place - 1]


class _SliceIterator(DataIterator):
    __slots__ = ("_dataset", "place")

    FIELDS = ("place",)

    def __init__(self, iteration: Iteration, rows: TensorSliceDataset) -> None:
        super().__init__(iteration)
        self._dataset = rows
        self.place = 0

    async def next(self) -> Element | None:
        place = self.place
        if place >= self._dataset.count:
            return None
        if not place % _LOOK_EVERY:
            await self.iteration.breathe()
        self.place = place + 1
        return tuple([column[place] for column in self._dataset.columns])

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        await self.iteration.breathe()
        end = min(self.place + count, self._dataset.count)
        taken = ElementRun() if into is None else into
        taken.columns = [list(column[self.place : end]) for column in self._dataset.columns]
        self.place = end
        return taken


class SparseTensorSliceDataset(DatasetValue):
    """The rows of a sparse tensor, each as indices, values and dense shape."""

    __slots__ = ("dense_shape", "indices", "starts", "values")

    def __init__(self, origin: Origin, indices: Value, values: Value, dense_shape: Value) -> None:
        super().__init__(origin)
        self.indices, self.values = to_array(indices), to_array(values)
        self.dense_shape = to_array(dense_shape)
        if self.indices.ndim != 2 or self.values.ndim != 1 or self.dense_shape.ndim != 1:
            raise InvalidArgumentError(
                "a sparse tensor has a matrix of indices and vectors of values and of its shape, not "
                f"{list(self.indices.shape)}, {list(self.values.shape)}, {list(self.dense_shape.shape)}"
            )
        rank = len(self.dense_shape)
        if rank < 1 or self.indices.shape != (len(self.values), rank):
            raise InvalidArgumentError(
                f"indices of shape {list(self.indices.shape)} do not fit {len(self.values)} values "
                f"of rank {rank}"
            )
        rows = self.indices[:, 0]
        if len(rows) and (rows[1:] < rows[:-1]).any():
            raise InvalidArgumentError(
                "Iterating over the rows of a sparse tensor whose indices are not in order is not supported"
            )
        count = int(self.dense_shape[0])
        if len(rows) and not 0 <= rows[0] <= rows[-1] < count:
            raise InvalidArgumentError(f"indices of rows must be between 0 and {count - 1}")
        self.starts = np.searchsorted(rows, np.arange(count + 1))
        self.types = (dtypes.int64, dtypes.as_dtype(origin.attrs["Tvalues"]), dtypes.int64)
        self.shapes = (TensorShape([None, rank - 1]), TensorShape([None]), TensorShape([rank - 1]))

    def row(self, number: int) -> Element:
        begin, end = self.starts[number], self.starts[number + 1]
        return self.indices[begin:end, 1:], self.values[begin:end], self.dense_shape[1:]

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SparseIterator(iteration, self)

    def cardinality(self) -> int:
        return int(self.dense_shape[0])


class _SparseIterator(DataIterator):
    __slots__ = ("_dataset", "place")

    FIELDS = ("place",)

    def __init__(self, iteration: Iteration, rows: SparseTensorSliceDataset) -> None:
        super().__init__(iteration)
        self._dataset = rows
        self.place = 0

    async def next(self) -> Element | None:
        if self.place >= self._dataset.cardinality():
            return None
        await self.iteration.breathe()
        self.place += 1
        return self._dataset.row(self.place - 1)


class RangeDataset(DatasetValue):
    """Numbers from `start` to before `stop`, `step` apart; int64 unless the node says another type."""

    __slots__ = ("number_type", "numbers")

    NUMBERED = True

    def __init__(self, origin: Origin, start: Value, stop: Value, step: Value) -> None:
        super().__init__(origin)
        apart = scalar(step, "step")
        if apart == 0:
            raise InvalidArgumentError("step must be a non-zero integer.")
        self.numbers = range(scalar(start, "start"), scalar(stop, "stop"), apart)
        #: What makes an element of a number.
        self.number_type: Any = self.types[0].as_numpy_dtype.type if self.types else np.int64

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _RangeIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return (self.number_type(self.numbers[checked_number(number, len(self.numbers))]),)

    def cardinality(self) -> int:
        return len(self.numbers)


class _RangeIterator(DataIterator):
    __slots__ = ("_numbers", "_type", "place")

    FIELDS = ("place",)

    def __init__(self, iteration: Iteration, numbers: RangeDataset) -> None:
        super().__init__(iteration)
        self._numbers = numbers.numbers
        self._type = numbers.number_type
        self.place = 0

    async def next(self) -> Element | None:
        place = self.place
        if place >= len(self._numbers):
            return None
        if not place % _LOOK_EVERY:
            await self.iteration.breathe()
        self.place = place + 1
        return (self._type(self._numbers[place]),)


class RandomDataset(DatasetValue):
    """Random numbers without end, each of 32 bits in an int64, the same in every run through them.

    The second version may draw other numbers in each run (`rerandomize_each_iteration`).
    """

    __slots__ = ("_runs", "seeds")

    def __init__(self, origin: Origin, seed: Value, seed2: Value, seed_generator: Any = None) -> None:
        super().__init__(origin)
        self.seeds = seeds_of(seed, seed2)
        self._runs = RandomNumbers(*self.seeds)

    def iterator(self, iteration: Iteration) -> DataIterator:
        seeds = self.seeds
        if self.origin.attrs.get("rerandomize_each_iteration"):
            seeds = self._runs.next(), self._runs.next()
        return _RandomIterator(iteration, *seeds)

    def cardinality(self) -> int:
        return INFINITE


def seeds_of(seed: Value, seed2: Value) -> tuple[int, int]:
    """Two seeds; drawn from the system where both are 0."""
    seeds = scalar(seed, "seed"), scalar(seed2, "seed2")
    return (secrets.randbits(63), secrets.randbits(63)) if seeds == (0, 0) else seeds


class _RandomIterator(DataIterator):
    __slots__ = ("_numbers",)

    def __init__(self, iteration: Iteration, seed: int, seed2: int) -> None:
        super().__init__(iteration)
        self._numbers = RandomNumbers(seed, seed2)

    async def next(self) -> Element | None:
        await self.iteration.breathe()
        return (np.int64(self._numbers.next()),)

    async def state(self) -> dict[str, Any]:
        return {"numbers": self._numbers.state()}

    async def restore(self, state: dict[str, Any]) -> None:
        self._numbers.restore(state["numbers"])


class GeneratorDataset(DatasetValue):
    """A dataset that one function makes from a state, which another began, until OutOfRangeError.

    A third one is called with the state at the end.
    """

    __slots__ = ("captured", "functions")

    def __init__(
        self, origin: Origin, first: tuple[Value, ...], following: tuple[Value, ...], last: tuple[Value, ...]
    ) -> None:
        super().__init__(origin)
        names = ("init_func", "next_func", "finalize_func")
        self.functions = tuple([origin.function(name) for name in names])
        self.captured = (tuple(first), tuple(following), tuple(last))

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _GeneratorIterator(iteration, self)


class _GeneratorIterator(DataIterator):
    __slots__ = ("_dataset", "_is_over", "_state")

    def __init__(self, iteration: Iteration, generator: GeneratorDataset) -> None:
        super().__init__(iteration)
        self._dataset = generator
        self._state: tuple[Value, ...] | None = None
        self._is_over = False

    async def _call(self, number: int, arguments: tuple[Value, ...]) -> tuple[Value, ...]:
        function = self._dataset.functions[number]
        given = (*arguments, *self._dataset.captured[number])
        return await function(given, self.iteration.sequences_of(function.name))

    async def next(self) -> Element | None:
        if self._is_over:
            return None
        if self._state is None:
            self._state = await self._call(0, ())
        try:
            return await self._call(1, self._state)
        except OutOfRangeError:
            self._is_over = True
            await self._call(2, self._state)
            return None

    async def state(self) -> dict[str, Any]:
        raise InvalidArgumentError(
            "the position of a GeneratorDataset cannot be saved: only its functions know it"
        )


class ListDataset(DatasetValue):
    """Elements that the node was given one after the other, flat."""

    __slots__ = ("elements",)

    NUMBERED = True

    def __init__(self, origin: Origin, tensors: tuple[Value, ...]) -> None:
        super().__init__(origin)
        width = len(self.types)
        if len(tensors) % width:
            raise InvalidArgumentError(f"{len(tensors)} tensors are not a multiple of the {width} components")
        self.elements = [tuple(tensors[at : at + width]) for at in range(0, len(tensors), width)]

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ListIterator(iteration, self.elements)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return self.elements[checked_number(number, len(self.elements))]

    def cardinality(self) -> int:
        return len(self.elements)


def variant_of(made: DatasetValue) -> Array:
    """A dataset as a component of an element: an array of rank 0 that holds it."""
    array = np.empty((), dtype=object)
    array[()] = made
    return array


def wrapped(origin: Origin, handle: Any) -> DatasetValue:
    """The dataset itself: one that crosses devices needs no wrapping here."""
    return checked_dataset(handle, "input_handle")
