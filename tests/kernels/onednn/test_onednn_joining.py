"""Concatenations within a joint: as NumPy's, along any axis, of any parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.common.pieces import Like, Same
from flowengine.kernels.numpy import joining
from flowengine.kernels.onednn.joining import Concat
from flowengine.kernels.onednn.library import search
from tests.kernels.onednn.rig import Rig, constant, numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

ONE: dict[str, Any] = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}


@given(
    st.lists(st.integers(1, 5), min_size=4, max_size=4),
    st.integers(-4, 3),
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.booleans(),
)
def test_any_axis_between_poolings(shape: list[int], axis: int, lengths: list[int], fixed: bool) -> None:
    graph = fe.Graph()
    parts = [graph.placeholder("float32", None, name=f"part{number}") for number in range(len(lengths))]
    pooled = [graph.ops.MaxPool(part, **ONE) for part in parts]
    joined = graph.ops.ConcatV2(pooled, graph.constant(axis))
    rig = Rig(graph, [graph.ops.AvgPool(joined, **ONE), joined])
    for run in range(4):
        values = {}
        for number, length in enumerate(lengths):
            of_part = list(shape)
            of_part[axis] = length
            value = numbers(run + number, *of_part)
            values[f"part{number}"] = constant(value) if fixed else value
        rig.check(**values)
    assert rig.joined == len(lengths) + 2


def test_every_core_joins_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_LARGE", 1)
    monkeypatch.setenv("FLOWENGINE_KERNEL_CORES", "3")
    graph = fe.Graph()
    parts = [graph.placeholder("float32", None, name=name) for name in "ab"]
    joined = graph.ops.ConcatV2([graph.ops.MaxPool(part, **ONE) for part in parts], graph.constant(3))
    rig = Rig(graph, [graph.ops.AvgPool(joined, **ONE)])
    for run in range(5):
        rig.check(a=numbers(run, 2, 9, 11, 8), b=numbers(run, 2, 9, 11, 3))
    assert rig.joined == 4


def test_what_cannot_be_joined_tells_nothing() -> None:
    concat = Concat(lambda values, axis: None)
    table, axis = numbers(0, 3, 4), np.int32(1)
    piece = concat.piece(table, table, axis)
    assert piece is not None
    assert piece.wants == (Like.of(table), Like.of(table), Same(axis))
    assert piece.results == (Like((3, 8), table.dtype),)
    assert concat.piece(table, numbers(0, 2, 4), axis) is None
    assert concat.piece(table, table[:, ::2], axis) is None
    assert concat.piece(table, table, np.int32(2)) is None
    assert concat.piece(table, numbers(0, 3, 4, 1), axis) is None
    assert concat.piece(numbers(0, 3, 0), numbers(0, 3, 0), axis) is None
    assert concat.piece(np.float32(1), np.float32(2), np.int32(0)) is None
