"""Checkpoints, written and read, in both formats."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import Bookkeeping, Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

# Saving and restoring checkpoints of format V2.

define(
    "ShardedFilename(basename: string, shard, num_shards: int32) -> filename: string",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShardedFilespec(basename: string, num_shards: int32) -> filename: string",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "RestoreV2(prefix, tensor_names, shape_and_slices: string) -> tensors: dtypes",
    "stateful; dtypes: list(type) >= 1",
    Bookkeeping(),
    ReadsFiles(),
    NotDifferentiable(),
)
def restore(c: ShapeContext) -> Shapes:
    """The length that a slice specification gives: "4 5 0,2:0,5" is a (2, 5) part of a (4, 5) tensor."""
    specs = c.input_value(2)
    if specs is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    texts = to_array(specs).reshape(-1)
    if len(texts) != c.num_outputs:
        raise InvalidArgumentError(f"{len(texts)} slice specifications for {c.num_outputs} tensors")
    return [sliced_shape(text) for text in texts]


def sliced_shape(spec: bytes) -> TensorShape:
    """The shape of the part that "shape slice" describes; unknown for an empty or unreadable one."""
    *sizes, slices = spec.decode(errors="replace").split(" ")
    parts = slices.split(":")
    if not sizes or len(parts) != len(sizes):
        return UNKNOWN_SHAPE
    try:
        return TensorShape(
            [
                int(size) if part == "-" else int(part.split(",")[1])
                for size, part in zip(sizes, parts, strict=True)
            ]
        )
    except (ValueError, IndexError):
        return UNKNOWN_SHAPE


define(
    "MergeV2Checkpoints(checkpoint_prefixes, destination_prefix: string)",
    "stateful; delete_old_dirs: bool = true; allow_missing_files: bool = false",
    Newer(("allow_missing_files",)),
    Bookkeeping(),
    ReadsFiles(),
    WritesFiles(),
    NotDifferentiable(),
)
define(
    "SaveV2(prefix, tensor_names, shape_and_slices: string, tensors: dtypes)",
    "stateful; dtypes: list(type) >= 1",
    Bookkeeping(),
    WritesFiles(),
    NotDifferentiable(),
)


# Saving and restoring checkpoints of format V1.


@define(
    "RestoreSlice(file_pattern, tensor_name, shape_and_slice: string) -> tensor: dt",
    "stateful; dt: type; preferred_shard: int = -1",
    Bookkeeping(),
    ReadsFiles(),
    NotDifferentiable(),
)
def restore_slice(c: ShapeContext) -> Shapes:
    spec = c.input_value(2)
    return [UNKNOWN_SHAPE if spec is None else sliced_shape(to_array(spec).item())]


define(
    "Restore(file_pattern, tensor_name: string) -> tensor: dt",
    "stateful; dt: type; preferred_shard: int = -1",
    Bookkeeping(),
    ReadsFiles(),
    NotDifferentiable(),
)
define(
    "Save(filename, tensor_names: string, data: T)",
    "stateful; T: list(type) >= 1",
    Bookkeeping(),
    WritesFiles(),
    NotDifferentiable(),
)
define(
    "SaveSlices(filename, tensor_names, shapes_and_slices: string, data: T)",
    "stateful; T: list(type) >= 1",
    Bookkeeping(),
    WritesFiles(),
    NotDifferentiable(),
)
