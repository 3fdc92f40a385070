"""Concurrent calls of one function as few calls: rows of many steps are joined, computed, and handed back.

A `CallBatcher` collects requests in a line of batches. The last batch is open; it is computed once it is
full, or once its first request has waited for so long and a place is free. While all places are taken it goes
on growing. Batches are computed in service tasks, so no request computes for others, and none that is
cancelled takes the results of others with it.

With `BatcherOptions.starts_alone` a request that finds a free place and no line is computed at once in its
own task, which costs it no more than a call without a batcher; others join their rows meanwhile.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.ir.attrs import FuncAttr
from flowengine.resources.batching.rows import (
    allowed_sizes,
    check_same_rows,
    filled_up,
    joined_rows,
    padded_size,
    rows_of,
)
from flowengine.resources.container import ResourceManager
from flowengine.resources.function_calls import FunctionCaller, NamedFunction
from flowengine.resources.services import Services
from flowengine.resources.waiting import Attempt, wait_finished

#: Whose functions are kept: plans of sessions that have ended are let go of.
_CALLERS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class BatcherOptions:
    """How requests are put together.

    max_batch_size        most rows of a request, and of a batch where no smaller size is allowed
    timeout_seconds       how long the first request of a batch waits for others
    num_batch_threads     how many batches are computed at a time; 0 or less for any number
    max_enqueued_batches  how many batches may wait, the open one among them; at least one may
    allowed_batch_sizes   rising; a batch is filled up to one of them with copies of a row; none: any size
    splits                whether a request with more rows than are left in a batch is split over several
    trims                 whether a batch that was not filled in time leaves requests to the next one, so that
                          it has an allowed size without being filled up
    split_size            most rows of a batch if requests are split and no sizes are given; None for as many
                          as a request may have
    starts_alone          whether a request that finds a free place does not wait for others
    padding               for each tensor the value that fills rows of a batch up to the longest, or None for
                          the first element of the rows themselves; empty: all rows have one shape

    Raises InvalidArgumentError for values that cannot be.
    """

    max_batch_size: int
    timeout_seconds: float
    num_batch_threads: int = 0
    max_enqueued_batches: int = 10
    allowed_batch_sizes: tuple[int, ...] = ()
    splits: bool = False
    trims: bool = False
    split_size: int | None = None
    starts_alone: bool = False
    padding: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.max_batch_size <= 0:
            raise InvalidArgumentError(f"max_batch_size must be positive; was {self.max_batch_size}")
        if self.timeout_seconds < 0:
            micros = round(self.timeout_seconds * 1e6)
            raise InvalidArgumentError(f"batch_timeout_micros must be non-negative; was {micros}")
        allowed_sizes(self.allowed_batch_sizes, self.max_batch_size, splits=self.splits)

    @property
    def rows_max(self) -> int:
        """Most rows that are computed at once."""
        if not self.splits:
            return self.max_batch_size
        sizes = self.allowed_batch_sizes
        return sizes[-1] if sizes else self.split_size or self.max_batch_size


class FunctionCall(NamedTuple):
    """A function, and what it takes after the rows."""

    function: NamedFunction
    captured: Sequence[Value] = ()


class _BatchRequest(Attempt):
    """The rows of one step, or some of them; its result are the rows of each output that belong to it."""

    __slots__ = ("batch", "call", "has_left", "rows", "tensors")

    def __init__(self, tensors: Sequence[Array], call: FunctionCall, rows: int, batch: _CallBatch) -> None:
        super().__init__()
        self.tensors = tensors
        self.call = call
        self.rows = rows
        self.batch = batch
        self.has_left = False

    def woken(self) -> None:
        if self.wake is not None:
            self.wake()


class _CallBatch:
    """Requests that are computed together.

    scope   of the task that waits for more, then of the one that computes
    """

    __slots__ = ("deadline", "is_full", "requests", "rows", "scope", "started")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.requests: list[_BatchRequest] = []
        self.rows = 0
        self.is_full = False
        self.started = False
        self.scope: trio.CancelScope | None = None

    def add(self, request: _BatchRequest) -> None:
        request.batch = self
        self.requests.append(request)
        self.rows += request.rows

    def remove(self, request: _BatchRequest) -> None:
        self.requests.remove(request)
        self.rows -= request.rows

    def end_task(self) -> None:
        if self.scope is not None:
            self.scope.cancel()


class CallBatcher:
    """See the module.

    services       where batches are computed
    result_count   how many results the functions have
    """

    __slots__ = (
        "__weakref__",
        "_alone",
        "_functions",
        "_line",
        "_result_count",
        "_running",
        "_sequences",
        "_tasks",
        "name",
        "options",
    )

    def __init__(self, name: str, services: Services, options: BatcherOptions, result_count: int) -> None:
        self.name = name
        self.options = options
        #: {owner: his function}, of those who called last
        self._functions: dict[str, NamedFunction] = {}
        self._result_count = result_count
        self._tasks = services.new_tasks()
        self._sequences = ResourceManager()
        #: Batches that are not being computed, in order; only the last may be open.
        self._line: deque[_CallBatch] = deque()
        self._running: set[_CallBatch] = set()
        #: How many requests are being computed in their own tasks.
        self._alone = 0

    def function_of(self, caller: FunctionCaller, function: FuncAttr) -> NamedFunction:
        """The function as this caller calls it: sessions that share a batcher end apart from each other."""
        found = self._functions.pop(caller.owner, None) or caller.function(function)
        self._functions[caller.owner] = found
        if len(self._functions) > _CALLERS_MAX:
            del self._functions[next(iter(self._functions))]
        return found

    async def call(self, tensors: Sequence[Array], call: FunctionCall) -> tuple[Value, ...]:
        """Call the function on these rows (n, ...), computed together with those of others.

        call   a batch is computed by that of its last request

        Raises InvalidArgumentError for rows that disagree or are too many, UnavailableError where too many
        batches wait, CancelledError where the batcher is removed meanwhile, and what the function raises.
        Cancelled, the rows leave their batch if it is not being computed yet; a computation that nobody waits
        for is cancelled.
        """
        rows = rows_of(tensors, self.options.max_batch_size)
        if self._starts_alone(rows):
            return await self._compute_alone(tensors, call, rows)
        requests = self._joined(tensors, call, rows)
        try:
            results: list[tuple[Value, ...]] = [
                await wait_finished(request, self._leave) for request in requests
            ]
        finally:
            self._leave_all(requests)
        if len(results) == 1:
            return results[0]
        return tuple(
            joined_rows([to_array(each) for each in parts], 0) for parts in zip(*results, strict=True)
        )

    def _starts_alone(self, rows: int) -> bool:
        options = self.options
        if not options.starts_alone or self._line or rows > options.rows_max or self._tasks.is_cancelled:
            return False
        return options.num_batch_threads <= 0 or self._busy < options.num_batch_threads

    @property
    def _busy(self) -> int:
        """How many places are taken."""
        return len(self._running) + self._alone

    async def _compute_alone(
        self, tensors: Sequence[Array], call: FunctionCall, rows: int
    ) -> tuple[Value, ...]:
        """Call the function on the rows of one request, in its own task."""
        self._alone += 1
        try:
            results = await self._results([tensors], call, rows)
        finally:
            self._alone -= 1
            if not self._tasks.is_cancelled:
                self._begin_batches()
        return tuple([result[:rows] for result in results])

    def _joined(self, tensors: Sequence[Array], call: FunctionCall, rows: int) -> list[_BatchRequest]:
        """The requests that stand for these rows, each in its batch."""
        if not self.options.splits:
            return [self._enqueued(tensors, call, rows)]
        requests: list[_BatchRequest] = []
        begin = 0
        try:
            while begin < rows or not requests:
                end = min(rows, begin + (self._room() or self.options.rows_max))
                part = [tensor[begin:end] for tensor in tensors]
                requests.append(self._enqueued(part, call, end - begin))
                begin = end
        except OpError:
            self._leave_all(requests)
            raise
        return requests

    def _room(self) -> int:
        """How many rows the open batch can still take."""
        if not self._line or self._line[-1].is_full:
            return 0
        return self.options.rows_max - self._line[-1].rows

    def _enqueued(self, tensors: Sequence[Array], call: FunctionCall, rows: int) -> _BatchRequest:
        options = self.options
        batch = self._line[-1] if self._line and not self._line[-1].is_full else None
        if batch is not None and batch.rows + rows <= options.rows_max:
            check_same_rows(batch.requests[0].tensors, tensors, of_rank_only=bool(options.padding))
        else:
            batch = self._opened(batch)
        request = _BatchRequest(tensors, call, rows, batch)
        batch.add(request)
        if batch.rows >= options.rows_max:
            batch.is_full = True
        self._begin_batches()
        return request

    def _opened(self, full: _CallBatch | None) -> _CallBatch:
        """A new batch at the end of the line; the one that was open takes no more.

        Raises UnavailableError where no more may wait.
        """
        if self._line and len(self._line) >= self.options.max_enqueued_batches:
            raise UnavailableError(
                f"The batch scheduling queue to which this task was submitted is full: "
                f"{len(self._line)} batches wait"
            )
        batch = _CallBatch(trio.current_time() + self.options.timeout_seconds)
        if self.options.timeout_seconds:
            batch.scope = self._tasks.start(partial(self._wait_for_more, batch), f"batch of {self.name}")
        if full is not None:
            full.is_full = True
        self._line.append(batch)
        return batch

    async def _wait_for_more(self, batch: _CallBatch) -> None:
        await trio.sleep_until(batch.deadline)
        self._begin_batches()

    def _begin_batches(self) -> None:
        """Compute what is full or has waited for long enough, as far as there is a place."""
        places = self.options.num_batch_threads
        while self._line and (places <= 0 or self._busy < places):
            batch = self._line[0]
            if not batch.is_full:
                if trio.current_time() < batch.deadline:
                    return
                self._trim(batch)
            self._line.popleft()
            batch.end_task()
            batch.started = True
            try:
                batch.scope = self._tasks.start(partial(self._compute, batch), f"function of {self.name}")
            except CancelledError as error:  # the session is being closed
                self._fail(batch.requests, error)
            else:
                self._running.add(batch)

    def _trim(self, batch: _CallBatch) -> None:
        """Leave the last requests to the next batch, where the others have an allowed size."""
        sizes = self.options.allowed_batch_sizes
        wanted = max((size for size in sizes if size <= batch.rows), default=0)
        if not self.options.trims or wanted in (0, batch.rows):
            return
        ends = list(itertools.accumulate(request.rows for request in batch.requests))
        if wanted not in ends:
            return
        rest = _CallBatch(batch.deadline)
        for request in batch.requests[ends.index(wanted) + 1 :]:
            batch.remove(request)
            rest.add(request)
        self._line.insert(1, rest)

    def _leave_all(self, requests: Sequence[_BatchRequest]) -> None:
        for request in requests:
            if not (request.finished or request.has_left):
                self._leave(request)

    def _leave(self, attempt: Attempt) -> None:
        assert isinstance(attempt, _BatchRequest)
        batch = attempt.batch
        attempt.has_left = True
        if batch.started:
            attempt.finish(())
            if all(request.finished for request in batch.requests):
                batch.end_task()
            return
        batch.remove(attempt)
        if not batch.requests:
            self._line.remove(batch)
            batch.end_task()
            self._begin_batches()

    async def _compute(self, batch: _CallBatch) -> None:
        """Call the function and give each request its rows, or each the error."""
        requests = batch.requests
        try:
            results = await self._results(
                [request.tensors for request in requests], requests[-1].call, batch.rows
            )
        except OpError as error:
            self._fail(requests, error)
        except MemoryError as error:
            self._fail(
                requests, ResourceExhaustedError(f"no memory for a batch of {batch.rows} rows: {error}")
            )
        except Exception as error:
            # A fault of ours, of which those who wait are to hear.
            self._fail(requests, InternalError(f"{type(error).__name__}: {error}"))
        else:
            end = 0
            for request in requests:
                begin, end = end, end + request.rows
                if not request.finished:
                    request.finish(tuple([result[begin:end] for result in results]))
                    request.woken()
        finally:
            self._running.discard(batch)
            if not self._tasks.is_cancelled:
                self._begin_batches()

    async def _results(
        self, requests: Sequence[Sequence[Array]], call: FunctionCall, count: int
    ) -> list[Any]:
        """The results for the tensors of some requests, which have so many rows together."""
        rows = padded_size(self.options.allowed_batch_sizes, count)
        parts: list[Sequence[Array]] = list(zip(*requests, strict=True))
        if self.options.padding and len(requests) > 1:
            parts = [filled_up(each, value) for each, value in zip(parts, self.options.padding, strict=True)]
        joined = [joined_rows(each, rows - count) for each in parts]
        function, captured = call
        results = [to_array(each) for each in await function((*joined, *captured), self._sequences)]
        if len(results) != self._result_count:
            raise InvalidArgumentError(
                f"function '{function.name}' has {len(results)} results, not {self._result_count}"
            )
        for result in results:
            if result.ndim == 0:
                raise FailedPreconditionError("Batched output tensor has 0 dimensions")
            if len(result) != rows:
                raise FailedPreconditionError(
                    "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes "
                    f"of the input tensors: {len(result)} rows of {rows}"
                )
        return results

    @staticmethod
    def _fail(requests: Sequence[_BatchRequest], error: OpError) -> None:
        """End each request that waits with an error of its own."""
        for request in requests:
            if not request.finished:
                request.fail(copy.copy(error))
                request.woken()

    def destroy(self) -> None:
        """End what is being computed, and whoever waits with CancelledError."""
        self._tasks.cancel()
        batches = [*self._running, *self._line]
        self._line.clear()
        for batch in batches:
            self._fail(batch.requests, CancelledError(f"the batches of '{self.name}' were removed"))


__all__ = ["BatcherOptions", "CallBatcher", "FunctionCall"]
