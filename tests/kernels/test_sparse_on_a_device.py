"""Kernels of sparse tensors and counts on a device's arrays: what they give on a CPU, whatever is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.common.checks import gathered
from flowengine.kernels.sparse import layout
from flowengine.kernels.sparse import sets as counts
from flowengine.testing.strict_arrays import StrictModule


class Drawn:
    """A sparse tensor: indices with and without order, some of them equal."""

    def __init__(self, random: Any, dims: list[int], count: int) -> None:
        shape = (count, len(dims))
        self.dims = np.array(dims, np.int64)
        self.indices = random.integers(0, np.maximum(self.dims, 1), shape, dtype=np.int64)
        if random.random() < 0.5:
            self.indices = self.indices[np.lexsort(self.indices.T[::-1])]
        self.values = random.normal(size=count).astype(np.float32)

    @property
    def inputs(self) -> tuple[Any, Any, Any]:
        """Indices and values, which a device takes in, and the shape, which stays."""
        return self.indices, self.values, list(self.dims)


def outcome(
    xp: Any, bring: Callable[[Any], Any], function: Callable[..., Any], inputs: Any, attrs: Any
) -> list[Any] | str:
    """Return a kernel's outputs, or the text of its refusal; numbers and lists are in host memory."""

    def taken(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(taken, value))
        return np.array(value, np.int64) if isinstance(value, list | int) else bring(value)

    try:
        with np.errstate(all="ignore"), gathered() as checks:
            result = function(xp, *map(taken, inputs), **attrs)
        for each in checks:
            if each.wrong._data:
                raise each.error()
    except fe.errors.OpError as error:
        return str(error)
    return list(result) if isinstance(result, tuple) else [result]


def check(function: Callable[..., Any], *inputs: Any, **attrs: Any) -> None:
    """The kernel gives a device what it gives a CPU, or refuses it alike; see `outcome`."""
    xp = StrictModule()
    wanted = outcome(np, np.asarray, function, inputs, attrs)
    found = outcome(xp, xp.moved_in, function, inputs, attrs)
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    assert len(found) == len(wanted)
    for far, near in zip(found, wanted, strict=True):
        value = xp.moved_out(far)
        assert value.dtype == near.dtype
        np.testing.assert_allclose(value, near, rtol=1e-5, atol=1e-6)


seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(0, 6), min_size=1, max_size=3)
sizes = st.integers(0, 12)


@given(seeds, shapes, sizes)
def test_entries_in_order_joined_and_reshaped(seed: int, dims: list[int], count: int) -> None:
    random = np.random.default_rng(seed)
    first, second = Drawn(random, dims, count), Drawn(random, dims, int(random.integers(8)))
    check(layout.sparse_reorder, *first.inputs)
    axis = int(random.integers(-len(dims), len(dims)))
    parts = zip(first.inputs, second.inputs, strict=True)
    check(layout.sparse_concat, *map(tuple, parts), concat_dim=axis)
    for wanted in ([-1], [*dims[::-1]], [1, -1, 2]):
        check(layout.sparse_reshape, first.indices, dims, wanted)


@given(seeds, shapes, sizes)
def test_entries_split_and_sliced(seed: int, dims: list[int], count: int) -> None:
    random = np.random.default_rng(seed)
    drawn = Drawn(random, dims, count)
    if random.random() < 0.1 and count:
        drawn.indices[int(random.integers(count)), 0] = -1
    axis = int(random.integers(len(dims)))
    for parts in (1, 2, max(dims[axis], 1)):
        check(layout.sparse_split, axis, *drawn.inputs, num_split=parts)
    start = random.integers(0, 4, len(dims)).tolist()
    size = random.integers(0, 5, len(dims)).tolist()
    check(layout.sparse_slice, *drawn.inputs, start, size)


@given(seeds, shapes, sizes)
def test_gradients_of_slices_go_to_the_entries_that_were_in_them(
    seed: int, dims: list[int], count: int
) -> None:
    random = np.random.default_rng(seed)
    drawn = Drawn(random, dims, count)
    start = random.integers(0, 3, len(dims)).tolist()
    inside = layout.sparse_slice(np, *drawn.inputs, np.array(start), drawn.dims)[0]
    if random.random() < 0.2 and len(inside):
        inside = inside + 1
    check(layout.sparse_slice_grad, np.ones(len(inside), np.float32), drawn.indices, start, inside)


@given(seeds, shapes, sizes)
def test_rows_without_entries_are_filled(seed: int, dims: list[int], count: int) -> None:
    random = np.random.default_rng(seed)
    drawn = Drawn(random, dims, count if dims[0] else 0)
    if random.random() < 0.1 and len(drawn.indices):
        drawn.indices[0, 0] = dims[0]
    check(layout.sparse_fill_empty_rows, *drawn.inputs, np.float32(-1))
    rows = random.normal(size=count + 3).astype(np.float32)
    check(layout.sparse_fill_empty_rows_grad, random.integers(0, count + 3, count), rows)


@given(seeds, st.integers(0, 5), sizes, st.booleans(), st.booleans())
def test_values_are_counted(seed: int, rows: int, size: int, binary: bool, has_weights: bool) -> None:
    random = np.random.default_rng(seed)
    for shape in ((rows,), (rows, 4)):
        values = random.integers(-1 if random.random() < 0.1 else 0, 9, shape, dtype=np.int32)
        weights = random.normal(size=shape if has_weights else (0,)).astype(np.float32)
        check(counts.dense_bincount, values, size, weights, binary_output=binary)
