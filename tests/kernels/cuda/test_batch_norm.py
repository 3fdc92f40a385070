"""Batch normalisation in CUDA C beside the CPU's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.cuda import batch_norm
from flowengine.kernels.nn.normalization import Normalization
from tests.kernels.cuda.closeness import Floats, agrees, floats, seeds
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

TYPES = ("float16", "bfloat16", "float32")
ULP = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6}
shapes = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 40))


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("norms"), "batch_norm")


def rows_of(x: Floats, channels_first: bool) -> Floats:
    last = np.moveaxis(x, 1, -1) if channels_first else x
    return np.ascontiguousarray(last, np.float32).reshape(-1, last.shape[-1])


def vectors(seed: int, channels: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Scale, offset, mean, variance."""
    scale, offset, mean, variance = (floats(seed + n, "float32", channels) for n in range(4))
    return scale, offset, mean, np.abs(variance)


@given(shapes, seeds, st.sampled_from(TYPES), st.booleans())
def test_given_statistics_have_the_cpus_bits(
    launcher: HostLauncher, shape: tuple[int, ...], seed: int, dtype: str, channels_first: bool
) -> None:
    x = floats(seed, dtype, *shape)
    scale, offset, mean, variance = vectors(seed, shape[1 if channels_first else 3])
    found = batch_norm.by_given_statistics(
        launcher, x, scale, offset, mean, variance, epsilon=1e-3, channels_first=channels_first
    )
    wanted = Normalization(np).normalized(rows_of(x, channels_first), mean, variance, scale, offset, 1e-3)
    assert found.dtype == x.dtype
    assert agrees(rows_of(found, channels_first), wanted.astype(x.dtype).astype(np.float32), 0)


@given(shapes, seeds, st.sampled_from(TYPES), st.booleans())
def test_statistics_of_the_batch(
    launcher: HostLauncher, shape: tuple[int, ...], seed: int, dtype: str, channels_first: bool
) -> None:
    x = floats(seed, dtype, *shape)
    scale, offset, _, _ = vectors(seed, shape[1 if channels_first else 3])
    y, statistics = batch_norm.by_batch_statistics(
        launcher, x, scale, offset, epsilon=1e-2, channels_first=channels_first
    )
    rows = rows_of(x, channels_first)
    wanted, mean, biased = Normalization(np).normalized_by_itself(rows, scale, offset, 1e-2)
    np.testing.assert_allclose(statistics.mean, mean, 1e-5, 1e-6)
    np.testing.assert_allclose(statistics.biased, biased, 1e-5, 1e-6)
    share = np.float32(len(rows) / max(len(rows) - 1, 1))
    np.testing.assert_array_equal(statistics.unbiased, statistics.biased * share)
    step = ULP[dtype] * 10
    np.testing.assert_allclose(rows_of(y, channels_first), wanted, step, step)


@given(shapes, seeds, st.sampled_from(TYPES), st.booleans(), st.booleans())
def test_gradients(
    launcher: HostLauncher,
    shape: tuple[int, ...],
    seed: int,
    dtype: str,
    channels_first: bool,
    training: bool,
) -> None:
    x, gradient = floats(seed, dtype, *shape), floats(seed + 9, dtype, *shape)
    scale, _, mean, variance = vectors(seed, shape[1 if channels_first else 3])
    found = batch_norm.gradients(
        launcher,
        gradient,
        x,
        scale,
        mean,
        variance,
        epsilon=0.1,
        is_training=training,
        channels_first=channels_first,
    )
    given = rows_of(x, channels_first), rows_of(gradient, channels_first)
    wanted = Normalization(np).gradients(*given, scale, mean, variance, 0.1, training)
    np.testing.assert_allclose(rows_of(found[0], channels_first), wanted[0], ULP[dtype] * 5, ULP[dtype] * 40)
    for vector, expected in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(vector, expected, 1e-5, 2e-4)


def test_many_rows_are_summed_in_chunks_and_always_alike(launcher: HostLauncher) -> None:
    x = np.random.default_rng(3).integers(-4, 5, (4, 50, 40, 6)).astype(np.float32)
    one = np.ones(6, np.float32)
    results = [batch_norm.by_batch_statistics(launcher, x, one, one, epsilon=0.0)[1] for _ in range(2)]
    assert any(launch.numbers[0] > 1 for launch in launcher.launches if "means" in launch.name)
    np.testing.assert_allclose(results[0].mean, x.mean((0, 1, 2), np.float64), 1e-6, 1e-7)
    np.testing.assert_allclose(results[0].biased, x.var((0, 1, 2), np.float64), 1e-6)
    # Launched once with the first threads first and once with the last.
    assert results[0].biased.tobytes() == results[1].biased.tobytes()


def test_moving_statistics(launcher: HostLauncher) -> None:
    fresh, old = floats(1, "float32", 5), floats(2, "float32", 5)
    found = batch_norm.moved(launcher, fresh, old, 0.3)
    share = np.float32(0.3)
    assert found.tobytes() == (fresh * share + old * (np.float32(1) - share)).tobytes()
