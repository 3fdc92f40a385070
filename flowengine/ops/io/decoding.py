"""Numbers and tensors out of strings of bytes, and tensors into them."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, ranked_at_most, scalar_value, scalars, unchanged, vector


@define(
    "DecodeCSV(records: string, record_defaults: OUT_TYPE) -> output: OUT_TYPE",
    "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; field_delim: string = ','",
    "use_quote_delim: bool = true; na_value: string = ''; select_cols: list(int) = []",
    NotDifferentiable(),
)
def decode_csv(c: ShapeContext) -> Shapes:
    for index in range(1, c.num_inputs):
        ranked_at_most(c, index, 1)
    return [c.input(0)] * c.num_outputs


define(
    "DecodeCompressed(bytes: string) -> output: string",
    "compression_type: string = ''",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "DecodeJSONExample(json_examples: string) -> binary_examples: string",
    NotDifferentiable(),
    shape=unchanged,
)


@define(
    "DecodeRaw(bytes: string) -> output: out_type",
    "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, "
    "bool, bfloat16}",
    "little_endian: bool = true",
    NotDifferentiable(),
)
def decode_raw(c: ShapeContext) -> Shapes:
    """(...) -> (..., elements a string)"""
    return [c.input(0).concatenate(VECTOR)]


@define(
    "DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> output: out_type",
    "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}",
    "little_endian: bool = true",
    NotDifferentiable(),
)
def decode_padded(c: ShapeContext) -> Shapes:
    length = scalar_value(c, 1)
    width = c.output_types[0].size
    count = None if length is None or not width or length <= 0 else length // width
    return [c.input(0).concatenate(vector(count))]


define("SerializeTensor(tensor: T) -> serialized: string", "T: type", NotDifferentiable(), shape=scalars)
define("ParseTensor(serialized: string) -> output: out_type", "out_type: type", NotDifferentiable())
