"""Sums of sparse tensors beside sums by dictionary, and the keys that stand for their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.numpy.order.row_keys import row_keys

RunOp = Callable[..., Any]
_ENTRIES = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 3)),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, np.nan]),
    max_size=8,
)


def _parts(entries: dict[tuple[int, int], float]) -> tuple[Any, Any, Any]:
    places = sorted(entries)
    values = np.array([entries[place] for place in places], np.float32)
    return np.array(places, np.int64).reshape(-1, 2), values, np.array([3, 4])


@given(_ENTRIES, _ENTRIES, st.sampled_from([0.0, 1.5]), st.booleans())
def test_a_sum_has_the_entries_of_both(
    run_op: RunOp, a: dict[tuple[int, int], float], b: dict[tuple[int, int], float], least: float, alike: bool
) -> None:
    if alike:  # the same places in both
        b = dict.fromkeys(a, 1.0)
    indices, values, shape = run_op("SparseAdd", *_parts(a), *_parts(b), np.float32(least))
    total = {}
    for place in sorted({*a, *b}):
        if place in a and place in b:
            if abs(a[place] + b[place]) >= least:
                total[place] = a[place] + b[place]
        else:
            total[place] = a[place] if place in a else b[place]
    assert list(map(tuple, indices.tolist())) == list(total)
    np.testing.assert_array_equal(values, np.array(list(total.values()), np.float32))
    assert np.signbit(values).tolist() == [bool(np.signbit(value)) for value in total.values()]
    assert shape.tolist() == [3, 4]


_ANY_ORDER = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=6)


@given(_ANY_ORDER, _ANY_ORDER)
def test_entries_out_of_order_are_walked_through_as_they_stand(
    run_op: RunOp, a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    """The smaller of two heads goes on, and both where they are equal, as if both lists were in order."""
    operands: list[Any] = []
    number = 1
    for places in (a, b):
        values = np.arange(number, number + len(places), dtype=np.float32)
        operands += [np.array(places, np.int64).reshape(-1, 2), values, np.array([3, 4])]
        number += len(places)
    indices, values, _ = run_op("SparseAdd", *operands, np.float32(0))
    heads = [list(zip(a, operands[1], strict=True)), list(zip(b, operands[4], strict=True))]
    total: list[tuple[tuple[int, int], float]] = []
    while heads[0] or heads[1]:
        least = min(each[0][0] for each in heads if each)
        taken = [each.pop(0)[1] for each in heads if each and each[0][0] == least]
        total.append((least, sum(taken)))
    assert [tuple(place) for place in indices.tolist()] == [place for place, _ in total]
    assert values.tolist() == [value for _, value in total]


_NUMBER = st.one_of(st.integers(-2, 3), st.integers(2**40, 2**40 + 2), st.integers(-(2**63), 2**63 - 1))


@given(
    st.integers(0, 3).flatmap(
        lambda rank: st.lists(st.lists(_NUMBER, min_size=rank, max_size=rank), max_size=6)
    )
)
def test_keys_are_in_the_order_of_their_rows(rows: list[list[int]]) -> None:
    rank = len(rows[0]) if rows else 2
    half = len(rows) // 2
    parts = [np.array(part, np.int64).reshape(len(part), rank) for part in (rows[:half], rows[half:])]
    keys = [key for part in row_keys(*parts) for key in part.tolist()]
    assert [[a < b for a in keys] for b in keys] == [[a < b for a in rows] for b in rows]
