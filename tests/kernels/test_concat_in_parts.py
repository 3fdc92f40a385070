"""Large tensors are joined and added a part at a time, and give what whole ones would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.numpy import joining
from flowengine.kernels.numpy.binary import add_n_in_blocks
from flowengine.kernels.numpy.joining import concat_v2


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_joined_along_any_axis(axis: int) -> None:
    shapes = [[301, 20, 30] for _ in range(3)]
    for extra, shape in enumerate(shapes):
        shape[axis] += extra
    values = tuple(numbers(i, *shape) for i, shape in enumerate(shapes))
    for given in (values, tuple(v.transpose(1, 0, 2).copy().transpose(1, 0, 2) for v in values)):
        got = concat_v2(given, np.int32(axis))
        np.testing.assert_array_equal(got, np.concatenate(values, axis))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 300, 1001])
@pytest.mark.parametrize("width", [1, 700, 200_000])
def test_blocks_of_rows_end_where_the_rows_do(
    monkeypatch: pytest.MonkeyPatch, count: int, rows: int, width: int
) -> None:
    """Rows of which thousands make a block, or of which one is more than a block."""
    rows = min(rows, 7) if width > 1000 else rows
    monkeypatch.setattr(joining, "cores", lambda: count)
    tables = [numbers(0, rows, width), numbers(1, rows, 500), numbers(2, rows, 1)]
    out = np.full((rows, width + 501), np.nan, np.float32)
    joining.join_rows(tables, out)
    np.testing.assert_array_equal(out, np.concatenate(tables, 1))


def test_rows_of_nothing_are_joined() -> None:
    empty = np.empty((3, 0), np.float32)
    joining.join_rows([empty, empty], out := empty.copy())
    assert out.shape == (3, 0)


def test_nothing_to_join_in_one_of_them() -> None:
    values = (numbers(0, 600, 500), np.empty((600, 0), np.float32), numbers(1, 600, 7))
    np.testing.assert_array_equal(concat_v2(values, np.int32(1)), np.concatenate(values, 1))


def test_shapes_that_do_not_fit_are_told() -> None:
    with pytest.raises(InvalidArgumentError, match="should match"):
        concat_v2((numbers(0, 600, 500), numbers(0, 601, 500)), np.int32(1))
    with pytest.raises(InvalidArgumentError, match="concatenating dimension"):
        concat_v2((numbers(0, 600, 500), numbers(0, 600, 500)), np.int32(2))


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_sum_of_many(count: int) -> None:
    values = tuple(numbers(i, 300, 500) for i in range(count))
    wanted = values[0]
    for value in values[1:]:
        wanted = wanted + value
    kept = [value.copy() for value in values]
    np.testing.assert_array_equal(add_n_in_blocks(values), wanted)
    for value, before in zip(values, kept, strict=True):
        np.testing.assert_array_equal(value, before)
