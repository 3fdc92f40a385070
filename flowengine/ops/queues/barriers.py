"""Barriers: tuples that become ready key by key."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalars, two_strings

define(
    "Barrier() -> handle: Ref(string)",
    "stateful; component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1",
    "container, shared_name: string = ''",
    NotDifferentiable(),
    shape=two_strings,
)
define("BarrierIncompleteSize(handle: Ref(string)) -> size: int32", NotDifferentiable(), shape=scalars)
define("BarrierReadySize(handle: Ref(string)) -> size: int32", NotDifferentiable(), shape=scalars)


@define(
    "BarrierTakeMany(handle: Ref(string), num_elements: int32) "
    "-> indices: int64, keys: string, values: component_types",
    "component_types: list(type) >= 1; allow_small_batch, wait_for_incomplete: bool = false",
    "timeout_ms: int = -1",
    NotDifferentiable(),
)
def take_many(c: ShapeContext) -> Shapes:
    return [VECTOR, VECTOR, *[UNKNOWN_SHAPE] * (c.num_outputs - 2)]


define("BarrierClose(handle: Ref(string))", "cancel_pending_enqueues: bool = false", NotDifferentiable())
define(
    "BarrierInsertMany(handle: Ref(string), keys: string, values: T)",
    "T: type; component_index: int",
    NotDifferentiable(),
)
