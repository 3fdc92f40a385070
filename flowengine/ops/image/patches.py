"""Patches of images and volumes, laid out as depth."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, multiply_dims, ranked, windowed


@define(
    "ExtractImagePatches(images: T) -> patches: T",
    "ksizes, strides, rates: list(int) >= 4; T: numberorbooltype; padding: {'SAME', 'VALID'}",
)
def image_patches(c: ShapeContext) -> Shapes:
    """(N, H, W, C) -> (N, rows, columns, C * patch)"""
    return [_patches(c, 2, c.attrs["rates"])]


def _patches(c: ShapeContext, count: int, rates: Sequence[int]) -> TensorShape:
    dims = dims_of(ranked(c, 0, count + 2), count + 2)
    sizes, strides, padding = c.attrs["ksizes"], c.attrs["strides"], c.attrs["padding"]
    spatial = [
        windowed(dims[i], sizes[i], strides[i], padding, rates[i] if rates else 1)
        for i in range(1, count + 1)
    ]
    depth = multiply_dims(dims[-1], *sizes[1 : count + 1])
    return TensorShape([dims[0], *spatial, depth])


@define(
    "ExtractVolumePatches(input: T) -> patches: T",
    "ksizes, strides: list(int) >= 5; T: realnumbertype; padding: {'SAME', 'VALID'}",
)
def volume_patches(c: ShapeContext) -> Shapes:
    """(N, D, H, W, C) -> (N, planes, rows, columns, C * patch)"""
    return [_patches(c, 3, ())]
