"""Elements in random order: TensorFlow's own order for given seeds.

A buffer holds elements of one epoch or of several, in slices; the next element is drawn among those of the
oldest slice. A dataset that reshuffles draws the seeds of each run through it from a generator of its own,
which begins anew where its node runs again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import (
    UNKNOWN,
    DataIterator,
    Iteration,
    LastingIterator,
    Origin,
    scalar,
    texts,
)
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.random import RandomNumbers
from flowengine.resources.data.sources import seeds_of
from flowengine.resources.elements import Element


class SeedGenerator:
    """Seeds for each run through a dataset: drawn from two, or always those.

    seeds        those two
    reshuffles   whether each run draws others
    """

    __slots__ = ("_numbers", "name", "reshuffles", "seeds")

    def __init__(self, seed: int, seed2: int, *, reshuffles: bool = True) -> None:
        self.seeds = (seed, seed2)
        self.reshuffles = reshuffles
        self._numbers = RandomNumbers(seed, seed2)
        self.name = ""

    def draw(self) -> tuple[int, int]:
        """The seeds of the next run."""
        return (self._numbers.next(), self._numbers.next()) if self.reshuffles else self.seeds

    def state(self) -> list[Any]:
        return self._numbers.state()

    def restore(self, state: list[Any]) -> None:
        self._numbers.restore(state)


class ShuffledDataset(DerivedDataset):
    """A base of all shuffling datasets.

    count   epochs that are shuffled into one another; negative: without end
    """

    __slots__ = ("buffer_size", "count", "redraws", "seeds")

    def __init__(
        self, origin: Origin, input_dataset: Any, buffer_size: Value, seeds: SeedGenerator, count: int = 1
    ) -> None:
        super().__init__(origin, input_dataset)
        self.buffer_size = scalar(buffer_size, "buffer_size")
        if self.buffer_size == UNKNOWN:  # what the second generation says for all elements
            self.buffer_size = max(self.source.cardinality(), 1)
        if self.buffer_size <= 0:
            raise InvalidArgumentError("buffer_size must be greater than zero.")
        self.seeds = seeds
        self.count = count
        #: Whether each epoch of one run draws seeds of its own.
        self.redraws = False

    def lasting(self, iteration: Iteration) -> SeedGenerator:
        return self.seeds

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ShuffleIterator(iteration, self)

    def cardinality(self) -> int:
        there = self.source.cardinality()
        if self.count < 0:
            return -1 if there else 0
        return there if there < 0 else there * self.count


class ShuffleDataset(ShuffledDataset):
    """Elements drawn from a buffer, in another order in each run unless the node says otherwise."""

    __slots__ = ("given", "reshuffles")

    def __init__(
        self, origin: Origin, input_dataset: Any, buffer_size: Value, seed: Value, seed2: Value
    ) -> None:
        self.reshuffles = bool(origin.attrs.get("reshuffle_each_iteration", True))
        self.given = seeds_of(seed, seed2)
        seeds = SeedGenerator(*self.given, reshuffles=self.reshuffles)
        super().__init__(origin, input_dataset, buffer_size, seeds)

    def repeated(self, iteration: Iteration, count: int) -> DataIterator | None:
        if not (iteration.shuffles_through and self.reshuffles):
            return None
        through = ShuffledDataset(
            self.origin, self.source, self.buffer_size, SeedGenerator(*self.given, reshuffles=False), count
        )
        return through.iterator(iteration)


class OptimizeDataset(DerivedDataset):
    """The elements of another, after TensorFlow's rewrites: one changes values, the others only the time."""

    __slots__ = ("fuses",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, optimizations: Value) -> None:
        super().__init__(origin, input_dataset)
        self.fuses = b"shuffle_and_repeat_fusion" in texts(optimizations, "optimizations")

    def iterator(self, iteration: Iteration) -> DataIterator:
        iteration.shuffles_through = iteration.shuffles_through or self.fuses
        return self.source.iterator(iteration)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await self.source.element_at(iteration, number)

    def cardinality(self) -> int:
        return self.source.cardinality()


class ShuffleDatasetV2(ShuffledDataset):
    """The same with seeds from a generator that outlives the dataset."""

    __slots__ = ()

    def __init__(self, origin: Origin, input_dataset: Any, buffer_size: Value, seed_generator: Any) -> None:
        super().__init__(origin, input_dataset, buffer_size, checked_seeds(seed_generator))


class ShuffleDatasetV3(ShuffledDataset):
    """The same with a generator that is made of the seeds where the node was given none."""

    __slots__ = ()

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        buffer_size: Value,
        seed: Value,
        seed2: Value,
        seed_generator: Any,
    ) -> None:
        reshuffles = bool(origin.attrs.get("reshuffle_each_iteration", True))
        seeds = given_seeds(seed_generator) or SeedGenerator(*seeds_of(seed, seed2), reshuffles=reshuffles)
        super().__init__(origin, input_dataset, buffer_size, seeds)


class ShuffleAndRepeatDataset(ShuffledDataset):
    """Several epochs through one buffer; all of an epoch come before the next.

    As TensorFlow 1 wrote it, one sequence of numbers goes through all epochs; where the node says whether it
    reshuffles, which TensorFlow 2 writes, each epoch has seeds of its own.
    """

    __slots__ = ()

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        buffer_size: Value,
        seed: Value,
        seed2: Value,
        count: Value,
        seed_generator: Any = None,
    ) -> None:
        reshuffles = bool(origin.attrs.get("reshuffle_each_iteration", False))
        seeds = given_seeds(seed_generator) or SeedGenerator(*seeds_of(seed, seed2), reshuffles=reshuffles)
        super().__init__(origin, input_dataset, buffer_size, seeds, _epochs(count))
        self.redraws = reshuffles


def _epochs(count: Value) -> int:
    epochs = scalar(count, "count")
    if epochs == 0 or epochs < -1:
        raise InvalidArgumentError("count must be greater than zero or equal to -1.")
    return epochs


def checked_seeds(value: Any) -> SeedGenerator:
    """A generator of seeds from its handle; InvalidArgumentError for anything else."""
    found = given_seeds(value)
    if found is None:
        raise InvalidArgumentError(
            f"seed_generator must be the handle of a seed generator, not {value!r:.80}"
        )
    return found


def given_seeds(value: Any) -> SeedGenerator | None:
    """The generator of seeds behind a handle; None where the handle is of none."""
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.hasobject:
        value = value.item()
    return value if isinstance(value, SeedGenerator) else None


class _ShuffleIterator(LastingIterator[ShuffledDataset]):
    __slots__ = ("_numbers", "buffer", "epoch", "gave", "input", "slices")

    FIELDS = ("buffer", "slices", "epoch", "gave")
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, shuffled: ShuffledDataset) -> None:
        super().__init__(iteration, shuffled)
        self._numbers: RandomNumbers | None = None
        #: Elements, each at its number modulo the size of the buffer.
        self.buffer: list[Element | None] = []
        #: [begin, end) of the elements of each epoch that are in the buffer.
        self.slices: list[list[int]] = [[0, 0]]
        self.epoch = 0
        #: Whether this epoch has given anything to the buffer.
        self.gave = False
        self.input: DataIterator | None = self.child("input")

    def child(self, name: str) -> DataIterator:
        return self._dataset.source.iterator(self.iteration)

    def _draw(self, below: int) -> int:
        if self._numbers is None:
            self._numbers = RandomNumbers(*self._dataset.seeds.draw())
        return self._numbers.next() % below

    async def next(self) -> Element | None:
        await self._fill()
        while len(self.slices) > 1 and self.slices[0][0] == self.slices[0][1]:
            del self.slices[0]
            if self._dataset.redraws:
                self._numbers = None
        first = self.slices[0]
        begin, end = first
        if begin == end:
            return None
        size = self._dataset.buffer_size
        buffer, here, place = self.buffer, begin % size, (begin + self._draw(end - begin)) % size
        element = buffer[place]
        buffer[place], buffer[here] = buffer[here], None
        first[0] += 1
        return element

    async def _fill(self) -> None:
        """Have as many elements in the buffer as it may hold."""
        size = self._dataset.buffer_size
        while self.input is not None and self.slices[-1][1] - self.slices[0][0] < size:
            # One at a time: those before an error stay.
            element = await self.input.next()
            if element is None:
                self._next_epoch()
            else:
                self._put(element, size)

    def _put(self, element: Element, size: int) -> None:
        end = self.slices[-1][1]
        place = end % size
        if place == len(self.buffer):
            self.buffer.append(element)
        else:
            self.buffer[place] = element
        self.slices[-1][1] = end + 1
        self.gave = True

    def _next_epoch(self) -> None:
        assert self.input is not None
        self.input.close()
        self.epoch += 1
        count = self._dataset.count
        if self.epoch >= count if count > 0 else not self.gave:
            self.input = None
            return
        self.gave = False
        end = self.slices[-1][1]
        self.slices.append([end, end])
        self.input = self.child("input")

    async def state(self) -> dict[str, Any]:
        state = await super().state()
        state["slices"] = [list(each) for each in self.slices]
        state["numbers"] = None if self._numbers is None else self._numbers.state()
        return state

    async def restore(self, state: dict[str, Any]) -> None:
        await super().restore(state)
        self.slices = [list(each) for each in state["slices"]]
        if state["numbers"] is not None:
            self._numbers = RandomNumbers(0, 0)
            self._numbers.restore(state["numbers"])
