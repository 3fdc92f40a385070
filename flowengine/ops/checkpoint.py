"""Inspecting and remapping checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import vector


def remapping(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(c.attrs["num_new_vocab"]), SCALAR]


define(
    "GenerateVocabRemapping",
    inputs=["new_vocab_file: string", "old_vocab_file: string"],
    outputs=["remapping: int64", "num_present: int32"],
    attrs=["new_vocab_offset: int >= 0", "num_new_vocab: int >= 0", "old_vocab_size: int >= -1 = -1"],
    shape=remapping,
)


def remap_matrix(c: ShapeContext) -> Sequence[TensorShape]:
    return [TensorShape([c.attrs["num_rows"], c.attrs["num_cols"]])]


define(
    "LoadAndRemapMatrix",
    inputs=[
        "ckpt_path: string",
        "old_tensor_name: string",
        "row_remapping: int64",
        "col_remapping: int64",
        "initializing_values: float",
    ],
    outputs=["output_matrix: float"],
    attrs=["num_rows: int >= 0", "num_cols: int >= 1", "max_rows_in_memory: int = -1"],
    is_stateful=True,
    shape=remap_matrix,
)
