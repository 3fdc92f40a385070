"""Optimiser steps on chosen rows of reference variables."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define(
    "SparseApplyProximalAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "SparseApplyProximalGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
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
)
