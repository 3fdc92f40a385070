"""The derivatives of a random graph, of first and second order, beside differences along one direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.gradients.values import dense
from tests.gradients.smooth_graphs import KIND, SmoothGraph

_STEP: Final = 1e-5
#: How far two steps of different size may be apart where no kink lies between them.
_SMOOTH: Final = 1e-4


class SmoothDerivatives:
    """A graph with its gradients, of a random projection of its outputs."""

    def __init__(self, smooth: SmoothGraph, seed: int) -> None:
        self.smooth = smooth
        self._random = np.random.default_rng(seed)
        with fe.blocking.Session(smooth.graph) as session:
            self.values: list[Any] = session.run(smooth.ys, smooth.feeds)
        self._weights = [self._normal(np.shape(value)) for value in self.values]
        self.firsts = self._gradients(smooth.ys, self._weights)
        self._ways = {x: self._normal(np.shape(smooth.feeds[x])) for x in smooth.xs}

    def _normal(self, shape: Sequence[int]) -> Array:
        return np.asarray(self._random.normal(size=tuple(shape)))

    def _gradients(self, ys: Sequence[fe.Tensor], weights: Sequence[Array]) -> list[fe.Tensor]:
        graph = self.smooth.graph
        constants = [graph.constant(weight, KIND) for weight in weights]
        found = fe.gradients(ys, self.smooth.xs, constants, unconnected="zero")
        return [
            each if isinstance(each, fe.Tensor) else dense(graph, graph.ops, each)
            for each in found
            if each is not None
        ]

    def agree(self) -> bool:
        """Whether there was no kink, so that something was compared; AssertionError if it disagrees."""
        weights = [self._normal(np.shape(self.smooth.feeds[x])) for x in self.smooth.xs]
        seconds = self._gradients(self.firsts, weights)
        with fe.blocking.Session(self.smooth.graph) as session:
            first = self._compared(session, "first", self.smooth.ys, self._weights, self.firsts)
            return first and self._compared(session, "second", self.firsts, weights, seconds)

    def _compared(
        self,
        session: Any,
        order: str,
        ys: Sequence[fe.Tensor],
        weights: Sequence[Array],
        gradients: Sequence[fe.Tensor],
    ) -> bool:
        found = session.run(list(gradients), self.smooth.feeds)
        told = sum(np.vdot(g, self._ways[x]) for g, x in zip(found, self.smooth.xs, strict=True))
        change, finer = (self._change(session, ys, weights, step) for step in (_STEP, _STEP / 2))
        slack = _SMOOTH * max(1.0, abs(told))
        if abs(change - finer) > slack / 4:
            return False
        assert abs(told - change) <= slack, f"{order} derivative: {told}, but by differences {change}"
        return True

    def _change(self, session: Any, ys: Sequence[fe.Tensor], weights: Sequence[Array], step: float) -> float:
        ends = []
        for sign in (step, -step):
            moved = {x: self.smooth.feeds[x] + sign * way for x, way in self._ways.items()}
            values = session.run(list(ys), {**self.smooth.feeds, **moved})
            ends.append(sum(np.vdot(w, value) for w, value in zip(weights, values, strict=True)))
        return float(ends[0] - ends[1]) / (2 * step)
