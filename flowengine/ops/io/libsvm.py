"""Lines of LIBSVM's text format, as TensorFlow 1's contrib packages read them."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, vector


@define(
    "DecodeLibsvm(input: string) -> label: label_dtype, feature_indices: int64, feature_values: dtype, "
    "feature_shape: int64",
    "dtype: {float, double, int32, int64} = DT_FLOAT; label_dtype: {float, double, int32, int64} = DT_INT64",
    "num_features: int >= 1",
    NotDifferentiable(),
)
def decode_libsvm(c: ShapeContext) -> Shapes:
    """(...) -> labels (...), and a sparse tensor of one more axis"""
    rank = c.input(0).rank
    axes = None if rank is None else rank + 1
    return [c.input(0), TensorShape([None, axes]), VECTOR, vector(axes)]
