"""Random tensors, shuffles and draws from categories.

Given seeds, every op yields TensorFlow's own sequence, which goes on from one run of the node to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel


def shape_of(shape: Array) -> tuple[int, ...]:
    """A shape from a vector; InvalidArgumentError where it is none or has a negative dimension."""
    if getattr(shape, "ndim", 0) != 1:
        raise InvalidArgumentError(
            f"shape must be a vector of {{int32,int64}}, got shape {shape_text(shape)}"
        )
    dims = tuple(shape.tolist())
    for dim in dims:
        if dim < 0:
            raise InvalidArgumentError(f"Dimension {dim} must be >= 0 in shape {list(dims)}")
    return dims


def count_of(dims: tuple[int, ...]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _cost(shape: Array, *rest: Any) -> float:
    return elements_of(shape) * 0.02


def node_generator(ctx: KernelContext, node: Node) -> philox.Generator:
    """The generator of this node in this session."""
    return philox.generator_of(ctx.sequences, node.name, node.attrs["seed"], node.attrs["seed2"])


def drawn_by_node(
    xp: Any, distribution: philox.Distribution, shape: Array, node: Node, dtype: DType, ctx: KernelContext
) -> Any:
    """Numbers of a shape from the generator of a node."""
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    key, start = node_generator(ctx, node).reserve(count * philox.RESERVED)
    return distribution(xp, key, start, count, dtype.base).reshape(dims)


@kernel("RandomUniform", fresh=True, heavy=_cost, host=("shape",))
def random_uniform(xp: Any, shape: Array, *, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    """Numbers in [0, 1)."""
    return drawn_by_node(xp, philox.uniform, shape, node, dtype, ctx)


@kernel("RandomStandardNormal", fresh=True, heavy=_cost, host=("shape",))
def random_standard_normal(xp: Any, shape: Array, *, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    """Numbers of mean 0 and deviation 1."""
    return drawn_by_node(xp, philox.normal, shape, node, dtype, ctx)


@kernel("TruncatedNormal", fresh=True, heavy=_cost, host=("shape",))
def truncated_normal(xp: Any, shape: Array, *, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    return drawn_by_node(xp, philox.truncated_normal, shape, node, dtype, ctx)


@kernel("RandomUniformInt", fresh=True, heavy=_cost, host=("shape", "minval", "maxval"))
def random_uniform_int(
    xp: Any, shape: Array, minval: Any, maxval: Any, *, Tout: DType, node: Node, ctx: KernelContext
) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    return integers_by_node(xp, philox.uniform_integers, shape, minval, maxval, Tout, node, ctx)


def integers_by_node(
    xp: Any,
    draw: Callable[..., Any],
    shape: Array,
    minval: Any,
    maxval: Any,
    dtype: DType,
    node: Node,
    ctx: KernelContext,
) -> Any:
    """Integers in [minval, maxval) from the generator of a node, by `philox.uniform_integers` or its like."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    key, start = node_generator(ctx, node).reserve(count * philox.RESERVED)
    return draw(xp, key, start, count, low, high, dtype.base).reshape(dims)


@kernel("RandomShuffle", device="CPU")
def random_shuffle(value: Any, *, node: Node, ctx: KernelContext) -> Any:
    """The rows of a tensor in random order."""
    array = to_array(value)
    if array.ndim == 0 or array.size == 0 or array.shape[0] <= 1:
        return value
    rows = array.shape[0]
    return array[shuffled(node_generator(ctx, node).reserve, list(range(rows)))]


def shuffled(reserve: Callable[[int], tuple[int, int]], items: list[int]) -> list[int]:
    """The items in random order, by the counters that `reserve` hands out."""
    count = len(items)
    key, start = reserve(-(-count // 4))
    bits = philox.uniform_bits(np, key, start, count).tolist()
    result = list(items)
    # The last one is left where it is; its draw is not made either.
    for i in range(count - 1):
        j = i + bits[i] % (count - i)
        result[i], result[j] = result[j], result[i]
    return result


def _multinomial_cost(logits: Array, num_samples: Any) -> float:
    return float(logits.size * 0.02 + len(logits) * int(num_samples) * 0.3)


@kernel("Multinomial", fresh=True, heavy=_multinomial_cost, host=("num_samples",))
def multinomial(
    xp: Any, logits: Array, num_samples: Any, *, output_dtype: DType, node: Node, ctx: KernelContext
) -> Any:
    """Draw classes: (B, C) unnormalised log-probabilities to (B, num_samples).

    A class whose logit is not finite is never drawn. InvalidArgumentError for other ranks, no classes, or
    a negative number of samples.
    """
    generator = node_generator(ctx, node)
    return categories(
        xp, logits, num_samples, output_dtype, lambda count: generator.reserve(count * philox.RESERVED)
    )


def categories(
    xp: Any, logits: Array, num_samples: Any, output_dtype: DType, reserve: Callable[[int], tuple[int, int]]
) -> Any:
    """Draw the samples of `multinomial` from the counters that `reserve` hands out."""
    if logits.ndim != 2:
        raise InvalidArgumentError(f"logits should be a matrix, got shape {shape_text(logits)}")
    if getattr(num_samples, "ndim", 0):
        raise InvalidArgumentError(f"num_samples should be a scalar, got shape {shape_text(num_samples)}")
    samples = int(num_samples)
    if samples < 0:
        raise InvalidArgumentError(f"num_samples should be nonnegative, got {samples}")
    rows, classes = logits.shape
    if rows and samples and classes == 0:
        raise InvalidArgumentError(f"num_classes should be positive, got {classes}")
    result = xp.empty((rows, samples), np.int64)
    if result.size:
        key, start = reserve(2 * rows * (-(-samples // 4) * 4))
        draws = philox.uniform(xp, key, start, rows * samples, dtypes.float64).reshape(rows, samples)
        for row, target, draw in zip(logits, result, draws, strict=True):
            target[:] = _classes(xp, row.astype(np.float64), draw)
    return result.astype(output_dtype.as_numpy_dtype)


def _classes(xp: Any, logits: Array, draws: Array) -> Any:
    """The class in which each draw falls, by the running sum of probabilities."""
    finite = xp.isfinite(logits)
    # Of nothing finite all weights are 0.
    greatest = xp.where(finite, logits, -np.inf).max()
    weights = xp.where(finite, xp.exp(xp.where(finite, logits - greatest, 0.0)), 0.0)
    running = xp.cumsum(weights)
    return xp.searchsorted(running, draws * running[-1], side="right")
