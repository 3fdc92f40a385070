"""`run --trace FILE` and `--profile [BY]`: the last step of a run is traced."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from flowengine.cli.failure import USAGE, CommandError, printable
from flowengine.cli.results import check_new_file, replacing

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.core.run_options import RunOptions
    from flowengine.runtime.run_metadata import RunMetadata
    from flowengine.runtime.tracing.profile import ProfileBy

#: Before the names of options in the context's notes.
_KEPT: Final = "flowengine.cli.running.tracing."


@dataclass(slots=True)
class StepTrace:
    """The request of `--trace`, `--profile` and `--guard`, and the last step's metadata.

    file      gets the timeline, as JSON; None for no file
    by        "op", "node", "scope", "line" or "memory", for a table; None for no table
    guard     whether the steps stop at the first value that is not finite, instead
    """

    file: str | None
    by: ProfileBy | Literal["memory"] | None
    guard: bool
    metadata: RunMetadata | None = field(default=None, init=False)

    def around(self, options: RunOptions, *, is_last: bool) -> tuple[RunOptions, RunMetadata | None]:
        """Return the options and the metadata of a step: the last one is traced."""
        if not is_last or self.guard:
            return options, None
        from flowengine.runtime.run_metadata import RunMetadata

        self.metadata = RunMetadata()
        return replace(options, trace="nodes"), self.metadata

    def report(self) -> None:
        """Write the file and print the table, of a step that failed or was interrupted, too."""
        metadata = self.metadata
        if metadata is None:
            return
        if self.file is not None:
            with replacing(self.file, "--trace") as temporary, open(temporary, "w", encoding="utf-8") as file:
                file.write(metadata.timeline())
            _say(f"traced the last step in {self.file}: {len(metadata.events)} events")
        if metadata.dropped_events:
            _say(f"{metadata.dropped_events} more events found no room")
        for line in self._table(metadata):
            print(printable(line), file=sys.stderr, flush=True)

    def _table(self, metadata: RunMetadata) -> list[str]:
        if self.by is None:
            return []
        if self.by != "memory":
            return str(metadata.profile(self.by)).splitlines()
        from flowengine.runtime.tracing.profile import memory_table

        return memory_table(metadata.peak_holders, metadata.peak_bytes).splitlines()

    def config(self, config: Config | None, at: str | None) -> Config | None:
        """Return the settings with which a step counts memory, if it is asked for.

        CommandError for a step `at` another task, which counts its own.
        """
        if self.by != "memory":
            return config
        if at:
            raise CommandError("--profile memory: the step runs at another task: run without --at", USAGE)
        from flowengine.core.config import Config

        return replace(config or Config(), count_allocations=True)


def keep_option(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep the value of an option for `step_trace`."""
    assert parameter.name is not None
    ctx.meta[_KEPT + parameter.name] = value


def kept_option(ctx: click.Context, name: str) -> Any:
    """Return the value of an option that `keep_option` has kept."""
    return ctx.meta[_KEPT + name]


def step_trace(ctx: click.Context, *, force: bool) -> StepTrace | None:
    """Return the request of `--trace`, `--profile` and `--guard`; None without them.

    CommandError if the file cannot be written, or for a trace together with a guard.
    """
    file, by, guard = (kept_option(ctx, name) for name in ("trace", "profile", "guard"))
    if file is None and by is None and not guard:
        return None
    if guard and (file is not None or by is not None):
        raise CommandError("--guard goes without --trace and --profile", USAGE)
    if file is not None:
        check_new_file(file, force=force, option="--trace")
    return StepTrace(file, by, guard)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


__all__ = ["StepTrace", "keep_option", "kept_option", "step_trace"]
