"""Dynamic batching: concurrent steps put their rows together, one of them computes, all get their own.

`Batcher` collects rows until there are enough or the oldest has waited long enough. The step that came
last gets all rows, with an index of whose they are; the others get none. `Unbatcher` hands the rows of a
result to the steps that they belong to, `Regatherer` goes the other way for gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import trio

from flowengine.core.arrays import WOULD_WAIT, Array
from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError
from flowengine.resources.waiting import Condition, Crowd, wait_finished

#: Identifies the rows of one step; unique in the process, so that a late one is never mistaken.
_SERIAL: Final = itertools.count(1)


class Batched(NamedTuple):
    """What a step gets from a batcher.

    tensors       all rows of the batch, or none of each
    batch_index   (members, 3) int64: whose rows are where, as (id, begin, end); or (0, 3)
    id            of this step's own rows
    """

    tensors: tuple[Array, ...]
    batch_index: Array
    id: int


class _Member:
    __slots__ = ("id", "result", "rows", "tensors")

    def __init__(self, tensors: tuple[Array, ...], rows: int) -> None:
        self.id = next(_SERIAL)
        self.tensors = tensors
        self.rows = rows
        self.result: Batched | None = None


class _Batch:
    __slots__ = ("deadline", "members", "sealed")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.members: list[_Member] = []
        self.sealed = trio.Event()

    @property
    def rows(self) -> int:
        return sum(member.rows for member in self.members)

    def join(self, member: _Member) -> None:
        """Add a member; InvalidArgumentError where its rows have other shapes than those here."""
        for ours, theirs in zip(
            self.members[0].tensors if self.members else (), member.tensors, strict=False
        ):
            if ours.shape[1:] != theirs.shape[1:]:
                raise InvalidArgumentError(
                    "tensors of one batch must agree but for their rows, but have shapes "
                    f"{list(ours.shape)} and {list(theirs.shape)}"
                )
        self.members.append(member)


class Batcher:
    """See the module.

    max_batch_size        most rows of a batch
    timeout_seconds       how long the first rows of a batch wait for others
    allowed_batch_sizes   rising, the last one `max_batch_size`: a batch is filled up to one of them with
                          copies of a row; empty: batches may have any size
    """

    __slots__ = ("__weakref__", "_open", "allowed_batch_sizes", "max_batch_size", "name", "timeout_seconds")

    def __init__(
        self,
        name: str,
        *,
        max_batch_size: int,
        timeout_seconds: float,
        allowed_batch_sizes: Sequence[int] = (),
    ) -> None:
        sizes = tuple(allowed_batch_sizes)
        if sizes and (sizes[-1] != max_batch_size or any(b <= a for a, b in itertools.pairwise(sizes))):
            raise InvalidArgumentError(
                f"allowed_batch_sizes must rise and end with max_batch_size {max_batch_size}, "
                f"not {list(sizes)}"
            )
        self.name = name
        self.max_batch_size = max_batch_size
        self.timeout_seconds = timeout_seconds
        self.allowed_batch_sizes = sizes
        self._open: _Batch | None = None

    async def submit(self, tensors: tuple[Array, ...]) -> Batched:
        """Put rows (n, ...) into the current batch and wait until it is sealed.

        Raises InvalidArgumentError for tensors without rows or with different numbers of them, and for
        more than fit. Cancelled before the batch is sealed, the rows leave it.
        """
        rows = self._check(tensors)
        batch = self._open
        if batch is not None and batch.rows + rows > self.max_batch_size:
            self._seal(batch)
            batch = None
        if batch is None:
            batch = self._open = _Batch(trio.current_time() + self.timeout_seconds)
        member = _Member(tensors, rows)
        batch.join(member)
        if batch.rows == self.max_batch_size:
            self._seal(batch)
        else:
            try:
                with trio.move_on_at(batch.deadline):
                    await batch.sealed.wait()
            except trio.Cancelled:
                self._leave(batch, member)
                raise
            if not batch.sealed.is_set():
                self._seal(batch)
        assert member.result is not None
        return member.result

    def _check(self, tensors: tuple[Array, ...]) -> int:
        for tensor in tensors:
            if getattr(tensor, "ndim", 0) == 0:
                raise InvalidArgumentError("Batching input tensors must have at least one dimension")
            if len(tensor) != len(tensors[0]):
                raise InvalidArgumentError(
                    "Batching input tensors supplied in a given op invocation must have equal "
                    f"0th-dimension size, not {[len(each) for each in tensors]}"
                )
        rows = len(tensors[0])
        if rows > self.max_batch_size:
            raise InvalidArgumentError(
                f"Task size {rows} is larger than maximum batch size {self.max_batch_size}"
            )
        return rows

    def _leave(self, batch: _Batch, member: _Member) -> None:
        if batch.sealed.is_set():
            return
        batch.members.remove(member)
        if not batch.members and self._open is batch:
            self._open = None

    def _seal(self, batch: _Batch) -> None:
        """Close a batch and give each member its result."""
        if self._open is batch:
            self._open = None
        members = batch.members
        last = members[-1]
        for member in members[:-1]:
            nothing = tuple(tensor[:0] for tensor in member.tensors)
            member.result = Batched(nothing, np.empty((0, 3), dtype=np.int64), member.id)
        ends = list(itertools.accumulate(member.rows for member in members))
        index = np.array(
            [(m.id, end - m.rows, end) for m, end in zip(members, ends, strict=True)], dtype=np.int64
        )
        padding = self._padded(ends[-1]) - ends[-1]
        last.result = Batched(
            tuple(_joined([m.tensors[i] for m in members], padding) for i in range(len(last.tensors))),
            index,
            last.id,
        )
        batch.sealed.set()

    def _padded(self, rows: int) -> int:
        return next((size for size in self.allowed_batch_sizes if size >= rows), rows)


def _joined(parts: list[Array], padding: int) -> Array:
    """Rows of all parts, then so many copies of the first row of the last part."""
    if padding and len(parts[-1]):
        parts = [*parts, np.repeat(parts[-1][:1], padding, axis=0)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Unbatcher:
    """Hands the rows of a batch's result to those whose they are."""

    __slots__ = ("__weakref__", "_available", "_waiting")

    def __init__(self) -> None:
        #: {id: (rows, when they may be forgotten)}
        self._available: dict[int, tuple[Array, float]] = {}
        self._waiting = Crowd()

    async def get(self, tensor: Array, index: Array, own: int, timeout_seconds: float | None) -> Array:
        """The rows of `own`, once the step that has them comes by.

        tensor, index   a batch's result and its index, or no rows and no index
        Raises DeadlineExceededError where they do not come in time. Cancelled, it has taken nothing.
        """
        now = trio.current_time()
        self._available = {key: entry for key, entry in self._available.items() if entry[1] > now}
        until = np.inf if timeout_seconds is None else now + timeout_seconds
        for key, begin, end in _parts(tensor, index):
            self._available[key] = (tensor[begin:end], until)
        self._waiting.advance()

        def take() -> Any:
            entry = self._available.pop(own, None)
            return WOULD_WAIT if entry is None else entry[0]

        found = take()
        if found is WOULD_WAIT:
            attempt = Condition(take)
            self._waiting.join(attempt)
            with trio.move_on_at(until):
                found = await wait_finished(attempt, self._waiting.leave)
            if found is WOULD_WAIT:
                raise DeadlineExceededError(
                    f"Batched data did not arrive within timeout window of {timeout_seconds} seconds"
                )
        rows: Array = found
        return rows


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
        self._waiting = Crowd()

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
