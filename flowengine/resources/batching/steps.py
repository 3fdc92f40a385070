"""Dynamic batching: concurrent steps put their rows together, one of them computes, all get their own.

`Batcher` collects rows until there are enough or the oldest has waited long enough. The step that came
last gets all rows, with an index of whose they are; the others get none. `Unbatcher` hands the rows of a
result to the steps that they belong to, `Regatherer` goes the other way for gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import trio

from flowengine.core.arrays import WOULD_WAIT, Array
from flowengine.core.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from flowengine.resources.batching.rows import (
    allowed_sizes,
    check_same_rows,
    joined_rows,
    padded_size,
    rows_of,
)
from flowengine.resources.services import Services
from flowengine.resources.waiting import Attempt, AttemptCrowd, Condition, wait_finished

#: Identifies the rows of one step; unique in the process, so that a late one is never mistaken.
_SERIAL: Final = itertools.count(1)


class BatchShare(NamedTuple):
    """The share of a batch that a step gets from a batcher.

    tensors       all rows of the batch, or none of each
    batch_index   (members, 3) int64: whose rows are where, as (id, begin, end); or (0, 3)
    id            of this step's own rows
    """

    tensors: tuple[Array, ...]
    batch_index: Array
    id: int


class _Member(Attempt):
    """The rows of one step, waiting for their batch to be sealed."""

    __slots__ = ("batch", "id", "rows", "tensors")

    def __init__(self, tensors: tuple[Array, ...], rows: int, batch: _StepBatch) -> None:
        super().__init__()
        self.id = next(_SERIAL)
        self.tensors = tensors
        self.rows = rows
        self.batch = batch


class _StepBatch:
    __slots__ = ("is_sealed", "members", "rows", "timer")

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.rows = 0
        self.is_sealed = False
        self.timer: trio.CancelScope | None = None


class Batcher:
    """See the module.

    services              where its timers run
    max_batch_size        most rows of a batch
    timeout_seconds       how long the first rows of a batch wait for others
    allowed_batch_sizes   rising, the last one `max_batch_size`: a batch is filled up to one of them with
                          copies of a row; empty: batches may have any size
    """

    __slots__ = (
        "__weakref__",
        "_open",
        "_tasks",
        "allowed_batch_sizes",
        "max_batch_size",
        "name",
        "timeout_seconds",
    )

    def __init__(
        self,
        name: str,
        services: Services,
        *,
        max_batch_size: int,
        timeout_seconds: float,
        allowed_batch_sizes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.max_batch_size = max_batch_size
        self.timeout_seconds = timeout_seconds
        self.allowed_batch_sizes = allowed_sizes(allowed_batch_sizes, max_batch_size)
        self._tasks = services.new_tasks()
        self._open: _StepBatch | None = None

    def submit_nowait(self, tensors: tuple[Array, ...]) -> Any:
        """`submit` where the rows fill the batch up, else WOULD_WAIT with nothing changed."""
        rows = rows_of(tensors, self.max_batch_size)
        present = 0 if self._open is None else self._open.rows
        if rows != self.max_batch_size and present + rows != self.max_batch_size:
            return WOULD_WAIT
        return self._join(tensors, rows).outcome()

    async def submit(self, tensors: tuple[Array, ...]) -> BatchShare:
        """Put rows (n, ...) into the current batch and wait until it is sealed.

        Raises InvalidArgumentError for tensors without rows or with different numbers of them, and for
        more than fit, CancelledError where the batcher is removed meanwhile. Cancelled before the batch is
        sealed, the rows leave it.
        """
        member = self._join(tensors, rows_of(tensors, self.max_batch_size))
        result: BatchShare = await wait_finished(member, self._leave)
        return result

    def _join(self, tensors: tuple[Array, ...], rows: int) -> _Member:
        batch = self._open
        if batch is not None and batch.rows + rows > self.max_batch_size:
            self._seal(batch)
            batch = None
        if batch is not None:
            check_same_rows(batch.members[0].tensors if batch.members else tensors, tensors)
        else:
            batch = _StepBatch()
            if rows < self.max_batch_size:
                # One timer a batch, on nobody's account: whoever came first may be cancelled.
                deadline = trio.current_time() + self.timeout_seconds
                batch.timer = self._tasks.start(
                    partial(self._seal_at, deadline, batch), f"batch of {self.name}"
                )
            self._open = batch
        member = _Member(tensors, rows, batch)
        batch.members.append(member)
        batch.rows += rows
        if batch.rows == self.max_batch_size:
            self._seal(batch)
        return member

    async def _seal_at(self, deadline: float, batch: _StepBatch) -> None:
        await trio.sleep_until(deadline)
        if not batch.is_sealed:
            self._seal(batch)

    def _leave(self, attempt: Attempt) -> None:
        assert isinstance(attempt, _Member)
        attempt.batch.members.remove(attempt)
        attempt.batch.rows -= attempt.rows

    def _seal(self, batch: _StepBatch) -> None:
        """Close a batch and give each member its result."""
        batch.is_sealed = True
        if batch.timer is not None:
            batch.timer.cancel()
        if self._open is batch:
            self._open = None
        members = batch.members
        if not members:
            return
        last = members[-1]
        try:
            result = self._whole(members)
        except MemoryError as error:
            last.fail(error)
        else:
            last.finish(result)
        for member in members[:-1]:
            nothing = tuple(tensor[:0] for tensor in member.tensors)
            member.finish(BatchShare(nothing, np.empty((0, 3), dtype=np.int64), member.id))
        for member in members:
            if member.wake is not None:
                member.wake()

    def _whole(self, members: list[_Member]) -> BatchShare:
        """All rows of a batch, for its last member."""
        ends = list(itertools.accumulate(member.rows for member in members))
        index = [(m.id, end - m.rows, end) for m, end in zip(members, ends, strict=True)]
        padding = padded_size(self.allowed_batch_sizes, ends[-1]) - ends[-1]
        last = members[-1]
        return BatchShare(
            tuple(joined_rows([m.tensors[i] for m in members], padding) for i in range(len(last.tensors))),
            np.array(index, dtype=np.int64),
            last.id,
        )

    def destroy(self) -> None:
        """End the timers, and whoever waits with CancelledError."""
        self._tasks.cancel()
        batch, self._open = self._open, None
        for member in [] if batch is None else batch.members:
            member.fail(CancelledError(f"Batch '{self.name}' was removed"))
            if member.wake is not None:
                member.wake()


class Unbatcher:
    """Hands the rows of a batch's result to those whose they are."""

    __slots__ = ("__weakref__", "_available", "_waiting")

    def __init__(self) -> None:
        #: {id: (rows, when they may be forgotten)}
        self._available: dict[int, tuple[Array, float]] = {}
        #: {id: who waits for its rows}
        self._waiting: dict[int, Attempt] = {}

    def get_nowait(self, tensor: Array, index: Array, own: int, timeout_seconds: float | None) -> Any:
        """`get` for a step that has its own rows or was brought them, else WOULD_WAIT, nothing changed."""
        parts = _parts(tensor, index)
        if own not in self._available and not any(key == own for key, _, _ in parts):
            return WOULD_WAIT
        self._distribute(tensor, parts, timeout_seconds)
        return self._available.pop(own)[0]

    def _distribute(
        self, tensor: Array, parts: list[tuple[int, int, int]], timeout_seconds: float | None
    ) -> None:
        until = np.inf if timeout_seconds is None else trio.current_time() + timeout_seconds
        for key, begin, end in parts:
            self._hand_over(key, tensor[begin:end], until)

    def _hand_over(self, key: int, rows: Array, until: float) -> None:
        attempt = self._waiting.pop(key, None)
        if attempt is None:
            self._available[key] = (rows, until)
            return
        attempt.finish(rows)
        if attempt.wake is not None:
            attempt.wake()

    async def get(self, tensor: Array, index: Array, own: int, timeout_seconds: float | None) -> Array:
        """The rows of `own`, once the step that has them comes by.

        tensor, index   a batch's result and its index, or no rows and no index
        Raises DeadlineExceededError where they do not come in time. Cancelled, it has taken nothing.
        """
        found = self.get_nowait(tensor, index, own, timeout_seconds)
        if found is WOULD_WAIT:
            self._forget_old()
            self._distribute(tensor, _parts(tensor, index), timeout_seconds)
            attempt = self._waiting[own] = Attempt()
            with trio.move_on_after(np.inf if timeout_seconds is None else timeout_seconds):
                found = await wait_finished(attempt, lambda _: self._waiting.pop(own, None))
            if found is WOULD_WAIT:
                raise DeadlineExceededError(
                    f"Batched data did not arrive within timeout window of {timeout_seconds} seconds"
                )
        rows: Array = found
        return rows

    def _forget_old(self) -> None:
        """Drop rows that nobody has asked for in time: their step was cancelled."""
        if self._available:
            now = trio.current_time()
            self._available = {key: entry for key, entry in self._available.items() if entry[1] > now}


def _parts(tensor: Array, index: Array) -> list[tuple[int, int, int]]:
    """(id, begin, end) of an index; InvalidArgumentError where it does not fit the tensor."""
    if index.ndim != 2 or index.shape[1] != 3:
        raise InvalidArgumentError(
            f"Wrong shape for index tensor. Expected (num_batches, 3); Got: {list(index.shape)}"
        )
    if tensor.ndim == 0:
        raise InvalidArgumentError("a batched tensor must have at least one dimension")
    parts = [(key, begin, end) for key, begin, end in index.tolist()]
    for _, begin, end in parts:
        if not 0 <= begin <= end <= len(tensor):
            raise InvalidArgumentError(
                f"a batch's index names rows {begin} to {end}, but the tensor has {len(tensor)}"
            )
    return parts


class Regatherer:
    """Brings the gradients of a batch's parts together for the step that computed the batch."""

    __slots__ = ("__weakref__", "_available", "_waiting")

    def __init__(self) -> None:
        #: {id: gradient}
        self._available: dict[int, Array] = {}
        self._waiting = AttemptCrowd()

    async def get(self, original: Array, index: Array, gradient: Array, own: int) -> Array:
        """The gradients of all parts of the batch, joined, for its owner; no rows for the others.

        Cancelled, it has taken nothing.
        """
        self._available[own] = gradient
        self._waiting.advance()
        if not original.size:
            return gradient[:0]
        if not index.size:
            raise InvalidArgumentError("batch_index is empty while the tensor isn't.")
        keys = [key for key, _, _ in _parts(original, index)]

        def take() -> Any:
            if not all(key in self._available for key in keys):
                return WOULD_WAIT
            parts = [self._available.pop(key) for key in keys]
            return np.concatenate(parts) if len(parts) > 1 else parts[0]

        found = take()
        if found is WOULD_WAIT:
            attempt = Condition(take)
            self._waiting.join(attempt)
            found = await wait_finished(attempt, self._waiting.leave)
        joined: Array = found
        return joined
