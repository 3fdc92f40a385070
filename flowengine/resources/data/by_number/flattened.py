"""The rows of what a function makes of each element, numbered by another function.

element i  =  row k of map(input.element_at(n)),  where (n, k) = index_map(i)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import DataIterator, Iteration, Origin, scalar, shape_of
from flowengine.resources.data.functional import BoundFunction
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.elements import Element

#: Rows that are passed over between two looks at the clock.
_LOOK_EVERY: Final = 16


class IndexFlatMapDataset(DerivedDataset):
    """The rows of what a function makes of each element, numbered by another function.

    In order, the input goes on by one element where the number of the input's element that `index_map_func`
    gives is greater than before: numbers that it leaves out are not passed over, as in TensorFlow.

    output_cardinality   how many rows there are in all, -2 where nobody knows
    """

    __slots__ = ("call", "count", "locate")

    NUMBERED = True

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        map_func_other_args: Sequence[Value],
        index_map_func_other_args: Sequence[Value],
        output_cardinality: Value,
    ) -> None:
        super().__init__(origin, input_dataset)
        self.call = BoundFunction(origin.function("map_func"), map_func_other_args)
        self.locate = BoundFunction(origin.function("index_map_func"), index_map_func_other_args)
        self.count = scalar(output_cardinality, "output_cardinality")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _IndexFlatMapIterator(iteration, self)

    async def location(self, iteration: Iteration, number: int) -> tuple[int, int]:
        """(number of the input's element, row in what is made of it) of a row."""
        found = await self.locate(iteration, (np.int64(number),))
        values = [to_array(value) for value in found]
        if len(values) != 2 or any(value.size != 1 or value.dtype.kind not in "iu" for value in values):
            shown = ", ".join(f"{value.dtype.name}{list(value.shape)}" for value in values)
            raise InvalidArgumentError(
                "The `index_map_func` for `index_flat_map` is expected to return two int32/int64 values "
                "representing the element index and an offset within the element. Got: " + shown
            )
        element, offset = (int(value.reshape(-1)[0]) for value in values)
        if element < 0:
            raise InvalidArgumentError(
                f"The `index_map_func` for `index_flat_map` gave the element {element}"
            )
        return element, offset

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        place, offset = await self.location(iteration, number)
        given = await self.source.element_at(iteration, place)
        return _row(await self.call(iteration, given), offset)

    def cardinality(self) -> int:
        return self.count


def _row(columns: Element, offset: int) -> Element:
    """A row; a component of rank 0 is in each. InvalidArgumentError where there is no such row."""
    for column in columns:
        shape = shape_of(column)
        if shape and not 0 <= offset < shape[0]:
            raise InvalidArgumentError(
                f"The `index_map_func` for `index_flat_map` gave the offset {offset}, but the element that "
                f"`map_func` made has {shape[0]} rows"
            )
    return tuple([to_array(column)[offset] if shape_of(column) else column for column in columns])


class _IndexFlatMapIterator(DataIterator):
    __slots__ = ("_dataset", "columns", "input", "number", "place")

    FIELDS = ("place", "number", "columns")
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: IndexFlatMapDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.place = 0
        #: Of the input's element at hand, as `index_map_func` numbers them.
        self.number = -1
        #: What was made of it; None where that has failed.
        self.columns: Element | None = None
        self.input: DataIterator | None = made.source.iterator(iteration)

    async def next(self) -> Element | None:
        made = self._dataset
        while self.input is not None:
            place, self.place = self.place, self.place + 1
            number, offset = await made.location(self.iteration, place)
            if number > self.number:
                self.number, self.columns = number, None
                element = await self.input.next()
                if element is None:
                    self.input = None
                    return None
                self.columns = await made.call(self.iteration, element)
            if self.columns is not None:
                return _row(self.columns, offset)
            # The error of this element was raised in the place of its first row; the others went with it.
            if not place % _LOOK_EVERY:
                await self.iteration.breathe()
        return None
