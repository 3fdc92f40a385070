"""Optimiser steps on chosen rows of reference variables."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define


def sparse_apply(c: ShapeContext) -> Sequence[TensorShape]:
    """The variable, some rows of which are changed."""
    return [c.input(0)]


define(
    "SparseApplyAdadelta",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "accum_update: Ref(T)",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ],
    shape=sparse_apply,
)
define(
    "SparseApplyAdagradDA",
    inputs=[
        "var: Ref(T)",
        "gradient_accumulator: Ref(T)",
        "gradient_squared_accumulator: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyAdagradV2",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ],
    shape=sparse_apply,
)
define(
    "SparseApplyCenteredRMSProp",
    inputs=[
        "var: Ref(T)",
        "mg: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyFtrl",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyFtrlV2",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyMomentum",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices", "momentum: T"],
    outputs=["out: Ref(T)"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ],
    shape=sparse_apply,
)
define(
    "SparseApplyProximalAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyProximalGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
define(
    "SparseApplyRMSProp",
    inputs=[
        "var: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_apply,
)
