"""Optimiser steps on reference variables."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, merge


def gradient_descent(c: ShapeContext) -> Sequence[TensorShape]:
    """var, a scalar rate, a step of var's shape -> var"""
    check_scalars(c, 1)
    return [merge(c, (0, 2))]


define(
    "ApplyGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "delta: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=gradient_descent,
)


def proximal_gradient_descent(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 1, 2, 3)
    return [merge(c, (0, 4))]


define(
    "ApplyProximalGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "l1: T", "l2: T", "delta: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=proximal_gradient_descent,
)


def one_slot(c: ShapeContext) -> Sequence[TensorShape]:
    """var, slot, rate, gradient, ... -> var"""
    check_scalars(c, 2, *range(4, c.num_inputs))
    return [merge(c, (0, 1, 3))]


define(
    "ApplyAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
    shape=one_slot,
)
define(
    "ApplyMomentum",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "momentum: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"],
    shape=one_slot,
)


def one_slot_gradient_last(c: ShapeContext) -> Sequence[TensorShape]:
    """var, slot, scalars, gradient -> var"""
    check_scalars(c, *range(2, c.num_inputs - 1))
    return [merge(c, (0, 1, c.num_inputs - 1))]


define(
    "ApplyAdagradV2",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false", "update_slots: bool = true"],
    shape=one_slot_gradient_last,
)
define(
    "ApplyProximalAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=one_slot_gradient_last,
)
define(
    "ApplyAddSign",
    inputs=["var: Ref(T)", "m: Ref(T)", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=one_slot_gradient_last,
)
define(
    "ApplyPowerSign",
    inputs=["var: Ref(T)", "m: Ref(T)", "lr: T", "logbase: T", "sign_decay: T", "beta: T", "grad: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=one_slot_gradient_last,
)


def two_slots_gradient_last(c: ShapeContext) -> Sequence[TensorShape]:
    """var, two slots, scalars, gradient -> var"""
    check_scalars(c, *range(3, c.num_inputs - 1))
    return [merge(c, (0, 1, 2, c.num_inputs - 1))]


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
    shape=two_slots_gradient_last,
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
    shape=two_slots_gradient_last,
)
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
    shape=two_slots_gradient_last,
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
    shape=two_slots_gradient_last,
)


def three_slots_gradient_last(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, *range(4, c.num_inputs - 1))
    return [merge(c, (0, 1, 2, 3, c.num_inputs - 1))]


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
    shape=three_slots_gradient_last,
)


def two_slots_gradient_fourth(c: ShapeContext) -> Sequence[TensorShape]:
    """var, two slots, gradient, scalars -> var"""
    check_scalars(c, *range(4, c.num_inputs))
    return [merge(c, (0, 1, 2, 3))]


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
    shape=two_slots_gradient_fourth,
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
    shape=two_slots_gradient_fourth,
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
    shape=two_slots_gradient_fourth,
)
