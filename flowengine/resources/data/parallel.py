"""Prefetching, and maps and filters of several elements at a time, whose results come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import InternalError, InvalidArgumentError, OpError, OutOfRangeError
from flowengine.resources.data.dataset import (
    UNKNOWN,
    DataIterator,
    Iteration,
    Origin,
    scalar,
)
from flowengine.resources.data.functional import FunctionDataset, end_of_function, mapped_element
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.rows import BatchSettings, RowsDataset, batch_from
from flowengine.resources.data.working_ahead import (
    AUTOTUNE,
    PARALLEL_TUNED,
    PREFETCH_TUNED,
    AheadIterator,
    AwaitedElement,
    Signal,
    outcome_of,
)
from flowengine.resources.elements import Element
from flowengine.resources.function_calls import BESIDE_OTHERS, CallOutcome, each_by_itself


class PrefetchDataset(DerivedDataset):
    """The same elements, `buffer_size` of them made before they are asked for; -1 leaves the number to us."""

    __slots__ = ("buffer_size",)

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, buffer_size: Value) -> None:
        super().__init__(origin, input_dataset)
        self.buffer_size = scalar(buffer_size, "buffer_size")
        if self.buffer_size < AUTOTUNE:
            raise InvalidArgumentError("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")

    def iterator(self, iteration: Iteration) -> DataIterator:
        source = self.source.iterator(iteration)
        return PrefetchIterator(iteration, source, self.buffer_size) if self.buffer_size else source

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await self.source.element_at(iteration, number)

    def cardinality(self) -> int:
        return self.source.cardinality()


class PrefetchIterator(AheadIterator):
    """An iterator with a buffer that a task fills."""

    __slots__ = ("_size",)

    def __init__(self, iteration: Iteration, source: DataIterator, size: int) -> None:
        super().__init__(iteration, source)
        self._size = PREFETCH_TUNED if size == AUTOTUNE else size

    def limit(self) -> int:
        return self._size

    def size_of(self, outcome: AwaitedElement) -> int:
        return 0 if outcome.element is None else self.input.size_of_last(outcome.element)

    async def begin(self, outcome: AwaitedElement) -> None:
        await outcome_of(self.input.next, outcome)
        self.finished(outcome)
        if outcome.element is None and outcome.error is None:
            self.ended()


class ParallelDataset(FunctionDataset):
    """A dataset whose function is called for up to `parallel` elements at the same time.

    is_tuned   whether that number was left to us
    """

    __slots__ = ("is_tuned", "parallel")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        num_parallel_calls: Value,
        attr: str = "f",
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments, attr)
        self.parallel = parallel_calls(num_parallel_calls)
        self.is_tuned = is_tuned(num_parallel_calls)


def parallel_calls(value: Value) -> int:
    """How many calls there may be at a time; InvalidArgumentError for none."""
    calls = scalar(value, "num_parallel_calls")
    if calls < 1 and calls != AUTOTUNE:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    return PARALLEL_TUNED if calls == AUTOTUNE else calls


def is_tuned(value: Value) -> bool:
    """Whether the number of calls at a time is left to us."""
    return scalar(value, "num_parallel_calls") == AUTOTUNE


class ParallelMapDataset(ParallelDataset):
    """A dataset of a function's results for each element, in their order, several at a time."""

    __slots__ = ()

    NUMBERED = True

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ParallelMapIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        return await mapped_element(self, iteration, number)

    def batches(self, iteration: Iteration, batched: Any) -> DataIterator | None:
        rows = self.rows(batched, min(self.parallel, PARALLEL_TUNED))
        if rows is not None:
            return _ParallelMapIterator(iteration, rows)
        return _MapAndBatchIterator(iteration, self, batched)

    def cardinality(self) -> int:
        return self.source.cardinality() if self.origin.attrs.get("preserve_cardinality") else UNKNOWN


class _ThreadCalls:
    """Calls a function of Python on threads. See `ElementCalls`."""

    __slots__ = ("_make",)

    #: How long it takes is not known.
    run_length = 1

    def __init__(self, make: Callable[[Element], Element]) -> None:
        self._make = make

    async def __call__(self, iteration: Iteration, element: Sequence[Value]) -> Element:
        """Call the function on an element, on a thread. If cancelled, it waits for the thread."""
        return await trio.to_thread.run_sync(self._make, tuple(element))

    async def outcomes(self, iteration: Iteration, elements: Sequence[Sequence[Value]]) -> list[CallOutcome]:
        """Call the function on several elements, and return the outcomes."""
        return await each_by_itself(partial(self.__call__, iteration), elements)


class ThreadMapDataset(DerivedDataset):
    """A dataset of a Python function's results for each element, in order, on several threads at a time."""

    __slots__ = ("call", "parallel")

    is_tuned = False

    def __init__(
        self, origin: Origin, input_dataset: Any, make: Callable[[Element], Element], parallel: int
    ) -> None:
        super().__init__(origin, input_dataset)
        self.call = _ThreadCalls(make)
        self.parallel = parallel

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ParallelMapIterator(iteration, self)

    def cardinality(self) -> int:
        return self.source.cardinality()


#: Whose function is called for several elements at a time.
_Mapped: TypeAlias = "ParallelMapDataset | MapAndBatchDataset | RowsDataset | ThreadMapDataset"


class _ParallelMapIterator(AheadIterator):
    """A line of elements, which tasks map in runs.

    An element that has come stands in `_due` until a task takes it, with those behind it that are there: a
    run has as many as its function is best called for at a time, and fewer where the input is slow.
    """

    __slots__ = ("_dataset", "_due", "_has_come", "_idle", "_mapping")

    def __init__(self, iteration: Iteration, mapped: _Mapped) -> None:
        super().__init__(iteration, mapped.source.iterator(iteration))
        self._dataset = mapped
        self._due: deque[tuple[Element, AwaitedElement]] = deque()
        self._has_come = Signal()
        #: Tasks that map, and those of them that wait for an element.
        self._mapping = self._idle = 0

    def limit(self) -> int:
        made = self._dataset
        return made.parallel * made.call.run_length if made.is_tuned else made.parallel

    def _run_length(self) -> int:
        """How many elements a task takes: so many that there are enough for the others."""
        made = self._dataset
        length = made.call.run_length
        return length if made.is_tuned else max(1, min(length, made.parallel // PARALLEL_TUNED))

    async def begin(self, outcome: AwaitedElement) -> None:
        element = await next_input(self, outcome)
        if element is not None:
            self._due.append((element, outcome))
            self._has_come.fire()
            # One that is idle takes one element, or more where it is best called for several.
            if len(self._due) > self._idle and self._mapping < self._dataset.parallel:
                self._mapping += 1
                self.start(self._map, "parallel map")

    def ended(self) -> None:
        super().ended()
        self._has_come.fire()

    async def _map(self) -> None:
        """The task: map what is due."""
        BESIDE_OTHERS.set(self._dataset.parallel > 1)
        while True:
            while not self._due:
                if self._is_ended:
                    return
                self._idle += 1
                try:
                    await self._has_come.wait()
                finally:
                    self._idle -= 1
            # While it waits for more, no name here holds what it has mapped.
            await self._map_run(min(self._run_length(), len(self._due)))

    async def _map_run(self, count: int) -> None:
        run = [self._due.popleft() for _ in range(count)]
        elements, outcomes = [element for element, _ in run], [outcome for _, outcome in run]
        try:
            found = await self._dataset.call.outcomes(self.iteration, elements)
        except OpError as error:
            found = [CallOutcome((), error, 0)] * len(outcomes)
        except Exception as error:
            # A fault of ours: whoever waits for the elements is to hear of it.
            fault = InternalError(f"{type(error).__name__}: {error}")
            found = [CallOutcome((), fault, 0)] * len(outcomes)
        for each, outcome in zip(found, outcomes, strict=True):
            self._settle(each, outcome)

    def _settle(self, found: CallOutcome | None, outcome: AwaitedElement) -> None:
        """Set an element from its call's outcome. An OutOfRangeError is the end, as in a function's run."""
        size = 0
        if found is None:
            outcome.set(None)
        elif found.error is None:
            outcome.set(found.results)
            size = found.bytes
        elif isinstance(found.error, OutOfRangeError):
            try:
                end_of_function(self._dataset, found.error)
            except InvalidArgumentError as error:
                outcome.fail(error)
            else:
                self.ended()
                outcome.set(None)
        else:
            outcome.fail(found.error)
        self.finished(outcome, size)


async def next_input(ahead: AheadIterator, outcome: AwaitedElement) -> Element | None:
    """The input's next element; None where it has none, or an error, which is the outcome then."""
    try:
        element = await ahead.input.next()
    except OpError as error:
        outcome.fail(error)
        ahead.finished(outcome)
        return None
    if element is None:
        outcome.set(None)
        ahead.ended()
        ahead.finished(outcome)
    return element


class MapAndBatchDataset(FunctionDataset):
    """Batches of what a function makes of elements, several at a time."""

    __slots__ = ("batch_size", "drop_remainder", "is_tuned", "parallel")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        batch_size: Value,
        num_parallel_calls: Value,
        drop_remainder: Value,
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments)
        self.batch_size = scalar(batch_size, "batch_size")
        if self.batch_size <= 0:
            raise InvalidArgumentError("batch_size must be greater than zero.")
        self.parallel = parallel_calls(num_parallel_calls)
        self.is_tuned = is_tuned(num_parallel_calls)
        self.drop_remainder = bool(drop_remainder)

    def iterator(self, iteration: Iteration) -> DataIterator:
        rows = self.rows(self, min(self.parallel, PARALLEL_TUNED))
        if rows is not None:
            return _ParallelMapIterator(iteration, rows)
        return _MapAndBatchIterator(iteration, self, self)

    def cardinality(self) -> int:
        there = self.source.cardinality() if self.origin.attrs.get("preserve_cardinality") else UNKNOWN
        if there < 0:
            return there
        return there // self.batch_size + (not self.drop_remainder and there % self.batch_size > 0)


class _MapAndBatchIterator(_ParallelMapIterator):
    """A line of elements that were mapped; a batch of them is taken when it is asked for."""

    __slots__ = ("_batched",)

    def __init__(
        self, iteration: Iteration, mapped: ParallelMapDataset | MapAndBatchDataset, batched: BatchSettings
    ) -> None:
        super().__init__(iteration, mapped)
        self._batched = batched

    def limit(self) -> int:
        # While a batch is put together, there is something to do for the next one.
        return max(super().limit(), self._batched.batch_size) if self._dataset.is_tuned else super().limit()

    def next_nowait(self) -> Any:
        return DataIterator.next_nowait(self)

    def size_of_last(self, element: Element) -> int:
        return DataIterator.size_of_last(self, element)

    async def next(self) -> Element | None:
        """A batch; the first error of its elements is raised in its place."""
        return await batch_from(super().next, self._batched)
