"""Optimizers in CUDA C, many variables at once: the bits of the CPU's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda import optimizers
from flowengine.kernels.cuda.optimizers import UpdatedVariable
from flowengine.kernels.training.apply import dense_updates
from tests.kernels.cuda.closeness import FLOATS, NARROW, Floats, agrees, floats, seeds
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

#: Numbers that a rule may take.
NUMBERS = {
    "alpha": 0.3,
    "lr": 0.1,
    "momentum": 0.9,
    "rho": 0.95,
    "epsilon": 1e-3,
    "beta1": 0.9,
    "beta2": 0.99,
    "beta1_power": 0.81,
    "beta2_power": 0.98,
}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("optimizers"), "optimizers")


def test_every_rule_that_is_exact_is_there() -> None:
    wanted = {op.removeprefix("ResourceApply") for op in dense_updates() if op.startswith("Resource")}
    assert set(optimizers.RULES) == wanted


@given(
    st.sampled_from(sorted(optimizers.RULES)),
    st.lists(
        st.sampled_from([(), (3,), (0, 2), (7, 5), (2047,), (2048,), (2049,), (5000,)]),
        min_size=1,
        max_size=4,
    ),
    seeds,
    st.sampled_from(FLOATS),
    st.booleans(),
)
def test_all_variables_get_the_cpus_bits(
    launcher: HostLauncher, optimizer: str, shapes: list[tuple[int, ...]], seed: int, dtype: str, flag: bool
) -> None:
    update = dense_updates()[f"ResourceApply{optimizer}"]
    rule = optimizers.RULES[optimizer]
    attrs = dict.fromkeys(update.attrs, flag)
    assert rule.slots == len(update.slots)
    assert rule.numbers == (*update.numbers, *update.attrs)
    given_numbers = {name: NUMBERS[name] for name in update.numbers}
    made = [_arrays(seed + 10 * n, dtype, rule.slots, shape) for n, shape in enumerate(shapes)]
    wanted = [[array.copy() for array in arrays] for arrays in made]
    wide = np.dtype(np.float32 if dtype in NARROW else dtype)
    keywords: dict[str, Any] = {name: wide.type(value) for name, value in given_numbers.items()} | attrs
    variables = []
    for arrays, copies in zip(made, wanted, strict=True):
        *slots, gradient = (array.astype(wide) for array in copies)
        update.rule(np, *slots, gradient, **keywords)
        for copy, changed in zip(copies[:-1], slots, strict=True):
            copy[...] = changed.astype(copy.dtype)
        variables.append(UpdatedVariable(arrays[:-1], arrays[-1]))
    before = len(launcher.launches)
    optimizers.apply_all(launcher, optimizer, variables, given_numbers | attrs)
    # One puts the numbers side by side, one changes all variables.
    assert len(launcher.launches) - before in (0, 2)
    for arrays, copies in zip(made, wanted, strict=True):
        for array, copy in zip(arrays, copies, strict=True):
            assert agrees(array, copy, 0), optimizer


def _arrays(seed: int, dtype: str, slots: int, shape: tuple[int, ...]) -> list[Floats]:
    """Variable, slots and gradient; slots are what squares add up to."""
    first, *others = (floats(seed + n, dtype, *shape) for n in range(slots + 1))
    gradient = others.pop()
    kept = [np.abs(other) + other.dtype.type(0.25) for other in others]
    if slots == 4:
        kept[0] = kept[0] * kept[0].dtype.type(0.125)  # a mean whose square is below the mean of squares
        kept[1] = kept[1] + kept[1].dtype.type(4)
    return [first, *kept, gradient]


def test_what_is_refused(launcher: HostLauncher) -> None:
    x = np.zeros(3, np.float32)
    numbers = {"lr": 0.1, "momentum": 0.9, "use_nesterov": False}
    with pytest.raises(InvalidArgumentError, match="the optimizer 'Ftrl': there are GradientDescent"):
        optimizers.apply_all(launcher, "Ftrl", [], {})
    with pytest.raises(InvalidArgumentError, match="Momentum also takes momentum, use_nesterov"):
        optimizers.apply_all(launcher, "Momentum", [], {"lr": 0.1})
    with pytest.raises(InvalidArgumentError, match="changes 2 arrays, but variable 0 has 1"):
        optimizers.apply_all(launcher, "Momentum", [UpdatedVariable([x], x)], numbers)
    wrong = UpdatedVariable([x, np.zeros(4, np.float32)], x)
    with pytest.raises(InvalidArgumentError, match=r"variable 1 of Momentum has an array of shape \[4\]"):
        optimizers.apply_all(launcher, "Momentum", [UpdatedVariable([x, x], x), wrong], numbers)
    optimizers.apply_all(launcher, "Momentum", [], numbers)
