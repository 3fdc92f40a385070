"""Whole files, regions of memory, rows picked by files of names, and printing."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import Bookkeeping, Impure, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import attr_shape, scalars, unchanged, vector, vectors

# Whole files in and out, and the names that match a pattern.

define(
    "ReadFile(filename: string) -> contents: string",
    Impure(),
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MatchingFiles(pattern: string) -> filenames: string",
    Impure(),
    ReadsFiles(),
    NotDifferentiable(),
    shape=vectors,
)
define("WriteFile(filename, contents: string)", "stateful", WritesFiles(), NotDifferentiable())


# Tensors that lie in files as they lie in memory.

define(
    "ImmutableConst() -> tensor: dtype",
    "dtype: type; shape: shape; memory_region_name: string",
    Impure(),
    ReadsFiles("memory_region_name"),
    NotDifferentiable(),
    shape=attr_shape,
)


# Rows and columns of another model's checkpoint, in the order of a new vocabulary.


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


# What a graph tells whoever watches it run.

define(
    "Print(input: T, data: U) -> output: T",
    "stateful; T: type; U: list(type) >= 0; message: string = ''; first_n: int = -1; summarize: int = 3",
    Impure(),
    shape=unchanged,
)
define("Timestamp() -> ts: double", "stateful", NotDifferentiable(), shape=scalars)
define(
    "PrintV2(input: string)",
    "stateful; output_stream: string = 'stderr'; end: string = '\\n'",
    Bookkeeping(),
    WritesFiles("output_stream", unless=("stderr", "stdout", "log(*")),
    NotDifferentiable(),
)
