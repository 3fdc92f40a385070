"""Which elements of which datasets come, and in what order: take, skip, repeat, concatenate, zip, shard."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.resources.data.dataset import (
    INFINITE,
    UNKNOWN,
    DataIterator,
    DatasetValue,
    Iteration,
    LastingIterator,
    Origin,
    checked_dataset,
    checked_number,
    scalar,
)
from flowengine.resources.elements import Element, ElementRun


class DerivedDataset(DatasetValue):
    """A dataset made of one other, `source`."""

    __slots__ = ("source",)

    def __init__(self, origin: Origin, input_dataset: Any) -> None:
        super().__init__(origin)
        self.source = checked_dataset(input_dataset)

    def sources(self) -> tuple[DatasetValue, ...]:
        return super().sources() or (self.source,)


class SameDataset(DerivedDataset):
    """The elements of another: what the node asks for concerns how TensorFlow computes them."""

    __slots__ = ()

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, *ignored: Any) -> None:
        super().__init__(origin, input_dataset)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return self.source.iterator(iteration)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await self.source.element_at(iteration, number)

    def cardinality(self) -> int:
        return self.source.cardinality()


class TakeDataset(DerivedDataset):
    """The first `count` elements; all for a negative count."""

    __slots__ = ("count",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, count: Value) -> None:
        super().__init__(origin, input_dataset)
        self.count = scalar(count, "count")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _TakeIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        place = number if self.count < 0 else checked_number(number, self.count)
        return await self.source.element_at(iteration, place)

    def cardinality(self) -> int:
        there = self.source.cardinality()
        if self.count < 0:
            return there
        if there == INFINITE or self.count == 0:
            return self.count
        return UNKNOWN if there == UNKNOWN else min(there, self.count)


class _TakeIterator(DataIterator):
    __slots__ = ("_count", "given", "input")

    FIELDS = ("given",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, taken: TakeDataset) -> None:
        super().__init__(iteration)
        self._count = taken.count
        self.given = 0
        self.input: DataIterator | None = taken.source.iterator(iteration) if taken.count else None

    async def next(self) -> Element | None:
        source = self.input
        if source is None:
            return None
        if 0 <= self._count <= self.given:
            self._end()
            return None
        element = await source.next()
        if element is None:
            self._end()
        else:
            self.given += 1
        return element

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        taken = ElementRun() if into is None else into
        source = self.input
        if source is None:
            return taken
        wanted = count if self._count < 0 else min(count, self._count - self.given)
        try:
            await source.take(wanted, taken)
        finally:
            self.given += len(taken)
        if len(taken) < count:
            self._end()
        return taken

    def _end(self) -> None:
        if self.input is not None:
            self.input.close()
            self.input = None


class SkipDataset(DerivedDataset):
    """All but the first `count` elements; none for a negative count."""

    __slots__ = ("count",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, count: Value) -> None:
        super().__init__(origin, input_dataset)
        self.count = scalar(count, "count")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SkipIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await self.source.element_at(iteration, number + self.count)

    def cardinality(self) -> int:
        there = self.source.cardinality()
        if self.count < 0:
            return 0
        return there if there < 0 else max(there - self.count, 0)


class _SkipIterator(DataIterator):
    __slots__ = ("_count", "input", "skipped")

    FIELDS = ("skipped",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, kept: SkipDataset) -> None:
        super().__init__(iteration)
        self._count = kept.count
        self.skipped = 0
        self.input: DataIterator | None = kept.source.iterator(iteration) if kept.count >= 0 else None

    async def next(self) -> Element | None:
        source = self.input
        if source is None:
            return None
        while self.skipped < self._count:
            if await source.next() is None:
                self.input = None
                return None
            self.skipped += 1
        element = await source.next()
        if element is None:
            self.input = None
        return element


class RepeatDataset(DerivedDataset):
    """A dataset `count` times, for ever if that is negative (and the dataset not empty)."""

    __slots__ = ("count",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, count: Value) -> None:
        super().__init__(origin, input_dataset)
        self.count = scalar(count, "count")

    def iterator(self, iteration: Iteration) -> DataIterator:
        found = self.source.repeated(iteration, max(self.count, -1)) if self.count else None
        return _RepeatIterator(iteration, self) if found is None else found

    def unnumbered(self) -> DatasetValue | None:
        return self if self.count < 0 else super().unnumbered()

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        place = checked_number(number, self.cardinality())
        return await self.source.element_at(iteration, place % self.source.cardinality())

    def cardinality(self) -> int:
        there = self.source.cardinality()
        if self.count == 0 or there == 0:
            return 0
        if self.count < 0:
            return INFINITE if there != UNKNOWN else UNKNOWN
        return there if there < 0 else there * self.count


class _RepeatIterator(LastingIterator[RepeatDataset]):
    __slots__ = ("began", "epoch", "input")

    FIELDS = ("began", "epoch")
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, repeated: RepeatDataset) -> None:
        super().__init__(iteration, repeated)
        self.epoch = 0
        #: Whether this epoch has given an element, or an error in place of one.
        self.began = False
        self.input: DataIterator | None = None if repeated.count == 0 else self.child("input")

    def child(self, name: str) -> DataIterator:
        return self._dataset.source.iterator(self.iteration)

    async def next(self) -> Element | None:
        while self.input is not None:
            try:
                element = await self.input.next()
            except OpError:
                self.began = True
                raise
            if element is not None:
                self.began = True
                return element
            self._next_epoch()
        return None

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        taken = ElementRun() if into is None else into
        while self.input is not None:
            more = ElementRun()
            try:
                await self.input.take(count - len(taken), more)
            except OpError:
                self.began = True
                raise
            finally:
                taken += more
            self.began = self.began or bool(more)
            if len(taken) == count:
                break
            self._next_epoch()
        return taken

    def _next_epoch(self) -> None:
        assert self.input is not None
        self.input.close()
        self.epoch += 1
        count = self._dataset.count
        is_over = self.epoch >= count if count > 0 else not self.began
        self.began = False
        self.input = None if is_over else self.child("input")


class ConcatenateDataset(DerivedDataset):
    """One dataset, then another."""

    __slots__ = ("following",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, another_dataset: Any) -> None:
        super().__init__(origin, input_dataset)
        self.following = checked_dataset(another_dataset, "another_dataset")
        if self.source.types and self.following.types and self.source.types != self.following.types:
            first, second = ([dtype.name for dtype in each.types] for each in (self.source, self.following))
            raise InvalidArgumentError(
                f"input dataset and dataset to concatenate have different output_types {first} and {second}"
            )

    def sources(self) -> tuple[DatasetValue, ...]:
        return self.source, self.following

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ConcatenateIterator(iteration, (self.source, self.following))

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        behind = number - self.source.cardinality()
        if behind < 0:
            return await self.source.element_at(iteration, number)
        return await self.following.element_at(iteration, behind)

    def cardinality(self) -> int:
        first, second = self.source.cardinality(), self.following.cardinality()
        if INFINITE in (first, second):
            return INFINITE
        return UNKNOWN if UNKNOWN in (first, second) else first + second


class _ConcatenateIterator(DataIterator):
    __slots__ = ("_datasets", "input", "number")

    FIELDS = ("number",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, datasets: tuple[DatasetValue, ...]) -> None:
        super().__init__(iteration)
        self._datasets = datasets
        self.number = 0
        self.input: DataIterator | None = datasets[0].iterator(iteration)

    async def next(self) -> Element | None:
        while self.input is not None:
            element = await self.input.next()
            if element is not None:
                return element
            self.input.close()
            self.number += 1
            self.input = None if self.number >= len(self._datasets) else self.child("input")
        return None

    def child(self, name: str) -> DataIterator:
        return self._datasets[self.number].iterator(self.iteration)

    async def restore(self, state: dict[str, Any]) -> None:
        self.input = None  # which of them it is, is told by the number
        await super().restore(state)


class ZipDataset(DatasetValue):
    """Elements of several datasets, their components one after the other, until one of them ends."""

    __slots__ = ("zipped",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_datasets: tuple[Any, ...]) -> None:
        super().__init__(origin)
        self.zipped = tuple([checked_dataset(each) for each in input_datasets])

    def sources(self) -> tuple[DatasetValue, ...]:
        return self.zipped

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ZipIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        joined: list[Value] = []
        for source in self.zipped:
            joined += await source.element_at(iteration, number)
        return tuple(joined)

    def cardinality(self) -> int:
        counts = [each.cardinality() for each in self.zipped]
        if UNKNOWN in counts:
            return UNKNOWN
        finite = [count for count in counts if count >= 0]
        return min(finite) if finite else INFINITE


class _ZipIterator(DataIterator):
    __slots__ = ("inputs", "is_over")

    def __init__(self, iteration: Iteration, zipped: ZipDataset) -> None:
        super().__init__(iteration)
        self.inputs = [each.iterator(iteration) for each in zipped.zipped]
        self.is_over = False

    async def next(self) -> Element | None:
        if self.is_over:
            return None
        joined: list[Value] = []
        for source in self.inputs:
            element = await source.next()
            if element is None:
                self.is_over = True
                self.close()
                return None
            joined += element
        return tuple(joined)

    def close(self) -> None:
        for source in self.inputs:
            source.close()

    async def state(self) -> dict[str, Any]:
        return {"is_over": self.is_over, "inputs": [await each.state() for each in self.inputs]}

    async def restore(self, state: dict[str, Any]) -> None:
        self.is_over = state["is_over"]
        for source, kept in zip(self.inputs, state["inputs"], strict=True):
            await source.restore(kept)
