"""Sparse updates against NumPy one element at a time, and against what they must not touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.kernels.common import host_rows
from flowengine.kernels.state import scatter
from flowengine.resources.variable import Variable


def _variable(value: Any, dtype: dtypes.DType | None = None) -> Variable:
    variable = Variable("v", dtype or dtypes.as_dtype(np.asarray(value).dtype), UNKNOWN_SHAPE)
    variable.assign(value)
    return variable


def _truncate(a: Any, b: Any) -> Any:
    return np.trunc(a / b).astype(np.asarray(a).dtype)


_KERNELS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "update": (scatter.scatter_update, lambda a, b: b),
    "add": (scatter.scatter_add, np.add),
    "sub": (scatter.scatter_sub, np.subtract),
    "mul": (scatter.scatter_mul, np.multiply),
    "div": (scatter.scatter_div, _truncate),
    "min": (scatter.scatter_min, np.minimum),
    "max": (scatter.scatter_max, np.maximum),
}


@given(
    op=st.sampled_from(sorted(_KERNELS)),
    indices=st.lists(st.integers(0, 5), max_size=80),
    width=st.sampled_from([(), (1,), (3,), (2, 2)]),
    seed=st.integers(0, 999),
)
def test_every_occurrence_counts_in_order(
    op: str, indices: list[int], width: tuple[int, ...], seed: int
) -> None:
    kernel, combine = _KERNELS[op]
    rng = np.random.default_rng(seed)
    start = rng.integers(-50, 50, (6, *width)).astype(np.int64)
    updates = rng.choice([-3, -2, -1, 1, 2], (len(indices), *width)).astype(np.int64)
    if op == "mul":
        updates = np.sign(updates)
    variable = _variable(start)
    kernel(variable, np.array(indices, np.int32), updates)
    for index, update in zip(indices, updates, strict=True):
        start[index] = combine(start[index], update)
    np.testing.assert_array_equal(variable.read(), start)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
def test_many_repetitions_take_the_sorted_way(op: str) -> None:
    kernel, combine = _KERNELS[op]
    rng = np.random.default_rng(1)
    start = rng.standard_normal((10, 8))
    indices = rng.integers(0, 10, 1000)
    updates = rng.uniform(0.9, 1.1, (1000, 8))
    variable = _variable(start)
    kernel(variable, indices, updates)
    for index, update in zip(indices, updates, strict=True):
        start[index] = combine(start[index], update)
    np.testing.assert_allclose(variable.read(), start, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.complex64, np.uint8, np.int8])
def test_dtypes(dtype: Any) -> None:
    variable = _variable(np.zeros((3, 2), dtype))
    scatter.scatter_add(variable, np.array([1, 1]), np.ones((2, 2), dtype))
    assert variable.read().dtype == dtype
    assert variable.read()[1].astype(float).tolist() == [2, 2] if dtype != np.complex64 else True


def test_scalar_updates_and_scalar_index() -> None:
    variable = _variable(np.zeros((3, 2), np.float32))
    assert scatter.scatter_add(variable, np.array([0, 0]), np.float32(1)) is variable
    scatter.scatter_update(variable, np.int32(2), np.array([5, 6], np.float32))
    assert variable.read().tolist() == [[2, 2], [0, 0], [5, 6]]


def test_strings_update() -> None:
    variable = _variable(np.array([b"a", b"b"], object), dtypes.string)
    scatter.scatter_update(variable, np.array([1]), np.array([b"c\0"], object))
    assert variable.read().tolist() == [b"a", b"c\0"]


def test_errors_name_the_index_and_change_nothing() -> None:
    variable = _variable(np.zeros((3, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"indices\[1,0\] = 3 is not in \[0, 3\)"):
        scatter.scatter_add(variable, np.array([[0], [3]]), np.ones((2, 1, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = -1 is not in \[0, 3\)"):
        scatter.scatter_add(variable, np.array([-1]), np.ones((1, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"updates.shape \[2\]"):
        scatter.scatter_add(variable, np.array([0]), np.ones(2, np.float32))
    with pytest.raises(InvalidArgumentError, match="Integer division by zero"):
        scatter.scatter_div(_variable(np.ones(2, np.int32)), np.array([0]), np.zeros(1, np.int32))
    assert not variable.read().any()
    with pytest.raises(InvalidArgumentError, match="at least 1-D"):
        scatter.scatter_add(_variable(np.float32(1)), np.array([0]), np.ones(1, np.float32))
    with pytest.raises(FailedPreconditionError, match="uninitialized value u"):
        scatter.scatter_add(Variable("u", dtypes.float32, UNKNOWN_SHAPE), np.array([0]), np.float32(1))


def test_in_place_unless_lent() -> None:
    variable = _variable(np.zeros((1000, 4), np.float32))
    address = variable.mutable().ctypes.data
    for _ in range(50):
        scatter.scatter_sub(variable, np.array([3, 5]), np.ones((2, 4), np.float32))
    assert variable.mutable().ctypes.data == address
    assert variable.copies == 0
    read = variable.read()
    scatter.scatter_sub(variable, np.array([3]), np.ones((1, 4), np.float32))
    assert read[3].tolist() == [-50] * 4
    assert variable.read()[3].tolist() == [-51] * 4


@given(
    depth=st.integers(0, 3),
    batch=st.sampled_from([(), (4,), (2, 3)]),
    op=st.sampled_from(["update", "add", "sub"]),
    seed=st.integers(0, 99),
)
def test_scatter_nd(depth: int, batch: tuple[int, ...], op: str, seed: int) -> None:
    kernel = {
        "update": scatter.scatter_nd_update,
        "add": scatter.scatter_nd_add,
        "sub": scatter.scatter_nd_sub,
    }[op]
    combine = _KERNELS[op][1]
    rng = np.random.default_rng(seed)
    shape = (2, 3, 4)
    start = rng.integers(-9, 9, shape)
    indices = (
        np.stack([rng.integers(0, size, batch) for size in shape[:depth]], axis=-1)
        if depth
        else (np.zeros((*batch, 0), np.int64))
    )
    updates = rng.integers(-9, 9, batch + shape[depth:])
    variable = _variable(start)
    kernel(variable, indices, updates)
    for where in np.ndindex(batch):
        place = tuple(indices[where])
        start[place] = combine(start[place], updates[where])
    np.testing.assert_array_equal(variable.read(), start)


def test_scatter_nd_errors() -> None:
    variable = _variable(np.zeros(2, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = \[5\] does not index into shape \[2\]"):
        scatter.scatter_nd_add(variable, np.array([[0], [5]]), np.ones(2, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"updates.shape \[1\]"):
        scatter.scatter_nd_add(variable, np.array([[0, 0]]), np.ones(1, np.float32))


@pytest.mark.parametrize("batch_dims", [0, 1])
@pytest.mark.parametrize("index_shape", [(3,), (3, 2), (3, 0)])
def test_resource_gather(batch_dims: int, index_shape: tuple[int, ...]) -> None:
    params = np.arange(3 * 4 * 2).reshape(3, 4, 2)
    indices = np.random.default_rng(0).integers(0, 3, index_shape)
    got = scatter.resource_gather(_variable(params), indices, dtype=dtypes.int64, batch_dims=batch_dims)
    expected = np.stack([params[i][indices[i]] for i in range(3)]) if batch_dims else params[indices]
    np.testing.assert_array_equal(got, expected)


def test_resource_forms_check_handle_type_and_state() -> None:
    variable = _variable(np.zeros(3, np.float32))
    with pytest.raises(InvalidArgumentError, match="holds float32, but this node works on int32"):
        scatter.resource_gather(variable, np.array([0]), dtype=dtypes.int32, batch_dims=0)
    with pytest.raises(InvalidArgumentError, match="handle of a variable is wanted, not a dict"):
        scatter.resource_gather({}, np.array([0]), dtype=dtypes.int32, batch_dims=0)
    with pytest.raises(NotFoundError, match="does not exist"):
        scatter.resource_scatter_add(
            Variable("u", dtypes.float32, UNKNOWN_SHAPE), np.array([0]), np.ones(1), dtype=dtypes.float32
        )
    with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = 9 is not in \[0, 3\)"):
        scatter.resource_gather(variable, np.array([9]), dtype=dtypes.float32, batch_dims=0)
    gathered = scatter.resource_gather_nd(variable, np.array([[1], [2]]), dtype=dtypes.float32)
    assert gathered.tolist() == [0, 0]


@pytest.mark.parametrize("limit", [50, 3000, 100_000])
@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_last_of_several_updates_of_a_row_stays(limit: int, count: int, repeats: bool) -> None:
    rng = np.random.default_rng(limit + count)
    repeats = repeats or count > limit
    rows = rng.integers(0, limit, count) if repeats else rng.permutation(limit)[:count]
    if repeats:
        rows[-1] = rows[0]
    updates = np.arange(2 * count).reshape(count, 2)
    variable = _variable(np.full((limit, 2), -1))
    scatter.scatter_update(variable, rows.astype(np.int32), updates)
    last = {row: place for place, row in enumerate(rows.tolist())}
    expected = np.full((limit, 2), -1)
    for row, place in last.items():
        expected[row] = updates[place]
    np.testing.assert_array_equal(variable.read(), expected)


@given(
    st.integers(1, 60), st.integers(1, 40), st.sampled_from([np.add, np.subtract, np.maximum, np.multiply])
)
def test_rows_are_combined_in_order_however_many_elements_they_have(
    count: int, width: int, ufunc: np.ufunc
) -> None:
    # Sums of float32 tell one order from another.
    rng = np.random.default_rng(count * width)
    rows, updates = rng.integers(0, 7, count), rng.random((count, width), np.float32)
    start = rng.random((7, width), np.float32)
    expected, out = start.copy(), start.copy()
    for row, update in zip(rows, updates, strict=True):
        expected[row] = ufunc(expected[row], update)
    host_rows.at(ufunc, out, rows.astype(np.int32), updates)
    assert out.tobytes() == expected.tobytes()
