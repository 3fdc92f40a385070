"""Optimiser steps on resource variables."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "ResourceApplyAdaMax",
    inputs=[
        "var: resource",
        "m: resource",
        "v: resource",
        "beta1_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyAdadelta",
    inputs=[
        "var: resource",
        "accum: resource",
        "accum_update: resource",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyAdagrad",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
    is_stateful=True,
)
define(
    "ResourceApplyAdagradDA",
    inputs=[
        "var: resource",
        "gradient_accumulator: resource",
        "gradient_squared_accumulator: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyAdagradV2",
    inputs=["var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
    is_stateful=True,
)
define(
    "ResourceApplyAdam",
    inputs=[
        "var: resource",
        "m: resource",
        "v: resource",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyAdamWithAmsgrad",
    inputs=[
        "var: resource",
        "m: resource",
        "v: resource",
        "vhat: resource",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyAddSign",
    inputs=["var: resource", "m: resource", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyCenteredRMSProp",
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
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyFtrl",
    inputs=[
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyFtrlV2",
    inputs=[
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyGradientDescent",
    inputs=["var: resource", "alpha: T", "delta: T"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyKerasMomentum",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyMomentum",
    inputs=["var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyPowerSign",
    inputs=["var: resource", "m: resource", "lr: T", "logbase: T", "sign_decay: T", "beta: T", "grad: T"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyProximalAdagrad",
    inputs=["var: resource", "accum: resource", "lr: T", "l1: T", "l2: T", "grad: T"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyProximalGradientDescent",
    inputs=["var: resource", "alpha: T", "l1: T", "l2: T", "delta: T"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
define(
    "ResourceApplyRMSProp",
    inputs=[
        "var: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ],
    attrs=["T: numbertype", "use_locking: bool = false"],
    is_stateful=True,
)
