"""Which elements of a dataset come: a share of them, those that are marked, all but later."""

from __future__ import annotations

from typing import Any

import numpy as np
import trio

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import DataIterator, Iteration, Origin, scalar
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.elements import Element


class ShardDataset(DerivedDataset):
    """Every `num_shards`-th element, from that at `index` on."""

    __slots__ = ("index", "num_shards")

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, num_shards: Value, index: Value) -> None:
        super().__init__(origin, input_dataset)
        self.num_shards, self.index = scalar(num_shards, "num_shards"), scalar(index, "index")
        if self.num_shards < 1:
            raise InvalidArgumentError(
                f"Number of shards must be greater than zero (currently num_shards = {self.num_shards})."
            )
        if not 0 <= self.index < self.num_shards:
            raise InvalidArgumentError(
                f"Index must be between 0 and {self.num_shards - 1} (currently index = {self.index})."
            )

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ShardIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await self.source.element_at(iteration, number * self.num_shards + self.index)

    def cardinality(self) -> int:
        there = self.source.cardinality()
        return there if there < 0 else there // self.num_shards + (self.index < there % self.num_shards)


class _ShardIterator(DataIterator):
    __slots__ = ("_dataset", "input", "place")

    FIELDS = ("place",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, shard: ShardDataset) -> None:
        super().__init__(iteration)
        self._dataset = shard
        self.place = 0
        self.input: DataIterator | None = shard.source.iterator(iteration)

    async def next(self) -> Element | None:
        while self.input is not None:
            element = await self.input.next()
            if element is None:
                self.input = None
                self._check_not_empty()
                return None
            self.place += 1
            if (self.place - 1) % self._dataset.num_shards == self._dataset.index:
                return element
        return None

    def _check_not_empty(self) -> None:
        shard = self._dataset
        if shard.origin.attrs.get("require_non_empty") and self.place < shard.num_shards:
            raise InvalidArgumentError(
                f"Shard {shard.index} of {shard.num_shards} would be empty: there are {self.place} elements. "
                "Use fewer shards, or shard elements instead of files"
            )


class SleepDataset(DerivedDataset):
    """The elements of another, each some microseconds after it was asked for."""

    __slots__ = ("seconds",)

    def __init__(self, origin: Origin, input_dataset: Any, sleep_microseconds: Value) -> None:
        super().__init__(origin, input_dataset)
        self.seconds = scalar(sleep_microseconds, "sleep_microseconds") / 1e6

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SleepIterator(iteration, self)

    def cardinality(self) -> int:
        return self.source.cardinality()


class _SleepIterator(DataIterator):
    __slots__ = ("_seconds", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, slow: SleepDataset) -> None:
        super().__init__(iteration)
        self._seconds = slow.seconds
        self.input: DataIterator = slow.source.iterator(iteration)

    async def next(self) -> Element | None:
        await trio.sleep(self._seconds)
        return await self.input.next()


class FilterByLastComponentDataset(DerivedDataset):
    """The elements whose last component is true, without it."""

    __slots__ = ()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _LastComponentIterator(iteration, self)


class _LastComponentIterator(DataIterator):
    __slots__ = ("input",)

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, filtered: FilterByLastComponentDataset) -> None:
        super().__init__(iteration)
        self.input: DataIterator | None = filtered.source.iterator(iteration)

    async def next(self) -> Element | None:
        while self.input is not None:
            element = await self.input.next()
            if element is None:
                self.input = None
                return None
            verdict = to_array(element[-1])
            if verdict.dtype != np.bool_ or verdict.ndim:
                raise InvalidArgumentError("Last component should be a scalar of type bool.")
            if verdict:
                return element[:-1]
        return None
