"""Datasets whose function makes a dataset of each element: flat map, interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import (
    UNKNOWN,
    DataIterator,
    Iteration,
    Origin,
    checked_dataset,
    scalar,
)
from flowengine.resources.data.functional import BoundFunction, FunctionDataset
from flowengine.resources.data.working_ahead import AUTOTUNE, CYCLE_TUNED
from flowengine.resources.elements import Element, ElementRun


async def opened(call: BoundFunction, iteration: Iteration, element: Element) -> DataIterator:
    """The iterator of the dataset that a function makes of an element."""
    results = await call(iteration, element)
    if len(results) != 1:
        raise InvalidArgumentError(
            f"Function must return a single scalar dataset variant, but gave {len(results)} values."
        )
    return checked_dataset(results[0], "what the function returns").iterator(iteration)


class FlatMapDataset(FunctionDataset):
    """The elements of the dataset that a function makes of each element, one dataset after the other."""

    __slots__ = ()

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _FlatMapIterator(iteration, self)


class _FlatMapIterator(DataIterator):
    __slots__ = ("_call", "current", "element", "input")

    FIELDS = ("element",)

    def __init__(self, iteration: Iteration, made: FlatMapDataset) -> None:
        super().__init__(iteration)
        self._call = made.call
        self.input: DataIterator | None = made.source.iterator(iteration)
        #: The element whose dataset is being gone through, and that.
        self.element: Element | None = None
        self.current: DataIterator | None = None

    async def next(self) -> Element | None:
        while True:
            if self.current is None:
                self.element = None if self.input is None else await self.input.next()
                if self.element is None:
                    self.input = None
                    return None
                self.current = await opened(self._call, self.iteration, self.element)
            element = await self.current.next()
            if element is not None:
                return element
            self.current.close()
            self.current = None

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        taken = ElementRun() if into is None else into
        while len(taken) < count:
            if self.current is not None:
                missing, more = count - len(taken), ElementRun()
                try:
                    await self.current.take(missing, more)
                finally:
                    taken += more
                if len(more) == missing:
                    break
                self.current.close()
                self.current = None
            element = await self.next()
            if element is None:
                break
            taken.append(element)
        return taken

    def close(self) -> None:
        for source in (self.current, self.input):
            if source is not None:
                source.close()

    async def state(self) -> dict[str, Any]:
        return {
            "element": self.element if self.current is not None else None,
            "current": None if self.current is None else await self.current.state(),
            "input": None if self.input is None else await self.input.state(),
        }

    async def restore(self, state: dict[str, Any]) -> None:
        if state["input"] is None:
            self.input = None
        elif self.input is not None:
            await self.input.restore(state["input"])
        if state["element"] is not None:
            self.element = state["element"]
            self.current = await opened(self._call, self.iteration, self.element)
            await self.current.restore(state["current"])


class InterleaveDataset(FunctionDataset):
    """The datasets that a function makes of elements, `cycle_length` of them in turns of `block_length`."""

    __slots__ = ("block_length", "cycle_length")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        cycle_length: Value,
        block_length: Value,
        *others: Value,
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments)
        length = scalar(cycle_length, "cycle_length")
        self.cycle_length = CYCLE_TUNED if length == AUTOTUNE else length
        self.block_length = scalar(block_length, "block_length")
        if self.cycle_length <= 0:
            raise InvalidArgumentError("cycle_length must be greater than zero.")
        if self.block_length <= 0:
            raise InvalidArgumentError("block_length must be greater than zero.")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _FunctionInterleaveIterator(iteration, self)

    def cardinality(self) -> int:
        return UNKNOWN


class InterleaveIterator(DataIterator):
    """Iterators that are made of an input's elements, so many of them in turns."""

    __slots__ = ("_block_length", "block", "current", "cycle", "elements", "input")

    def __init__(
        self, iteration: Iteration, source: DataIterator, cycle_length: int, block_length: int
    ) -> None:
        super().__init__(iteration)
        self._block_length = block_length
        self.input: DataIterator | None = source
        #: What each place of the cycle goes through, and the element that it was made of.
        self.current: list[DataIterator | None] = [None] * cycle_length
        self.elements: list[Element | None] = [None] * cycle_length
        #: The place whose turn it is, and how many elements it has given in this turn.
        self.cycle = self.block = 0

    def _advance(self) -> None:
        self.block = 0
        self.cycle = (self.cycle + 1) % len(self.current)

    async def open(self, element: Element) -> tuple[DataIterator, Element]:
        """The iterator that is made of an element of the input, and what it can be made of again."""
        raise AssertionError(f"{type(self).__name__} does not say what it goes through")

    async def reopen(self, element: Element) -> DataIterator:
        """The iterator of a place that is restored."""
        return (await self.open(element))[0]

    async def next(self) -> Element | None:
        while self.input is not None or any(self.current):
            place = self.cycle
            source = self.current[place]
            if source is None:
                await self._open(place)
                continue
            element = await source.next()
            if element is None:
                source.close()
                self.current[place] = self.elements[place] = None
                self._advance()
                continue
            self.block += 1
            if self.block == self._block_length:
                self._advance()
            return element
        return None

    async def _open(self, place: int) -> None:
        """Have a place go through the next dataset; without one it is passed over."""
        element = None if self.input is None else await self.input.next()
        if element is None:
            self.input = None
            self._advance()
            return
        self.current[place], self.elements[place] = await self.open(element)

    def close(self) -> None:
        for source in (*self.current, self.input):
            if source is not None:
                source.close()

    async def state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in ("block", "cycle")}
        state["elements"] = list(self.elements)
        state["current"] = [None if each is None else await each.state() for each in self.current]
        state["input"] = None if self.input is None else await self.input.state()
        return state

    async def restore(self, state: dict[str, Any]) -> None:
        self.block, self.cycle, self.elements = state["block"], state["cycle"], list(state["elements"])
        if state["input"] is None:
            self.input = None
        elif self.input is not None:
            await self.input.restore(state["input"])
        for place, (element, kept) in enumerate(zip(self.elements, state["current"], strict=True)):
            if element is not None:
                source = await self.reopen(element)
                await source.restore(kept)
                self.current[place] = source


class _FunctionInterleaveIterator(InterleaveIterator):
    __slots__ = ("_call",)

    def __init__(self, iteration: Iteration, made: InterleaveDataset) -> None:
        super().__init__(iteration, made.source.iterator(iteration), made.cycle_length, made.block_length)
        self._call = made.call

    async def open(self, element: Element) -> tuple[DataIterator, Element]:
        return await opened(self._call, self.iteration, element), element
