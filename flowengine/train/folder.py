"""The folders that a saver writes to: state file, metrics, MetaGraphDefs, and what is removed when.

The order matters. The state file names a checkpoint when that is complete, and no longer names one before
it is removed: whatever a crash interrupts, the state file's latest checkpoint is whole.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable
from typing import Final

from flowengine.checkpoint.files import FileLayer, index_path, remove_checkpoint, replace_file
from flowengine.checkpoint.state import exists, read_state, write_state
from flowengine.train.retention import (
    METRICS_SUFFIX,
    Direction,
    KeptCheckpoint,
    Retention,
    read_metrics,
    write_metrics,
)

_log: Final = logging.getLogger("flowengine.train")


class CheckpointFolders:
    """The bookkeeping of checkpoint folders besides writing; the arguments are those of `Saver`.

    The methods may run on any thread, one at a time.
    """

    def __init__(
        self,
        max_to_keep: int,
        every_hours: float | None,
        keep_best: int,
        best: Direction,
        *,
        relative_paths: bool,
        state_name: str,
        files: FileLayer,
        clock: Callable[[], float],
    ) -> None:
        self._make: Callable[[], Retention] = lambda: Retention(
            max_to_keep, every_hours, keep_best, best, clock()
        )
        #: {folder: the checkpoints that are kept there}
        self._retentions: dict[str, Retention] = {}
        #: The folder of the newest save or restore.
        self._folder: str | None = None
        #: Made here so that the constructor raises for invalid arguments.
        self.limits = self._make()
        self.state_name = state_name
        self.files = files
        self._relative = relative_paths
        self._clock = clock
        #: Paths without step whose leftovers have been removed.
        self._tidied: set[str] = set()

    def commit(self, prefix: str, metric: float | None, meta_graph: bytes | None, *, sync: bool) -> None:
        """Record a complete checkpoint in the state file, then remove those that need not stay."""
        folder = os.path.dirname(prefix)
        retention = self._retention_of(folder)
        if meta_graph is not None:
            replace_file(f"{prefix}.meta", meta_graph, sync=sync, files=self.files)
        dropped = retention.add(KeptCheckpoint(prefix, self._clock(), metric))
        kept = retention.kept
        if any(each.metric is not None for each in kept) or os.path.exists(
            os.path.join(folder, self.state_name + METRICS_SUFFIX)
        ):
            write_metrics(folder, self.state_name, kept, sync=sync, files=self.files)
        # If all checkpoints are kept, the state file names the latest only, as in TensorFlow.
        named = [each.prefix for each in kept] if retention.newest else [prefix]
        write_state(folder, named, name=self.state_name, relative=self._relative, sync=sync, files=self.files)
        for old in dropped:
            try:
                remove_checkpoint(old, files=self.files)
            except OSError as error:
                _log.warning("cannot remove the old checkpoint %s: %s", old, error)

    @property
    def kept(self) -> Retention | None:
        """Of the folder of the newest save or restore."""
        return None if self._folder is None else self._retentions.get(self._folder)

    def recover(self, prefix: str) -> None:
        """After a restore, count the checkpoints that an earlier run has kept in the folder as kept ones.

        Only this folder counts, so a program that restores from one folder and saves to another removes
        nothing from the first one. Checkpoints that are newer than the restored one count, too.
        """
        folder = os.path.dirname(prefix)
        state = read_state(folder, self.state_name)
        key = self._folder = os.path.abspath(folder)
        if state is None or key in self._retentions:
            return
        present = [each for each in dict.fromkeys(state.all) if exists(each)]
        if os.path.abspath(prefix) in {os.path.abspath(each) for each in present}:
            self._retention_of(folder).recover(present, read_metrics(folder, self.state_name), _saved_at)

    def _retention_of(self, folder: str) -> Retention:
        key = self._folder = os.path.abspath(folder)
        return self._retentions.setdefault(key, self._make())

    def tidy(self, prefix: str, *, again: bool = False) -> None:
        """Remove what a process that was killed has left of checkpoints under this path, once or `again`."""
        stem = re.sub(r"-\d+\Z", "", prefix)
        if stem in self._tidied and not again:
            return
        self._tidied.add(stem)
        folder, base = os.path.split(stem)
        left = re.compile(
            re.escape(base) + r"(-\d+)?(\.data-\d+-of-\d+|\.index|\.meta|\.run)?\.tempstate\d+"
            rf"|{re.escape(self.state_name)}({re.escape(METRICS_SUFFIX)})?\.tempstate\d+"
        )
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or "."):
                if left.fullmatch(name):
                    self.files.remove(os.path.join(folder, name))


def _saved_at(prefix: str) -> float:
    for path in (index_path(prefix), prefix):
        with contextlib.suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0
