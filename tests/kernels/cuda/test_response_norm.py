"""Local response normalisation in CUDA C beside the CPU's kernel, which sums in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda import response_norm
from flowengine.kernels.nn import normalization as on_cpu
from tests.kernels.cuda.closeness import FLOATS, floats, seeds, widened
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

TOLERANCES = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-14}
ATTRIBUTES = st.fixed_dictionaries(
    {
        "depth_radius": st.integers(0, 7),
        "bias": st.sampled_from([1.0, 2.0, 0.5]),
        "alpha": st.sampled_from([1.0, 1e-4, 0.3]),
        "beta": st.sampled_from([0.5, 0.75, 1.0, 0.6]),
    }
)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("response"), "response_norm")


@given(st.integers(0, 3), st.integers(1, 20), seeds, st.sampled_from(FLOATS), ATTRIBUTES)
def test_response_and_gradient(
    launcher: HostLauncher, rows: int, channels: int, seed: int, dtype: str, attrs: dict[str, Any]
) -> None:
    shape, step = (1, rows, 2, channels), TOLERANCES[dtype]
    x, gradient = floats(seed, dtype, *shape), floats(seed + 1, dtype, *shape)
    y = response_norm.response_norm(launcher, x, **attrs)
    wanted = on_cpu.lrn(np, widened(x), **attrs)
    np.testing.assert_allclose(y.astype(np.float64), wanted.astype(np.float64), step, step)
    found = response_norm.response_norm_gradient(launcher, gradient, x, y, **attrs)
    given = (widened(value) for value in (gradient, x, y))
    wanted = on_cpu.lrn_grad(np, *given, **attrs)
    # Neighbours may cancel each other: what counts is how large the terms were.
    size = 1 + np.abs(widened(gradient)).max(initial=0) * (1 + 2 * attrs["alpha"]) * 10
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), step, step * size)


def test_shapes_that_differ(launcher: HostLauncher) -> None:
    x, g = np.zeros((1, 1, 1, 2), np.float32), np.zeros((1, 1, 2, 2), np.float32)
    with pytest.raises(InvalidArgumentError, match="must have the same shape"):
        response_norm.response_norm_gradient(launcher, g, x, x, depth_radius=1, bias=1, alpha=1, beta=1)
