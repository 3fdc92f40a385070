"""Rows and columns of another model's checkpoint, in the order of a new vocabulary."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import vector


@define(
    "GenerateVocabRemapping(new_vocab_file, old_vocab_file: string) -> remapping: int64, num_present: int32",
    "new_vocab_offset, num_new_vocab: int >= 0; old_vocab_size: int >= -1 = -1",
    ReadsFiles(),
    NotDifferentiable(),
)
def remapping(c: ShapeContext) -> Shapes:
    return [vector(c.attrs["num_new_vocab"]), SCALAR]


@define(
    "LoadAndRemapMatrix(ckpt_path, old_tensor_name: string, row_remapping, col_remapping: int64, "
    "initializing_values: float) -> output_matrix: float",
    "stateful; num_rows: int >= 0; num_cols: int >= 1; max_rows_in_memory: int = -1",
    ReadsFiles(),
    NotDifferentiable(),
)
def remap_matrix(c: ShapeContext) -> Shapes:
    return [TensorShape([c.attrs["num_rows"], c.attrs["num_cols"]])]
