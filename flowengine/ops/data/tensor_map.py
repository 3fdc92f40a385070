"""Maps from tensors to tensors, which flow as variants."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, scalars

define("EmptyTensorMap() -> handle: variant", NotDifferentiable(), shape=scalars)


@define("TensorMapSize(input_handle: variant) -> size: int32", NotDifferentiable())
@define(
    "TensorMapInsert(input_handle: variant, key: key_dtype, value: value_dtype) -> output_handle: variant",
    "key_dtype, value_dtype: type",
    NotDifferentiable(),
)
@define(
    "TensorMapErase(input_handle: variant, key: key_dtype) -> output_handle: variant",
    "key_dtype, value_dtype: type",
    NotDifferentiable(),
)
@define(
    "TensorMapHasKey(input_handle: variant, key: key_dtype) -> has_key: bool",
    "key_dtype: type",
    NotDifferentiable(),
)
def of_map(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [SCALAR]


@define(
    "TensorMapLookup(input_handle: variant, key: key_dtype) -> value: value_dtype",
    "key_dtype, value_dtype: type",
    NotDifferentiable(),
)
@define(
    "TensorMapStackKeys(input_handle: variant) -> keys: key_dtype", "key_dtype: type", NotDifferentiable()
)
def in_map(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [UNKNOWN_SHAPE]
