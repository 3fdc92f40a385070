"""Fractional pooling: windows of two neighbouring sizes in random order, and the gradients.

The sequences of window borders are outputs of the forward ops and inputs of the gradients. With seeds they
are TensorFlow's own; with `deterministic` the first pair is kept for all runs of the node on one size.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.context import KernelContext
from flowengine.kernels.random.stateful import node_generator, shuffled
from flowengine.kernels.registry import kernel

HOST: Final = "windows of random sizes, drawn one after another; TensorFlow has no GPU kernel"


def _pseudo_random_sizes(length: int, count: int, generator: philox.Generator) -> list[int]:
    """Window sizes from one random number: borders at ceil(length / count (i + u))."""
    ratio, whole = length / count, length // count
    # So large that the first window is not too long and the last not too short.
    most = min((whole + 2) / ratio - 1, (length + 1 - whole) / ratio - (count - 1))
    u = philox.Stream(*generator.reserve(1)).double() * most
    borders = [1, *(math.ceil(ratio * (i + u)) for i in range(1, count)), length + 1]
    return [b - a for a, b in pairwise(borders)]


def _borders(length: int, count: int, generator: philox.Generator, pseudo_random: bool) -> Array:
    """Return the starts of the windows over an axis, and its length: count + 1 numbers."""
    if pseudo_random:
        sizes = _pseudo_random_sizes(length, count, generator)
    else:
        longer = length % count
        sizes = shuffled(generator.reserve, [length // count + (i < longer) for i in range(count)])
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _sequences(x: Array, node: Node, ctx: KernelContext) -> tuple[Array, Array]:
    attrs = node.attrs
    ratio = attrs["pooling_ratio"]
    if len(ratio) != 4:
        raise InvalidArgumentError(f"pooling_ratio field must specify 4 dimensions, not {list(ratio)}")
    if ratio[0] != 1 or ratio[3] != 1:
        raise UnimplementedError(
            "Fractional pooling is not yet supported on the batch nor channel dimension."
        )
    if not attrs["deterministic"] and (attrs["seed"] or attrs["seed2"]):
        raise InvalidArgumentError("Both seed and seed2 should be 0 if deterministic is false.")
    if x.ndim != 4:
        raise InvalidArgumentError(f"tensor_in must be 4-dimensional, not {shape_text(x)}")
    counts = [math.floor(x.shape[axis] / ratio[axis]) for axis in (1, 2)]
    if min(counts) < 1 or min(ratio) < 1:
        raise InvalidArgumentError(
            f"pooling_ratio {list(ratio)} must be at least 1 and leave something of {shape_text(x)}"
        )
    generator = node_generator(ctx, node)
    if not attrs["deterministic"]:
        return _draw(x, counts, generator, attrs["pseudo_random"])
    kept: dict[tuple[int, ...], tuple[Array, Array]] = generator.kept or {}
    generator.kept = kept
    if x.shape[1:3] not in kept:
        kept[x.shape[1:3]] = _draw(x, counts, generator, attrs["pseudo_random"])
    return kept[x.shape[1:3]]


def _draw(
    x: Array, counts: list[int], generator: philox.Generator, pseudo_random: bool
) -> tuple[Array, Array]:
    rows = _borders(x.shape[1], counts[0], generator, pseudo_random)
    return rows, _borders(x.shape[2], counts[1], generator, pseudo_random)


def _windows(borders: Array, size: int, overlapping: bool) -> list[slice]:
    """Return each window's slice of an axis; overlapping ones reach one element into the next."""
    edges = borders.tolist()
    return [slice(low, min(high + overlapping, size)) for low, high in pairwise(edges)]


def _reduced(x: Array, ufunc: Any, axis: int, borders: Array, overlapping: bool) -> Array:
    lead = (slice(None),) * axis
    parts = [ufunc.reduce(x[(*lead, w)], axis) for w in _windows(borders, x.shape[axis], overlapping)]
    return np.stack(parts, axis=axis)


@kernel("FractionalMaxPool", fresh=True)
def fractional_max_pool(x: Array, *, node: Node, ctx: KernelContext) -> Any:
    """The greatest of each window, and the borders of the windows along rows and columns."""
    rows, columns = _sequences(x, node, ctx)
    greater = np.maximum if x.dtype.kind in "iu" else np.fmax
    overlapping = node.attrs["overlapping"]
    lines = _reduced(x, greater, 1, rows, overlapping)
    return _reduced(lines, greater, 2, columns, overlapping), rows, columns


def _lengths(borders: Array, size: int, overlapping: bool) -> Array:
    return np.array([w.stop - w.start for w in _windows(borders, size, overlapping)])


def _counts(rows: Array, columns: Array, shape: tuple[int, ...], overlapping: bool) -> Array:
    """Elements of each window, (rows, columns, 1)."""
    product: Array = np.outer(_lengths(rows, shape[1], overlapping), _lengths(columns, shape[2], overlapping))
    return product[..., None]


@kernel("FractionalAvgPool", fresh=True)
def fractional_avg_pool(x: Array, *, node: Node, ctx: KernelContext) -> Any:
    """The mean of each window, and the borders of the windows along rows and columns."""
    rows, columns = _sequences(x, node, ctx)
    overlapping = node.attrs["overlapping"]
    total = _reduced(_reduced(x, np.add, 1, rows, overlapping), np.add, 2, columns, overlapping)
    count = _counts(rows, columns, x.shape, overlapping)
    mean = total / count.astype(x.dtype)
    return np.trunc(mean).astype(x.dtype) if x.dtype.kind in "iu" else mean, rows, columns


def _check_borders(borders: Array, count: int, size: int, name: str) -> None:
    fits = borders.ndim == 1 and borders.size == count + 1
    if not fits or (np.diff(borders) <= 0).any() or borders[0] < 0 or borders[-1] > size:
        raise InvalidArgumentError(
            f"{name} {borders.tolist()} does not divide {size} elements into {count} windows"
        )


@kernel("FractionalMaxPoolGrad", fresh=True)
def fractional_max_pool_grad(
    x: Array, y: Array, gradient: Array, rows: Array, columns: Array, *, overlapping: bool
) -> Any:
    """The gradient of the input: each window's goes to the first of its greatest elements."""
    if x.ndim != 4 or y.shape != gradient.shape or y.ndim != 4:
        raise InvalidArgumentError(
            f"input, output and gradient do not fit: {shape_text(x)}, {shape_text(y)}, {shape_text(gradient)}"
        )
    _check_borders(rows, y.shape[1], x.shape[1], "row_pooling_sequence")
    _check_borders(columns, y.shape[2], x.shape[2], "col_pooling_sequence")
    result = np.zeros_like(x)
    images, channels = np.ogrid[: x.shape[0], : x.shape[3]]
    for i, down in enumerate(_windows(rows, x.shape[1], overlapping)):
        for j, across in enumerate(_windows(columns, x.shape[2], overlapping)):
            patch = x[:, down, across]
            place = patch.reshape(x.shape[0], -1, x.shape[3]).argmax(axis=1)
            row, column = np.divmod(place, patch.shape[2])
            result[images, down.start + row, across.start + column, channels] += gradient[:, i, j]
    return result


@kernel("FractionalAvgPoolGrad", fresh=True)
def fractional_avg_pool_grad(
    orig_input_tensor_shape: Array, gradient: Array, rows: Array, columns: Array, *, overlapping: bool
) -> Any:
    """The gradient of the input: each window's spread evenly over its elements."""
    shape = tuple(integers(orig_input_tensor_shape, "orig_input_tensor_shape"))
    if len(shape) != 4 or gradient.ndim != 4:
        raise InvalidArgumentError(f"input and gradient must be 4-dimensional, not {list(shape)}")
    _check_borders(rows, gradient.shape[1], shape[1], "row_pooling_sequence")
    _check_borders(columns, gradient.shape[2], shape[2], "col_pooling_sequence")
    share = gradient / _counts(rows, columns, shape, overlapping)
    across = np.zeros((shape[0], gradient.shape[1], shape[2], shape[3]))
    for j, window in enumerate(_windows(columns, shape[2], overlapping)):
        across[:, :, window] += share[:, :, j, None]
    result = np.zeros(shape)
    for i, window in enumerate(_windows(rows, shape[1], overlapping)):
        result[:, window] += across[:, i, None]
    return result.astype(gradient.dtype)
