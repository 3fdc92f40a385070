"""Maps whose results are put together to batches, with one call for all rows of a batch.

    map(f).batch(n)  =  batch(n).map(g)        where g says of many rows what f says of each

Where some row is wrong, the batch is gone with it and the next one begins behind it, as it is where a map and
the batches of its results are one: see `parallel.py`. The rows are then mapped one by one, to tell which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from flowengine.core.accounting import bytes_at_most
from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.resources.data.batches import BatchDataset, batch_of, joined_beside
from flowengine.resources.data.dataset import DatasetValue, Iteration, Origin, shape_of
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.elements import Element, ElementRun, rows_of
from flowengine.resources.function_calls import CallOutcome


class ElementCalls(Protocol):
    """Calls a function in the name of an iteration."""

    @property
    def run_length(self) -> int:
        """How many calls are best made as one run."""

    async def __call__(self, iteration: Iteration, element: Sequence[Value], /) -> Element | None:
        """Return the result of one call, None at the end of all data; raises the call's error."""

    async def outcomes(
        self, iteration: Iteration, elements: Sequence[Sequence[Value]], /
    ) -> Sequence[CallOutcome | None]:
        """Make calls one after the other and return their outcomes in order; None at the end of all data."""


class BatchSettings(Protocol):
    """A dataset of batches."""

    batch_size: int
    drop_remainder: bool
    types: tuple[DType, ...]


class RowsDataset(DerivedDataset):
    """A dataset of batches that a function of many rows computes.

    calls      of a function of one row, and of the same for many
    batched    the dataset that says how the batches are to be: `batch_size`, `drop_remainder`, `types`
    parallel   batches that may be made at a time
    """

    __slots__ = ("call", "parallel")

    #: How many calls are made at a time does not depend on how long one takes.
    is_tuned = False

    def __init__(
        self,
        origin: Origin,
        source: DatasetValue,
        batched: BatchSettings,
        calls: tuple[ElementCalls, ElementCalls],
        parallel: int = 1,
    ) -> None:
        attrs = {"output_types": source.types, "output_shapes": ()}
        of_batches = replace(origin, attrs=attrs, inputs=())
        super().__init__(origin, BatchDataset(of_batches, source, np.int64(batched.batch_size), False))
        self.parallel = parallel
        self.call = _RowsCall(*calls, batched)


async def batch_from(
    following: Callable[[], Awaitable[Element | None]], batched: BatchSettings
) -> Element | None:
    """A batch of the elements that come next; None at the end.

    Where some are wrong, the whole batch is taken, and the error of the first is raised.
    """
    elements = ElementRun()
    failure: OpError | None = None
    for _ in range(batched.batch_size):
        try:
            element = await following()
        except OpError as error:
            failure = failure or error
            continue
        if element is None:
            break
        elements.append(element)
    if failure is not None:
        raise failure
    if not elements or (len(elements) < batched.batch_size and batched.drop_remainder):
        return None
    return await joined_beside(partial(batch_of, types=batched.types), elements)


class _RowsCall:
    """Calls a function for many rows; where that fails, one for each row, for the error of the first."""

    __slots__ = ("_all", "_batched", "_one")

    #: A batch is enough to do for a thread.
    run_length = 1

    def __init__(self, one: ElementCalls, all_rows: ElementCalls, batched: BatchSettings) -> None:
        self._one = one
        self._all = all_rows
        self._batched = batched

    async def __call__(self, iteration: Iteration, columns: Sequence[Value]) -> Element | None:
        """A batch, None for the remainder if that is to be dropped; what is wrong with it is told even so."""
        (outcome,) = await self.outcomes(iteration, [columns])
        return None if outcome is None else outcome.value()

    async def outcomes(
        self, iteration: Iteration, elements: Sequence[Sequence[Value]]
    ) -> list[CallOutcome | None]:
        """Return the outcomes of several batches; None for a remainder that is to be dropped."""
        found: list[CallOutcome | None] = []
        for columns in elements:
            outcome = await self._called(iteration, columns)
            batched = self._batched
            is_dropped = batched.drop_remainder and len(columns[0]) < batched.batch_size
            found.append(None if is_dropped and outcome.error is None else outcome)
        return found

    async def _called(self, iteration: Iteration, columns: Sequence[Value]) -> CallOutcome:
        count = shape_of(columns[0])[0]
        (outcome,) = await self._all.outcomes(iteration, [columns])
        results = () if outcome is None else outcome.results
        if outcome is not None and results and all(shape_of(each)[:1] == (count,) for each in results):
            return outcome
        try:
            rows = [await self._one(iteration, row) or () for row in rows_of(tuple(columns))]
            batch = batch_of(ElementRun.of(rows), self._batched.types)
        except OpError as error:
            return CallOutcome((), error, 0)
        return CallOutcome(batch, None, sum(map(bytes_at_most, batch)))
