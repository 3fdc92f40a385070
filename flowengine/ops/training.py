"""Optimiser steps on reference variables."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "ApplyAdaMax",
    inputs=[
        "var: Ref(T)",
        "m: Ref(T)",
        "v: Ref(T)",
        "beta1_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyAdadelta",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "accum_update: Ref(T)",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
)
define(
    "ApplyAdagradDA",
    inputs=[
        "var: Ref(T)",
        "gradient_accumulator: Ref(T)",
        "gradient_squared_accumulator: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyAdagradV2",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
)
define(
    "ApplyAdam",
    inputs=[
        "var: Ref(T)",
        "m: Ref(T)",
        "v: Ref(T)",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
)
define(
    "ApplyAddSign",
    inputs=["var: Ref(T)", "m: Ref(T)", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyCenteredRMSProp",
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
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyFtrl",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyFtrlV2",
    inputs=[
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "delta: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyMomentum",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "momentum: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
)
define(
    "ApplyPowerSign",
    inputs=["var: Ref(T)", "m: Ref(T)", "lr: T", "logbase: T", "sign_decay: T", "beta: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyProximalAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyProximalGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "l1: T", "l2: T", "delta: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "ApplyRMSProp",
    inputs=[
        "var: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
