"""Calls of a signature that are computed together: rows are collected while a batch is computed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from flowengine.core.lru_cache import LruCache
from flowengine.core.run_options import RunOptions, timeout_of
from flowengine.resources.batching.calls import BatcherOptions, CallBatcher, FunctionCall
from flowengine.resources.function_calls import StepCalls
from flowengine.runtime.planning.values import FeedSpec
from flowengine.runtime.step import too_late
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor

if TYPE_CHECKING:
    from flowengine.resources.container import ResourceManager
    from flowengine.session import Session

#: So many shapes of rows keep a line of their own; one that is not used for long is made anew.
_LINES_MAX: Final = 64


class BatchedSignature:
    """A signature whose concurrent calls are computed together; `ModelSignature.batched` makes it.

    facts     the name, inputs and outputs of the signature
    options   how rows are put together

    The arguments `session`, `max_rows`, `allowed_rows`, `wait_seconds`, `batches_at_once`,
    `max_waiting_rows`, `pad` and `split` are those of `ModelSignature.batched`.

    A call returns {name: value} of the outputs for its own rows, as the signature's own call does; await it,
    except for a blocking model, whose calls come from several threads. It begins at once if nothing is being
    computed; else its rows wait for the others' batch to end, and are computed with all that came meanwhile.
    Calls whose rows have other shapes wait in lines of their own, unless lengths are padded.

    Raises InvalidArgumentError for inputs that do not fit, which harms no other call;
    ResourceExhaustedError if too many rows wait, DeadlineExceededError for `RunOptions.timeout_seconds`, and
    what a step raises, for all calls of its batch. Cancelled, a call takes its rows along if they are not
    being computed yet; a step that nobody waits for any more is cancelled.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> async def main():
    ...     async with await fe.saved_model.load("export") as model:
    ...         double = model.signature.batched(max_rows=64)
    ...         async def ask(number):
    ...             assert (await double(x=[number]))["y"].tolist() == [2 * number]
    ...         async with trio.open_nursery() as nursery:
    ...             for number in range(100):
    ...                 nursery.start_soon(ask, number)
    >>> trio.run(main)
    """

    def __init__(
        self,
        facts: SignatureFacts,
        session: Any,
        *,
        max_rows: int,
        allowed_rows: Sequence[int],
        wait_seconds: float,
        batches_at_once: int,
        max_waiting_rows: int | None,
        pad: bool | Mapping[str, Any],
        split: bool,
    ) -> None:
        check_batchable(facts)
        if max_rows < 1 or batches_at_once < 1 or wait_seconds < 0:
            raise InvalidArgumentError(
                f"max_rows={max_rows} and batches_at_once={batches_at_once} must be at least 1, "
                f"wait_seconds={wait_seconds} at least 0"
            )
        self.facts = facts
        self.options = BatcherOptions(
            max_batch_size=sys.maxsize if split else max_rows,
            timeout_seconds=wait_seconds,
            num_batch_threads=batches_at_once,
            max_enqueued_batches=sys.maxsize,  # rows are counted before
            allowed_batch_sizes=_sizes(allowed_rows, max_rows),
            splits=split,
            split_size=max_rows,
            starts_alone=wait_seconds == 0,
            padding=_fillers(facts, pad),
        )
        self._session = session
        #: Calls a function in the trio run behind the session; None for a session of a trio program.
        self._elsewhere = getattr(session, "call", None)
        self._rows = _RowCollector(
            facts, self.options, sys.maxsize if max_waiting_rows is None else max_waiting_rows
        )

    def __repr__(self) -> str:
        return f"<BatchedSignature '{self.facts.name}' ({self.facts.sides()})>"

    def __call__(self, *values: Any, **inputs: Any) -> Any:
        """Compute the outputs for some rows. If the signature has one input, its name may be left out."""
        return self.call(self.facts.inputs_of(values, inputs))

    def call(self, inputs: Mapping[str, Any], *, options: RunOptions | None = None) -> Any:
        """Compute the outputs for `inputs` of any names; of `options` only `timeout_seconds` may be set."""
        if options is not None and options != RunOptions(timeout_seconds=options.timeout_seconds):
            raise InvalidArgumentError(
                "a batched call takes no RunOptions but timeout_seconds: its step is that of others, too; "
                "call the signature itself"
            )
        if self._elsewhere is None:
            return self._rows.call(self._session, inputs, options)
        return self._elsewhere(self._rows.call, inputs, options)

    @property
    def waiting_rows(self) -> int:
        """The number of rows of all calls that have not ended: those that wait, and those computed."""
        return self._rows.waiting


class _SignatureStep(StepCalls):
    """A signature as a function of arrays, one for each input; each call is a step."""

    def __init__(self, facts: SignatureFacts, session: Session) -> None:
        self.name = facts.name
        self._session = session
        self._fetches = [each.tensors[0] for each in facts.outputs.values()]
        self._feeds = [each.tensors[0] for each in facts.inputs.values()]

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        return tuple(await self._session.run(self._fetches, dict(zip(self._feeds, arguments, strict=True))))

    def of_rows(self, count: int) -> None:
        """Return None: rows are put together by the batcher alone."""


class _RowCollector:
    """The lines of rows of one signature: one for each shape that rows have."""

    def __init__(self, facts: SignatureFacts, options: BatcherOptions, max_waiting: int) -> None:
        self.waiting = 0
        self._facts = facts
        self._options = options
        self._max_waiting = max_waiting
        self._feeds = [FeedSpec(each.tensors[0], each.dtype, each.shape) for each in facts.inputs.values()]
        self._step: FunctionCall | None = None
        self._lines: LruCache[tuple[tuple[int, ...], ...], CallBatcher] = LruCache(_LINES_MAX)

    async def call(
        self, session: Session, inputs: Mapping[str, Any], options: RunOptions | None
    ) -> dict[str, Any]:
        """Compute the outputs for some rows, with the rows of others."""
        try:
            return await self._call(session, inputs, options)
        except OpError as error:
            self._facts.name_inputs(error)
            raise

    async def _call(
        self, session: Session, inputs: Mapping[str, Any], options: RunOptions | None
    ) -> dict[str, Any]:
        fed = self._facts.feeds(inputs).values()
        rows = [to_array(spec.convert(value)) for spec, value in zip(self._feeds, fed, strict=True)]
        count = self._count(rows)
        if self.waiting and self.waiting + count > self._max_waiting:
            raise ResourceExhaustedError(
                f"{self.waiting} rows of signature '{self._facts.name}' wait or are being computed: try "
                f"later, or raise the bound (max_waiting_rows={self._max_waiting})"
            )
        self.waiting += count
        try:
            results = await self._in_time(self._line(session, rows), rows, options)
        finally:
            self.waiting -= count
        return dict(zip(self._facts.outputs, results, strict=True))

    async def _in_time(
        self, line: CallBatcher, rows: Sequence[Any], options: RunOptions | None
    ) -> tuple[Value, ...]:
        assert self._step is not None
        seconds = None if options is None else timeout_of(options)
        if seconds is None:
            return await line.call(rows, self._step)
        with trio.move_on_after(seconds):
            return await line.call(rows, self._step)
        raise too_late(seconds)

    def _count(self, rows: Sequence[Any]) -> int:
        """Return how many rows all inputs have; InvalidArgumentError if they disagree, or have none."""
        counts = {name: each.shape[0] for name, each in zip(self._facts.inputs, rows, strict=True)}
        count = next(iter(counts.values()))
        if any(each != count for each in counts.values()):
            raise InvalidArgumentError(
                f"the inputs of a batched call must have equally many rows, not {_listed(counts)}"
            )
        if not self._options.splits and count > self._options.max_batch_size:
            raise InvalidArgumentError(
                f"{count} rows in one call: this signature takes at most {self._options.max_batch_size}"
            )
        return int(count)

    def _line(self, session: Session, rows: Sequence[Any]) -> CallBatcher:
        if self._step is None:
            self._step = FunctionCall(_SignatureStep(self._facts, session))
        shapes = tuple([() if self._options.padding else each.shape[1:] for each in rows])
        line = self._lines.get(shapes)
        if line is None:
            line = CallBatcher(
                self._facts.name, session.resources.services, self._options, len(self._facts.outputs)
            )
            self._lines.put(shapes, line)
        return line


def _sizes(allowed: Sequence[int], most: int) -> tuple[int, ...]:
    sizes = tuple(allowed)
    if sizes and (sizes[0] < 1 or sizes[-1] != most or any(b <= a for a, b in itertools.pairwise(sizes))):
        raise InvalidArgumentError(f"allowed_rows={list(sizes)} must rise and end with max_rows={most}")
    return sizes


def is_batchable(facts: SignatureFacts) -> bool:
    """Return whether the first dimension of all that goes in and comes out is free."""
    return bool(facts.inputs) and all(map(_has_rows, (*facts.inputs.values(), *facts.outputs.values())))


def check_batchable(facts: SignatureFacts) -> None:
    """InvalidArgumentError unless the first dimension of all that goes in and comes out is free."""
    fixed = [
        f"{side} '{name}' {each}"
        for side, tensors in (("input", facts.inputs), ("output", facts.outputs))
        for name, each in tensors.items()
        if not _has_rows(each)
    ]
    if fixed or not facts.inputs:
        reason = f"{', '.join(fixed)} has no free first dimension" if fixed else "it has no inputs"
        raise InvalidArgumentError(f"signature '{facts.name}' cannot be batched: {reason}")


def _has_rows(tensor: SignatureTensor) -> bool:
    dims = tensor.shape.dims
    return not (tensor.is_sparse or tensor.is_composite) and dims is not None and dims[:1] == (None,)


def _fillers(facts: SignatureFacts, pad: bool | Mapping[str, Any]) -> tuple[Any, ...]:
    """Return for each input the value that fills rows up; none where rows are not filled up."""
    if pad is False:
        return ()
    unknown = ", ".join(f"'{name}'" for name in ({} if pad is True else pad) if name not in facts.inputs)
    if unknown:
        raise InvalidArgumentError(f"pad: {facts.described()} has no input {unknown}")
    values = {} if pad is True else pad
    fillers = [values.get(name) for name in facts.inputs]
    return tuple([each.encode() if isinstance(each, str) else each for each in fillers])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of '{name}'" for name, count in counts.items())


__all__ = ["BatchedSignature", "check_batchable", "is_batchable"]
