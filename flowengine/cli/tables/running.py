"""The steps over a table: a batch of rows each, whose fetched values become rows again.

A row that fails is found by running halves of its batch. Some thousand rows are read at a time, and written
before the next are read, so that memory does not grow with the table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.cli.failure import BAD_FEED, STEP_ERROR, CommandError, printable, was_not_fed
from flowengine.cli.feeding.sources import check_shape
from flowengine.cli.running.job import Invocation
from flowengine.cli.running.steps import run_interruptible, set_up
from flowengine.cli.tables.columns import CellFault
from flowengine.cli.tables.naming import BATCH_SIZE
from flowengine.cli.tables.planning import TableFeed
from flowengine.cli.tables.reading import TableRows
from flowengine.cli.tables.writing import RowSink
from flowengine.core.arrays import Array, to_array
from flowengine.core.errors import DataLossError, InvalidArgumentError, OutOfRangeError
from flowengine.train.progress.loop_progress import LoopProgress

if TYPE_CHECKING:
    from flowengine.cli.interrupt import Interrupt

#: Rows that are read and written together where batches are smaller: a few are slow to convert.
_READ_ROWS: Final = 2048
#: Errors that the values of a row may cause. Others end the run, and no half of a batch is tried.
_OF_ROWS: Final = (InvalidArgumentError, OutOfRangeError, DataLossError)
#: So many failing rows are printed one by one.
_REPORTED_MAX: Final = 10


@dataclass(slots=True)
class TableRun:
    """A run over a table, and how far it has got.

    batch_size    rows of a step; None for the default one, or the one that the inputs' shapes fix
    keeps_inputs  whether the table's columns are written before the values
    keeps_going   whether rows that fail are left out, instead of ending the run
    done, failed  rows of either kind
    seconds       of the steps, with reading and writing
    """

    job: Invocation
    feed: TableFeed
    sink: RowSink
    batch_size: int | None = None
    keeps_inputs: bool = False
    keeps_going: bool = False
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    _names: list[str] = field(default_factory=list)
    #: {output: the shape of a row of it, which columns are made for}
    _row_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def run(self, interrupt: Interrupt) -> None:
        """Run all rows in one session.

        Raises CommandError for a row that fails, unless the run keeps going, and where no row is done;
        KeyboardInterrupt if interrupted. Rows that were done until then are in the sink.
        """
        self._names = [self._name(each) for each in self.job.names or self.job.fetches]
        run_interruptible(self._run, interrupt)
        if self.failed and not self.done:
            raise CommandError(f"{self.feed.table.path}: all {self.failed} rows failed", STEP_ERROR)

    def _name(self, output: str) -> str:
        """An output's column: another name where a column of the table that is kept has it."""
        name = output.removesuffix(":0")
        return f"{name}_output" if self.keeps_inputs and name in self.feed.table.names else name

    async def _run(self) -> None:
        from flowengine.core.run_options import RunOptions
        from flowengine.session import Session

        options = RunOptions(timeout_seconds=self.job.timeout_seconds)
        one, fixed = self._form()
        size = fixed or self.batch_size or BATCH_SIZE
        if fixed and self.batch_size not in (None, fixed):
            raise CommandError(
                f"--batch-size {self.batch_size}: the graph's inputs take {fixed} rows at a time", BAD_FEED
            )
        table = self.feed.table
        progress = LoopProgress(only_on_terminals=True)
        progress.label = "rows"
        async with Session(self.job.graph, config=self.job.config, target=self.job.at) as session:
            await set_up(session, self.job, options)
            call = partial(session.run, self.job.fetches, options=options)
            step = BatchStep(call, self.job.feeds, fixed, one)
            started = time.perf_counter()
            with progress:
                progress.begin(0, table.count() if sys.stderr.isatty() else None)
                size = 1 if one else size
                for read in table.batches(size * max(1, _READ_ROWS // size)):
                    for fault in read.faults:
                        self._fail(fault.row, fault.reason)
                    rows, feeds = self._converted(read)
                    made = FinishedRows(rows)
                    try:
                        await self._make(made, step, feeds, size)
                    finally:
                        self._write(made)
                    self.seconds = time.perf_counter() - started
                    progress.advance(self.done + self.failed, dict)

    def _form(self) -> tuple[bool, int | None]:
        """Whether a step takes one row, without an axis for others, and the size of a batch that is fixed."""
        shapes = [each.target.shape for each in self.feed.inputs]
        if any(shape.rank == 0 for shape in shapes):
            return True, None
        sizes = {shape.dims[0] for shape in shapes if shape.dims}
        fixed = {size for size in sizes if size is not None}
        if len(fixed) > 1:
            told = ", ".join(map(str, sorted(fixed)))
            raise CommandError(f"the inputs take different numbers of rows at a time: {told}", BAD_FEED)
        return False, fixed.pop() if fixed else None

    def _fail(self, row: int, reason: str) -> None:
        """Count a row that failed and tell it; CommandError unless the run keeps going."""
        where = f"row {row} of {self.feed.table.path}"
        if not self.keeps_going:
            raise CommandError(f"{where}: {reason} (--keep-going leaves out rows that fail)", STEP_ERROR)
        self.failed += 1
        if self.failed <= _REPORTED_MAX:
            print(printable(f"{where} is left out: {reason}"), file=sys.stderr)
        elif self.failed == _REPORTED_MAX + 1:
            print("further rows that fail are only counted", file=sys.stderr)

    def _converted(self, rows: TableRows) -> tuple[TableRows, dict[str, Array]]:
        """Rows that can be fed, and what they feed."""
        while len(rows):
            try:
                return rows, {each.target.name: each.value(rows) for each in self.feed.inputs}
            except CellFault as fault:
                self._fail(rows.numbers[fault.index], str(fault))
                rows = rows.without(fault.index)
        return rows, {}

    async def _make(self, made: FinishedRows, step: BatchStep, feeds: Mapping[str, Array], size: int) -> None:
        """Run rows in batches, those that fail left out."""
        rows = made.rows
        if not len(rows):
            return
        if not self.done:
            self._check_shapes(step, feeds, size)
        spans = [(begin, min(begin + size, len(rows))) for begin in range(0, len(rows), size)][::-1]
        while spans:
            begin, end = spans.pop()
            try:
                values = await step.run({name: value[begin:end] for name, value in feeds.items()})
            except _OF_ROWS as error:
                if was_not_fed(error):
                    raise
                if end - begin > 1:
                    middle = (begin + end) // 2
                    spans += [(middle, end), (begin, middle)]
                else:
                    self._fail(rows.numbers[begin], f"{type(error).__name__}: {error}")
                continue
            made.values.append(self._checked(values, rows.numbers[begin:end]))
            made.spans.append((begin, end))

    def _check_shapes(self, step: BatchStep, feeds: Mapping[str, Array], size: int) -> None:
        """CommandError (a bad feed) where the rows' shape fits no input: then none does."""
        for each in self.feed.inputs:
            check_shape(step.padded(feeds[each.target.name][:size]), each.target)

    def _checked(self, values: Sequence[Any], numbers: Sequence[int]) -> list[Array]:
        """Return arrays with an entry for each of these rows; CommandError for values that are none."""
        count = len(numbers)
        found = []
        for name, value in zip(self._names, values, strict=True):
            array = to_array(value)
            if not array.ndim or len(array) != count:
                raise CommandError(
                    f"{name} has the shape {list(array.shape)} for {count} rows, not one entry for each: "
                    "name the outputs that have, with --fetch",
                    STEP_ERROR,
                )
            shape = self._row_shapes.setdefault(name, array.shape[1:])
            if shape != array.shape[1:]:
                raise CommandError(
                    f"{name} has the shape {list(array.shape[1:])} for row {numbers[0]} of "
                    f"{self.feed.table.path}, but {list(shape)} for rows before it, and columns are the same "
                    "for all rows: fetch an output whose rows have one shape",
                    STEP_ERROR,
                )
            found.append(array)
        return found

    def _write(self, made: FinishedRows) -> None:
        if made.spans:
            columns = made.columns() if self.keeps_inputs else {}
            arrays = [np.concatenate(parts) for parts in zip(*made.values, strict=True)]
            self.sink.write(columns, dict(zip(self._names, arrays, strict=True)))
            self.done += sum(end - begin for begin, end in made.spans)


@dataclass(slots=True)
class FinishedRows:
    """Rows with the values of those that are done.

    spans    of the rows that are done, from a first one to before a last one
    values   of each span, an array for each output
    """

    rows: TableRows
    spans: list[tuple[int, int]] = field(default_factory=list)
    values: list[list[Array]] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """The cells of the rows that are done."""
        found: dict[str, Any] = {}
        for name, cells in self.rows.columns.items():
            parts = [cells[begin:end] for begin, end in self.spans]
            found[name] = list(chain(*parts)) if isinstance(cells, list) else np.concatenate(parts)
        return found


class BatchStep:
    """A step over a few rows.

    size   rows of a batch where it is fixed: fewer are made as many, by the last one
    one    whether a step takes one row without an axis for others
    """

    def __init__(self, call: Any, feeds: Mapping[str, Any], size: int | None, one: bool) -> None:
        self._call, self._feeds, self._size, self._one = call, feeds, size, one

    def padded(self, value: Array) -> Array:
        """Return the values of some rows as a step takes them."""
        if self._one:
            alone: Array = value[0]
            return alone
        missing = 0 if self._size is None else self._size - len(value)
        return np.concatenate([value, np.repeat(value[-1:], missing, axis=0)]) if missing else value

    async def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        count = len(next(iter(feeds.values())))
        given = {name: self.padded(value) for name, value in feeds.items()}
        values = await self._call({**self._feeds, **given})
        if self._one:
            return [to_array(value)[np.newaxis] for value in values]
        return [value[:count] if self._size is not None and np.ndim(value) else value for value in values]


__all__ = ["TableRun"]
