"""`check_gradient`: a graph's derivatives against differences of its values.

error = check_gradient(y, x, feeds={x: np.ones(3)})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import trio

from flowengine.core.arrays import Array
from flowengine.gradients.differentiate import gradients
from flowengine.gradients.values import dense
from flowengine.graphs.tensor import Tensor
from flowengine.session import Session


def check_gradient(
    y: Tensor,
    xs: Tensor | Sequence[Tensor],
    feeds: Mapping[Tensor, Any],
    *,
    step: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    seed: int = 0,
) -> float:
    """Compare the gradient of a random projection of y with central differences along random directions.

    xs      float64 or complex128; each is fed, and moved by `step` times a direction of random numbers
    feeds   a value for each x, and for what else the graph wants to be fed

    Returns the largest difference found. Adds nodes to the graph. Raises AssertionError, naming the x and
    both values, where the two differ by more than `atol` and `rtol` of the larger; away from kinks, float64
    leaves 1e-8 of them.
    """
    sources = [xs] if isinstance(xs, Tensor) else list(xs)
    chance = np.random.default_rng(seed)

    async def compared() -> float:
        async with Session(y.graph) as session:
            weights = _random(chance, np.asarray(await session.run(y, feeds)))
            slopes = await session.run(_fetches(y, sources, weights), feeds)
            worst = 0.0
            for x, slope in zip(sources, slopes, strict=True):
                direction = _random(chance, np.asarray(feeds[x]))
                ends = [
                    np.vdot(
                        weights, await session.run(y, {**feeds, x: feeds[x] + sign * step * direction})
                    ).real
                    for sign in (1, -1)
                ]
                difference = float(ends[0] - ends[1]) / (2 * step)
                told = float(np.vdot(slope, direction).real)
                worst = max(worst, abs(told - difference))
                assert abs(told - difference) <= atol + rtol * max(abs(told), abs(difference)), (
                    f"the gradient of '{y.name}' by '{x.name}' is {told:.10g} along a direction; "
                    f"differences of values say {difference:.10g}"
                )
        return worst

    return trio.run(compared)


def _fetches(y: Tensor, xs: Sequence[Tensor], weights: Array) -> list[Tensor]:
    """The gradients of a projection of y, slices made dense."""
    graph = y.graph
    found = gradients(y, xs, graph.constant(weights, y.dtype.base), unconnected="zero")
    return [
        each if isinstance(each, Tensor) else dense(graph, graph.ops, each)
        for each in found
        if each is not None
    ]


def _random(chance: np.random.Generator, like: Array) -> Array:
    """Numbers of a normal distribution, of an array's shape and kind."""
    numbers = chance.standard_normal(like.shape)
    if np.iscomplexobj(like):
        numbers = numbers + 1j * chance.standard_normal(like.shape)
    return np.asarray(numbers, like.dtype)
