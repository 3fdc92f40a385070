"""The arithmetic of batch normalisation on rows (rows, C), walked over in blocks.

What is centred and squared stays in cache.
"""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.numpy.channels import Blocks


def normalized(
    rows: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float
) -> Array:
    """Rows centred by a mean, scaled by a variance, then scaled and shifted."""
    result = np.empty_like(rows)
    blocks = Blocks(*rows.shape)
    means = blocks.vector(mean)
    factors = blocks.vector(scale / np.sqrt(variance + np.float32(epsilon)))
    offsets = blocks.vector(offset)

    def work(number: int, part: slice, repeat: int) -> None:
        block = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=block)
        np.multiply(block, factors[repeat], out=block)
        np.add(block, offsets[repeat], out=block)

    blocks.run(work)
    return result


def normalized_by_itself(
    rows: Array, scale: Array, offset: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """Apply `normalized` with the rows' own statistics, and return these: mean, mean squared deviation."""
    blocks = Blocks(*rows.shape)
    share = np.float32(1) / np.float32(rows.shape[0])
    # Far from 0 the last bit of the mean shows in what is centred by it: rounded as TensorFlow rounds.
    mean = blocks.sums(lambda p, r: np.add.reduce(blocks.long(rows, p, r), 0), np.float32) * share
    means = blocks.vector(mean)
    result = np.empty_like(rows)

    def squares(part: slice, repeat: int) -> Array:
        centred = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=centred)
        return _products(centred, centred)

    variance = blocks.sums(squares, np.float32) * share
    factors = blocks.vector(scale / np.sqrt(variance + np.float32(epsilon)))
    offsets = blocks.vector(offset)

    def work(number: int, part: slice, repeat: int) -> None:
        block = blocks.long(result, part, repeat)
        np.multiply(block, factors[repeat], out=block)
        np.add(block, offsets[repeat], out=block)

    blocks.run(work)
    return result, mean, variance


def _products(x: Array, y: Array) -> Array:
    """The sums of the columns of x y: products are added as they are made."""
    sums: Array = np.einsum("rx,rx->x", x, y)
    return sums


def gradients(
    rows: Array,
    upstream: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    epsilon: float,
    is_training: bool,
) -> tuple[Array, Array, Array]:
    """The gradients of the rows, of scale and of offset."""
    inverse = np.float32(1) / np.sqrt(variance + np.float32(epsilon))
    blocks = Blocks(*rows.shape)
    result = np.empty_like(rows)
    means = blocks.vector(mean)
    offset_backprop = blocks.sums(lambda p, r: np.add.reduce(blocks.long(upstream, p, r), 0), np.float32)

    def products(part: slice, repeat: int) -> Array:
        centred = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=centred)
        return _products(centred, blocks.long(upstream, part, repeat))

    along = blocks.sums(products, np.float32)
    scale_backprop = along * inverse
    factors = blocks.vector(scale * inverse)
    if is_training:
        count = np.float32(rows.shape[0])
        mean_upstream = blocks.vector(offset_backprop / count)
        slopes = blocks.vector(along * inverse * inverse / count)

    def work(number: int, part: slice, repeat: int) -> None:
        block, arrived = blocks.long(result, part, repeat), blocks.long(upstream, part, repeat)
        if not is_training:
            np.multiply(arrived, factors[repeat], out=block)
            return
        # `block` holds the centred features.
        np.multiply(block, slopes[repeat], out=block)
        np.subtract(arrived, block, out=block)
        np.subtract(block, mean_upstream[repeat], out=block)
        np.multiply(block, factors[repeat], out=block)

    blocks.run(work)
    return result, scale_backprop, offset_backprop
