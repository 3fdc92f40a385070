"""`flowengine run` over a table: its options, what goes together with them, and the run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError
from flowengine.cli.tables.naming import STDOUT, table_in

if TYPE_CHECKING:
    from flowengine.cli.interrupt import Interrupt
    from flowengine.cli.running.job import Invocation
    from flowengine.cli.tables.planning import TableFeed


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a run over a table."""

    batch_size: int | None
    keeps_inputs: bool
    keeps_going: bool

    def check(self, feeds: Sequence[str], others: Collection[str]) -> None:
        """Raise CommandError (usage) for options of tables without one, and for others beside a table.

        others   options that were given and mean nothing over a table
        """
        table = table_in(feeds)
        if table is not None and others:
            raise CommandError(
                f"--feed {table}: {', '.join(others)} cannot go with a table, whose rows are steps", USAGE
            )
        if table is None and (self.batch_size or self.keeps_inputs or self.keeps_going):
            raise CommandError(
                "--batch-size, --keep-inputs and --keep-going need a table: --feed rows.csv", USAGE
            )

    def run(self, job: Invocation, feed: TableFeed, output: str, interrupt: Interrupt) -> None:
        """Run all rows of a table and write theirs into `output`.

        Raises CommandError for a row that fails, or at the end where rows were left out. An interrupted run
        keeps the rows that are done, and raises KeyboardInterrupt.
        """
        from flowengine.cli.tables.running import TableRun
        from flowengine.cli.tables.writing import opened_sink

        if feed.unused:
            named = ", ".join(feed.unused[:12]) + (", ..." if len(feed.unused) > 12 else "")
            print(f"columns that feed nothing: {named}", file=sys.stderr)
        interrupted: KeyboardInterrupt | None = None
        with feed.table, opened_sink(output) as sink:
            work = TableRun(
                job, feed, sink, self.batch_size, keeps_inputs=self.keeps_inputs, keeps_going=self.keeps_going
            )
            try:
                work.run(interrupt)
            except KeyboardInterrupt as error:
                interrupt.waits()
                interrupted = error
        place = "" if output == STDOUT else f" in {output}"
        rate = work.done / max(work.seconds, 1e-9)
        print(f"{work.done} rows{place}, {rate:,.0f} rows/s", file=sys.stderr)
        if interrupted is not None:
            raise interrupted
        if work.failed:
            raise CommandError(f"{work.failed} of {work.done + work.failed} rows failed", STEP_ERROR)


def check_rows_output(output: str | None, *, force: bool) -> None:
    """CommandError (usage) if rows cannot go there."""
    if output is not None:
        from flowengine.cli.tables.writing import check_can_write, check_table_output

        check_table_output(output, force=force)
        check_can_write(output)


__all__ = ["TableOptions", "check_rows_output"]
