"""Products of a large matrix and few rows or columns: by blocks they are what they are as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.products import multiply
from flowengine.kernels.onednn.programs import thin_products
from flowengine.kernels.onednn.programs.matrix_product import matrix_product
from flowengine.kernels.onednn.programs.thin_products import (
    gives_large,
    large_factor,
    large_result,
    takes_large,
)
from tests.effort import examples
from tests.kernels.onednn.processor import needs_products

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(a: Any, b: Any) -> Any:
    """The library's own product."""
    out = np.empty((len(a), b.shape[1]), np.float32)
    layer = matrix_product(len(a), a.shape[1], b.shape[1], False, False)
    assert layer is not None
    layer(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


@needs_products
@pytest.mark.parametrize("rows", [1024, 1027, 1055])
@pytest.mark.parametrize("inner", [1, 8, 32])
@pytest.mark.parametrize("order", ["as it is", "left", "right"])
def test_a_large_result_to_the_last_bit(rows: int, inner: int, order: str) -> None:
    a, b = numbers(1, rows, inner), numbers(2, inner, 2048)
    left, right = order == "left", order == "right"
    assert gives_large(rows, inner, 2048)
    out = np.full((rows, 2048), np.nan, np.float32)
    made = multiply(np.array(a.T) if left else a, np.array(b.T) if right else b, out, left, right)
    assert made is out
    np.testing.assert_array_equal(out, whole(a, b))
    assert large_result(a, b, out)  # the library has it, so that this is what was tested


@needs_products
@settings(max_examples=examples(40))
@given(
    rows=st.integers(1, 64),
    inner=st.integers(256, 2500),
    columns=st.integers(512, 2100),
    left=st.booleans(),
)
def test_a_large_factor(rows: int, inner: int, columns: int, left: bool) -> None:
    columns = max(columns, -(-(1 << 18) // inner))
    assert takes_large(rows, inner, columns)
    a, b = numbers(1, rows, inner), numbers(2, inner, columns)
    # What lies around the result stays as it is.
    room = np.full(rows * columns + 128, 7, np.float32)
    out = room[64:-64].reshape(rows, columns)
    out[...] = np.nan
    multiply(np.array(a.T) if left else a, b, out, left)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
    assert (room[:64] == 7).all()
    assert (room[-64:] == 7).all()
    again = np.empty_like(out)
    assert large_factor(a, b, again)  # the library has it, so that this is what was tested
    np.testing.assert_array_equal(out, again)


@needs_products
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_reaches_its_column(bad: float) -> None:
    a, b = numbers(1, 3, 600), numbers(2, 600, 3000)
    b[17, 5] = bad
    out = np.empty((3, 3000), np.float32)
    assert large_factor(a, b, out)
    assert not np.isfinite(out[:, 5]).any()
    assert np.isfinite(np.delete(out, 5, 1)).all()


@needs_products
def test_no_bit_depends_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(1, 8, 4096), numbers(2, 4096, 2048)
    spread, alone = np.empty((2, 8, 2048), np.float32)
    assert large_factor(a, b, spread)
    monkeypatch.setattr(
        thin_products, "spread", lambda piece, count: [piece(n) for n in reversed(range(count))]
    )
    assert large_factor(a, b, alone)
    np.testing.assert_array_equal(spread, alone)


def test_what_is_not_large_is_left_to_the_library() -> None:
    assert takes_large(64, 512, 512)
    assert not takes_large(65, 512, 512)
    assert not takes_large(8, 512, 511)
    assert not takes_large(8, 255, 1 << 14)
    assert not takes_large(8, 1 << 14, 500)
    assert not gives_large(1 << 14, 64, 2048)
