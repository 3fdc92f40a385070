"""Softmax, its losses and ranks of targets in short rows, beside what they are row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.nn import activations as plain
from flowengine.kernels.nn.sorting import in_top_k
from flowengine.kernels.numpy import softmax as narrow

_SHAPES = st.tuples(st.sampled_from([0, 1, 15, 16, 40, 70_000 // 16]), st.sampled_from([1, 2, 16, 32, 33]))


def _near(actual: Any, expected: Any) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)


def _logits(shape: tuple[int, ...], seed: int) -> Any:
    logits = np.random.default_rng(seed).normal(0, 20, shape).astype(np.float32)
    if seed % 3 == 0 and logits.size:
        logits.reshape(-1)[seed % logits.size] = [np.inf, -np.inf, np.nan][seed % 7 % 3]
    return logits


@given(_SHAPES, st.integers(0, 99), st.sampled_from(["softmax", "log_softmax"]))
def test_short_rows(shape: tuple[int, int], seed: int, name: str) -> None:
    logits = _logits(shape, seed)
    with np.errstate(all="ignore"):
        _near(getattr(narrow, name)(np, logits), getattr(plain, name)(np, logits))
        deep = logits.reshape(-1, 1, shape[1])
        _near(getattr(narrow, name)(np, deep), getattr(plain, name)(np, deep))


@given(_SHAPES, st.integers(0, 99))
def test_losses_of_short_rows(shape: tuple[int, int], seed: int) -> None:
    logits = _logits(shape, seed)
    wanted = np.random.default_rng(seed).random(shape, np.float32)
    classes = np.random.default_rng(seed).integers(0, shape[1], shape[0]).astype(np.int32)
    before = logits.copy(), wanted.copy()
    with np.errstate(all="ignore"):
        for name, labels in (("softmax_cross_entropy", wanted), ("sparse_softmax_cross_entropy", classes)):
            of_columns, of_rows = (getattr(kind, name)(np, logits, labels) for kind in (narrow, plain))
            for actual, expected in zip(of_columns, of_rows, strict=True):
                _near(actual, expected)
    np.testing.assert_array_equal(logits, before[0])
    np.testing.assert_array_equal(wanted, before[1])


def test_a_label_that_is_no_class_is_refused_in_short_rows_too() -> None:
    labels = np.full(40, 3, np.int32)
    with pytest.raises(
        InvalidArgumentError, match=r"label value of 3 which is outside the valid range of \[0, 3\)"
    ):
        narrow.sparse_softmax_cross_entropy(np, np.zeros((40, 3), np.float32), labels)


@given(st.integers(1, 20), st.integers(1, 9), st.integers(-1, 5), st.integers(0, 99))
def test_targets_among_the_top(rows: int, classes: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    predictions = rng.integers(0, 4, (rows, classes)).astype(np.float32)
    if seed % 2:
        predictions.reshape(-1)[seed % predictions.size] = [np.inf, np.nan][seed % 3 % 2]
    targets = rng.integers(-1, classes + 1, rows).astype(np.int32)
    expected = [
        bool(0 <= target < classes and np.isfinite(row).all() and (row > row[target]).sum() < k)
        for row, target in zip(predictions, targets, strict=True)
    ]
    assert in_top_k(np, predictions, targets, k=k).tolist() == expected
