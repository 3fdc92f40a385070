"""Work spread over cores: every piece once, errors handed on, no waiting for helpers that are busy."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.common.windows import windows
from flowengine.kernels.numpy import strided
from flowengine.kernels.numpy import window_extremes as pooling


def test_every_piece_runs_once() -> None:
    ran: list[int] = []
    spread(ran.append, 1000)
    assert Counter(ran) == Counter(range(1000))
    spread(ran.append, 0)
    assert len(ran) == 1000


def test_pieces_run_on_several_threads_and_calls_may_be_nested() -> None:
    totals = np.zeros((8, 8))

    def row(i: int) -> None:
        def cell(j: int) -> None:
            totals[i, j] += i * j

        spread(cell, 8)

    thread = threading.Thread(target=spread, args=(row, 8))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(totals, np.outer(range(8), range(8)))


def test_what_a_piece_raises_reaches_the_caller() -> None:
    def piece(number: int) -> None:
        if number == 3:
            raise ValueError("piece 3")

    with pytest.raises(ValueError, match="piece 3"):
        spread(piece, 20)
    spread(lambda number: None, 20)


def test_the_number_of_cores_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_KERNEL_CORES", "3")
    assert cores() == 3
    monkeypatch.setenv("FLOWENGINE_KERNEL_CORES", "many")
    assert cores() >= 1


def _in_child(results: Any) -> None:
    ran: list[int] = []
    spread(ran.append, 100)
    results.put(sorted(ran))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_helpers_of_its_own() -> None:
    spread(lambda number: None, 10)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(results,))
    child.start()
    assert results.get(timeout=30) == list(range(100))
    child.join()


def test_slices_cover_a_length() -> None:
    assert slices(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert slices(0, 3) == []


@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["f4", "f8", "i2"]),
)
def test_what_is_split_joins_again(lead: int, size: int, tail: int, step: int, dtype: str) -> None:
    x = np.arange(lead * size * tail).astype(dtype).reshape(lead, size, tail)
    parts = strided.split(x, step)
    if parts is None:
        assert step == 1
        return
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, x[:, i::step])
    out = np.empty_like(x)
    strided.joined(parts, out)
    np.testing.assert_array_equal(out, x)


def test_blocks_of_rows_give_what_one_block_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = np.maximum(random.standard_normal((2, 41, 37, 6)), 0).astype(np.float32)
    for window, stride, padding in (((3, 3), 2, b"SAME"), ((2, 3), 1, b"VALID"), ((5, 2), 3, b"SAME")):
        geometry = windows((41, 37), window, (stride, stride), (1, 1), padding)
        gradient = random.random((2, *geometry.out, 6), np.float32)
        results = []
        for block in (1 << 30, 1000):
            monkeypatch.setattr(pooling, "_BLOCK", block)
            monkeypatch.setattr(pooling, "_GRADIENT_BLOCK", block)
            monkeypatch.setattr(pooling, "_SPREAD_MIN", block if block > 1000 else 1)
            results.append(
                (
                    pooling.maximum(x, geometry),
                    pooling.mean(x, geometry),
                    pooling.mean_gradient(gradient, geometry),
                    pooling.maximum_gradient(x, gradient, geometry),
                )
            )
        for one, many in zip(*results, strict=True):
            np.testing.assert_allclose(one, many, rtol=1e-6)
