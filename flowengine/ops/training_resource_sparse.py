"""Optimiser steps on chosen rows of resource variables."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "ResourceSparseApplyAdadelta",
    inputs=[
        "var: resource",
        "accum: resource",
        "accum_update: resource",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyAdagrad",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ],
    is_stateful=True,
)
define(
    "ResourceSparseApplyAdagradDA",
    inputs=[
        "var: resource",
        "gradient_accumulator: resource",
        "gradient_squared_accumulator: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyAdagradV2",
    inputs=["var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T", "indices: Tindices"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ],
    is_stateful=True,
)
define(
    "ResourceSparseApplyCenteredRMSProp",
    inputs=[
        "var: resource",
        "mg: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyFtrl",
    inputs=[
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyFtrlV2",
    inputs=[
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyKerasMomentum",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices", "momentum: T"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ],
    is_stateful=True,
)
define(
    "ResourceSparseApplyMomentum",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices", "momentum: T"],
    attrs=[
        "T: numbertype",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ],
    is_stateful=True,
)
define(
    "ResourceSparseApplyProximalAdagrad",
    inputs=["var: resource", "accum: resource", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyProximalGradientDescent",
    inputs=["var: resource", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceSparseApplyRMSProp",
    inputs=[
        "var: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    is_stateful=True,
)
