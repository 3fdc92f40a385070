"""Saving and restoring checkpoints of format V1."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import Bookkeeping, NotDifferentiable
from flowengine.ops.io.checkpoint import sliced_shape
from flowengine.ops.registry import define


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
