"""Parsing serialised examples, records and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    ranked,
    ranked_at_most,
    scalar_value,
    scalars,
    unchanged,
    vector,
)


def decode_csv(c: ShapeContext) -> Sequence[TensorShape]:
    for index in range(1, c.num_inputs):
        ranked_at_most(c, index, 1)
    return [c.input(0)] * c.num_outputs


define(
    "DecodeCSV",
    inputs=["records: string", "record_defaults: OUT_TYPE"],
    outputs=["output: OUT_TYPE"],
    attrs=[
        "OUT_TYPE: list({float, double, int32, int64, string}) >= 1",
        'field_delim: string = ","',
        "use_quote_delim: bool = true",
        'na_value: string = ""',
        "select_cols: list(int) = []",
    ],
    shape=decode_csv,
)
define(
    "DecodeCompressed",
    inputs=["bytes: string"],
    outputs=["output: string"],
    attrs=['compression_type: string = ""'],
    shape=unchanged,
)
define(
    "DecodeJSONExample",
    inputs=["json_examples: string"],
    outputs=["binary_examples: string"],
    shape=unchanged,
)
define(
    "StringToNumber",
    inputs=["string_tensor: string"],
    outputs=["output: out_type"],
    attrs=["out_type: {float, double, int32, int64} = float"],
    shape=unchanged,
)


def decode_raw(c: ShapeContext) -> Sequence[TensorShape]:
    """(...) -> (..., elements a string)"""
    return [c.input(0).concatenate(VECTOR)]


define(
    "DecodeRaw",
    inputs=["bytes: string"],
    outputs=["output: out_type"],
    attrs=[
        (
            "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, "
            "complex128, bool}"
        ),
        "little_endian: bool = true",
    ],
    shape=decode_raw,
)


def decode_padded(c: ShapeContext) -> Sequence[TensorShape]:
    length = scalar_value(c, 1)
    width = c.output_types[0].size
    count = None if length is None or not width or length <= 0 else length // width
    return [c.input(0).concatenate(vector(count))]


define(
    "DecodePaddedRaw",
    inputs=["input_bytes: string", "fixed_length: int32"],
    outputs=["output: out_type"],
    attrs=[
        "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64}",
        "little_endian: bool = true",
    ],
    shape=decode_padded,
)
define(
    "SerializeTensor", inputs=["tensor: T"], outputs=["serialized: string"], attrs=["T: type"], shape=scalars
)


def parse_example(c: ShapeContext) -> Sequence[TensorShape]:
    """Of every sparse feature indices, values, shape; then the dense features, a row for each example."""
    batch = ranked(c, 0, 1)
    count: int = c.attrs["Nsparse"]
    return [*sparse_outputs(count, 2), *[batch.concatenate(s) for s in c.attrs["dense_shapes"]]]


def sparse_outputs(count: int, rank: int) -> list[TensorShape]:
    """Indices, then values, then shapes of so many sparse tensors."""
    return [TensorShape([None, rank])] * count + [VECTOR] * count + [vector(rank)] * count


define(
    "ParseExample",
    inputs=[
        "serialized: string",
        "names: string",
        "sparse_keys: Nsparse * string",
        "dense_keys: Ndense * string",
        "dense_defaults: Tdense",
    ],
    outputs=[
        "sparse_indices: Nsparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: Nsparse * int64",
        "dense_values: Tdense",
    ],
    attrs=[
        "Nsparse: int >= 0",
        "Ndense: int >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ],
    shape=parse_example,
)


def parse_single_example(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    return [*sparse_outputs(c.attrs["num_sparse"], 1), *c.attrs["dense_shapes"]]


define(
    "ParseSingleExample",
    inputs=["serialized: string", "dense_defaults: Tdense"],
    outputs=[
        "sparse_indices: num_sparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: num_sparse * int64",
        "dense_values: Tdense",
    ],
    attrs=[
        "num_sparse: int >= 0",
        "sparse_keys: list(string) >= 0",
        "dense_keys: list(string) >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ],
    shape=parse_single_example,
)
define(
    "ParseExampleV2",
    inputs=[
        "serialized: string",
        "names: string",
        "sparse_keys: string",
        "dense_keys: string",
        "ragged_keys: string",
        "dense_defaults: Tdense",
    ],
    outputs=[
        "sparse_indices: num_sparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: num_sparse * int64",
        "dense_values: Tdense",
        "ragged_values: ragged_value_types",
        "ragged_row_splits: ragged_split_types",
    ],
    attrs=[
        "Tdense: list({float, int64, string}) >= 0",
        "num_sparse: int >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "ragged_value_types: list({float, int64, string}) >= 0",
        "ragged_split_types: list({int32, int64}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ],
)
define(
    "ParseSequenceExample",
    inputs=["serialized: string", "debug_name: string", "context_dense_defaults: Tcontext_dense"],
    outputs=[
        "context_sparse_indices: Ncontext_sparse * int64",
        "context_sparse_values: context_sparse_types",
        "context_sparse_shapes: Ncontext_sparse * int64",
        "context_dense_values: Tcontext_dense",
        "feature_list_sparse_indices: Nfeature_list_sparse * int64",
        "feature_list_sparse_values: feature_list_sparse_types",
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
        "feature_list_dense_values: feature_list_dense_types",
        "feature_list_dense_lengths: Nfeature_list_dense * int64",
    ],
    attrs=[
        "feature_list_dense_missing_assumed_empty: list(string) >= 0",
        "context_sparse_keys: list(string) >= 0",
        "context_dense_keys: list(string) >= 0",
        "feature_list_sparse_keys: list(string) >= 0",
        "feature_list_dense_keys: list(string) >= 0",
        "Ncontext_sparse: int >= 0 = 0",
        "Ncontext_dense: int >= 0 = 0",
        "Nfeature_list_sparse: int >= 0 = 0",
        "Nfeature_list_dense: int >= 0 = 0",
        "context_sparse_types: list({float, int64, string}) >= 0 = []",
        "Tcontext_dense: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_types: list({float, int64, string}) >= 0 = []",
        "context_dense_shapes: list(shape) >= 0 = []",
        "feature_list_sparse_types: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_shapes: list(shape) >= 0 = []",
    ],
)
define(
    "ParseSingleSequenceExample",
    inputs=[
        "serialized: string",
        "feature_list_dense_missing_assumed_empty: string",
        "context_sparse_keys: Ncontext_sparse * string",
        "context_dense_keys: Ncontext_dense * string",
        "feature_list_sparse_keys: Nfeature_list_sparse * string",
        "feature_list_dense_keys: Nfeature_list_dense * string",
        "context_dense_defaults: Tcontext_dense",
        "debug_name: string",
    ],
    outputs=[
        "context_sparse_indices: Ncontext_sparse * int64",
        "context_sparse_values: context_sparse_types",
        "context_sparse_shapes: Ncontext_sparse * int64",
        "context_dense_values: Tcontext_dense",
        "feature_list_sparse_indices: Nfeature_list_sparse * int64",
        "feature_list_sparse_values: feature_list_sparse_types",
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
        "feature_list_dense_values: feature_list_dense_types",
    ],
    attrs=[
        "Ncontext_sparse: int >= 0 = 0",
        "Ncontext_dense: int >= 0 = 0",
        "Nfeature_list_sparse: int >= 0 = 0",
        "Nfeature_list_dense: int >= 0 = 0",
        "context_sparse_types: list({float, int64, string}) >= 0 = []",
        "Tcontext_dense: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_types: list({float, int64, string}) >= 0 = []",
        "context_dense_shapes: list(shape) >= 0 = []",
        "feature_list_sparse_types: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_shapes: list(shape) >= 0 = []",
    ],
)
define("ParseTensor", inputs=["serialized: string"], outputs=["output: out_type"], attrs=["out_type: type"])
