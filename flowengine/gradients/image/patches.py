"""Patches of images and volumes: what pixels went into goes back to them.

Each patch is made of places of the image. The op itself tells which, when it is given an image of place
numbers, from 1 on; 0 stands for what is added outside. The gradient of a pixel is the sum over all elements
that have its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("ExtractImagePatches")
def image_patches(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [_summed(b, op, grad, "ExtractImagePatches", same(op, "ksizes", "strides", "rates", "padding"))]


@gradient("ExtractVolumePatches")
def volume_patches(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [_summed(b, op, grad, "ExtractVolumePatches", same(op, "ksizes", "strides", "padding"))]


def _summed(b: Backward, op: Operation, grad: Tensor, extract: str, how: dict[str, Any]) -> Tensor:
    """(N, rows, columns, patch * C) -> (N, H, W, C), and the same for volumes"""
    o, shape = b.ops, b.shape(op.inputs[0])
    zero, one = b.constant(0, "int32"), b.constant(1, "int32")
    spatial = len(op.get_attr("ksizes")) - 2
    space = o.Slice(shape, b.constant([1], "int32"), b.constant([spatial], "int32"))
    batch, depth = (o.GatherV2(shape, b.constant(axis, "int32"), zero) for axis in (0, spatial + 1))
    # One number more than there are pixels, for what lies outside.
    count = o.Add(o.Prod(space, zero), one)
    numbers = o.Range(one, count, one)
    image = o.Reshape(numbers, o.ConcatV2([b.constant([1], "int32"), space, b.constant([1], "int32")], zero))
    places = o.Reshape(getattr(o, extract)(image, **how), b.constant([-1], "int32"))
    elements = o.Reshape(grad, o.Pack([batch, o.Size(places), depth]))
    by_place = _moved(b, elements, (1, 0, 2))
    sums = o.UnsortedSegmentSum(by_place, places, count)
    inside = o.Slice(sums, b.constant([1, 0, 0], "int32"), b.constant([-1, -1, -1], "int32"))
    result: Tensor = o.Reshape(_moved(b, inside, (1, 0, 2)), shape)
    return result


def _moved(b: Backward, x: Tensor, axes: Sequence[int]) -> Tensor:
    moved: Tensor = b.ops.Transpose(x, b.constant(axes, "int32"))
    return moved
