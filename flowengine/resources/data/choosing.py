"""Datasets whose elements come from several others, or are some of one's: choice, samples, no errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.resources.data.dataset import (
    INFINITE,
    UNKNOWN,
    DataIterator,
    DatasetValue,
    Iteration,
    Origin,
    checked_dataset,
    checked_number,
)
from flowengine.resources.data.functional import BoundFunction
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.random import RandomNumbers
from flowengine.resources.data.sources import seeds_of
from flowengine.resources.data.windows import dataset_of
from flowengine.resources.elements import Element


class DirectedInterleaveDataset(DatasetValue):
    """The next element of the dataset whose number the selector says; one that is empty is passed over."""

    __slots__ = ("choices", "selector")

    def __init__(self, origin: Origin, selector_input_dataset: Any, data: tuple[Any, ...]) -> None:
        super().__init__(origin)
        self.selector = checked_dataset(selector_input_dataset, "selector_input_dataset")
        self.choices = tuple([checked_dataset(each, "data_input_datasets") for each in data])

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _DirectedIterator(iteration, self)


class _DirectedIterator(DataIterator):
    __slots__ = ("_dataset", "inputs", "selector")

    def __init__(self, iteration: Iteration, directed: DirectedInterleaveDataset) -> None:
        super().__init__(iteration)
        self._dataset = directed
        self.selector: DataIterator | None = directed.selector.iterator(iteration)
        self.inputs: list[DataIterator | None] = [each.iterator(iteration) for each in directed.choices]

    async def next(self) -> Element | None:
        stops = bool(self._dataset.origin.attrs.get("stop_on_empty_dataset"))
        while self.selector is not None:
            chosen = await self.selector.next()
            if chosen is None:
                break
            number = int(chosen[0])
            if not 0 <= number < len(self.inputs):
                raise InvalidArgumentError(f"Selector index out of range: {number} >= {len(self.inputs)}")
            source = self.inputs[number]
            if source is None:
                continue
            element = await source.next()
            if element is not None:
                return element
            source.close()
            self.inputs[number] = None
            if stops or not any(self.inputs):
                break
        self.close()
        self.selector = None
        return None

    def close(self) -> None:
        for source in (self.selector, *self.inputs):
            if source is not None:
                source.close()

    async def state(self) -> dict[str, Any]:
        return {
            "selector": None if self.selector is None else await self.selector.state(),
            "inputs": [None if each is None else await each.state() for each in self.inputs],
        }

    async def restore(self, state: dict[str, Any]) -> None:
        if state["selector"] is None:
            self.selector = None
        elif self.selector is not None:
            await self.selector.restore(state["selector"])
        for number, kept in enumerate(state["inputs"]):
            source = self.inputs[number]
            if kept is None:
                self.inputs[number] = None
            elif source is not None:
                await source.restore(kept)


class ChooseFastestDataset(DatasetValue):
    """One of several datasets that have the same elements: the first, for all give the same."""

    __slots__ = ("chosen",)

    def __init__(self, origin: Origin, input_datasets: tuple[Any, ...]) -> None:
        super().__init__(origin)
        self.chosen = checked_dataset(input_datasets[0], "input_datasets")
        for index, each in enumerate(input_datasets):
            if checked_dataset(each, "input_datasets").types != self.chosen.types:
                raise InvalidArgumentError(f"dataset {index} has elements of other types than the first")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return self.chosen.iterator(iteration)

    def cardinality(self) -> int:
        return self.chosen.cardinality()


class ChooseFastestBranchDataset(DerivedDataset):
    """A dataset made by one of several functions; all give the same elements, so the first is used."""

    __slots__ = ("call", "ratio")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        ratio_numerator: Value,
        ratio_denominator: Value,
        other_arguments: Sequence[Value],
    ) -> None:
        super().__init__(origin, input_dataset)
        branches, lengths = origin.attrs["branches"], origin.attrs["other_arguments_lengths"]
        if origin.caller is None or not branches or len(lengths) != len(branches):
            raise InvalidArgumentError("ChooseFastestBranchDataset has no branches: give at least one")
        function = origin.caller.function(branches[0])
        self.call = BoundFunction(function, tuple(other_arguments)[: lengths[0]])

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _BranchIterator(iteration, self)


class _BranchIterator(DataIterator):
    __slots__ = ("_dataset", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: ChooseFastestBranchDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.input: DataIterator | None = None

    async def _open(self) -> DataIterator:
        results = await self._dataset.call(self.iteration, (self._dataset.source,))
        return checked_dataset(results[0], "what the branch returns").iterator(self.iteration)

    async def next(self) -> Element | None:
        if self.input is None:
            self.input = await self._open()
        return await self.input.next()

    async def restore(self, state: dict[str, Any]) -> None:
        if state["input"] is not None:
            self.input = await self._open()
        await super().restore(state)


class WeightedFlatMapDataset(DatasetValue):
    """Elements of several datasets in turns that go by weights, without chance."""

    __slots__ = ("choices", "weights")

    def __init__(self, origin: Origin, input_datasets: tuple[Any, ...], weights: tuple[Value, ...]) -> None:
        super().__init__(origin)
        self.choices = tuple([checked_dataset(each, "input_datasets") for each in input_datasets])
        given = np.array([float(each) for each in weights])
        if len(given) != len(self.choices) or (given < 0).any() or not given.sum():
            raise InvalidArgumentError(
                f"{len(self.choices)} datasets need as many weights that are not negative, "
                f"not {given.tolist()}"
            )
        self.weights = given / given.sum()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _WeightedIterator(iteration, self)


class _WeightedIterator(DataIterator):
    __slots__ = ("_weights", "given", "inputs")

    def __init__(self, iteration: Iteration, made: WeightedFlatMapDataset) -> None:
        super().__init__(iteration)
        self._weights = made.weights
        self.inputs: list[DataIterator | None] = [each.iterator(iteration) for each in made.choices]
        self.given = [0] * len(self.inputs)

    async def next(self) -> Element | None:
        while any(self.inputs):
            # Who is furthest behind its share of what there will be.
            ahead = (sum(self.given) + 1) * self._weights - self.given
            behind = [
                -np.inf if source is None else lack for source, lack in zip(self.inputs, ahead, strict=True)
            ]
            number = int(np.argmax(behind))
            source = self.inputs[number]
            element = None if source is None else await source.next()
            if element is not None:
                self.given[number] += 1
                return element
            self.inputs[number] = None
        return None

    def close(self) -> None:
        for source in self.inputs:
            if source is not None:
                source.close()

    async def state(self) -> dict[str, Any]:
        return {
            "given": list(self.given),
            "inputs": [None if each is None else await each.state() for each in self.inputs],
        }

    async def restore(self, state: dict[str, Any]) -> None:
        self.given = list(state["given"])
        for number, kept in enumerate(state["inputs"]):
            source = self.inputs[number]
            if kept is None or source is None:
                self.inputs[number] = None
            else:
                await source.restore(kept)


def window(origin: Origin, inputs: tuple[Value, ...]) -> DatasetValue:
    """A dataset of the elements that the inputs are, one after the other."""
    types = tuple(origin.attrs["output_types"])
    width = len(types)
    elements = [tuple(inputs[at : at + width]) for at in range(0, len(inputs), width)]
    return dataset_of(elements, types, tuple(origin.attrs["output_shapes"]))


class SamplingDataset(DerivedDataset):
    """Each element with a probability of `rate`, by random numbers of the seeds."""

    __slots__ = ("rate", "seeds")

    def __init__(self, origin: Origin, input_dataset: Any, rate: Value, seed: Value, seed2: Value) -> None:
        super().__init__(origin, input_dataset)
        self.rate = float(rate)
        self.seeds = seeds_of(seed, seed2)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SamplingIterator(iteration, self)


class _SamplingIterator(DataIterator):
    __slots__ = ("_numbers", "_rate", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, sampled: SamplingDataset) -> None:
        super().__init__(iteration)
        self._rate = sampled.rate
        self._numbers = RandomNumbers(*sampled.seeds)
        self.input: DataIterator | None = sampled.source.iterator(iteration)

    def _chance(self) -> float:
        """A float32 in [0, 1) of 23 bits of the next number."""
        bits = np.uint32(self._numbers.next() & 0x7FFFFF | 0x3F800000)
        return float(bits.view(np.float32)) - 1.0

    async def next(self) -> Element | None:
        while self.input is not None:
            element = await self.input.next()
            if element is None:
                self.input = None
            elif self._chance() < self._rate:
                return element
        return None

    async def state(self) -> dict[str, Any]:
        return {**await super().state(), "numbers": self._numbers.state()}

    async def restore(self, state: dict[str, Any]) -> None:
        await super().restore(state)
        self._numbers.restore(state["numbers"])


class UniqueDataset(DerivedDataset):
    """The elements, each of one component, that have not come before."""

    __slots__ = ()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _UniqueIterator(iteration, self)


class _UniqueIterator(DataIterator):
    __slots__ = ("input", "known")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: UniqueDataset) -> None:
        super().__init__(iteration)
        self.known: set[Any] = set()
        self.input: DataIterator | None = made.source.iterator(iteration)

    async def next(self) -> Element | None:
        while self.input is not None:
            element = await self.input.next()
            if element is None:
                self.input = None
                return None
            value = to_array(element[0])
            content = tuple(value.reshape(-1).tolist()) if value.dtype.hasobject else value.tobytes()
            key = (value.shape, content)
            if key not in self.known:
                self.known.add(key)
                return element
        return None

    async def state(self) -> dict[str, Any]:
        known = [[list(shape), list(c) if isinstance(c, tuple) else c] for shape, c in self.known]
        return {**await super().state(), "known": known}

    async def restore(self, state: dict[str, Any]) -> None:
        await super().restore(state)
        self.known = {
            (tuple(shape), tuple(content) if isinstance(content, list) else content)
            for shape, content in state["known"]
        }


class IgnoreErrorsDataset(DerivedDataset):
    """The elements that can be made; those of which something is wrong are left out."""

    __slots__ = ()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _IgnoringIterator(iteration, self)


class _IgnoringIterator(DataIterator):
    __slots__ = ("input",)

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: IgnoreErrorsDataset) -> None:
        super().__init__(iteration)
        self.input: DataIterator = made.source.iterator(iteration)

    async def next(self) -> Element | None:
        while True:
            try:
                return await self.input.next()
            except OpError:
                await self.iteration.breathe()


class AssertCardinalityDataset(DerivedDataset):
    """The elements of another, which must be as many as is said."""

    __slots__ = ("expected",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, cardinality: Value) -> None:
        super().__init__(origin, input_dataset)
        self.expected = int(cardinality)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _CountingIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        count = self.source.cardinality()
        return await self.source.element_at(
            iteration, checked_number(number, count) if count >= 0 else number
        )

    def cardinality(self) -> int:
        return self.expected


class _CountingIterator(DataIterator):
    __slots__ = ("_expected", "given", "input")

    FIELDS = ("given",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: AssertCardinalityDataset) -> None:
        super().__init__(iteration)
        self._expected = made.expected
        self.given = 0
        self.input: DataIterator = made.source.iterator(iteration)

    async def next(self) -> Element | None:
        element = await self.input.next()
        expected = self._expected
        if expected == UNKNOWN:
            return element
        if element is None and (expected == INFINITE or self.given < expected):
            raise self._wrong(f"contained {self.given}")
        if element is not None:
            self.given += 1
            if 0 <= expected < self.given:
                raise self._wrong("contained at least " + str(self.given))
        return element

    def _wrong(self, found: str) -> OpError:
        from flowengine.core.errors import FailedPreconditionError

        expected = "an infinite number of" if self._expected == INFINITE else str(self._expected)
        return FailedPreconditionError(
            f"Input dataset was expected to contain {expected} elements but {found}."
        )
