"""Optimizers' updates of many variables in one launch: `sources/optimizers.cuh`.

    updated = [UpdatedVariable([weights, velocity], gradient), UpdatedVariable([bias, another], its_gradient)]
    apply_all(launcher, "Momentum", updated, {"lr": 0.1, "momentum": 0.9, "use_nesterov": False})

Variables of one launch share rule, type and numbers. Each operation rounds as in the CPU's rules
(`kernels/training/optimizers.py`), so variables and slots have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.launching import THREADS, KernelLaunch, Launcher, wide_type

#: Elements of a block, as FE_CHUNK in the source.
_CHUNK: Final = 2048
_BLOCKS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FusedRule:
    """slots: arrays that are changed, the variable first. numbers: what the rule takes, in order."""

    slots: int
    numbers: tuple[str, ...]


_ADAM: Final = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
#: {optimizer, as in the names of its ops: its rule}.
RULES: Final[dict[str, FusedRule]] = {
    "GradientDescent": FusedRule(1, ("alpha",)),
    "Momentum": FusedRule(2, ("lr", "momentum", "use_nesterov")),
    "KerasMomentum": FusedRule(2, ("lr", "momentum", "use_nesterov")),
    "Adagrad": FusedRule(2, ("lr", "update_slots")),
    "AdagradV2": FusedRule(2, ("lr", "epsilon", "update_slots")),
    "Adadelta": FusedRule(3, ("lr", "rho", "epsilon")),
    "Adam": FusedRule(3, (*_ADAM, "use_nesterov")),
    "AdamWithAmsgrad": FusedRule(4, _ADAM),
    "AdaMax": FusedRule(3, ("beta1_power", "lr", "beta1", "beta2", "epsilon")),
    "RMSProp": FusedRule(3, ("lr", "rho", "momentum", "epsilon")),
    "CenteredRMSProp": FusedRule(4, ("lr", "rho", "momentum", "epsilon")),
}


@dataclass(frozen=True, slots=True)
class UpdatedVariable:
    """arrays: the variable and its slots, written. gradient: of their shape and type."""

    arrays: Sequence[Array]
    gradient: Array


def apply_all(
    launcher: Launcher,
    optimizer: str,
    variables: Sequence[UpdatedVariable],
    numbers: Mapping[str, Any],
) -> None:
    """Change all variables by their gradients.

    optimizer   a key of `RULES`
    variables   of one type: float16, bfloat16, float32 or float64; each array lies without gaps
    numbers     by name, all that the rule takes

    Raises InvalidArgumentError for an unknown optimizer, missing numbers, arrays that do not belong together.
    """
    rule = RULES.get(optimizer)
    if rule is None:
        raise InvalidArgumentError(
            f"there is no CUDA kernel for the optimizer '{optimizer}': there are {', '.join(RULES)}"
        )
    missing = [name for name in rule.numbers if name not in numbers]
    if missing:
        raise InvalidArgumentError(f"the rule of {optimizer} also takes {', '.join(missing)}")
    for number, variable in enumerate(variables):
        _check(optimizer, rule, number, variable, variables[0])
    kept = [v for v in variables if v.gradient.size]
    if not kept:
        return
    dtype = kept[0].gradient.dtype
    table = np.array(
        [[*(launcher.address(a) for a in (*v.arrays, v.gradient)), v.gradient.size] for v in kept], np.uint64
    )
    starts = np.zeros(len(kept) + 1, np.int64)
    np.cumsum([-(-v.gradient.size // _CHUNK) for v in kept], out=starts[1:])
    values = np.array([numbers[name] for name in rule.numbers], wide_type(dtype))
    launch = KernelLaunch(
        f"apply_{optimizer}_{dtype.name}", (len(kept),), min(int(starts[-1]), _BLOCKS_MAX), THREADS
    )
    launcher.launch(launch, [launcher.moved_in(each) for each in (table, starts, values)])


def _check(
    optimizer: str, rule: FusedRule, number: int, variable: UpdatedVariable, first: UpdatedVariable
) -> None:
    given, wanted = variable.gradient, first.gradient.dtype
    if len(variable.arrays) != rule.slots:
        raise InvalidArgumentError(
            f"{optimizer} changes {rule.slots} arrays, but variable {number} has {len(variable.arrays)}"
        )
    for array in (*variable.arrays, given):
        if array.shape != given.shape or array.dtype != wanted:
            raise InvalidArgumentError(
                f"variable {number} of {optimizer} has an array of shape {list(array.shape)} "
                f"({array.dtype.name}) beside a gradient of shape {list(given.shape)} ({wanted.name})"
            )


__all__ = ["RULES", "FusedRule", "UpdatedVariable", "apply_all"]
