"""Datasets that call a function for each element: map, filter, scan, take while, reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.resources.data.dataset import UNKNOWN, DataIterator, DatasetValue, Iteration, Origin
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.rows import BatchSettings, RowsDataset, batch_from
from flowengine.resources.elements import Element
from flowengine.resources.function_calls import CallOutcome, NamedFunction


class BoundFunction:
    """A function with the values that it has beside its arguments."""

    __slots__ = ("function", "values")

    def __init__(self, function: NamedFunction, values: Sequence[Value]) -> None:
        self.function = function
        self.values = tuple(values)

    async def __call__(self, iteration: Iteration, arguments: Sequence[Value]) -> Element:
        """The results for these arguments."""
        function = self.function
        return await function((*arguments, *self.values), iteration.sequences_of(function.name))

    @property
    def run_length(self) -> int:
        """How many calls are best made as one run."""
        return self.function.run_length

    async def outcomes(self, iteration: Iteration, elements: Sequence[Sequence[Value]]) -> list[CallOutcome]:
        """Call the function with these arguments, and return the outcomes in order."""
        function = self.function
        calls = [(*element, *self.values) for element in elements]
        return await function.outcomes(calls, iteration.sequences_of(function.name))

    def of_rows(self, count: int) -> BoundFunction | None:
        """The same of many rows in its first `count` arguments; None where it is not of such a kind."""
        function = self.function.of_rows(count)
        return None if function is None else BoundFunction(function, self.values)


class FunctionDataset(DerivedDataset):
    """A dataset made of another by a function, `call`."""

    __slots__ = ("call",)

    def __init__(
        self, origin: Origin, input_dataset: Any, other_arguments: Sequence[Value], attr: str = "f"
    ) -> None:
        super().__init__(origin, input_dataset)
        self.call = BoundFunction(origin.function(attr), other_arguments)

    def rows(self, batched: BatchSettings, parallel: int = 1) -> RowsDataset | None:
        """Batches made by one call each; None where the function is not known to allow it."""
        of_rows = self.call.of_rows(len(self.source.types)) if self.source.types else None
        if of_rows is None:
            return None
        return RowsDataset(self.origin, self.source, batched, (self.call, of_rows), parallel)


def end_of_function(made: DatasetValue, error: OutOfRangeError) -> None:
    """A function has said OutOfRangeError: that is the end, unless the number of elements is promised.

    Raises InvalidArgumentError where it is.
    """
    if made.origin.attrs.get("preserve_cardinality"):
        raise InvalidArgumentError(
            f"Function invocation produced OutOfRangeError: {error.message}"
        ) from error


async def mapped_element(made: FunctionDataset, iteration: Iteration, number: int) -> Element:
    """Apply the function to the element with a number; its OutOfRangeError is the end, as in a run."""
    try:
        return await made.call(iteration, await made.source.element_at(iteration, number))
    except OutOfRangeError as error:
        end_of_function(made, error)
        raise


class MapDataset(FunctionDataset):
    """A dataset of a function's results for each element, one after the other."""

    __slots__ = ()

    NUMBERED = True

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _MapIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await mapped_element(self, iteration, number)

    def batches(self, iteration: Iteration, batched: Any) -> DataIterator | None:
        rows = self.rows(batched)
        if rows is not None:
            return _MapIterator(iteration, rows)
        return _MappedBatchIterator(iteration, self, batched)

    def cardinality(self) -> int:
        return self.source.cardinality() if self.origin.attrs.get("preserve_cardinality") else UNKNOWN


class _FunctionIterator(DataIterator):
    __slots__ = ("input",)

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, source: DatasetValue) -> None:
        super().__init__(iteration)
        self.input: DataIterator | None = source.iterator(iteration)

    async def _next_input(self) -> Element | None:
        element = None if self.input is None else await self.input.next()
        if element is None:
            self.input = None
        return element


class _MapIterator(_FunctionIterator):
    __slots__ = ("_dataset",)

    def __init__(self, iteration: Iteration, mapped: MapDataset | RowsDataset) -> None:
        super().__init__(iteration, mapped.source)
        self._dataset = mapped

    async def next(self) -> Element | None:
        element = await self._next_input()
        if element is None:
            return None
        try:
            return await self._dataset.call(self.iteration, element)
        except OutOfRangeError as error:
            end_of_function(self._dataset, error)
            return None


class _MappedBatchIterator(_MapIterator):
    """Batches of what a function makes; where some element is wrong, its batch is gone with it."""

    __slots__ = ("_batched",)

    def __init__(self, iteration: Iteration, mapped: MapDataset, batched: BatchSettings) -> None:
        super().__init__(iteration, mapped)
        self._batched = batched

    async def next(self) -> Element | None:
        return await batch_from(super().next, self._batched)


class FilterDataset(FunctionDataset):
    """The elements of which a predicate is true."""

    __slots__ = ()

    def __init__(
        self, origin: Origin, input_dataset: Any, other_arguments: Sequence[Value], *parallel: Value
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments, "predicate")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _FilterIterator(iteration, self)


def verdict_of(results: Element) -> bool:
    """Return the value of a predicate; InvalidArgumentError unless it is one bool of rank 0."""
    if len(results) != 1:
        raise InvalidArgumentError("Filter predicate must return a single value: a scalar bool.")
    verdict = to_array(results[0])
    if verdict.dtype != np.bool_ or verdict.size != 1:
        raise InvalidArgumentError("Filter predicate must return a scalar bool.")
    return bool(verdict.reshape(-1)[0])


class _ConditionIterator(_FunctionIterator):
    """Asks a predicate of elements."""

    __slots__ = ("_call",)

    def __init__(self, iteration: Iteration, made: FunctionDataset) -> None:
        super().__init__(iteration, made.source)
        self._call = made.call

    async def verdict(self, element: Element) -> bool:
        """Return the predicate's value for an element."""
        return verdict_of(await self._call(self.iteration, element))


class _FilterIterator(_ConditionIterator):
    __slots__ = ()

    async def next(self) -> Element | None:
        while True:
            element = await self._next_input()
            if element is None or await self.verdict(element):
                return element


class TakeWhileDataset(FunctionDataset):
    """The elements before the first of which a predicate is false."""

    __slots__ = ()

    def __init__(self, origin: Origin, input_dataset: Any, other_arguments: Sequence[Value]) -> None:
        super().__init__(origin, input_dataset, other_arguments, "predicate")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _TakeWhileIterator(iteration, self)


class _TakeWhileIterator(_ConditionIterator):
    __slots__ = ()

    async def next(self) -> Element | None:
        element = await self._next_input()
        if element is None:
            return None
        if await self.verdict(element):
            return element
        self.close()
        self.input = None
        return None


class ScanDataset(DerivedDataset):
    """A dataset of a function's results for a state and an element: the next state, and an element."""

    __slots__ = ("call", "initial")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        initial_state: Sequence[Value],
        other_arguments: Sequence[Value],
    ) -> None:
        super().__init__(origin, input_dataset)
        self.call = BoundFunction(origin.function("f"), other_arguments)
        self.initial = tuple(initial_state)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ScanIterator(iteration, self)

    def cardinality(self) -> int:
        return self.source.cardinality() if self.origin.attrs.get("preserve_cardinality") else UNKNOWN


class _ScanIterator(DataIterator):
    __slots__ = ("_dataset", "input", "scanned")

    FIELDS = ("scanned",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: ScanDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.scanned: Element = made.initial
        self.input: DataIterator | None = made.source.iterator(iteration)

    async def next(self) -> Element | None:
        element = None if self.input is None else await self.input.next()
        if element is None:
            self.input = None
            return None
        made = self._dataset
        width = len(made.initial)
        try:
            results = await made.call(self.iteration, (*self.scanned, *element))
        except OutOfRangeError as error:
            end_of_function(made, error)
            return None
        if len(results) < width:
            raise InvalidArgumentError(
                f"the function of a scan must give {width} values of state, but gave {len(results)} in all"
            )
        self.scanned = tuple(results[:width])
        return tuple(results[width:])


async def reduced(
    source: DatasetValue, iteration: Iteration, call: BoundFunction, initial_state: Sequence[Value]
) -> Element:
    """The state that a function makes of all elements, one after the other."""
    state = tuple(initial_state)
    iterator = source.iterator(iteration)
    try:
        while True:
            element = await iterator.next()
            if element is None:
                return state
            try:
                state = await call(iteration, (*state, *element))
            except OutOfRangeError:
                return state
    finally:
        iterator.close()
