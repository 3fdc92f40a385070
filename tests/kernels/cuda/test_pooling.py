"""Poolings with gradients in CUDA C: the bits of the CPU's kernels for arrays of any library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.cuda import pooling
from flowengine.kernels.nn.pooling import without_numbers
from flowengine.kernels.nn.window_extremes import WindowReductions
from tests.kernels.cuda.closeness import FLOATS, Floats, agrees, floats, seeds, widened
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.kernels.cuda.host_launcher import HostLauncher

pytestmark = needs_compiler

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    return HostLauncher(tmp_path_factory.mktemp("pooling"), "pooling")


@dataclass(frozen=True)
class DrawnPooling:
    """images, channels, geometry; whether channels come first."""

    images: int
    channels: int
    geometry: Windows
    channels_first: bool

    def laid(self, x: Floats) -> Floats:
        """(N, *sizes, C) as the kernels are given it."""
        return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if self.channels_first else x

    def last(self, x: Floats) -> Floats:
        return np.moveaxis(x, 1, -1) if self.channels_first else x

    @property
    def options(self) -> dict[str, Any]:
        return {"channels_first": self.channels_first}

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.images, *self.geometry.sizes, self.channels

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.images, *self.geometry.out, self.channels


@st.composite
def poolings(draw: st.DrawFn) -> DrawnPooling:
    axes = draw(st.integers(1, 3))
    sizes = draw(st.tuples(*[st.integers(1, 7)] * axes))
    window = (
        tuple(draw(st.integers(1, size if padding == b"VALID" else 9)) for size in sizes)
        if (padding := draw(st.sampled_from([b"VALID", b"SAME"])))
        else ()
    )
    strides = draw(st.tuples(*[st.integers(1, 4)] * axes))
    geometry = windows(sizes, window, strides, (1,) * axes, padding).clipped()
    return DrawnPooling(draw(st.integers(1, 2)), draw(st.integers(1, 3)), geometry, draw(st.booleans()))


@given(poolings(), seeds, st.sampled_from(FLOATS), st.booleans())
def test_maxima(launcher: HostLauncher, drawn: DrawnPooling, seed: int, dtype: str, keeps_nan: bool) -> None:
    x = floats(seed, dtype, *drawn.inputs, specials=True)
    found = pooling.max_pool(launcher, drawn.laid(x), drawn.geometry, keeps_nan=keeps_nan, **drawn.options)

    def pooled(values: Floats) -> Any:
        return WindowReductions(np).maximum(values, drawn.geometry)

    with np.errstate(all="ignore"):
        wanted = without_numbers(np, x, pooled) if keeps_nan else pooled(x)
    assert agrees(drawn.last(found), wanted, 0)


@given(poolings(), seeds, st.sampled_from(INTEGERS))
def test_maxima_of_integers(launcher: HostLauncher, drawn: DrawnPooling, seed: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    source = np.random.default_rng(seed)
    x = source.integers(limits.min, limits.max, drawn.inputs, dtype, endpoint=True)
    x[source.random(x.shape) < 0.3] = limits.min
    found = pooling.max_pool(launcher, drawn.laid(x), drawn.geometry, **drawn.options)
    wanted = WindowReductions(np).maximum(x, drawn.geometry)
    assert drawn.last(found).tolist() == wanted.tolist()


@given(poolings(), seeds, st.sampled_from(FLOATS), st.booleans())
def test_the_gradient_of_maxima(
    launcher: HostLauncher, drawn: DrawnPooling, seed: int, dtype: str, specials: bool
) -> None:
    x = floats(seed, dtype, *drawn.inputs, specials=specials)
    gradient = floats(seed + 1, dtype, *drawn.outputs)
    given = drawn.laid(x), drawn.laid(gradient), drawn.geometry
    found = pooling.max_pool_gradient(launcher, *given, **drawn.options)
    with np.errstate(all="ignore"):
        wanted = WindowReductions(np).maximum_gradient(x, gradient, drawn.geometry)
    assert agrees(drawn.last(found), wanted, 0)
    for index in (np.int32, np.int64):
        places = pooling.max_pool_places(launcher, given[0], drawn.geometry, index, **drawn.options)
        with np.errstate(all="ignore"):
            _, expected = WindowReductions(np).maximum_with_position(x, drawn.geometry)
        assert places.dtype == index
        assert drawn.last(places).tolist() == expected.tolist()


@given(poolings(), seeds, st.sampled_from(FLOATS))
def test_means_and_their_gradient(launcher: HostLauncher, drawn: DrawnPooling, seed: int, dtype: str) -> None:
    x, gradient = floats(seed, dtype, *drawn.inputs), floats(seed + 1, dtype, *drawn.outputs)
    means = pooling.avg_pool(launcher, drawn.laid(x), drawn.geometry, **drawn.options)
    wanted = WindowReductions(np).mean(widened(x), drawn.geometry)
    assert agrees(drawn.last(means), wanted.astype(x.dtype), 0)
    spread = pooling.avg_pool_gradient(launcher, drawn.laid(gradient), drawn.geometry, **drawn.options)
    wanted = WindowReductions(np).mean_gradient(widened(gradient), drawn.geometry)
    assert agrees(drawn.last(spread), wanted.astype(x.dtype), 0)


def test_more_places_than_a_grid_has_threads(launcher: HostLauncher) -> None:
    x = floats(1, "float32", 2, 40, 41, 3)
    geometry = windows((40, 41), (3, 3), (2, 2), (1, 1), b"SAME")
    gradient = floats(2, "float32", 2, *geometry.out, 3)
    found = pooling.max_pool_gradient(launcher, x, gradient, geometry)
    assert agrees(found, WindowReductions(np).maximum_gradient(x, gradient, geometry), 0)


def test_without_images_and_with_too_many_axes(launcher: HostLauncher) -> None:
    geometry = windows((4, 4), (2, 2), (2, 2), (1, 1), b"VALID")
    x = np.zeros((0, 4, 4, 3), np.float32)
    assert pooling.max_pool(launcher, x, geometry).shape == (0, 2, 2, 3)
    assert pooling.max_pool_gradient(launcher, x, x[:, :2, :2], geometry).shape == x.shape
    four = windows((2,) * 4, (2,) * 4, (1,) * 4, (1,) * 4, b"VALID")
    with pytest.raises(InvalidArgumentError, match="up to 3 axes and no dilation"):
        pooling.avg_pool(launcher, np.zeros((1, 2, 2, 2, 2, 1), np.float32), four)
