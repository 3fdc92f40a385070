"""Steps of optimizers on variables, by reference or by resource handle, dense and sparse."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, merge, merge_dims, ranked, ranked_at_least, suffix

#: Of updates of rows, picked by index.
ROWS: Final = "T: numbertype; Tindices: indextype; use_locking: bool = false"
#: Of updates of whole variables.
DENSE: Final = "T: numbertype; use_locking: bool = false"


#: In TensorFlow 2: `linear` holds its sum times the rate, which may then be 0.
_BY_RATE: Final = ("multiply_linear_by_lr: bool = false", Newer(("multiply_linear_by_lr",)))


@define("ApplyGradientDescent(var: Ref(T), alpha, delta: T) -> out: Ref(T)", DENSE, NotDifferentiable())
def gradient_descent(c: ShapeContext) -> Shapes:
    """var, a scalar rate, a step of var's shape -> var"""
    check_scalars(c, 1)
    return [merge(c, (0, 2))]


@define(
    "ApplyProximalGradientDescent(var: Ref(T), alpha, l1, l2, delta: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
def proximal_gradient_descent(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2, 3)
    return [merge(c, (0, 4))]


@define(
    "ApplyAdagrad(var, accum: Ref(T), lr, grad: T) -> out: Ref(T)",
    DENSE,
    "update_slots: bool = true",
    NotDifferentiable(),
)
@define(
    "ApplyMomentum(var, accum: Ref(T), lr, grad, momentum: T) -> out: Ref(T)",
    "T: numbertype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
def one_slot(c: ShapeContext) -> Shapes:
    """var, slot, rate, gradient, ... -> var"""
    check_scalars(c, 2, *range(4, c.num_inputs))
    return [merge(c, (0, 1, 3))]


@define(
    "ApplyAdagradV2(var, accum: Ref(T), lr, epsilon, grad: T) -> out: Ref(T)",
    DENSE,
    "update_slots: bool = true",
    NotDifferentiable(),
)
@define(
    "ApplyProximalAdagrad(var, accum: Ref(T), lr, l1, l2, grad: T) -> out: Ref(T)", DENSE, NotDifferentiable()
)
@define(
    "ApplyAddSign(var, m: Ref(T), lr, alpha, sign_decay, beta, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
@define(
    "ApplyPowerSign(var, m: Ref(T), lr, logbase, sign_decay, beta, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
def one_slot_gradient_last(c: ShapeContext) -> Shapes:
    """var, slot, scalars, gradient -> var"""
    check_scalars(c, *range(2, c.num_inputs - 1))
    return [merge(c, (0, 1, c.num_inputs - 1))]


@define(
    "ApplyAdadelta(var, accum, accum_update: Ref(T), lr, rho, epsilon, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
@define(
    "ApplyAdam(var, m, v: Ref(T), beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad: T) "
    "-> out: Ref(T)",
    "T: numbertype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
@define(
    "ApplyAdaMax(var, m, v: Ref(T), beta1_power, lr, beta1, beta2, epsilon, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
@define(
    "ApplyRMSProp(var, ms, mom: Ref(T), lr, rho, momentum, epsilon, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
def two_slots_gradient_last(c: ShapeContext) -> Shapes:
    """var, two slots, scalars, gradient -> var"""
    check_scalars(c, *range(3, c.num_inputs - 1))
    return [merge(c, (0, 1, 2, c.num_inputs - 1))]


@define(
    "ApplyCenteredRMSProp(var, mg, ms, mom: Ref(T), lr, rho, momentum, epsilon, grad: T) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
def three_slots_gradient_last(c: ShapeContext) -> Shapes:
    check_scalars(c, *range(4, c.num_inputs - 1))
    return [merge(c, (0, 1, 2, 3, c.num_inputs - 1))]


@define(
    "ApplyAdagradDA(var, gradient_accumulator, gradient_squared_accumulator: Ref(T), grad, lr, l1, "
    "l2: T, global_step: int64) -> out: Ref(T)",
    DENSE,
    NotDifferentiable(),
)
@define(
    "ApplyFtrl(var, accum, linear: Ref(T), grad, lr, l1, l2, lr_power: T) -> out: Ref(T)",
    DENSE,
    *_BY_RATE,
    NotDifferentiable(),
)
@define(
    "ApplyFtrlV2(var, accum, linear: Ref(T), grad, lr, l1, l2, l2_shrinkage, lr_power: T) -> out: Ref(T)",
    DENSE,
    *_BY_RATE,
    NotDifferentiable(),
)
def two_slots_gradient_fourth(c: ShapeContext) -> Shapes:
    """var, two slots, gradient, scalars -> var"""
    check_scalars(c, *range(4, c.num_inputs))
    return [merge(c, (0, 1, 2, 3))]


define(
    "ResourceApplyAdaMax(var, m, v: resource, beta1_power, lr, beta1, beta2, epsilon, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyAdadelta(var, accum, accum_update: resource, lr, rho, epsilon, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyAdagrad(var, accum: resource, lr, grad: T)",
    "stateful",
    DENSE,
    "update_slots: bool = true",
    NotDifferentiable(),
)
define(
    "ResourceApplyAdagradDA(var, gradient_accumulator, gradient_squared_accumulator: resource, grad, "
    "lr, l1, l2: T, global_step: int64)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyAdagradV2(var, accum: resource, lr, epsilon, grad: T)",
    "stateful",
    DENSE,
    "update_slots: bool = true",
    NotDifferentiable(),
)
define(
    "ResourceApplyAdam(var, m, v: resource, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad: T)",
    "stateful; T: numbertype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
define(
    "ResourceApplyAdamWithAmsgrad(var, m, v, vhat: resource, beta1_power, beta2_power, lr, beta1, "
    "beta2, epsilon, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyAddSign(var, m: resource, lr, alpha, sign_decay, beta, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyCenteredRMSProp(var, mg, ms, mom: resource, lr, rho, momentum, epsilon, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyFtrl(var, accum, linear: resource, grad, lr, l1, l2, lr_power: T)",
    "stateful",
    DENSE,
    *_BY_RATE,
    NotDifferentiable(),
)
define(
    "ResourceApplyFtrlV2(var, accum, linear: resource, grad, lr, l1, l2, l2_shrinkage, lr_power: T)",
    "stateful",
    DENSE,
    *_BY_RATE,
    NotDifferentiable(),
)
define("ResourceApplyGradientDescent(var: resource, alpha, delta: T)", "stateful", DENSE, NotDifferentiable())
define(
    "ResourceApplyKerasMomentum, ResourceApplyMomentum(var, accum: resource, lr, grad, momentum: T)",
    "stateful; T: numbertype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
define(
    "ResourceApplyPowerSign(var, m: resource, lr, logbase, sign_decay, beta, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyProximalAdagrad(var, accum: resource, lr, l1, l2, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyProximalGradientDescent(var: resource, alpha, l1, l2, delta: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)
define(
    "ResourceApplyRMSProp(var, ms, mom: resource, lr, rho, momentum, epsilon, grad: T)",
    "stateful",
    DENSE,
    NotDifferentiable(),
)


@define(
    "SparseApplyAdagrad(var, accum: Ref(T), lr, grad: T, indices: Tindices) -> out: Ref(T)",
    ROWS,
    "update_slots: bool = true",
    NotDifferentiable(),
)
def sparse_adagrad(c: ShapeContext) -> Shapes:
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


@define(
    "SparseApplyMomentum(var, accum: Ref(T), lr, grad: T, indices: Tindices, momentum: T) -> out: Ref(T)",
    "T: numbertype; Tindices: indextype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
def sparse_momentum(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=1, gradient=3)]


@define(
    "SparseApplyAdagradV2(var, accum: Ref(T), lr, epsilon, grad: T, indices: Tindices) -> out: Ref(T)",
    ROWS,
    "update_slots: bool = true",
    NotDifferentiable(),
)
def sparse_adagrad_v2(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=1, gradient=4)]


@define(
    "SparseApplyProximalAdagrad(var, accum: Ref(T), lr, l1, l2, grad: T, indices: Tindices) -> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
def sparse_proximal_adagrad(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=1, gradient=5)]


@define(
    "SparseApplyProximalGradientDescent(var: Ref(T), alpha, l1, l2, grad: T, indices: Tindices) "
    "-> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
def sparse_proximal_descent(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=0, gradient=4)]


@define(
    "SparseApplyAdagradDA(var, gradient_accumulator, gradient_squared_accumulator: Ref(T), grad: T, "
    "indices: Tindices, lr, l1, l2: T, global_step: int64) -> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
@define(
    "SparseApplyFtrl(var, accum, linear: Ref(T), grad: T, indices: Tindices, lr, l1, l2, lr_power: T) "
    "-> out: Ref(T)",
    ROWS,
    *_BY_RATE,
    NotDifferentiable(),
)
@define(
    "SparseApplyFtrlV2(var, accum, linear: Ref(T), grad: T, indices: Tindices, lr, l1, l2, "
    "l2_shrinkage, lr_power: T) -> out: Ref(T)",
    ROWS,
    *_BY_RATE,
    NotDifferentiable(),
)
def sparse_two_slots(c: ShapeContext) -> Shapes:
    """var, two slots, gradient, indices, scalars -> var"""
    return [_sparse(c, slots=2, gradient=3)]


@define(
    "SparseApplyAdadelta(var, accum, accum_update: Ref(T), lr, rho, epsilon, grad: T, indices: Tindices) "
    "-> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
def sparse_adadelta(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=2, gradient=6)]


@define(
    "SparseApplyRMSProp(var, ms, mom: Ref(T), lr, rho, momentum, epsilon, grad: T, indices: Tindices) "
    "-> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
def sparse_rms_prop(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=2, gradient=7)]


@define(
    "SparseApplyCenteredRMSProp(var, mg, ms, mom: Ref(T), lr, rho, momentum, epsilon, grad: T, "
    "indices: Tindices) -> out: Ref(T)",
    ROWS,
    NotDifferentiable(),
)
def sparse_centred_rms_prop(c: ShapeContext) -> Shapes:
    return [_sparse(c, slots=3, gradient=8)]


define(
    "ResourceSparseApplyAdadelta(var, accum, accum_update: resource, lr, rho, epsilon, grad: T, "
    "indices: Tindices)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyAdagrad(var, accum: resource, lr, grad: T, indices: Tindices)",
    "stateful",
    ROWS,
    "update_slots: bool = true",
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyAdagradDA(var, gradient_accumulator, gradient_squared_accumulator: resource, "
    "grad: T, indices: Tindices, lr, l1, l2: T, global_step: int64)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyAdagradV2(var, accum: resource, lr, epsilon, grad: T, indices: Tindices)",
    "stateful",
    ROWS,
    "update_slots: bool = true",
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyCenteredRMSProp(var, mg, ms, mom: resource, lr, rho, momentum, epsilon, "
    "grad: T, indices: Tindices)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyFtrl(var, accum, linear: resource, grad: T, indices: Tindices, lr, l1, l2, "
    "lr_power: T)",
    "stateful",
    ROWS,
    *_BY_RATE,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyFtrlV2(var, accum, linear: resource, grad: T, indices: Tindices, lr, l1, l2, "
    "l2_shrinkage, lr_power: T)",
    "stateful",
    ROWS,
    *_BY_RATE,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyKerasMomentum, "
    "ResourceSparseApplyMomentum(var, accum: resource, lr, grad: T, indices: Tindices, momentum: T)",
    "stateful; T: numbertype; Tindices: indextype; use_locking, use_nesterov: bool = false",
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyProximalAdagrad(var, accum: resource, lr, l1, l2, grad: T, indices: Tindices)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyProximalGradientDescent(var: resource, alpha, l1, l2, grad: T, indices: Tindices)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
define(
    "ResourceSparseApplyRMSProp(var, ms, mom: resource, lr, rho, momentum, epsilon, grad: T, "
    "indices: Tindices)",
    "stateful",
    ROWS,
    NotDifferentiable(),
)
