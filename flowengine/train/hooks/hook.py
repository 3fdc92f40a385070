"""Hooks of a training loop: what happens before, beside and after its steps.

A hook is an object with the methods of `Hook`, each of which may do nothing. A loop calls its hooks in order,
and leaves their contexts in reverse order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.run_options import RunOptions
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.session import Session
from flowengine.train.hooks.step_values import FetchedValues, is_number, leaves, to_number
from flowengine.train.saveables import alike

_log: Final = logging.getLogger("flowengine.train")
#: Types that are not structures of several values.
_NUMBERS: Final = (float, int, np.generic, np.ndarray)


@dataclass(slots=True)
class LoopState:
    """The state of a training loop, which its hooks read and change.

    session   the session that runs the steps
    step      the number of steps of the model, those before a restart included
    values    the result of the last step
    metrics   {name: value} of the last evaluations
    stopped   the reason to end the loop, or empty
    targets   the nodes that each step runs for their effect; empty if a function runs the steps
    hooks     the loop's hooks, in their order
    fetched   the fetches of each step; None if a function runs the steps
    has_run   whether this loop has run a step
    options   the settings of the next step, which a hook may replace in `before_step`; they count for one
              step, and not at all if a function runs the steps
    metadata  is filled by the next step, if a hook sets it in `before_step`

    Methods raise InvalidArgumentError for a name that no step and no hook gives.

    >>> class StopBelow(fe.train.Hook):
    ...     async def begin(self, state):
    ...         state.expects("loss", "StopBelow")  # raises for a misspelt name
    ...     async def after_step(self, state):
    ...         print(state.step, list(state.numbers()), state.find("accuracy"), state.value("loss"))
    ...         assert state.settles("loss", "StopBelow")
    ...         if state.value("loss") < 2.0:
    ...             state.stop("the loss is small")
    >>> graph = fe.Graph()
    >>> loss = fe.square(graph.variable(2.0))
    >>> step = fe.optimizers.SGD(0.25).minimize(loss)
    >>> with fe.blocking.Session(graph) as session:
    ...     hooks = [StopBelow()]
    ...     fe.blocking.loop(session, step, fetches={"loss": loss}, hooks=hooks, quiet=True).reason
    1 ['loss'] None 4.0
    2 ['loss'] None 1.0
    'the loss is small'
    """

    session: Session
    step: int = 0
    values: Any = None
    metrics: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    targets: Sequence[str] = ()
    hooks: Sequence[Hook] = ()
    fetched: FetchedValues | None = None
    has_run: bool = False
    options: RunOptions = field(default_factory=RunOptions)
    metadata: RunMetadata | None = None

    def stop(self, reason: str) -> None:
        """End the loop after this step; the first `reason` counts."""
        self.stopped = self.stopped or reason

    def value(self, name: str) -> float:
        """Return a number by its name: of an evaluation, or of what the last step returned.

        name   the key of a dictionary; a path such as "losses/0" in a deeper structure; the name of a tensor
               that is fetched without a key

        Raises InvalidArgumentError if there is no such number, or if the value has several elements.
        """
        found = self.find(name)
        if found is None:
            known = [*self.metrics, *leaves(self.values)]
            raise InvalidArgumentError(f"no evaluation and no step has given '{name}'; there are {known}")
        if isinstance(found, float | np.floating):
            return float(found)
        if not is_number(found):
            raise InvalidArgumentError(
                f"'{name}' is no single number, but of shape {list(np.shape(found))}: fetch a scalar, such "
                "as fe.reduce_mean of it"
            )
        return to_number(found)

    def find(self, name: str) -> Any:
        """Return the newest value of this name, or None if no evaluation and no step has given one."""
        if name in self.metrics:
            return self.metrics[name]
        if type(self.values) is dict and isinstance(self.values.get(name), _NUMBERS):
            return self.values[name]
        fetched = None if self.fetched is None else self.fetched.find(name)
        return leaves(self.values).get(name if fetched is None else fetched.path)

    def numbers(self) -> dict[str, Any]:
        """Return {name: value} of what the last step returned and of the last evaluations, to be shown."""
        found: dict[str, Any] = {}
        for path, value in leaves(self.values).items():
            fetched = None if self.fetched is None else self.fetched.find(path)
            found[path if fetched is None else fetched.shown] = value
        return {name.removesuffix(":0") or "value": value for name, value in found.items()} | self.metrics

    def settles(self, name: str, hook: str) -> bool:
        """Return the result of `expects`; True if a function runs the steps, which may return it later."""
        return self.fetched is None or self.expects(name, hook)

    def expects(self, name: str, hook: str) -> bool:
        """Return whether a value of this name comes; False if that cannot be known yet.

        It is unknown before a function that runs the steps has run one, and before an `Evaluation` has run
        once. `hook` is the name of the hook that needs the value, for the message.

        Raises InvalidArgumentError if no step fetches the name and no hook gives it.
        """
        if name in self.metrics or self.find(name) is not None:
            return True
        given: list[str] = []
        is_certain = True
        for each in self.hooks:
            names = each.metric_names
            is_certain = is_certain and names is not None
            given += names or ()
        if name in given:
            return True
        if self.fetched is None:
            is_certain = is_certain and self.has_run
            known = [*given, *leaves(self.values)]
        else:
            known = [*given, *self.fetched.names()]
            if (fetched := self.fetched.find(name)) is not None:
                if not fetched.has_value:
                    raise InvalidArgumentError(
                        f"{hook}: '{name}' is fetched as the node '{fetched.name}', which has no value: "
                        f"fetch its output, '{fetched.name}:0'"
                    )
                return True
        if not is_certain:
            return False
        raise InvalidArgumentError(
            f"{hook}: no step fetches '{name}' and no hook sets it{alike(name, known)}; there are {known}. "
            f"Fetch it with fetches={{'{name}': ...}}, or add fe.train.Evaluation(..., name='{name}'); a "
            "hook of your own must list the names it sets in its `metric_names`"
        )


class Hook:
    """A base of hooks: the calls that a loop makes; here they do nothing.

    Each method is given the loop's `state`, a `LoopState`. An error that a method raises ends the loop, which
    raises it. A subclass that sets values in `LoopState.metrics` lists their names in `metric_names`. Other
    hooks then find a misspelt name before the first step.

    >>> class StopAtTen(fe.train.Hook):
    ...     async def after_step(self, state):
    ...         if state.step == 10:
    ...             state.stop("ten steps")
    >>> graph = fe.Graph()
    >>> w = graph.variable(0.0)
    >>> with fe.blocking.Session(graph) as session:
    ...     fe.blocking.loop(session, w.assign_add_op(1.0), hooks=[StopAtTen()], quiet=True).reason
    'ten steps'
    """

    #: The names that the hook sets in `LoopState.metrics`; None as long as they are not known.
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
    name          the name of a single number among the metrics, by default "evaluation". A loop whose
                  evaluations have names refuses other names before its first step

    Raises InvalidArgumentError if `evaluate` returns something else.

    >>> graph = fe.Graph()
    >>> w = graph.variable(0.0)
    >>> async def evaluate(session):
    ...     return await session.run(w)
    >>> hook = fe.train.Evaluation(evaluate, every_steps=5, name="weight")
    >>> with fe.blocking.Session(graph) as session:
    ...     fe.blocking.loop(session, w.assign_add_op(1.0), steps=10, hooks=[hook], quiet=True).metrics
    {'weight': 10.0}
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

    >>> graph = fe.Graph()
    >>> hook = fe.train.EarlyStopping("loss", patience=3)
    >>> with fe.blocking.Session(graph) as session:
    ...     fetches = {"loss": graph.constant(1.0)}
    ...     fe.blocking.loop(session, [], steps=100, fetches=fetches, hooks=[hook], quiet=True).steps
    4
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
        #: The best number so far, and the number of steps after which it was measured.
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

    every_steps   how many steps are between two reports
    names         of the numbers to report beside the step and steps a second; by default the metrics. A
                  number that has not come yet is left out; the loop raises InvalidArgumentError for one that
                  cannot come
    report        the function, called as `report(line)`

    >>> graph = fe.Graph()
    >>> lines = []
    >>> with fe.blocking.Session(graph) as session:
    ...     hooks = [fe.train.ProgressReports(every_steps=5, report=lines.append)]
    ...     result = fe.blocking.loop(session, [], steps=5, hooks=hooks, quiet=True)
    >>> lines[0]
    'step 5, ... steps/s'
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
