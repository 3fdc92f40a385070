"""`StopAtNaN`: the hook that ends a training loop when a number is infinite or no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.hooks.step_values import FetchedValue, can_be_nan, is_floating, leaves


class StopAtNaN(Hook):
    """Ends a loop with an error when a number of its step is infinite or NaN.

    names   of the values to check: see `LoopState.value`. They may be arrays, or structures of them. Without
            names, all floating-point and complex values that the steps return are checked

    The loop raises InvalidArgumentError, with the value's name and the step, after the step that returned it;
    and before the first step if there is nothing to check: a name that no step fetches and no hook gives, or
    no floating-point value at all. If a function makes the steps, only the first step can show that.

    >>> graph = fe.Graph()
    >>> loss = fe.log(graph.constant(0.0))
    >>> with fe.blocking.Session(graph) as session:
    ...     hooks = [fe.train.StopAtNaN()]
    ...     fe.blocking.loop(session, [], steps=5, fetches={"loss": loss}, hooks=hooks, quiet=True)
    Traceback (most recent call last):
    flowengine.core.errors.InvalidArgumentError: ...
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        #: Whether the values of a function's first step are still to be looked at.
        self._is_new = True

    async def begin(self, state: LoopState) -> None:
        self._is_new = True
        for name in self._names:
            self._expect(state, name)
        if state.fetched is None or self._names:
            return
        if not any(map(can_be_nan, state.fetched.values)):
            raise _nothing_to_check(state.fetched.names())

    async def after_step(self, state: LoopState) -> None:
        values = leaves(state.values)
        if not self._names:
            if self._is_new and state.fetched is None and not any(map(is_floating, values.values())):
                raise _nothing_to_check(list(values))
            self._is_new = False
            self._check(state, values)
        for name in self._names:
            found = self._found(state, name, values)
            if not found:
                self._expect(state, name)
            self._check(state, found)

    @staticmethod
    def _expect(state: LoopState, name: str) -> None:
        if state.fetched is not None and (below := state.fetched.below(name)):
            if not any(map(can_be_nan, below)):
                raise InvalidArgumentError(
                    f"StopAtNaN('{name}') would check nothing: '{name}' is "
                    f"{', '.join(sorted({_kind(each) for each in below}))}, not floating-point"
                )
            return
        state.expects(name, "StopAtNaN")

    @staticmethod
    def _found(state: LoopState, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a name: one, or all in a structure."""
        found = state.find(name)
        if found is not None:
            return {name: found}
        return {path: value for path, value in values.items() if path.startswith(f"{name}/")}

    @staticmethod
    def _check(state: LoopState, values: dict[str, Any]) -> None:
        for path, value in values.items():
            # The common value is a scalar, for which NumPy takes ten times as long.
            if isinstance(value, float | np.floating) and math.isfinite(value):
                continue
            if not is_floating(value):
                continue
            finite = np.isfinite(value)
            if not np.all(finite):
                raise InvalidArgumentError(
                    f"{_described(state, path)} {_fault(np.asarray(value), np.asarray(finite))} after step "
                    f"{state.step}: lower the rate, or clip gradients"
                )


def _nothing_to_check(names: Sequence[str]) -> InvalidArgumentError:
    found = f"the steps return only {', '.join(map(repr, names))}" if names else "the steps return no value"
    return InvalidArgumentError(
        f"StopAtNaN(): there is no floating-point value to check: {found}. Fetch the tensor to check, such "
        "as fetches={'loss': loss}"
    )


def _kind(fetched: FetchedValue) -> str:
    return "a node without a value" if fetched.dtype is None else fetched.dtype.name


def _described(state: LoopState, path: str) -> str:
    """A value as a message names it."""
    fetched = None if state.fetched is None else state.fetched.find(path)
    name = path if fetched is None else fetched.shown
    return f"'{name}'" if name else "the value"


def _fault(value: Any, finite: Any) -> str:
    """Describe what is not finite: the number, or how many elements and the place of the first."""
    if not value.shape:
        return f"is {value}"
    first = np.argwhere(~finite)[0].tolist()
    count = int(finite.size - np.count_nonzero(finite))
    return f"has {count} of {finite.size} elements that are not finite, as {value[tuple(first)]} at {first},"


__all__ = ["StopAtNaN"]
