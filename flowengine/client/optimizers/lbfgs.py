"""L-BFGS as a driver: it asks a graph for a loss and its gradients, and sets the variables, from outside.

    result = await fe.optimizers.lbfgs(session, loss, feeds={x: inputs, y: labels})

For few variables and the whole of the data. Nocedal, Wright: Numerical Optimization, algorithms 7.4 (two-loop
recursion) and 3.5 (line search for the strong Wolfe conditions).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.client.optimizers.optimizer import parts_of
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.sessions.calls import takes_session
from flowengine.gradients.differentiate import gradients
from flowengine.gradients.values import Gradient, IndexedSlices, dense
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.variable import GraphVariable
from flowengine.session import Session

#: Of the Wolfe conditions: how much the loss must fall, and how flat it must have become.
_FALL: Final = 1e-4
_FLATTEN: Final = 0.9
#: The largest number of losses that a line search computes.
_TRIES: Final = 25


@dataclass(frozen=True, slots=True)
class LBFGSResult:
    """The result of L-BFGS.

    loss          the loss at the end
    gradient      the largest element of its gradient, by absolute value
    steps         the number of directions that were searched
    evaluations   the number of evaluations of the loss and its gradients
    reason        why it ended: "gradient", "loss", "steps", or "line search" if no lower loss was found

    >>> graph = fe.Graph()
    >>> loss = fe.reduce_sum(fe.square(graph.variable([4.0, -2.0])))
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     session.call(fe.optimizers.lbfgs, loss).reason
    'gradient'
    """

    loss: float
    gradient: float
    steps: int
    evaluations: int
    reason: str


@takes_session(is_awaited_only=True)
async def lbfgs(
    session: Session,
    loss: Tensor,
    *,
    variables: Iterable[Any] | None = None,
    feeds: Mapping[Any, Any] | None = None,
    steps: int = 100,
    memory: int = 10,
    gradient_tolerance: float = 1e-6,
    loss_tolerance: float = 1e-12,
) -> LBFGSResult:
    """Minimize a loss with L-BFGS, and leave the variables at the minimum that it finds.

    loss        a () tensor of floats
    variables   by default the graph's collection "trainable_variables"; all must have values
    feeds       of every evaluation
    steps       the largest number of directions
    memory      the number of past changes of variables and gradient that a direction is computed from
    gradient_tolerance   it ends when no element of the gradient is larger
    loss_tolerance       it ends when the relative decrease of the loss is no larger

    It adds the nodes that it needs to the graph. If it is cancelled, the variables keep the values that it
    tried last. Raises InvalidArgumentError for invalid numbers, and if there is no variable to change.

    >>> graph = fe.Graph()
    >>> w = graph.variable([4.0, -2.0], name="w")
    >>> loss = fe.reduce_sum(fe.square(w - 1.0))
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         result = await fe.optimizers.lbfgs(session, loss)
    ...         print(result.reason, await session.run(w))
    >>> trio.run(main)
    gradient [1. 1.]
    """
    if steps < 0 or memory < 1:
        raise InvalidArgumentError(f"steps is at least 0 and memory at least 1, not {steps} and {memory}")
    objective = _Objective(session, loss, variables, feeds or {})
    place = await objective.place()
    value, slope = await objective.at(place)
    history: deque[tuple[Any, Any, float]] = deque(maxlen=memory)
    taken, reason = 0, "steps"
    while True:
        if np.max(np.abs(slope), initial=0.0) <= gradient_tolerance:
            reason = "gradient"
            break
        if taken >= steps:
            break
        direction = _direction(slope, history)
        first = 1.0 if history else min(1.0, 1.0 / float(np.sum(np.abs(slope))))
        found = await _search(objective, place, value, slope, direction, first)
        taken += 1
        if found is None:
            reason = "line search"
            break
        new_place, new_value, new_slope = found
        change, bend = new_place - place, new_slope - slope
        curvature = float(change @ bend)
        if curvature > 1e-10 * float(bend @ bend):
            history.append((change, bend, 1.0 / curvature))
        fall = value - new_value
        place, value, slope = new_place, new_value, new_slope
        if fall <= loss_tolerance * max(abs(value), 1.0):
            reason = "loss"
            break
    await objective.set(place)
    largest = float(np.max(np.abs(slope), initial=0.0))
    return LBFGSResult(value, largest, taken, objective.evaluations, reason)


def _direction(slope: Any, history: Sequence[tuple[Any, Any, float]]) -> Any:
    """Minus the inverse Hessian, as the history knows it, times the gradient: the two-loop recursion."""
    rest, weights = slope.copy(), []
    for change, bend, inverse in reversed(history):
        weight = inverse * float(change @ rest)
        rest -= weight * bend
        weights.append(weight)
    if history:
        change, bend, _ = history[-1]
        rest *= float(change @ bend) / float(bend @ bend)
    for (change, bend, inverse), weight in zip(history, reversed(weights), strict=True):
        rest += change * (weight - inverse * float(bend @ rest))
    return -rest


async def _search(
    objective: _Objective, place: Any, value: float, slope: Any, direction: Any, first: float
) -> tuple[Any, float, Any] | None:
    """A place along a direction that meets the strong Wolfe conditions, with loss and gradient there.

    If the search finds no such place, returns the last place with a lower loss, or None without one.
    """
    descent = float(slope @ direction)
    if descent >= 0:
        return None
    low, high, at = 0.0, np.inf, first
    lower: tuple[Any, float, Any] | None = None
    for _ in range(_TRIES):
        there = place + at * direction
        new_value, new_slope = await objective.at(there)
        new_descent = float(new_slope @ direction)
        if not np.isfinite(new_value) or new_value > value + _FALL * at * descent:
            high = at
        else:
            lower = there, new_value, new_slope
            if abs(new_descent) <= _FLATTEN * abs(descent):
                return lower
            if new_descent < 0:
                low = at
            else:
                high = at
        at = 2 * at if high == np.inf else (low + high) / 2
    return lower


class _Objective:
    """The loss and its gradient as a function of one vector of float64: all variables in a row."""

    def __init__(
        self, session: Session, loss: Tensor, variables: Iterable[Any] | None, feeds: Mapping[Any, Any]
    ) -> None:
        graph: Graph = loss.graph
        given = graph.collection(keys.TRAINABLE_VARIABLES) if variables is None else variables
        self._session = session
        self._feeds = dict(feeds)
        self._loss = loss
        self._variables: list[GraphVariable] = list(parts_of(given))
        with graph.scopes.outside(), graph.name_scope("lbfgs"):
            found = gradients(loss, [each.handle for each in self._variables]) if self._variables else []
            used = [(g, v) for g, v in zip(found, self._variables, strict=True) if g is not None]
            if not used:
                raise InvalidArgumentError(
                    f"'{loss.name}' depends on none of the variables: give variables= that it depends on"
                )
            self._variables = [variable for _, variable in used]
            self._gradients = [_whole(graph, gradient) for gradient, _ in used]
            self._given = [
                graph.placeholder(each.dtype, each.shape, name="place") for each in self._variables
            ]
            setters = [
                each.assign_op(value) for each, value in zip(self._variables, self._given, strict=True)
            ]
            self._set: Operation = graph.group(*setters, name="set")
        self._shapes: list[tuple[int, ...]] = []
        self.evaluations = 0

    async def place(self) -> Any:
        """Return the current values of all variables, joined into one float64 vector."""
        values = [np.asarray(each) for each in await self._session.run([v.value() for v in self._variables])]
        self._shapes = [each.shape for each in values]
        return _joined(values)

    async def set(self, place: Any) -> None:
        """Put the variables there."""
        begin, feeds = 0, {}
        for tensor, shape, variable in zip(self._given, self._shapes, self._variables, strict=True):
            end = begin + int(np.prod(shape, dtype=np.int64))
            feeds[tensor] = place[begin:end].reshape(shape).astype(variable.dtype.as_numpy_dtype)
            begin = end
        await self._session.run([], feeds, targets=[self._set])

    async def at(self, place: Any) -> tuple[float, Any]:
        """Loss and gradient there."""
        await self.set(place)
        self.evaluations += 1
        value, found = await self._session.run([self._loss, self._gradients], self._feeds)
        return float(value), _joined([np.asarray(each) for each in found])


def _joined(values: Sequence[Any]) -> Any:
    return np.concatenate([each.astype(np.float64).reshape(-1) for each in values])


def _whole(graph: Graph, gradient: Gradient) -> Tensor:
    return dense(graph, graph.ops, gradient) if isinstance(gradient, IndexedSlices) else gradient


__all__ = ["LBFGSResult", "lbfgs"]
