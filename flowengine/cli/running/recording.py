"""`run --record FILE`: the last step of a run is recorded, for `flowengine compare`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.cli.results import check_new_file
from flowengine.cli.running.tracing import kept_option

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.session import Session
    from flowengine.tools.compare import StepRecord


@dataclass(slots=True)
class StepRecording:
    """The request of `--record`, and the record of the last step.

    file   gets the record
    keep   patterns of the names of tensors whose whole values are kept
    """

    file: str
    keep: tuple[str, ...]
    record: StepRecord | None = field(default=None, init=False)

    def config(self, config: Config | None) -> Config:
        """Return the settings with which every node runs by itself."""
        from flowengine.tools.compare import plain_config

        return plain_config(config)

    async def step(
        self,
        session: Session,
        fetches: Sequence[str],
        feeds: Mapping[str, Any],
        targets: Sequence[str],
        *,
        number: int,
        timeout_seconds: float | None,
    ) -> Sequence[Any]:
        """Run and record the step of this number; return what it fetches."""
        from flowengine.tools.compare import record_step

        values, self.record = await record_step(
            session,
            fetches,
            feeds,
            targets=targets,
            keep=self.keep,
            value_bytes=0,
            steps=number,
            timeout_seconds=timeout_seconds,
        )
        return values

    def report(self) -> None:
        """Write the file; CommandError where it cannot be written."""
        if self.record is None:
            return
        from flowengine.tools.compare import write_record

        try:
            write_record(self.record, self.file)
        except OSError as error:
            raise CommandError(f"--record {self.file}: {error.strerror or error}", STEP_ERROR) from error
        lines = [f"recorded {len(self.record.tensors)} tensors of the last step in {self.file}"]
        if self.record.dropped:
            lines.append(f"{self.record.dropped} more tensors found no room")
        for line in lines:
            print(printable(line), file=sys.stderr, flush=True)


def step_recording(ctx: click.Context, *, force: bool, recovers: bool) -> StepRecording | None:
    """Return the request of `--record`; None without it.

    CommandError where steps cannot be recorded, or the file cannot be written.
    """
    file, keep = kept_option(ctx, "record"), kept_option(ctx, "record_values")
    if file is None:
        if keep:
            raise CommandError("--record-values needs --record FILE", USAGE)
        return None
    observing = [name for name in ("trace", "profile", "guard") if kept_option(ctx, name)]
    if observing or recovers:
        others = ", ".join(f"--{name}" for name in [*observing, *(["recover"] if recovers else [])])
        raise CommandError(f"--record goes without {others}: run the steps again for each", USAGE)
    if not file.endswith(".npz"):
        raise CommandError(f"--record {file}: the name must end in .npz", USAGE)
    check_new_file(file, force=force, option="--record")
    return StepRecording(file, tuple(keep))


__all__ = ["StepRecording", "step_recording"]
