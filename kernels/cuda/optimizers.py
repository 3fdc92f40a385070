"""Optimizers' updates of many variables in one launch: `sources/optimizers.cuh`.

    updated = [UpdatedVariable([weights, velocity], gradient), UpdatedVariable([bias, another], its_gradient)]
    apply_all(launcher, "Momentum", updated, {"lr": 0.1, "momentum": 0.9, "use_nesterov": False})

Variables of one launch share rule, type and numbers. Each operation rounds as in the CPU's rules
(`kernels/training/optimizers.py`), so variables and slots have the same bits. A number may be one that the
card has computed, such as a power of Adam's beta: nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory, is_tensor
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.launching import (
    THREADS,
    KernelLaunch,
    Launcher,
    float_bits,
    wide_type,
)

#: Elements of a block, as FE_CHUNK in the source.
_CHUNK: Final = 2048
_BLOCKS_MAX: Final = 1 << 16
#: So many numbers a rule has at most, as `collect` in the source.
_NUMBERS_MAX: Final = 8
#: Tables of addresses that are kept: the pool gives a step's gradients the places of the step before.
_KEPT_MAX: Final = 8


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


class AddressTables:
    """Addresses that launches were made with, in the device's memory: equal ones are copied there once."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Sequence[Array]] = {}

    def moved_in(self, launcher: Launcher, tables: Sequence[Array]) -> Sequence[Array]:
        """These arrays of the host in the device's memory."""
        key = b"".join(table.tobytes() for table in tables)
        found = self._kept.pop(key, None)
        if found is None:
            found = [launcher.moved_in(table) for table in tables]
        # The one that was used last is the last to go.
        self._kept[key] = found
        if len(self._kept) > _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return found


def apply_all(
    launcher: Launcher,
    optimizer: str,
    variables: Sequence[UpdatedVariable],
    numbers: Mapping[str, Any],
    tables: AddressTables | None = None,
) -> None:
    """Change all variables by their gradients.

    optimizer   a key of `RULES`
    variables   of one type: float16, bfloat16, float32 or float64; each array lies without gaps
    numbers     by name, all that the rule takes: of the host, or arrays of rank 0 of the variables' type in
                the device's memory
    tables      those of earlier calls, where the same variables are changed again and again

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
    values = _collected(launcher, [numbers[name] for name in rule.numbers], dtype)
    launch = KernelLaunch(
        f"apply_{optimizer}_{dtype.name}", (len(kept),), min(int(starts[-1]), _BLOCKS_MAX), THREADS
    )
    there = (AddressTables() if tables is None else tables).moved_in(launcher, (table, starts))
    launcher.launch(launch, [*there, values])


def _collected(launcher: Launcher, numbers: Sequence[Any], dtype: Any) -> Array:
    """A rule's numbers side by side in the device's memory, in the type that it is computed in."""
    values = launcher.empty((_NUMBERS_MAX,), wide_type(dtype))
    missing = _NUMBERS_MAX - len(numbers)
    near = [not is_tensor(number) or in_host_memory(number) for number in numbers]
    bits = [float_bits(float(n)) if here else 0 for n, here in zip(numbers, near, strict=True)]
    far = [None if here else number for number, here in zip(numbers, near, strict=True)]
    name = f"collect_numbers_{dtype.name}"
    launch = KernelLaunch(name, (len(numbers), *bits, *([0] * missing)), 1, 1)
    launcher.launch(launch, [*far, *([None] * missing), values])
    return values


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


__all__ = ["RULES", "AddressTables", "FusedRule", "UpdatedVariable", "apply_all"]
