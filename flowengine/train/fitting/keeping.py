"""Kept epochs: the number that decides which one is the best, and the place of its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from flowengine.core.errors import InvalidArgumentError
from flowengine.train.fitting.best import BestEpoch
from flowengine.train.fitting.epochs import VALIDATION, WATCHED
from flowengine.train.fitting.measures import Measures
from flowengine.train.hooks.checkpoints import Checkpoints
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.saveables import alike
from flowengine.train.saver import Saver

#: The part of the names of checkpoints that stands before the step.
_STEM: Final = "model.ckpt"


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """The options of `fit` about the best epoch; see there."""

    monitor: str | None
    best: Literal["lowest", "highest"] | None
    patience: int | None
    min_delta: float
    restore_best: bool | None
    directory: str | os.PathLike[str] | None

    @property
    def restores(self) -> bool:
        """Whether the variables get the values of the best epoch at the end."""
        return self.patience is not None if self.restore_best is None else self.restore_best

    def best_epoch(self, measures: Measures, *, has_validation: bool) -> BestEpoch | None:
        """Return the search for the best epoch; None if nothing asks for it.

        Raises InvalidArgumentError if no epoch measures the monitor, or if neither `best` nor its name tells
        whether its lowest or highest value is the best.
        """
        names = [*measures.names, *(f"{VALIDATION}{name}" for name in measures.names if has_validation)]
        monitor = self.monitor
        if monitor is None:
            asks = [
                name
                for name, is_given in (
                    ("patience", self.patience is not None),
                    ("best", self.best is not None),
                    ("restore_best", bool(self.restore_best)),
                )
                if is_given
            ]
            if not measures.fetches:
                if asks:
                    raise InvalidArgumentError(f"{asks[0]}= needs a number to watch: name it by monitor=")
                return None
            if not asks and self.directory is None:
                return None
            monitor = f"{VALIDATION if has_validation else ''}{next(iter(measures.fetches))}"
        if monitor not in names:
            listed = f"there are {', '.join(names)}" if names else "there are no fetches= and no metrics="
            raise InvalidArgumentError(
                f"monitor='{monitor}': no epoch measures that{alike(monitor, names)}; {listed}"
            )
        direction = self.best
        if direction is None:
            if monitor.removeprefix(VALIDATION) not in measures.fetches:
                raise InvalidArgumentError(
                    f"monitor='{monitor}' is a metric: say whether its best='highest' or best='lowest'"
                )
            direction = "lowest"
        return BestEpoch(
            monitor,
            direction,
            patience=self.patience,
            min_delta=self.min_delta,
            every=self.directory is not None,
        )

    def keeper(self, stack: ExitStack, best: BestEpoch | None) -> EpochKeeper | None:
        """Return the keeper of epochs' checkpoints; None if none is to be saved.

        A temporary folder ends with the stack.
        """
        if self.directory is not None:
            saver = Saver(max_to_keep=1, keep_best=int(best is not None), best=self.best or "lowest")
            metric = None if best is None else WATCHED
            return EpochKeeper(os.path.abspath(os.fspath(self.directory)), saver, metric, is_lasting=True)
        if best is None or not self.restores:
            return None
        folder = stack.enter_context(TemporaryDirectory(prefix="flowengine-fit-"))
        return EpochKeeper(folder, Saver(max_to_keep=1, sync=False), None, is_lasting=False)


class EpochKeeper:
    """Saves epochs into a folder.

    is_lasting   whether a loop goes on from there, by the hook `Checkpoints`
    metric       by which the saver keeps the best
    """

    def __init__(self, folder: str, saver: Saver, metric: str | None, *, is_lasting: bool) -> None:
        self.saver = saver
        self._folder = folder
        self._metric = metric
        self._is_lasting = is_lasting
        self._checkpoints: Checkpoints | None = None

    def hooks(self, epochs: Any) -> Sequence[Hook]:
        """Return the hooks that the loop needs for it; what `state_dict` of the epochs returns is saved."""
        if not self._is_lasting:
            return []
        self._checkpoints = Checkpoints(
            self._folder,
            every_seconds=float("inf"),  # each epoch saves
            saver=self.saver,
            state={"fit": epochs},
            metric=self._metric,
        )
        return [self._checkpoints]

    async def save(self, state: LoopState) -> None:
        """Save the model as it is. Cancelled, the checkpoint before stays the latest."""
        if self._checkpoints is not None:
            await self._checkpoints.save(state)
        else:
            await self.saver.save(state.session, os.path.join(self._folder, _STEM), global_step=state.step)

    def path_of(self, step: int) -> str:
        """Return the prefix of the checkpoint of so many steps."""
        return os.path.join(self._folder, f"{_STEM}-{step}")


__all__ = ["EpochKeeper", "KeepOptions"]
