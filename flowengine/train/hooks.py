"""Hooks of a training loop: what happens before, beside and after its steps.

A hook is an object with the methods of `Hook`, each of which may do nothing. The hooks of a loop are asked in
their order, and left in the opposite one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.session import Session

_log: Final = logging.getLogger("flowengine.train")


@dataclass(slots=True)
class LoopState:
    """How a loop stands, for its hooks.

    session   whose steps they are
    step      how many steps the model has made, those before a restart included
    values    what the last step returned
    metrics   {name: value} of the last evaluations
    stopped   why the loop is to end, or empty
    """

    session: Session
    step: int = 0
    values: Any = None
    metrics: dict[str, float] = field(default_factory=dict)
    stopped: str = ""

    def stop(self, reason: str) -> None:
        """Let the loop end after this step; the first reason counts."""
        self.stopped = self.stopped or reason

    def value(self, name: str) -> float:
        """A number by its name: of an evaluation, or of what the last step returned.

        Raises InvalidArgumentError where there is none.
        """
        if name in self.metrics:
            return self.metrics[name]
        if isinstance(self.values, dict) and name in self.values:
            return float(self.values[name])
        known = [*self.metrics, *(self.values if isinstance(self.values, dict) else ())]
        raise InvalidArgumentError(f"no evaluation and no step has given '{name}'; there are {known}")


class Hook:
    """What a loop asks its hooks to do; here nothing."""

    def around(self, state: LoopState) -> AbstractAsyncContextManager[Any]:
        """What surrounds all of the loop: entered before variables are initialised, left however it ends."""
        return nullcontext()

    async def begin(self, state: LoopState) -> None:
        """Before the first step, when all variables have their values."""

    async def before_step(self, state: LoopState) -> None:
        """Before a step: `state.step` were made."""

    async def after_step(self, state: LoopState) -> None:
        """After a step: `state.step` were made, this one included."""

    async def end(self, state: LoopState) -> None:
        """After the last step; not where an error or a cancellation ends the loop."""


class Evaluation(Hook):
    """Evaluates a model every so many steps, and at the end.

    evaluate      `await evaluate(session)` returns a number, or {name: number}
    every_steps   how often
    name          what a number alone is called among the loop's metrics
    """

    def __init__(
        self, evaluate: Callable[[Session], Awaitable[Any]], *, every_steps: int, name: str = "evaluation"
    ) -> None:
        self._evaluate = evaluate
        self._every = _positive(every_steps, "every_steps")
        self._name = name
        self._last = -1

    async def after_step(self, state: LoopState) -> None:
        if state.step % self._every == 0:
            await self._run(state)

    async def end(self, state: LoopState) -> None:
        if self._last != state.step:
            await self._run(state)

    async def _run(self, state: LoopState) -> None:
        found = await self._evaluate(state.session)
        named = found if isinstance(found, dict) else {self._name: found}
        state.metrics.update({name: float(value) for name, value in named.items()})
        self._last = state.step


class EarlyStopping(Hook):
    """Ends a loop when a number has not become better for so long.

    name       of the number: see `LoopState.value`. It stands after the hook that gives it
    patience   so many looks without a better one
    best       whether the "lowest" or the "highest" is best
    min_delta  by how much better it must be to count
    """

    def __init__(
        self,
        name: str,
        *,
        patience: int,
        best: Literal["lowest", "highest"] = "lowest",
        min_delta: float = 0.0,
        every_steps: int = 1,
    ) -> None:
        if best not in ("lowest", "highest"):
            raise InvalidArgumentError(f"best is 'lowest' or 'highest', not {best!r}")
        self._name = name
        self._patience = _positive(patience, "patience")
        self._sign = 1.0 if best == "lowest" else -1.0
        self._min_delta = min_delta
        self._every = _positive(every_steps, "every_steps")
        self._waited = 0
        #: The best number so far, and after how many steps it came.
        self.best = math.inf * self._sign
        self.best_step = 0

    async def after_step(self, state: LoopState) -> None:
        if state.step % self._every or (self._name not in state.metrics and not _has(state, self._name)):
            return
        value = state.value(self._name)
        if self._sign * (self.best - value) > self._min_delta:
            self.best, self.best_step, self._waited = value, state.step, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            state.stop(f"'{self._name}' has not been better than {self.best:.6g} since step {self.best_step}")


class ProgressReports(Hook):
    """Tells every so many steps how the loop stands: to a function of one line of text, or the log.

    names   of the numbers to tell beside the step and steps a second; by default the metrics
    """

    def __init__(
        self, *, every_steps: int = 100, names: tuple[str, ...] = (), report: Callable[[str], Any] = _log.info
    ) -> None:
        self._every = _positive(every_steps, "every_steps")
        self._names = names
        self._report = report
        self._began = 0.0
        self._step = 0

    async def begin(self, state: LoopState) -> None:
        self._began, self._step = trio.current_time(), state.step

    async def after_step(self, state: LoopState) -> None:
        if state.step % self._every:
            return
        now = trio.current_time()
        rate = (state.step - self._step) / max(now - self._began, 1e-9)
        self._began, self._step = now, state.step
        numbers = [f"{name} {state.value(name):.6g}" for name in self._names or state.metrics]
        self._report(", ".join([f"step {state.step}", *numbers, f"{rate:.1f} steps/s"]))


class StopAtNaN(Hook):
    """Ends a loop with an error when a number of its step is not finite.

    names   of the numbers: see `LoopState.value`
    """

    def __init__(self, *names: str) -> None:
        self._names = names

    async def after_step(self, state: LoopState) -> None:
        for name in self._names:
            value = state.value(name)
            if not np.isfinite(value):
                raise InvalidArgumentError(
                    f"'{name}' is {value} after step {state.step}: lower the rate, or clip gradients"
                )


def _has(state: LoopState, name: str) -> bool:
    return isinstance(state.values, dict) and name in state.values


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise InvalidArgumentError(f"{name} is at least 1, not {value}")
    return value


__all__ = ["EarlyStopping", "Evaluation", "Hook", "LoopState", "ProgressReports", "StopAtNaN"]
