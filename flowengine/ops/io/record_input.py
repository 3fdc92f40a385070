"""Random records of many files, without a queue."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import vector


@define(
    "RecordInput() -> records: string",
    "stateful; file_pattern: string; file_random_seed: int = 301; file_shuffle_shift_ratio: float = 0.0",
    "file_buffer_size: int = 10000; file_parallelism: int = 16; batch_size: int = 32",
    "compression_type: string = ''",
    ReadsFiles("file_pattern"),
    NotDifferentiable(),
)
def record_input(c: ShapeContext) -> Shapes:
    return [vector(c.attrs["batch_size"])]
