"""Elementwise kernels over large arrays have the bits of the same kernels over pieces of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flowengine.kernels.common.blockwise import LARGE
from flowengine.kernels.index import OPS as HOMES
from flowengine.ops.load import registry

SIZE = 2 * LARGE + 37
PIECE = 4096
OPS = [
    *HOMES["numpy.large_elementwise"].split(),
    "Elu",
    "Selu",
    "Softplus",
    "Relu",
    "Relu6",
    "ReluGrad",
    "SelectV2",
]


def _numbers(seed: int, dtype: Any) -> Any:
    """Of every size, with zeros and what is not finite in between."""
    random = np.random.default_rng(seed)
    values = random.normal(size=SIZE) * 10.0 ** random.integers(-3, 3, SIZE)
    for value in (0.0, -0.0, np.inf, -np.inf, np.nan):
        values[random.integers(0, SIZE, 50)] = value
    return values.astype(dtype)


def _inputs(op: str, dtype: Any) -> list[Any]:
    count = len(registry()[op].inputs)
    found = [_numbers(seed, dtype) for seed in range(count)]
    if op == "SelectV2":
        found[0] = np.signbit(found[1])
    return found


def _attrs(op: str) -> dict[str, Any]:
    return {"alpha": 0.25} if op.startswith("Leaky") else {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", OPS)
def test_large_arrays_give_what_their_pieces_give(run_op: Callable[..., Any], op: str, dtype: Any) -> None:
    if op == "SelectV2":
        types = {"T": {2: "bfloat16", 4: "float32", 8: "float64"}[np.dtype(dtype).itemsize]}
    else:
        types = None
    inputs = _inputs(op, dtype)
    before = [value.tobytes() for value in inputs]
    (whole,) = run_op(op, *inputs, types=types, **_attrs(op))
    parts = [
        run_op(op, *(value[start : start + PIECE] for value in inputs), types=types, **_attrs(op))[0]
        for start in range(0, SIZE, PIECE)
    ]
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole.astype(np.float64), np.concatenate(parts).astype(np.float64))
    assert [value.tobytes() for value in inputs] == before


def test_large_arrays_of_several_shapes_broadcast(run_op: Callable[..., Any]) -> None:
    rows, row = _numbers(1, np.float32)[: LARGE * 2].reshape(-1, 64), np.linspace(-1, 1, 64, dtype=np.float32)
    (out,) = run_op("SquaredDifference", rows, row)
    np.testing.assert_array_equal(out, np.square(rows - row))
    (out,) = run_op("DivNoNan", rows, row[:1])
    np.testing.assert_array_equal(out, rows / row[:1])


def test_large_arrays_in_another_order(run_op: Callable[..., Any]) -> None:
    rows = np.abs(_numbers(1, np.float32)[: LARGE * 2].reshape(-1, 64)).T
    (out,) = run_op("Rsqrt", rows)
    np.testing.assert_array_equal(out, run_op("Rsqrt", np.ascontiguousarray(rows))[0])
