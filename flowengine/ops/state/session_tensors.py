"""Values that stay with the session under a handle."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, scalars

define(
    "GetSessionHandle(value: T) -> handle: string", "stateful; T: type", NotDifferentiable(), shape=scalars
)
define(
    "GetSessionHandleV2(value: T) -> handle: resource",
    "stateful; T: type",
    NotDifferentiable(),
    shape=scalars,
)
define("DeleteSessionTensor(handle: string)", "stateful", NotDifferentiable())


@define("GetSessionTensor(handle: string) -> value: dtype", "stateful; dtype: type", NotDifferentiable())
def session_tensor(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [UNKNOWN_SHAPE]
