"""Layouts of images (NHWC, NCHW), and axes and vectors carried from one to another."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define(
    "DataFormatDimMap, DataFormatVecPermute(x: T) -> y: T",
    "T: indextype = int32; src_format: string = 'NHWC'; dst_format: string = 'NCHW'",
    NotDifferentiable(),
    shape=unchanged,
)


def split_layout(
    dims: Sequence[Dimension], data_format: bytes
) -> tuple[Dimension, Sequence[Dimension], Dimension]:
    """Batch, spatial dimensions and channels, by the layout."""
    if data_format.startswith(b"NC"):
        return dims[0], dims[2:], dims[1]
    return dims[0], dims[1:-1], dims[-1]


def join_layout(
    batch: Dimension, spatial: Sequence[Dimension], depth: Dimension, data_format: bytes
) -> TensorShape:
    if data_format.startswith(b"NC"):
        return TensorShape([batch, depth, *spatial])
    return TensorShape([batch, *spatial, depth])


def sizes_of_rank(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """The shape that a vector input spells, of a rank that is known anyway."""
    shape = c.input_as_shape(index)
    return shape if shape.rank == rank else unknown_of_rank(rank)


def sizes_from(index: int, rank: int) -> ShapeFunction:
    """The shape function of an op whose one output has the sizes that a vector input spells."""

    def shape(c: ShapeContext) -> Shapes:
        return [sizes_of_rank(c, index, rank)]

    return shape
