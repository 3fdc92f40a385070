"""Optimiser steps on chosen rows of reference variables."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    merge,
    merge_dims,
    ranked,
    ranked_at_least,
    suffix,
)


def sparse_adagrad(c: ShapeContext) -> Sequence[TensorShape]:
    """var, slot, rate, gradient (rows, ...), indices (rows) -> var"""
    return [_sparse(c, slots=1, gradient=3)]


def _sparse(c: ShapeContext, *, slots: int, gradient: int) -> TensorShape:
    """Slots like the variable; a row of gradient for every index; the rest are scalars."""
    shape = merge(c, range(slots + 1))
    rows, indices = ranked_at_least(c, gradient, 1), ranked(c, gradient + 1, 1)
    merge_dims(rows[0], indices[0], "The rows of the gradient and the number of indices")
    if not suffix(shape, 1).is_compatible_with(suffix(rows, 1)):
        raise InvalidArgumentError(
            f"rows of a gradient of shape {rows} do not fit a variable of shape {shape}"
        )
    check_scalars(c, *(i for i in range(slots + 1, c.num_inputs) if i not in (gradient, gradient + 1)))
    return shape


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
    shape=sparse_adagrad,
)


def sparse_momentum(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=1, gradient=3)]


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
    shape=sparse_momentum,
)


def sparse_adagrad_v2(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=1, gradient=4)]


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
    shape=sparse_adagrad_v2,
)


def sparse_proximal_adagrad(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=1, gradient=5)]


define(
    "SparseApplyProximalAdagrad",
    inputs=["var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_proximal_adagrad,
)


def sparse_proximal_descent(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=0, gradient=4)]


define(
    "SparseApplyProximalGradientDescent",
    inputs=["var: Ref(T)", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"],
    outputs=["out: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=sparse_proximal_descent,
)


def sparse_two_slots(c: ShapeContext) -> Sequence[TensorShape]:
    """var, two slots, gradient, indices, scalars -> var"""
    return [_sparse(c, slots=2, gradient=3)]


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
    shape=sparse_two_slots,
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
    shape=sparse_two_slots,
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
    shape=sparse_two_slots,
)


def sparse_adadelta(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=2, gradient=6)]


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
    shape=sparse_adadelta,
)


def sparse_rms_prop(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=2, gradient=7)]


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
    shape=sparse_rms_prop,
)


def sparse_centred_rms_prop(c: ShapeContext) -> Sequence[TensorShape]:
    return [_sparse(c, slots=3, gradient=8)]


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
    shape=sparse_centred_rms_prop,
)
