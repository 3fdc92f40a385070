"""Protocol buffers of any type: fields as tensors, and tensors as fields."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, ranked_at_least

#: Where messages are described: by this program, by the attribute itself, or in a file.
_DESCRIBED: Final = ReadsFiles("descriptor_source", unless=("local://", "bytes://*"))


@define(
    "DecodeProtoV2(bytes: string) -> sizes: int32, values: output_types",
    "message_type: string; field_names: list(string); output_types: list(type) >= 0",
    "descriptor_source: string = 'local://'; message_format: string = 'binary'; sanitize: bool = false",
    _DESCRIBED,
    NotDifferentiable(),
)
def decode_proto(c: ShapeContext) -> Shapes:
    """(N...,) -> (N..., fields), and (N..., most of one message) for each field"""
    batch = c.input(0)
    if batch.dims is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    sizes = TensorShape((*batch.dims, len(c.attrs["field_names"])))
    return [sizes, *[TensorShape((*batch.dims, None))] * (c.num_outputs - 1)]


@define(
    "EncodeProto(sizes: int32, values: Tinput_types) -> bytes: string",
    "field_names: list(string); message_type: string; descriptor_source: string = 'local://'",
    "Tinput_types: list(type) >= 1",
    _DESCRIBED,
    NotDifferentiable(),
)
def encode_proto(c: ShapeContext) -> Shapes:
    """(N..., fields), (N..., most of one message) for each field -> (N...,)"""
    return [prefix(ranked_at_least(c, 0, 2), -1)]
