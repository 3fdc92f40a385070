"""First and second derivatives of a small graph beside finite differences, along random directions.

The gradient of a real loss by a complex z is dL / dRe z + i dL / dIm z, so that the change along d is
Re(sum of conj(gradient) d).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.gradients.values import IndexedSlices, dense

_STEP: Final = 1e-6
_TOLERANCE: Final = 2e-5
#: Second derivatives are differences of what is itself steeper.
_SECOND_TOLERANCE: Final = 1e-3

Build = Callable[[Any, Sequence[fe.Tensor]], Any]


def numbers(random: np.random.Generator, shape: Sequence[int], dtype: Any) -> Any:
    array = random.normal(size=tuple(shape))
    if np.dtype(dtype).kind == "c":
        array = array + 1j * random.normal(size=tuple(shape))
    return array.astype(dtype)


def _along(gradient: Any, direction: Any) -> float:
    return float(np.sum(np.conj(gradient) * direction, dtype=np.result_type(gradient, np.float64)).real)


class Derivatives:
    """A graph with inputs x, outputs y, and the gradients of both orders.

    build        makes the outputs: called with the graph's constructors and the inputs
    arrays       values of the inputs; floating and complex ones are differentiated
    shapes       "known", or "unknown": placeholders that say nothing of theirs
    step         of the differences: about 1e-2 for float32
    tolerances   of the first and the second derivatives, relative
    directions   for some inputs (by place) a function that makes a direction in which it may move
    """

    def __init__(
        self,
        build: Build,
        arrays: Sequence[Any],
        *,
        shapes: str = "known",
        directions: Mapping[int, Callable[[], Any]] | None = None,
        second: bool = True,
        seed: int = 0,
        step: float = _STEP,
        tolerances: tuple[float, float] = (_TOLERANCE, _SECOND_TOLERANCE),
    ) -> None:
        self.random = np.random.default_rng(seed)
        self._step, self._tolerances = step, tolerances
        self.graph = graph = fe.Graph()
        arrays = [np.asarray(array) for array in arrays]
        inputs = [
            graph.constant(array)
            if array.dtype.kind not in "fc" and shapes == "known"
            else graph.placeholder(array.dtype.name, array.shape if shapes == "known" else None)
            for array in arrays
        ]
        made = build(graph.ops, inputs)
        self.ys: list[fe.Tensor] = list(made) if isinstance(made, list | tuple) else [made]
        self.feeds: dict[fe.Tensor, Any] = {
            x: array for x, array in zip(inputs, arrays, strict=True) if x.op.type == "Placeholder"
        }
        moving = [place for place, array in enumerate(arrays) if array.dtype.kind in "fc"]
        self.xs = [inputs[place] for place in moving]
        own = directions or {}
        ways = [own.get(place) or partial(self._like, arrays[place]) for place in moving]
        self.directions, self.weights = [[way() for way in ways] for _ in range(2)]
        with fe.blocking.Session(graph) as session:
            values = session.run(self.ys, self.feeds)
        seeds = [self._like(value) for value in values]
        self.grad_ys = [graph.placeholder(seed.dtype.name, seed.shape) for seed in seeds]
        self.feeds |= dict(zip(self.grad_ys, seeds, strict=True))
        self.first = self._gradients(self.ys, self.xs, self.grad_ys)
        assert None not in self.first, "an input has no gradient"
        self.second = []
        if second:
            weights = [graph.constant(weight) for weight in self.weights]
            self.second = self._gradients(self.first, [*self.xs, *self.grad_ys], weights)

    def _like(self, array: Any) -> Any:
        return numbers(self.random, np.shape(array), np.asarray(array).dtype)

    def _gradients(self, ys: Any, xs: Any, grad_ys: Any) -> list[fe.Tensor | None]:
        found = fe.gradients(ys, xs, grad_ys)
        return [
            dense(self.graph, self.graph.ops, each) if isinstance(each, IndexedSlices) else each
            for each in found
        ]

    def _moved(self, x: fe.Tensor, way: Any) -> Any:
        value = self.feeds[x]
        return np.asarray(value + self._step * way, value.dtype)

    def check(self) -> None:
        """AssertionError where a derivative is not what differences say."""
        with fe.blocking.Session(self.graph) as session:

            def loss(outputs: Any, seeds: Sequence[Any], feeds: Any) -> float:
                values = session.run(outputs, feeds)
                return sum(_along(seed, value) for seed, value in zip(seeds, values, strict=True))

            def change(outputs: Any, seeds: Callable[[Any], Any], x: fe.Tensor, way: Any) -> float:
                ahead, behind = ({**self.feeds, x: self._moved(x, sign * way)} for sign in (1, -1))
                return (loss(outputs, seeds(ahead), ahead) - loss(outputs, seeds(behind), behind)) / (
                    2 * self._step
                )

            def seeds(feeds: Any) -> list[Any]:
                return [feeds[each] for each in self.grad_ys]

            found = session.run(self.first, self.feeds)
            for x, way, got in zip(self.xs, self.directions, found, strict=True):
                assert got.shape == np.shape(self.feeds[x])
                _near(
                    _along(got, way),
                    change(self.ys, seeds, x, way),
                    self._tolerances[0],
                    f"first by {x.name}",
                )
            ways = [*self.directions, *(self._like(self.feeds[each]) for each in self.grad_ys)]
            for x, way, tensor in zip([*self.xs, *self.grad_ys], ways, self.second, strict=False):
                got = 0.0 if tensor is None else _along(session.run(tensor, self.feeds), way)
                want = change(self.first, lambda feeds: self.weights, x, way)
                _near(got, want, self._tolerances[1], f"second by {x.name}")


def _near(got: float, want: float, tolerance: float, what: str) -> None:
    assert abs(got - want) <= tolerance * max(1.0, abs(got), abs(want)), f"{what}: {got}, differences {want}"


def check(build: Build, arrays: Sequence[Any], **named: Any) -> None:
    """Both derivatives of a graph, by all its floating inputs."""
    Derivatives(build, arrays, **named).check()
