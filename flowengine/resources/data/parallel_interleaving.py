"""Interleaving with all datasets of the cycle being read at the same time.

The order of the elements is that of `InterleaveDataset`. The datasets that come next are made ahead in
order, and each has a buffer that a task fills. Where the node allows any order, a place of the cycle that has
nothing ready is passed over for one that has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import UNKNOWN, DataIterator, Iteration, Origin, scalar
from flowengine.resources.data.functional import FunctionDataset
from flowengine.resources.data.interleaving import InterleaveIterator, opened
from flowengine.resources.data.parallel import PrefetchIterator, next_input
from flowengine.resources.data.working_ahead import (
    AUTOTUNE,
    CYCLE_TUNED,
    AheadIterator,
    AwaitedElement,
    outcome_of,
)
from flowengine.resources.elements import Element


class ParallelInterleaving(FunctionDataset):
    """A base of parallel interleaving: the cycle, how much is made ahead, whether any order will do."""

    __slots__ = ("ahead", "any_order", "block_length", "buffer", "cycle_length")

    def __init__(
        self, origin: Origin, input_dataset: Any, other_arguments: Sequence[Value], cycle: Value, block: Value
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments)
        length = scalar(cycle, "cycle_length")
        self.cycle_length = CYCLE_TUNED if length == AUTOTUNE else length
        self.block_length = scalar(block, "block_length")
        if self.cycle_length <= 0:
            raise InvalidArgumentError("cycle_length must be greater than zero.")
        if self.block_length <= 0:
            raise InvalidArgumentError("block_length must be greater than zero.")
        attrs = origin.attrs
        self.any_order = bool(attrs.get("sloppy")) or attrs.get("deterministic") == b"false"
        #: Datasets that are made ahead, and elements of each.
        self.ahead = 1
        self.buffer = 2 * self.block_length

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ParallelInterleaveIterator(iteration, self)

    def cardinality(self) -> int:
        return UNKNOWN


class ParallelInterleaveDataset(ParallelInterleaving):
    """The first generation: buffers are told, and so is whether any order will do."""

    __slots__ = ()

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        cycle_length: Value,
        block_length: Value,
        sloppy: Value,
        buffer_output_elements: Value,
        prefetch_input_elements: Value,
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments, cycle_length, block_length)
        self.any_order = bool(sloppy)
        self._set_buffers(buffer_output_elements, prefetch_input_elements, 0)

    def _set_buffers(self, outputs: Value, inputs: Value, least: int) -> None:
        buffer, ahead = scalar(outputs, "buffer_output_elements"), scalar(inputs, "prefetch_input_elements")
        if buffer <= 0 and buffer != AUTOTUNE:
            raise InvalidArgumentError("`buffer_output_elements` must be > 0")
        if ahead < least and ahead != AUTOTUNE:
            raise InvalidArgumentError("`prefetch_input_elements` must be >= 0")
        self.buffer = self.buffer if buffer == AUTOTUNE else buffer
        self.ahead = self.ahead if ahead == AUTOTUNE else ahead


class ParallelInterleaveDatasetV4(ParallelInterleaveDataset):
    """The last generation: buffers are told, the order by an attribute."""

    __slots__ = ()

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        cycle_length: Value,
        block_length: Value,
        buffer_output_elements: Value,
        prefetch_input_elements: Value,
        *num_parallel_calls: Value,
    ) -> None:
        ParallelInterleaving.__init__(
            self, origin, input_dataset, other_arguments, cycle_length, block_length
        )
        self._set_buffers(buffer_output_elements, prefetch_input_elements, 0)


class ParallelInterleaveDatasetV2(ParallelInterleaving):
    """The generations in between: so many calls at a time."""

    __slots__ = ()

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        other_arguments: Sequence[Value],
        cycle_length: Value,
        block_length: Value,
        num_parallel_calls: Value,
    ) -> None:
        super().__init__(origin, input_dataset, other_arguments, cycle_length, block_length)
        calls = scalar(num_parallel_calls, "num_parallel_calls")
        if calls < 1 and calls != AUTOTUNE:
            raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
        if calls > self.cycle_length:
            raise InvalidArgumentError(
                "num_parallel_calls must less than or equal to cycle_length. num_parallel_calls: "
                f"{calls}, cycle_length: {self.cycle_length}"
            )


class _StagedDatasets(AheadIterator):
    """The datasets that come next: each outcome is (iterator that works ahead, the element it is made of)."""

    __slots__ = ("_dataset",)

    def __init__(self, iteration: Iteration, made: ParallelInterleaving) -> None:
        super().__init__(iteration, made.source.iterator(iteration))
        self._dataset = made

    def limit(self) -> int:
        return self._dataset.cycle_length + self._dataset.ahead

    async def begin(self, outcome: AwaitedElement) -> None:
        element = await next_input(self, outcome)
        if element is not None:
            await outcome_of(lambda: self._open(element), outcome)
            self.finished(outcome)

    async def _open(self, element: Element) -> Element:
        return await self.opened(element), element

    async def opened(self, element: Element) -> PrefetchIterator:
        """Open the dataset of an element, and start an iterator that reads ahead."""
        source = await opened(self._dataset.call, self.iteration, element)
        ahead = PrefetchIterator(self.iteration, source, self._dataset.buffer)
        ahead.wake()
        return ahead

    async def state(self) -> dict[str, Any]:
        state = await super().state()
        for kept, outcome in zip(state["line"], tuple(self.line), strict=True):
            if outcome.element is not None:
                ahead, element = outcome.element
                kept[0] = [element, await ahead.state()]
        return state

    async def restore(self, state: dict[str, Any]) -> None:
        made: deque[AwaitedElement] = deque()
        for kept in state["line"]:
            outcome = AwaitedElement.of([None, kept[1]])
            if kept[0] is not None:
                source = await self.opened(tuple(kept[0][0]))
                await source.restore(kept[0][1])
                outcome.set((source, tuple(kept[0][0])))
            made.append(outcome)
        await super().restore({**state, "line": []})
        self.line = made

    def close(self) -> None:
        for outcome in self.line:
            if outcome.element is not None:
                outcome.element[0].close()
        super().close()


class _ParallelInterleaveIterator(InterleaveIterator):
    __slots__ = ("_any_order", "_staging")

    def __init__(self, iteration: Iteration, made: ParallelInterleaving) -> None:
        self._staging = _StagedDatasets(iteration, made)
        super().__init__(iteration, self._staging, made.cycle_length, made.block_length)
        self._any_order = made.any_order

    async def open(self, element: Element) -> tuple[DataIterator, Element]:
        return element[0], element[1]

    async def reopen(self, element: Element) -> DataIterator:
        return await self._staging.opened(element)

    async def next(self) -> Element | None:
        if self._any_order:
            self._pass_over()
        return await super().next()

    def _pass_over(self) -> None:
        """Go to the first place, from the one whose turn it is, that has something ready."""
        count = len(self.current)
        for offset in range(count):
            place = (self.cycle + offset) % count
            source = self.current[place]
            if source is None or not isinstance(source, PrefetchIterator):
                return
            if source.is_ready():
                if offset:
                    self.cycle, self.block = place, 0
                return
