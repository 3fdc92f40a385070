"""Rows picked and summed by index in CUDA C: the CPU's bits, and what is out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.gather import gather_v2
from flowengine.kernels.common.segment_sums import add_rows, subtract_rows
from flowengine.kernels.cuda import rows
from tests.kernels.cuda.closeness import FLOATS, Floats, floats, numpy_type, seeds
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
INDICES = (np.int32, np.int64)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("rows"), "rows")


def numbers(seed: int, dtype: str, *shape: int) -> Floats:
    if dtype in FLOATS:
        return floats(seed, dtype, *shape)
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@st.composite
def gathers(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """(shape of params, shape of indices, axis, axes in common)."""
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    between, inner, picked = (draw(st.lists(st.integers(0, 4), max_size=2)) for _ in range(3))
    shape = (*batch, *between, draw(st.integers(1, 5)), *inner)
    return shape, (*batch, *picked), len(batch) + len(between), len(batch)


@given(
    gathers(), seeds, st.sampled_from(["bool", "complex128", *INTEGERS, *FLOATS]), st.sampled_from(INDICES)
)
def test_gather(
    launcher: HostLauncher, drawn: tuple[Any, Any, int, int], seed: int, dtype: str, index: type
) -> None:
    shape, index_shape, axis, batch_dims = drawn
    source = np.random.default_rng(seed)
    params = source.integers(0, 2, shape).astype(numpy_type(dtype)) + source.integers(0, 2, shape).astype(
        numpy_type(dtype)
    )
    indices = source.integers(0, shape[axis], index_shape).astype(index)
    wanted = gather_v2(np, params, indices, np.array(axis), batch_dims=batch_dims)
    for alignment in (0, 16, 512):
        found = rows.gather(launcher, params, indices, axis, batch_dims=batch_dims, alignment=alignment)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes()
    assert launcher.refused() is None


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("bad", [-1, 4])
def test_an_index_out_of_range_picks_nothing(launcher: HostLauncher, index: type, bad: int) -> None:
    params = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    found = rows.gather(launcher, params, np.array([[1, 0], [bad, 3]], index))
    assert found.tolist() == [[[4, 5, 6], [1, 2, 3]], [[0, 0, 0], [10, 11, 12]]]
    error = launcher.refused()
    assert isinstance(error, InvalidArgumentError)
    assert error.message == f"An index is out of range: {bad} at place 2"
    batched = rows.gather(launcher, params.reshape(2, 2, 3), np.array([[1], [2]], index), 1, batch_dims=1)
    assert batched.tolist() == [[[4, 5, 6]], [[0, 0, 0]]]
    assert launcher.refused().message == "An index is out of range: 2 at place 1"


@given(
    st.integers(1, 5),
    st.integers(0, 30),
    st.lists(st.integers(1, 3), max_size=2),
    seeds,
    st.sampled_from([*INTEGERS, *FLOATS]),
    st.sampled_from(INDICES),
    st.booleans(),
)
def test_rows_are_summed_in_order(
    launcher: HostLauncher,
    size: int,
    count: int,
    inner: list[int],
    seed: int,
    dtype: str,
    index: type,
    subtracts: bool,
) -> None:
    out, given_rows = numbers(seed, dtype, size, *inner), numbers(seed + 1, dtype, count, *inner)
    positions: Any = np.random.default_rng(seed).integers(0, size, count).astype(index)
    wanted = out.copy()
    if subtracts and dtype in ("float16", "bfloat16"):
        wide = wanted.astype(np.float32)
        subtract_rows(np, wide, positions, given_rows.astype(np.float32))
        wanted = wide.astype(wanted.dtype)
    else:
        (subtract_rows if subtracts else add_rows)(np, wanted, positions, given_rows)
    found = out.copy()
    in_order, order = rows.sorted_positions(np, positions)
    rows.add_rows(launcher, found, in_order, given_rows, order=order, subtracts=subtracts)
    assert found.tobytes() == wanted.tobytes()
    if dtype in rows.ATOMIC:
        # One block after another and a thread after another: the order is known here, though not on a card.
        atomic = out.copy()
        rows.add_rows_atomically(launcher, atomic, positions, given_rows, subtracts=subtracts)
        np.testing.assert_allclose(atomic, wanted, 1e-5, 1e-5)
    assert launcher.refused() is None


def test_segments_that_are_sorted_need_no_order(launcher: HostLauncher) -> None:
    out = np.zeros((4, 2), np.float32)
    ids = np.array([0, 0, 2, 2, 2, 3], np.int32)
    rows.add_rows(launcher, out, ids, np.arange(12, dtype=np.float32).reshape(6, 2))
    assert out.tolist() == [[2, 4], [0, 0], [18, 21], [10, 11]]


@pytest.mark.parametrize("atomically", [False, True])
def test_positions_out_of_range(launcher: HostLauncher, atomically: bool) -> None:
    positions = np.array([-3, 1, 1, 2], np.int64)
    given_rows = np.ones((4, 2), np.float32)
    add = rows.add_rows_atomically if atomically else rows.add_rows
    out = np.zeros((2, 2), np.float32)
    add(launcher, out, positions, given_rows, drops_negative=True)
    assert out.tolist() == [[0, 0], [2, 2]]
    assert launcher.refused().message == "An index is out of range: 2 at place 3"
    out = np.zeros((3, 2), np.float32)
    add(launcher, out, positions, given_rows, drops_negative=True)
    assert launcher.refused() is None
    add(launcher, out, positions, given_rows)
    assert launcher.refused().message == "An index is out of range: -3 at place 0"
    assert out.tolist() == [[0, 0], [4, 4], [2, 2]]


def test_what_does_not_belong_together(launcher: HostLauncher) -> None:
    out, positions = np.zeros((3, 2), np.float32), np.zeros(4, np.int32)
    with pytest.raises(InvalidArgumentError, match="do not belong to what they are added to"):
        rows.add_rows(launcher, out, positions, np.zeros((4, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match="no atomic additions of float16: sort"):
        rows.add_rows_atomically(launcher, out.astype(np.float16), positions, np.zeros((4, 2), np.float16))
    with pytest.raises(InvalidArgumentError, match=r"along axis 2 of shape \[3, 2\]"):
        rows.gather(launcher, out, positions, 2)
