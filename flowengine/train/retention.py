"""The choice of checkpoints to keep: the newest, the best, and one in each interval of hours."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowengine.checkpoint.files import DISK, FileLayer, replace_file
from flowengine.core.errors import DataLossError, InvalidArgumentError

#: The end of the name of the file with the metric of each kept checkpoint, beside the state file.
METRICS_SUFFIX: Final = ".metrics.json"

Direction = Literal["lowest", "highest"]


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """An existing checkpoint. `saved_at`: seconds since the epoch; `metric`: its score, if known."""

    prefix: str
    saved_at: float
    metric: float | None = None


class Retention:
    """Decides what to drop; touches no file.

    newest        so many of the newest stay; 0 for all
    every_hours   of those to be dropped, one every so many hours stays for ever; None for none
    best          so many of those with the best metric stay, beside the newest
    direction     whether the lowest or the highest metric is the best
    started       when the first of the periods of `every_hours` began

    Raises InvalidArgumentError for numbers that make no sense.
    """

    def __init__(
        self,
        newest: int,
        every_hours: float | None,
        best: int,
        direction: Direction,
        started: float,
    ) -> None:
        if newest < 0 or best < 0:
            raise InvalidArgumentError(f"max_to_keep={newest} and keep_best={best} must not be negative")
        if every_hours is not None and not every_hours > 0:
            raise InvalidArgumentError(f"keep_checkpoint_every_n_hours={every_hours} must be positive")
        if direction not in ("lowest", "highest"):
            raise InvalidArgumentError(f"best={direction!r}: write 'lowest' or 'highest'")
        self.newest = newest
        self.every_hours = every_hours
        self.best = best
        self.direction = direction
        self._period = None if every_hours is None else every_hours * 3600
        self._next = math.inf if self._period is None else started + self._period
        #: The checkpoints that are kept and may still be dropped, the oldest first.
        self.kept: list[KeptCheckpoint] = []

    def add(self, new: KeptCheckpoint) -> list[str]:
        """Take up a new checkpoint; the prefixes of those that are to go."""
        self.kept = [each for each in self.kept if each.prefix != new.prefix]
        self.kept.append(new)
        if not self.newest:
            return []
        staying = {each.prefix for each in (*self.kept[-self.newest :], *self.ranked()[: self.best])}
        dropped = []
        for each in self.kept:
            if each.prefix in staying:
                continue
            if each.saved_at > self._next:
                assert self._period is not None
                self._next += self._period
            else:
                dropped.append(each.prefix)
        self.kept = [each for each in self.kept if each.prefix in staying]
        return dropped

    def ranked(self) -> list[KeptCheckpoint]:
        """Those with a metric, the best first; of equal ones the newer first; NaN is never good."""
        scored = [each for each in reversed(self.kept) if each.metric is not None]
        sign = 1 if self.direction == "lowest" else -1

        def rank(each: KeptCheckpoint) -> tuple[bool, float]:
            metric = each.metric
            assert metric is not None
            return math.isnan(metric), 0.0 if math.isnan(metric) else sign * metric

        return sorted(scored, key=rank)

    def recover(
        self, prefixes: Sequence[str], metrics: dict[str, float], clock: Callable[[str], float]
    ) -> None:
        """Go on with checkpoints that an earlier run has left, the oldest first.

        clock   when each was saved
        """
        self.kept = [KeptCheckpoint(prefix, clock(prefix), metrics.get(prefix)) for prefix in prefixes]


def read_metrics(folder: str, name: str) -> dict[str, float]:
    """{prefix: metric} as they were kept beside a state file; DataLossError where it cannot be read."""
    path = os.path.join(folder, name + METRICS_SUFFIX)
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
        return {os.path.join(folder, key): float(value) for key, value in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise DataLossError(f"{path}: no list of metrics: {error}") from None


def write_metrics(
    folder: str, name: str, kept: Sequence[KeptCheckpoint], *, sync: bool = True, files: FileLayer = DISK
) -> None:
    """Keep the metrics of these checkpoints beside the state file."""
    scores = {
        os.path.relpath(each.prefix, folder or "."): each.metric for each in kept if each.metric is not None
    }
    replace_file(
        os.path.join(folder, name + METRICS_SUFFIX),
        json.dumps(scores, indent=1, sort_keys=True).encode() + b"\n",
        sync=sync,
        files=files,
    )
