"""`check_gradient`: a graph's derivatives against differences of its values.

error = check_gradient(y, x, feeds={x: np.ones(3)})

`seed` is that of the random projection and directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import complex128, float64
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.differentiate import gradients
from flowengine.gradients.values import dense
from flowengine.graphs.tensor import Tensor
from flowengine.kernels.registry import KernelRegistry
from flowengine.portal import Portal
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
    kernels: KernelRegistry | None = None,
) -> float:
    """Compare the gradient of a random projection of y with central differences along random directions.

    y         a Tensor of floats or complex numbers, made by an op with a gradient function of your own, by a
              function under `fe.custom_gradient`, or by any other nodes
    xs        float64 or complex128; each is fed, and moved by `step` times a direction of random numbers
    feeds     {Tensor: value} with a value for each x, and for what else the graph wants to be fed
    kernels   where the kernels of your own ops are, if not in this package

    Returns the largest difference found. Adds nodes to the graph; works in trio and asyncio programs, too.
    Raises AssertionError, naming the x and both values, where the two differ by more than `atol` and `rtol`
    of the larger; away from kinks, float64 leaves 1e-8 of them. Raises InvalidArgumentError for an x of
    another type, whose rounding would hide the difference, or that is not fed.

        x = graph.placeholder("float64", [3])
        check_gradient(fe.tanh(x), x, {x: [0.1, 0.2, 0.3]})
    """
    sources = [xs] if isinstance(xs, Tensor) else list(xs)
    values = {each: value for each, value in feeds.items() if each not in sources}
    values |= {each: _start(each, feeds) for each in sources}
    chance = np.random.default_rng(seed)

    async def compared() -> float:
        async with Session(y.graph, kernels=kernels) as session:
            weights = _random(chance, np.asarray(await session.run(y, values)))
            slopes = await session.run(_fetches(y, sources, weights), values)
            worst = 0.0
            for x, slope in zip(sources, slopes, strict=True):
                direction = _random(chance, values[x])
                ends = [
                    np.vdot(
                        weights, await session.run(y, {**values, x: values[x] + sign * step * direction})
                    ).real
                    for sign in (1, -1)
                ]
                difference = float(ends[0] - ends[1]) / (2 * step)
                claimed = float(np.vdot(slope, direction).real)
                error = abs(claimed - difference)
                worst = max(worst, error)
                # Not an assert statement, which `python -O` leaves out; NaN is an error, too.
                if not error <= atol + rtol * max(abs(claimed), abs(difference)):
                    raise AssertionError(
                        f"the gradient of '{y.name}' by '{x.name}' is {claimed:.10g} along a direction; "
                        f"differences of values say {difference:.10g}"
                    )
        return worst

    portal = Portal()
    try:
        found: float = portal.call(compared)
    finally:
        portal.close()
    return found


def _start(x: Tensor, feeds: Mapping[Tensor, Any]) -> Array:
    """The value fed for an x."""
    if x.dtype.base not in (float64, complex128):
        raise InvalidArgumentError(
            f"'{x.name}' is {x.dtype}: a gradient is checked in float64 or complex128, for their rounding is "
            "small"
        )
    if x not in feeds:
        raise InvalidArgumentError(f"feeds has no value for '{x.name}', which is to be moved")
    return np.asarray(feeds[x], x.dtype.as_numpy_dtype)


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


__all__ = ["check_gradient"]
