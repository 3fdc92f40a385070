"""NaN and equal elements stand where TensorFlow 1.15 leaves them, by the algorithms of the C++ library."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.numpy.order import library_sort
from tests.kernels.record_nan_order import RECORDED

CASES: Final[list[dict[str, Any]]] = json.loads(RECORDED.read_text())
Numbers = st.lists(st.integers(0, 30), max_size=80)


@pytest.mark.parametrize("in_order", [True, False])
def test_rows_with_nan_are_sorted_as_in_tensorflow(in_order: bool) -> None:
    graph = fe.Graph()
    row, k = graph.placeholder("float32", [None]), graph.placeholder("int32", [])
    places = graph.ops.TopKV2(row, k, sorted=in_order).indices
    with fe.blocking.Session(graph) as session:
        for case in CASES:
            found = session.run(places, {row: case["row"], k: case["k"]}).tolist()
            assert found == case["in_order" if in_order else "any_order"]


def test_a_number_takes_the_place_of_a_nan_before_it_in_a_segment() -> None:
    graph = fe.Graph()
    row, ids = graph.placeholder("float32", [None]), graph.placeholder("int32", [None])
    ops = graph.ops
    extremes = [op(row, ids, 5) for op in (ops.UnsortedSegmentMax, ops.UnsortedSegmentMin)]
    with fe.blocking.Session(graph) as session:
        for case in CASES:
            found = session.run(extremes, {row: case["row"], ids: case["ids"]})
            np.testing.assert_array_equal(found, np.array([case["max"], case["min"]], np.float32))


def test_columns_of_segments_are_apart() -> None:
    graph = fe.Graph()
    rows = np.array([[1, np.nan], [np.nan, 2], [0, np.nan], [5, 5]], np.float32)
    segments = graph.ops.UnsortedSegmentMax(graph.constant(rows), graph.constant([0, 0, 0, -1]), 1)
    with fe.blocking.Session(graph) as session:
        np.testing.assert_array_equal(session.run(segments), [[0, np.nan]])


def test_equal_distances_are_matched_as_in_tensorflow() -> None:
    graph = fe.Graph()
    distances = graph.placeholder("float32", [None, None])
    matches = list(graph.ops.BipartiteMatch(distances, -1.0))
    with fe.blocking.Session(graph) as session:
        for case in CASES:
            found = [each.tolist() for each in session.run(matches, {distances: case["distances"]})]
            assert found == [case["columns"], case["rows"]]


@given(Numbers)
def test_an_order_is_an_order(numbers: list[int]) -> None:
    items = [*numbers]
    assert library_sort.sort(items, lambda a, b: a < b)
    assert items == sorted(numbers)
    library_sort.make_heap(items, lambda a, b: a < b)
    assert not items or items[0] == max(items)
    library_sort.sort_heap(items, lambda a, b: a < b)
    assert items == sorted(numbers)


@given(Numbers)
def test_a_heap_gives_its_elements_back_in_order(numbers: list[int]) -> None:
    heap: list[int] = []
    for each in numbers:
        heap.append(each)
        library_sort.push_heap(heap, lambda a, b: a < b)
    found = []
    while heap:
        found.append(heap[0])
        library_sort.pop_heap(heap, lambda a, b: a < b)
        heap.pop()
    assert found == sorted(numbers, reverse=True)


def test_a_sort_without_an_order_ends() -> None:
    items = [*range(40)]
    assert not library_sort.sort(items, lambda a, b: True)
