"""Kernels on a device's arrays: systems of three diagonals, distinct values."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.dtypes import int32
from flowengine.kernels.array.search import unique_with_counts, unique_with_counts_v2
from flowengine.kernels.common.checks import gathered
from flowengine.kernels.linalg.solving import tridiagonal_solve
from flowengine.kernels.math.special import special_functions
from flowengine.testing.strict_arrays import StrictModule


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 3), st.booleans(), st.booleans())
def test_systems_of_three_diagonals_are_solved(
    seed: int, rows: int, batches: int, exchanges: bool, is_complex: bool
) -> None:
    random = np.random.default_rng(seed)
    diagonals = random.choice(np.array([-2, -1, 0, 0.5, 1, 3]), (batches, 3, rows))
    rhs = random.normal(size=(batches, rows, 2))
    if is_complex:
        diagonals = diagonals * random.choice(np.array([1, 1j]), diagonals.shape)
        rhs = rhs.astype(np.complex128)
    xp = StrictModule()
    with np.errstate(all="ignore"), gathered() as checks:
        found = xp.moved_out(
            tridiagonal_solve(xp, xp.moved_in(diagonals), xp.moved_in(rhs), partial_pivoting=exchanges)
        )
    refused = [str(each.error()) for each in checks if xp.moved_out(each.wrong)]
    assert xp.reads == []
    matrices = np.zeros((batches, rows, rows), diagonals.dtype)
    for above, column in ((1, slice(0, -1)), (0, slice(None)), (-1, slice(1, None))):
        places = np.arange(rows)[column]
        matrices[:, places, places + above] = diagonals[:, 1 - above, column]
    if abs(np.linalg.det(matrices)).min() < 1e-6:
        return  # what is told of the last bits
    if refused:
        with pytest.raises(fe.errors.InvalidArgumentError) as told, np.errstate(all="ignore"):
            tridiagonal_solve(np, diagonals, rhs, partial_pivoting=exchanges)
        assert str(told.value) in refused
        return
    near = tridiagonal_solve(np, diagonals, rhs, partial_pivoting=exchanges)
    np.testing.assert_allclose(found, near, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(matrices @ found, rhs, rtol=1e-7, atol=1e-7)


@example(0, 0, 3, "f")
@example(0, 3, 0, "f")
@given(st.integers(0, 2**32 - 1), st.integers(0, 70), st.integers(0, 3), st.sampled_from("fdihb?"))
def test_distinct_values_come_as_they_first_appear(seed: int, rows: int, columns: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    of_all = np.array([0.0, -0.0, 1, 2, np.nan if kind in "fd" else 3]).astype(kind)
    xp = StrictModule()
    axis = np.array([0], np.int32)
    matrix = random.choice(of_all, (rows, columns))
    across = np.ascontiguousarray(matrix.T)
    vector = random.choice(of_all, rows)
    for kernel, far, near in (
        (unique_with_counts_v2, [xp.moved_in(matrix), axis], [matrix, axis]),
        (unique_with_counts_v2, [xp.moved_in(across), axis + 1], [across, axis + 1]),
        (unique_with_counts, [xp.moved_in(vector)], [vector]),
    ):
        wanted = kernel(np, *near, out_idx=int32)
        found = kernel(xp, *far, out_idx=int32)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(xp.moved_out(one), other, strict=True)


def test_a_module_has_its_special_functions_or_they_are_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = ModuleType("elsewherex.scipy.special")
    for name in ("elsewherex", "elsewherex.scipy"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, beside.__name__, beside)
    assert special_functions(SimpleNamespace(__name__="elsewhere")) is beside
    own = object()
    assert special_functions(SimpleNamespace(__name__="elsewhere", special=own)) is own
