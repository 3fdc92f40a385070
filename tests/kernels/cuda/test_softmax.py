"""Softmax and cross entropies in CUDA C beside the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda import softmax
from flowengine.kernels.nn import activations as on_cpu
from tests.kernels.cuda.closeness import FLOATS, Floats, floats, seeds, widened
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

#: Relative and absolute: of narrow types a unit in the last place, of others what exp and sums differ by.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-6, "float64": 1e-14}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("softmax"), "softmax")


def near(found: Floats, wanted: Floats, dtype: str) -> None:
    step = TOLERANCES[dtype]
    assert found.dtype.name == dtype
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), step, step)


rows = st.integers(0, 4)
classes = st.one_of(st.integers(1, 40), st.sampled_from([255, 256, 257, 600]))


@given(rows, classes, seeds, st.sampled_from(FLOATS), st.booleans())
def test_softmax_and_its_logarithm(
    launcher: HostLauncher, rows: int, classes: int, seed: int, dtype: str, specials: bool
) -> None:
    x = floats(seed, dtype, rows, classes, specials=specials)
    with np.errstate(all="ignore"):
        near(softmax.softmax(launcher, x), on_cpu.softmax(np, widened(x)), dtype)
        near(softmax.log_softmax(launcher, x), on_cpu.log_softmax(np, widened(x)), dtype)


@given(rows, classes, seeds, st.sampled_from(FLOATS), st.sampled_from(["", "logits", "labels", "rows"]))
def test_cross_entropy(
    launcher: HostLauncher, rows: int, classes: int, seed: int, dtype: str, repeated: str
) -> None:
    x = floats(seed, dtype, 1 if repeated == "logits" else rows, classes)
    labels = np.abs(
        floats(seed + 1, dtype, 1 if repeated == "rows" else rows, 1 if repeated == "labels" else classes)
    )
    loss, backprop = softmax.cross_entropy(launcher, x, labels)
    wanted = on_cpu.softmax_cross_entropy(np, widened(x), widened(labels))
    # A loss is a sum of as many terms as there are classes, each up to some 20.
    step = TOLERANCES[dtype]
    np.testing.assert_allclose(
        loss.astype(np.float64), wanted[0].astype(np.float64), step, step * 10 * classes**0.5
    )
    near(backprop, wanted[1], dtype)


@given(st.integers(1, 4), classes, seeds, st.sampled_from(FLOATS), st.sampled_from([np.int32, np.int64]))
def test_sparse_cross_entropy(
    launcher: HostLauncher, rows: int, classes: int, seed: int, dtype: str, index: type
) -> None:
    x = floats(seed, dtype, rows, classes)
    labels: Any = np.random.default_rng(seed).integers(0, classes, rows).astype(index)
    loss, backprop = softmax.sparse_cross_entropy(launcher, x, labels)
    wanted = on_cpu.sparse_softmax_cross_entropy(np, widened(x), labels)
    near(loss, wanted[0], dtype)
    near(backprop, wanted[1], dtype)
    assert launcher.refused() is None


@pytest.mark.parametrize("label", [-1, 7, 2**40])
def test_a_label_out_of_range(launcher: HostLauncher, label: int) -> None:
    x = np.zeros((3, 7), np.float32)
    labels = np.array([2, label, 6])
    loss, backprop = softmax.sparse_cross_entropy(launcher, x, labels)
    error = launcher.refused()
    assert isinstance(error, InvalidArgumentError)
    assert error.message == f"Received a label value which is outside the valid range: {label} at place 1"
    assert np.isnan(loss).tolist() == [False, True, False]
    assert np.isnan(backprop).all(1).tolist() == [False, True, False]


def test_without_rows_or_classes(launcher: HostLauncher) -> None:
    assert softmax.softmax(launcher, np.zeros((0, 3), np.float32)).shape == (0, 3)
    loss, backprop = softmax.cross_entropy(launcher, *(np.zeros((2, 0), np.float32) for _ in range(2)))
    assert loss.tolist() == [0, 0]
    assert backprop.shape == (2, 0)


def test_shapes_that_are_refused(launcher: HostLauncher) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match="at least one class"):
        softmax.sparse_cross_entropy(launcher, x, np.zeros(3, np.int32))
    with pytest.raises(InvalidArgumentError, match=r"\[2, 3\] and \[2, 4\]"):
        softmax.cross_entropy(launcher, x, np.zeros((2, 4), np.float32))
    with pytest.raises(InvalidArgumentError, match="matrices that broadcast"):
        softmax.cross_entropy(launcher, x, np.zeros(3, np.float32))
    with pytest.raises(InvalidArgumentError, match="logits must have >= 1 dimension"):
        softmax.softmax(launcher, np.zeros((), np.float32))
