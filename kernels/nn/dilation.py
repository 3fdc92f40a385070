"""Grayscale dilation and its gradients: the greatest of input plus filter over each window."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import NARROW, shape_text, widened
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.registry import kernel


def _geometry(x: Array, filters: Array, node: Node) -> Windows:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional: {shape_text(x)}")
    if filters.ndim != 3:
        raise InvalidArgumentError(f"filter must be 3-dimensional: {shape_text(filters)}")
    strides, rates = node.attrs["strides"], node.attrs["rates"]
    if len(strides) != 4 or strides[0] != 1 or strides[3] != 1:
        raise InvalidArgumentError(f"strides must have 4 entries, 1 for batch and depth: {list(strides)}")
    if len(rates) != 4 or rates[0] != 1 or rates[3] != 1:
        raise InvalidArgumentError(f"rates must have 4 entries, 1 for batch and depth: {list(rates)}")
    if x.shape[-1] != filters.shape[-1]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {x.shape[-1]} vs {filters.shape[-1]}"
        )
    return windows(x.shape[1:3], filters.shape[:2], strides[1:3], rates[1:3], node.attrs["padding"])


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.finfo(dtype).min


def _candidates(
    xp: Any, x: Array, filters: Array, geometry: Windows
) -> Iterator[tuple[tuple[int, ...], Array, Array]]:
    """(offset in the window, which windows have a real element there, element plus filter)."""
    padded = geometry.pad(xp, x)
    real = geometry.pad(xp, xp.ones((1, *x.shape[1:3], 1), bool))
    for offset in itertools.product(*(range(n) for n in geometry.window)):
        places = (slice(None), *geometry.slices(offset))
        yield offset, real[places], padded[places] + filters[offset]


def _winners(xp: Any, x: Array, filters: Array, geometry: Windows) -> tuple[Array, Array]:
    """The greatest sum of each window, and the number of the first offset that has it."""
    shape = (x.shape[0], *geometry.out, x.shape[-1])
    best = xp.full(shape, _lowest(x.dtype), x.dtype)
    winner = xp.zeros(shape, np.int32)
    for number, (_, real, value) in enumerate(_candidates(xp, x, filters, geometry)):
        better = (value > best) & real
        xp.copyto(best, value, where=better)
        winner[better] = number
    return best, winner


def _dilation(xp: Any, x: Array, filters: Array, node: Node) -> Any:
    return _winners(xp, x, filters, _geometry(x, filters, node))[0]


@kernel("Dilation2D", types={"T": NARROW}, fresh=True)
@widened
def dilation_2d_narrow(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    return _dilation(xp, x, filters, node)


@kernel("Dilation2D", fresh=True)
def dilation_2d(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """The greatest of x + filter over windows of (N, H, W, C), filters (H_f, W_f, C)."""
    return _dilation(xp, x, filters, node)


def _check_gradient(gradient: Array, x: Array, geometry: Windows) -> None:
    expected = (x.shape[0], *geometry.out, x.shape[-1])
    if gradient.shape != expected:
        raise InvalidArgumentError(
            f"out_backprop has shape {shape_text(gradient)}, the dilation has {list(expected)}"
        )


@kernel("Dilation2DBackpropInput", fresh=True)
def dilation_2d_backprop_input(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """The gradient of the input: each window's goes to its first greatest element."""
    geometry = _geometry(x, filters, node)
    _check_gradient(out_backprop, x, geometry)
    winner = _winners(xp, x, filters, geometry)[1]
    padded = xp.zeros((x.shape[0], *geometry.padded, x.shape[-1]), x.dtype)
    for number, offset in enumerate(itertools.product(*(range(n) for n in geometry.window))):
        part = xp.where(winner == number, out_backprop, out_backprop.dtype.type(0))
        padded[(slice(None), *geometry.slices(offset))] += part
    return xp.ascontiguousarray(geometry.crop(padded))


@kernel("Dilation2DBackpropFilter", fresh=True)
def dilation_2d_backprop_filter(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """The gradient of the filter: each window's goes to the first offset that has the greatest sum."""
    geometry = _geometry(x, filters, node)
    _check_gradient(out_backprop, x, geometry)
    winner = _winners(xp, x, filters, geometry)[1]
    result = xp.zeros_like(filters)
    for number, offset in enumerate(itertools.product(*(range(n) for n in geometry.window))):
        part = xp.where(winner == number, out_backprop, out_backprop.dtype.type(0))
        result[offset] = xp.add.reduce(part, axis=(0, 1, 2), dtype=filters.dtype)
    return result
