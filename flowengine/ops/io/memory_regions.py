"""Tensors that lie in files as they lie in memory."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import Impure, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import attr_shape

define(
    "ImmutableConst() -> tensor: dtype",
    "dtype: type; shape: shape; memory_region_name: string",
    Impure(),
    ReadsFiles("memory_region_name"),
    NotDifferentiable(),
    shape=attr_shape,
)
