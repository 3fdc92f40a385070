"""Steps of optimizers on variables, by reference or by resource handle, dense and sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.ops.load import registry
from tests.oprecords.record import HALVES, BadSample, OpRecord, Sample, bad

_VAR = np.array([[1.0, -2.0], [3.0, 0.25], [-0.5, 4.0]])
_SLOT = np.array([[0.5, 0.25], [0.125, 1.0], [2.0, 0.75]])
_GRAD = np.array([[0.5, -1.0], [0.25, 2.0], [-0.75, 0.125]])
_ROWS = [2, 0]

#: Values of inputs by name; what is not here is a slot.
_SCALARS = {
    "lr": 0.125,
    "alpha": 0.125,
    "momentum": 0.5,
    "epsilon": 0.0625,
    "l1": 0.25,
    "l2": 0.125,
    "l2_shrinkage": 0.5,
    "lr_power": -0.5,
    "rho": 0.75,
    "beta1": 0.75,
    "beta2": 0.875,
    "beta1_power": 0.5,
    "beta2_power": 0.75,
    "logbase": 1.0,
    "sign_decay": 0.5,
    "beta": 0.75,
    "global_step": 3,
}


def _shrink(x: Any, l1: Any) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - l1, 0)


def _gradient_descent(s: Any) -> None:
    s.var -= s.alpha * s.delta


def _proximal_gradient_descent(s: Any) -> None:
    delta = s.delta if hasattr(s, "delta") else s.grad
    s.var[:] = _shrink(s.var - s.alpha * delta, s.alpha * s.l1) / (1 + s.alpha * s.l2)


def _momentum(s: Any) -> None:
    s.accum[:] = s.accum * s.momentum + s.grad
    s.var -= s.lr * (s.grad + s.accum * s.momentum if s.use_nesterov else s.accum)


def _keras_momentum(s: Any) -> None:
    s.accum[:] = s.accum * s.momentum - s.lr * s.grad
    s.var += s.accum * s.momentum - s.lr * s.grad if s.use_nesterov else s.accum


def _adagrad(s: Any) -> None:
    if s.update_slots:
        s.accum += s.grad**2
    s.var -= s.lr * s.grad / np.sqrt(s.accum)


def _adagrad_v2(s: Any) -> None:
    if s.update_slots:
        s.accum += s.grad**2
    s.var -= s.lr * s.grad / (np.sqrt(s.accum) + s.epsilon)


def _proximal_adagrad(s: Any) -> None:
    s.accum += s.grad**2
    rate = s.lr / np.sqrt(s.accum)
    s.var[:] = _shrink(s.var - rate * s.grad, rate * s.l1) / (1 + rate * s.l2)


def _adagrad_da(s: Any) -> None:
    s.gradient_accumulator += s.grad
    s.gradient_squared_accumulator += s.grad**2
    mean = _shrink(s.gradient_accumulator, s.l1 * s.global_step) if s.l1 > 0 else s.gradient_accumulator
    s.var[:] = -s.lr * mean / (s.l2 * s.global_step * s.lr + np.sqrt(s.gradient_squared_accumulator))


def _adadelta(s: Any) -> None:
    s.accum[:] = s.accum * s.rho + s.grad**2 * (1 - s.rho)
    update = np.sqrt(s.accum_update + s.epsilon) / np.sqrt(s.accum + s.epsilon) * s.grad
    s.accum_update[:] = s.accum_update * s.rho + update**2 * (1 - s.rho)
    s.var -= update * s.lr


def _adam(s: Any) -> None:
    rate = s.lr * np.sqrt(1 - s.beta2_power) / (1 - s.beta1_power)
    s.m += (s.grad - s.m) * (1 - s.beta1)
    s.v += (s.grad**2 - s.v) * (1 - s.beta2)
    step = s.grad * (1 - s.beta1) + s.beta1 * s.m if s.use_nesterov else s.m
    s.var -= step * rate / (np.sqrt(s.v) + s.epsilon)


def _amsgrad(s: Any) -> None:
    rate = s.lr * np.sqrt(1 - s.beta2_power) / (1 - s.beta1_power)
    s.m += (s.grad - s.m) * (1 - s.beta1)
    s.v += (s.grad**2 - s.v) * (1 - s.beta2)
    s.vhat[:] = np.maximum(s.vhat, s.v)
    s.var -= s.m * rate / (np.sqrt(s.vhat) + s.epsilon)


def _ada_max(s: Any) -> None:
    s.m += (s.grad - s.m) * (1 - s.beta1)
    s.v[:] = np.maximum(s.beta2 * s.v, np.abs(s.grad))
    s.var -= s.lr / (1 - s.beta1_power) * s.m / (s.v + s.epsilon)


def _rms_prop(s: Any) -> None:
    s.ms += (s.grad**2 - s.ms) * (1 - s.rho)
    s.mom[:] = s.mom * s.momentum + s.lr * s.grad / np.sqrt(s.ms + s.epsilon)
    s.var -= s.mom


def _centered_rms_prop(s: Any) -> None:
    s.ms += (s.grad**2 - s.ms) * (1 - s.rho)
    s.mg += (s.grad - s.mg) * (1 - s.rho)
    s.mom[:] = s.mom * s.momentum + s.lr * s.grad / np.sqrt(s.ms - s.mg**2 + s.epsilon)
    s.var -= s.mom


def _ftrl(s: Any) -> None:
    grad = s.grad + 2 * s.l2_shrinkage * s.var if hasattr(s, "l2_shrinkage") else s.grad
    accum = s.accum + s.grad**2
    rate = s.lr if s.multiply_linear_by_lr else 1
    s.linear += rate * (grad - (accum**-s.lr_power - s.accum**-s.lr_power) / s.lr * s.var)
    quadratic = rate * (accum**-s.lr_power / s.lr + 2 * s.l2)
    bound = rate * s.l1
    s.var[:] = np.where(np.abs(s.linear) > bound, (np.sign(s.linear) * bound - s.linear) / quadratic, 0)
    s.accum[:] = accum


def _add_sign(s: Any) -> None:
    s.m[:] = s.m * s.beta + s.grad * (1 - s.beta)
    s.var -= s.lr * (s.alpha + s.sign_decay * np.sign(s.grad) * np.sign(s.m)) * s.grad


def _power_sign(s: Any) -> None:
    s.m[:] = s.m * s.beta + s.grad * (1 - s.beta)
    s.var -= s.lr * np.exp(s.logbase * s.sign_decay * np.sign(s.grad) * np.sign(s.m)) * s.grad


_FLAGS: Final = ("use_nesterov", "update_slots", "multiply_linear_by_lr")
_BY_RATE: Final[Sequence[dict[str, bool]]] = ({}, {"multiply_linear_by_lr": True})


class _State:
    """The inputs of one update by name; a sparse one sees the rows that it touches."""


def _records(
    name: str, update: Callable[[Any], None], flags: Sequence[dict[str, bool]] = ({},)
) -> list[OpRecord]:
    ops = [prefix + name for prefix in ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")]
    return [_record(op, update, flags) for op in ops if op in registry()]


def _record(op: str, update: Callable[[Any], None], flags: Sequence[dict[str, bool]]) -> OpRecord:
    definition = registry()[op]
    names = [arg.name for arg in definition.inputs]
    variables = [arg.name for arg in definition.inputs if arg.is_ref or str(arg.type) == "resource"]
    flag_names = [a.name for a in definition.attrs if a.name in _FLAGS]

    def inputs(grad: Any, rows: Any) -> tuple[Any, ...]:
        known = {"var": _VAR, "grad": grad, "delta": grad, "indices": rows, **_SCALARS}
        return tuple(known.get(name, _SLOT) for name in names)

    def reference(*values: Any, **attrs: Any) -> list[Any]:
        given = dict(zip(names, values, strict=True))
        rows = given.get("indices")
        state = _State()
        for name, value in given.items():
            vars(state)[name] = value[rows] if rows is not None and name in variables else value
        for name in flag_names:
            vars(state)[name] = attrs[name]
        update(state)
        for name in variables:
            if rows is not None:
                given[name][rows] = vars(state)[name]
            else:
                given[name] = vars(state)[name]
        return [given[name] for name in variables]

    sparse = "indices" in names
    grad = _GRAD[:2] if sparse else _GRAD
    samples = [
        Sample(inputs(grad, _ROWS), {**attrs, "use_locking": locked})
        for attrs in flags
        for locked in (False, True)
    ]
    if sparse:
        samples.append(Sample(inputs(np.zeros((0, 2)), np.zeros((0,))), dict(flags[0])))
        wrong: list[BadSample] = [
            bad("InvalidArgumentError", "7", *inputs(grad, [0, 7])),
            bad("InvalidArgumentError", "", *inputs(grad, [0, 1, 2])),
        ]
    else:
        wrong = [bad("InvalidArgumentError", "", *inputs(_GRAD[:2], _ROWS))]
    return OpRecord(
        op,
        samples,
        _Reference(reference, flag_names),
        wrong,
        {"T": ("float32", "float64", *HALVES)},
        loose=4,
        updates=True,
    )


class _Reference:
    """A reference that is told the op's flags; which those are depends on the op."""

    def __init__(self, function: Callable[..., Any], flags: Sequence[str]) -> None:
        self.function, self.attr_names = function, flags

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        return self.function(*inputs, **attrs)


_NESTEROV = [{}, {"use_nesterov": True}]
_SLOTS = [{}, {"update_slots": False}]

RECORDS: Final = [
    *_records("GradientDescent", _gradient_descent),
    *_records("ProximalGradientDescent", _proximal_gradient_descent),
    *_records("Momentum", _momentum, _NESTEROV),
    *_records("KerasMomentum", _keras_momentum, _NESTEROV),
    *_records("Adagrad", _adagrad, _SLOTS),
    *_records("AdagradV2", _adagrad_v2, _SLOTS),
    *_records("ProximalAdagrad", _proximal_adagrad),
    *_records("AdagradDA", _adagrad_da),
    *_records("Adadelta", _adadelta),
    *_records("Adam", _adam, _NESTEROV),
    *_records("AdamWithAmsgrad", _amsgrad),
    *_records("AdaMax", _ada_max),
    *_records("RMSProp", _rms_prop),
    *_records("CenteredRMSProp", _centered_rms_prop),
    *_records("Ftrl", _ftrl, _BY_RATE),
    *_records("FtrlV2", _ftrl, _BY_RATE),
    *_records("AddSign", _add_sign),
    *_records("PowerSign", _power_sign),
]
