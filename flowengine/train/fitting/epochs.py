"""`Epochs`: the hook by which a loop over batches becomes epochs with validation."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.session import Session
from flowengine.train.fitting.batches import Batch, BatchSource
from flowengine.train.fitting.best import BestEpoch
from flowengine.train.fitting.history import TrainingHistory
from flowengine.train.fitting.measures import Measures
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.progress.loop_progress import LoopProgress

_log: Final = logging.getLogger("flowengine.train")

#: Before the names of validation, as Keras has it.
VALIDATION: Final = "val_"
#: Before the mean of a number by epoch, among the metrics of a loop: its own name is that of the step's.
MEAN: Final = "epoch_"
#: The number that says which epoch is the best, as long as an epoch is saved. A checkpoint within an epoch,
#: where a hook has ended the training, has none.
WATCHED: Final = "fit_monitor"


@dataclass(slots=True)
class FedBatches:
    """Batches, and what goes with each of them.

    feeds   {placeholder or name: value of every batch, or a function of the epoch that returns it}
    """

    batches: BatchSource
    feeds: Mapping[Any, Any] = field(default_factory=dict)

    def of_epoch(self, epoch: int) -> dict[Any, Any]:
        """Return the feeds that all batches of an epoch share."""
        return {key: value(epoch) if callable(value) else value for key, value in self.feeds.items()}


class Epochs(Hook):
    """Divides a loop into epochs. It gives the batches that the loop feeds, and keeps the history.

    It has `state_dict` and `load_state_dict`, so that a checkpoint at an epoch's end knows the epoch.
    """

    def __init__(
        self,
        training: FedBatches,
        validation: FedBatches | None,
        measures: Measures,
        *,
        epochs: int,
        best: BestEpoch | None,
        save: Callable[[LoopState], Awaitable[Any]] | None,
        allow_nan: bool,
        quiet: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._training = training
        self._validation = validation
        self._measures = measures
        self._epochs = epochs
        self._best = best
        self._save = save
        self._allow_nan = allow_nan
        self._clock = clock
        self._progress = LoopProgress(quiet=quiet, clock=clock)
        self._pending: Batch | None = None
        self._feeds: dict[Any, Any] = {}
        self._began = 0.0
        self._rows = 0
        #: How many steps the model had made at the end of each epoch.
        self._steps: list[int] = []
        self.history = TrainingHistory(monitor=None if best is None else best.name)
        self.metric_names = [
            *(f"{MEAN}{name}" for name in measures.fetches),
            *(name for name in measures.names if name not in measures.fetches),
            *(f"{VALIDATION}{name}" for name in measures.names if validation is not None),
            WATCHED,
        ]

    # -- the feeds of the loop -----------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[dict[Any, Any]]:
        return self

    async def __anext__(self) -> dict[Any, Any]:
        batch, self._pending = self._pending, None
        assert batch is not None, "an epoch begins before its first step"
        self._rows = batch.rows
        return self._feeds | batch.feed

    # -- the hook -----------------------------------------------------------------------------------

    def around(self, state: LoopState) -> AbstractAsyncContextManager[Any]:
        return self._around()

    @asynccontextmanager
    async def _around(self) -> AsyncIterator[None]:
        with self._progress:
            try:
                yield
            finally:
                await self._training.batches.close()
                if self._validation is not None:
                    await self._validation.batches.close()

    async def begin(self, state: LoopState) -> None:
        if state.step and not len(self.history):
            # `flowengine run`, TensorFlow or another loop has saved it, and they do not count epochs.
            _log.warning("the checkpoint of step %d knows of no epochs: the first begins there", state.step)
        remaining = self._epochs - len(self.history)
        count = self._training.batches.count
        total = None if count is None else state.step + count * max(remaining, 0)
        self._progress.begin(state.step, total)
        await self._begin_epoch(state)

    async def after_step(self, state: LoopState) -> None:
        epoch = len(self.history)
        when = "" if self._allow_nan else f"after step {state.step}, in epoch {epoch + 1}"
        self._measures.add(state.values, self._rows, when)
        self._pending = await self._training.batches.following()
        if self._pending is None:
            await self._end_epoch(state)
        self._progress.advance(state.step, self._numbers)
        if self._pending is None and not state.stopped:
            await self._begin_epoch(state)

    async def _begin_epoch(self, state: LoopState) -> None:
        epoch = len(self.history)
        if epoch >= self._epochs:
            state.stop("epochs")
            return
        if self._best is not None and (reason := self._best.reason_to_stop):
            state.stop(reason)  # a run that had stopped is started anew
            return
        self._began = self._clock()
        self._progress.label = f"epoch {epoch + 1}/{self._epochs}"
        self._feeds = self._training.of_epoch(epoch)
        batches = self._training.batches
        await batches.begin(epoch)
        self._pending = await _first(batches, epoch)
        await self._measures.begin(state.session)

    async def _end_epoch(self, state: LoopState) -> None:
        epoch = len(self.history)
        found = await self._measures.end(state.session)
        if self._validation is not None:
            validated = await self._validate(state.session, self._validation, epoch)
            found |= {f"{VALIDATION}{name}": value for name, value in validated.items()}
        for name, value in found.items():
            self.history.numbers.setdefault(name, []).append(value)
            state.metrics[f"{MEAN}{name}" if name in self._measures.fetches else name] = value
        self.history.seconds.append(self._clock() - self._began)
        self.history.steps = state.step
        self._steps.append(state.step)
        if self._best is not None:
            self._best.look(found[self._best.name], epoch, state.step)
            state.metrics[WATCHED] = found[self._best.name]
        if self._save is not None and (self._best is None or self._best.keeps(epoch)):
            await self._save(state)
        state.metrics.pop(WATCHED, None)
        if len(self.history) >= self._epochs:
            state.stop("epochs")
        elif self._best is not None and (reason := self._best.reason_to_stop):
            state.stop(reason)

    async def _validate(self, session: Session, validation: FedBatches, epoch: int) -> dict[str, float]:
        """Go through the validation data, and return the numbers. The graph's variables but metrics stay."""
        measures, batches = self._measures, validation.batches
        feeds = validation.of_epoch(epoch)
        when = "" if self._allow_nan else f"in the validation of epoch {epoch + 1}"
        await measures.begin(session)
        await batches.begin(epoch)
        batch: Batch | None = await _first(batches, epoch)
        while batch is not None:
            values = await session.run(measures.fetches, feeds | batch.feed, targets=measures.updates)
            measures.add(values, batch.rows, when)
            batch = await batches.following()
        return await measures.end(session)

    def _numbers(self) -> dict[str, float]:
        """Return the numbers that progress shows: means of the epoch so far, and the last other numbers."""
        last = {name: values[-1] for name, values in self.history.numbers.items()}
        # At an epoch's end the measures are those of its validation.
        return (
            last
            if self._pending is None
            else self._measures.means()
            | {name: value for name, value in last.items() if name not in self._measures.fetches}
        )

    # -- checkpoints --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return its state for a checkpoint."""
        return {
            "numbers": {name: list(values) for name, values in self.history.numbers.items()},
            "seconds": list(self.history.seconds),
            "steps": list(self._steps),
            "best": None if self._best is None else self._best.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the epochs that a checkpoint has."""
        names = self._measures.names
        wanted = [*names, *(f"{VALIDATION}{name}" for name in names if self._validation is not None)]
        found = list(state["numbers"])
        if state["seconds"] and found != wanted:
            raise InvalidArgumentError(
                f"the checkpoint's epochs have the numbers {found}, and this training has {wanted}: name the "
                "same fetches=, metrics= and validation data, or another directory="
            )
        self.history.numbers = {name: list(values) for name, values in state["numbers"].items()}
        self.history.seconds = list(state["seconds"])
        self._steps = list(state["steps"])
        self.history.steps = self._steps[-1] if self._steps else 0
        if self._best is not None and state["best"] is not None and self._steps:
            watched = self.history.numbers[self._best.name]
            self._best.load_state_dict(state["best"], zip(watched, self._steps, strict=True))


async def _first(batches: BatchSource, epoch: int) -> Batch:
    batch = await batches.following()
    if batch is None:
        raise InvalidArgumentError(
            f"{batches.what} gave no batch in epoch {epoch + 1}: the dataset had no element. If a generator "
            "makes them, it has to make them anew for each epoch"
        )
    return batch


__all__ = ["MEAN", "VALIDATION", "WATCHED", "Epochs", "FedBatches"]
