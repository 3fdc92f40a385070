"""Hooks of a training loop: what happens before, beside and after its steps.

A hook is an object with the methods of `Hook`, each of which may do nothing. The hooks of a loop are asked in
their order, and left in the opposite one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Literal

import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.session import Session
from flowengine.train.hooks.loop_state import LoopState
from flowengine.train.hooks.step_values import is_number, to_number

_log: Final = logging.getLogger("flowengine.train")


class Hook:
    """A base of hooks: the calls that a loop makes; here they do nothing.

    A subclass that sets values in `LoopState.metrics` lists their names in `metric_names`. Other hooks then
    find a misspelt name before the first step.
    """

    #: The names that the hook sets in `LoopState.metrics`; None as long as it does not know them.
    metric_names: Collection[str] | None = ()

    def around(self, state: LoopState) -> AbstractAsyncContextManager[Any]:
        """Return a context around the whole loop: entered before initialization, left however it ends."""
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

    evaluate      `await evaluate(session)` returns a number, or {name: number, ...}
    every_steps   how often
    name          what a number alone is called among the metrics, by default "evaluation". A loop whose
                  evaluations have names refuses other names before its first step

    Raises InvalidArgumentError if `evaluate` returns something else.
    """

    def __init__(
        self, evaluate: Callable[[Session], Awaitable[Any]], *, every_steps: int, name: str | None = None
    ) -> None:
        self._evaluate = evaluate
        self._every = _positive(every_steps, "every_steps")
        self._name = "evaluation" if name is None else name
        self._last = -1
        self.metric_names = None if name is None else (name,)

    async def after_step(self, state: LoopState) -> None:
        if state.step % self._every == 0:
            await self._run(state)

    async def end(self, state: LoopState) -> None:
        if self._last != state.step:
            await self._run(state)

    async def _run(self, state: LoopState) -> None:
        found = await self._evaluate(state.session)
        named = found if isinstance(found, dict) else {self._name: found}
        for name, value in named.items():
            if not is_number(value):
                raise InvalidArgumentError(
                    f"the evaluation function returned {value!r} for '{name}': it must return a number, or "
                    "{name: number, ...}"
                )
            state.metrics[name] = to_number(value)
        self.metric_names = tuple(named)
        self._last = state.step


class EarlyStopping(Hook):
    """Ends a loop when a number has not become better for so long.

    name       of the number: see `LoopState.value`. It stands after the hook that gives it
    patience   so many looks without a better one
    best       whether the "lowest" or the "highest" is best
    min_delta  by how much better it must be to count
    every_steps   how many steps are between two looks

    The loop raises InvalidArgumentError before its first step if no step fetches the number and no hook gives
    it; later if only the first step or evaluation can show that, and after `patience` looks if a function
    makes the steps and has never returned it.
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
        self._missed = 0
        self._has_come = self._is_checked = self._is_settled = False
        #: The best number so far, and after how many steps it came.
        self.best = math.inf * self._sign
        self.best_step = 0

    async def begin(self, state: LoopState) -> None:
        self._missed, self._has_come, self._is_checked = 0, False, False
        self._is_settled = state.expects(self._name, self._shown)

    async def after_step(self, state: LoopState) -> None:
        if not self._is_settled:
            self._is_settled = state.settles(self._name, self._shown)
        is_look = state.step % self._every == 0
        if not is_look and self._is_checked:
            return
        if state.find(self._name) is None:
            if is_look:
                self._miss(state)
            return
        # A value that is no number is an error of the step that first returns it, not of a later look.
        value = state.value(self._name)
        self._has_come = self._is_checked = True
        if not is_look:
            return
        if self._sign * (self.best - value) > self._min_delta:
            self.best, self.best_step, self._waited = value, state.step, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            state.stop(f"'{self._name}' has not been better than {self.best:.6g} since step {self.best_step}")

    async def end(self, state: LoopState) -> None:
        if not self._has_come and state.has_run and state.find(self._name) is None:
            _log.warning("%s has looked at nothing: '%s' has never come", self._shown, self._name)

    @property
    def _shown(self) -> str:
        return f"EarlyStopping('{self._name}')"

    def _miss(self, state: LoopState) -> None:
        """Look in vain. InvalidArgumentError if the number cannot come, or a step could have returned it."""
        if state.fetched is None and not self._has_come and _has_evaluated(state):
            # A function may return another value each time, but not never.
            self._missed += 1
            if self._missed < self._patience:
                return
        if not self._has_come:
            state.expects(self._name, self._shown)


class ProgressReports(Hook):
    """Reports every so many steps how the loop stands: to a function of one line of text, or the log.

    names   of the numbers to report beside the step and steps a second; by default the metrics. A number
            that has not come yet is left out; the loop raises InvalidArgumentError for one that cannot come
    """

    def __init__(
        self, *, every_steps: int = 100, names: tuple[str, ...] = (), report: Callable[[str], Any] = _log.info
    ) -> None:
        self._every = _positive(every_steps, "every_steps")
        self._names = names
        self._report = report
        self._began = 0.0
        self._step = 0
        self._unsettled: list[str] = []

    async def begin(self, state: LoopState) -> None:
        self._began, self._step = trio.current_time(), state.step
        self._unsettled = [name for name in self._names if not state.expects(name, "ProgressReports")]

    async def after_step(self, state: LoopState) -> None:
        if self._unsettled:
            self._unsettled = [each for each in self._unsettled if not state.settles(each, "ProgressReports")]
        if state.step % self._every:
            return
        now = trio.current_time()
        rate = (state.step - self._step) / max(now - self._began, 1e-9)
        self._began, self._step = now, state.step
        come = [name for name in self._names or state.metrics if self._has_come(state, name)]
        numbers = [f"{name} {state.value(name):.6g}" for name in come]
        self._report(", ".join([f"step {state.step}", *numbers, f"{rate:.1f} steps/s"]))

    @staticmethod
    def _has_come(state: LoopState, name: str) -> bool:
        if state.find(name) is not None:
            return True
        state.expects(name, "ProgressReports")
        return False


def _has_evaluated(state: LoopState) -> bool:
    """Whether all hooks know which metrics they set."""
    return all(each.metric_names is not None for each in state.hooks)


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise InvalidArgumentError(f"{name} is at least 1, not {value}")
    return value


__all__ = ["EarlyStopping", "Evaluation", "Hook", "ProgressReports"]
