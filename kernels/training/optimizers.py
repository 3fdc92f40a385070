"""The rules of the optimizers: how a gradient changes a variable and its slots, in place.

Each rule takes the array module, the arrays of the variable and of its slots, the gradient, and the numbers
by name, which are NumPy's or of rank 0 in a device's memory; it writes into the arrays and nothing else. All
arrays have one shape and one floating (or complex) type. A rule is elementwise, so it may be given a block of
a variable, or some of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from flowengine.core.arrays import Array, in_host_memory

Rule: TypeAlias = Callable[..., None]


def wide(dtype: Any) -> Any:
    """The type to compute in."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def apply_rule(xp: Any, rule: Rule, arrays: list[Array], grad: Array, keywords: dict[str, Any]) -> None:
    """Change the arrays by a rule, through float32 where they are narrower."""
    dtype = arrays[0].dtype
    kind = wide(dtype)
    if kind is dtype:
        rule(xp, *arrays, grad, **keywords)
        return
    widened = [a.astype(kind) for a in arrays]
    rule(xp, *widened, grad.astype(kind), **keywords)
    for array, changed in zip(arrays, widened, strict=True):
        array[...] = changed


def _may_be_above_zero(number: Any) -> bool:
    """Whether a strength that is not negative may count; one in a device's memory is not looked at."""
    return not in_host_memory(number) or bool(number > 0)


def _one(number: Any) -> Any:
    """1 in the number's type, so that 1 - beta is rounded as TensorFlow rounds it."""
    return number.dtype.type(1)


def gradient_descent(xp: Any, var: Array, grad: Array, *, alpha: Any) -> None:
    var -= grad * alpha


def momentum(
    xp: Any, var: Array, accum: Array, grad: Array, *, lr: Any, momentum: Any, use_nesterov: bool
) -> None:
    accum *= momentum
    accum += grad
    if use_nesterov:
        step = accum * momentum
        step += grad
        step *= lr
        var -= step
    else:
        var -= accum * lr


def keras_momentum(
    xp: Any, var: Array, accum: Array, grad: Array, *, lr: Any, momentum: Any, use_nesterov: bool
) -> None:
    step = grad * lr
    accum *= momentum
    accum -= step
    if use_nesterov:
        var += accum * momentum
        var -= step
    else:
        var += accum


def adagrad(xp: Any, var: Array, accum: Array, grad: Array, *, lr: Any, update_slots: bool) -> None:
    if update_slots:
        accum += grad * grad
    step = grad * lr
    step /= xp.sqrt(accum)
    var -= step


def adagrad_v2(
    xp: Any, var: Array, accum: Array, grad: Array, *, lr: Any, epsilon: Any, update_slots: bool
) -> None:
    if update_slots:
        accum += grad * grad
    scale = xp.sqrt(accum)
    scale += epsilon
    step = grad * lr
    step /= scale
    var -= step


def adadelta(
    xp: Any, var: Array, accum: Array, accum_update: Array, grad: Array, *, lr: Any, rho: Any, epsilon: Any
) -> None:
    rest = _one(rho) - rho
    accum *= rho
    accum += grad * grad * rest
    step = xp.sqrt(accum_update + epsilon)
    step /= xp.sqrt(accum + epsilon)
    step *= grad
    var -= step * lr
    accum_update *= rho
    step *= step
    step *= rest
    accum_update += step


def adam(
    xp: Any,
    var: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    use_nesterov: bool,
) -> None:
    one = _one(lr)
    alpha = lr * xp.sqrt(one - beta2_power) / (one - beta1_power)
    _moments(m, v, grad, beta1, beta2)
    scale = xp.sqrt(v)
    scale += epsilon
    if use_nesterov:
        step = m * beta1
        step += grad * (one - beta1)
        step *= alpha
    else:
        step = m * alpha
    step /= scale
    var -= step


def adam_with_amsgrad(
    xp: Any,
    var: Array,
    m: Array,
    v: Array,
    vhat: Array,
    grad: Array,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> None:
    one = _one(lr)
    alpha = lr * xp.sqrt(one - beta2_power) / (one - beta1_power)
    _moments(m, v, grad, beta1, beta2)
    xp.maximum(vhat, v, out=vhat)
    scale = xp.sqrt(vhat)
    scale += epsilon
    step = m * alpha
    step /= scale
    var -= step


def _moments(m: Array, v: Array, grad: Array, beta1: Any, beta2: Any) -> None:
    """The running means of the gradient and of its square."""
    change = grad - m
    change *= _one(beta1) - beta1
    m += change
    change = grad * grad
    change -= v
    change *= _one(beta2) - beta2
    v += change


def ada_max(
    xp: Any,
    var: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    beta1_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> None:
    m += (grad - m) * (_one(beta1) - beta1)
    v *= beta2
    xp.maximum(v, xp.abs(grad), out=v)
    step = m * (lr / (_one(lr) - beta1_power))
    step /= v + epsilon
    var -= step


def rms_prop(
    xp: Any,
    var: Array,
    ms: Array,
    mom: Array,
    grad: Array,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
) -> None:
    ms += (grad * grad - ms) * (_one(rho) - rho)
    mom *= momentum
    mom += grad * lr / xp.sqrt(ms + epsilon)
    var -= mom


def centered_rms_prop(
    xp: Any,
    var: Array,
    mg: Array,
    ms: Array,
    mom: Array,
    grad: Array,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
) -> None:
    rest = _one(rho) - rho
    ms += (grad * grad - ms) * rest
    mg += (grad - mg) * rest
    spread = ms - mg * mg
    spread += epsilon
    mom *= momentum
    mom += grad * lr / xp.sqrt(spread)
    var -= mom


def _shrunk(xp: Any, prox: Array, threshold: Any) -> Array:
    """prox moved towards 0 by the threshold, and 0 where it is nearer."""
    result: Array = xp.sign(prox) * xp.maximum(xp.abs(prox) - threshold, prox.dtype.type(0))
    return result


def proximal_gradient_descent(xp: Any, var: Array, grad: Array, *, alpha: Any, l1: Any, l2: Any) -> None:
    prox = var - grad * alpha
    if _may_be_above_zero(l1):
        prox = _shrunk(xp, prox, alpha * l1)
    xp.divide(prox, _one(alpha) + alpha * l2, out=var)


def proximal_adagrad(xp: Any, var: Array, accum: Array, grad: Array, *, lr: Any, l1: Any, l2: Any) -> None:
    accum += grad * grad
    rate = lr / xp.sqrt(accum)
    prox = var - grad * rate
    if _may_be_above_zero(l1):
        prox = _shrunk(xp, prox, rate * l1)
    xp.divide(prox, _one(lr) + rate * l2, out=var)


def adagrad_da(
    xp: Any,
    var: Array,
    gradient_accumulator: Array,
    gradient_squared_accumulator: Array,
    grad: Array,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    global_step: Any,
) -> None:
    gradient_accumulator += grad
    gradient_squared_accumulator += grad * grad
    steps = global_step.astype(lr.dtype)
    direction = (
        _shrunk(xp, gradient_accumulator, l1 * steps) if _may_be_above_zero(l1) else gradient_accumulator
    )
    scale = xp.sqrt(gradient_squared_accumulator)
    scale += l2 * steps * lr
    xp.divide(direction * -lr, scale, out=var)


def ftrl(
    xp: Any,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    lr_power: Any,
    l2_shrinkage: Any = None,
    multiply_linear_by_lr: bool,
) -> None:
    """With `multiply_linear_by_lr` the slot `linear` is the rate times what it is without."""
    shrunk = grad if l2_shrinkage is None else grad + var * (l2_shrinkage + l2_shrinkage)
    total = accum + grad * grad
    if in_host_memory(lr_power) and lr_power == -0.5:
        root, before = xp.sqrt(total), xp.sqrt(accum)
    else:
        root, before = xp.power(total, -lr_power), xp.power(accum, -lr_power)
    if multiply_linear_by_lr:
        linear += shrunk * lr - (root - before) * var
        bound, scale = l1 * lr, root + (l2 + l2) * lr
    else:
        linear += shrunk - (root - before) / lr * var
        bound, scale = l1, root / lr + (l2 + l2)
    xp.divide(xp.clip(linear, -bound, bound) - linear, scale, out=var)
    accum[...] = total


def add_sign(
    xp: Any,
    var: Array,
    m: Array,
    grad: Array,
    *,
    lr: Any,
    alpha: Any,
    sign_decay: Any,
    beta: Any,
) -> None:
    agreement = _agreement(xp, m, grad, beta)
    agreement *= sign_decay
    agreement += alpha
    var -= agreement * grad * lr


def power_sign(
    xp: Any,
    var: Array,
    m: Array,
    grad: Array,
    *,
    lr: Any,
    logbase: Any,
    sign_decay: Any,
    beta: Any,
) -> None:
    agreement = _agreement(xp, m, grad, beta)
    agreement *= logbase * sign_decay
    var -= xp.exp(agreement) * grad * lr


def _agreement(xp: Any, m: Array, grad: Array, beta: Any) -> Array:
    """Update the mean of the gradient; 1 where it has the sign of the gradient, -1 where the other."""
    m *= beta
    m += grad * (_one(beta) - beta)
    result: Array = xp.sign(grad) * xp.sign(m)
    return result
