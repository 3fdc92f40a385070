"""Convolutions of sessions on CUDA's device are cuDNN's: the tests' own, on a card whose streams run late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.cuda.overrides.convolutions import left_out
from tests.devices.cuda_by_host import compile_by_host, convolve_by_host, opened
from tests.devices.fake_cupy import FakeCupy
from tests.devices.gpu_graphs import GRAPHS, values_of
from tests.kernels.cuda.host_compiler import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    compile_by_host(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def layers(
    data_format: str, groups: int = 1, dtype: str = "float32"
) -> tuple[fe.Graph, list[Any], dict[Any, Any]]:
    """A convolution with a stride, and one of volumes, with the gradients of both."""
    g = fe.Graph()
    first = data_format == "NCHW"
    source = np.random.default_rng(3)

    def numbers(*shape: int) -> Any:
        return source.integers(-3, 4, shape).astype(dtype)

    value = numbers(2, 4, 8, 7) if first else numbers(2, 8, 7, 4)
    x = g.placeholder(dtype, value.shape, name="x")
    filters = g.constant(numbers(3, 2, 4 // groups, 6), name="filters")
    strides = [1, 1, 2, 1] if first else [1, 2, 1, 1]
    options: dict[str, Any] = {"strides": strides, "padding": "SAME", "data_format": data_format}
    y = g.ops.Conv2D(x, filters, name="y", **options)
    wanted = [
        y,
        g.ops.Conv2DBackpropInput(fe.shape(x), filters, y, **options),
        g.ops.Conv2DBackpropFilter(x, fe.shape(filters), y, **options),
    ]
    if not first:
        volumes = g.ops.Reshape(x, [1, 2, 8, 7, 4])
        cubes = g.constant(numbers(2, 2, 2, 4, 3))
        steps: dict[str, Any] = {"strides": [1, 1, 2, 2, 1], "padding": "VALID"}
        z = g.ops.Conv3D(volumes, cubes, **steps)
        wanted += [
            z,
            g.ops.Conv3DBackpropInputV2(fe.shape(volumes), cubes, z, **steps),
            g.ops.Conv3DBackpropFilterV2(volumes, fe.shape(cubes), z, **steps),
        ]
    return g, wanted, {x: value}


@pytest.mark.parametrize(("data_format", "groups"), [("NHWC", 1), ("NCHW", 1), ("NHWC", 2), ("NCHW", 2)])
async def test_sessions_have_the_values_of_the_cpu(
    data_format: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    g, fetches, feeds = layers(data_format, groups)
    async with fe.Session(g) as session:
        wanted = await session.run(fetches, feeds)
    for seed in range(2):
        g, fetches, feeds = layers(data_format, groups)
        fake = FakeCupy(seed)
        library = convolve_by_host(monkeypatch, fake)
        async with opened(g, fake, deterministic=bool(seed)) as session:
            found = await session.run(fetches, feeds)
            again = await session.run(fetches, feeds)
        for ours, other, theirs in zip(found, again, wanted, strict=True):
            assert ours.tolist() == other.tolist() == theirs.tolist()
        fake.gpu.check()
        assert fake.launched.count("convolution") == 2 * groups * 3 + (6 if data_format == "NHWC" else 0)
        assert library.told()[0] == "stream:1"


async def test_what_cudnn_does_not_compute_is_cupys(monkeypatch: pytest.MonkeyPatch) -> None:
    g, fetches, feeds = layers("NHWC")
    async with fe.Session(g) as session:
        wanted = await session.run(fetches, feeds)
    g, fetches, feeds = layers("NHWC")
    fake = FakeCupy(1)
    convolve_by_host(monkeypatch, fake).fake.fake_engines(0)
    async with opened(g, fake) as session:
        found = await session.run(fetches, feeds)
        device = session.devices.matching("/device:GPU:0")[0]
        assert len(left_out(device)) == 6
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert "convolution" not in fake.launched


async def test_shapes_that_do_not_fit_are_told_of_by_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x, filters = g.placeholder("float32", name="x"), g.placeholder("float32", name="filters")
    y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="y")
    fake = FakeCupy(1)
    convolve_by_host(monkeypatch, fake)
    async with opened(g, fake) as session:
        feeds = {x: np.zeros((1, 4, 4, 3), np.float32), filters: np.zeros((2, 2, 2, 5), np.float32)}
        with pytest.raises(fe.errors.InvalidArgumentError, match="evenly divisible by filter depth") as error:
            await session.run(y, feeds)
        assert error.value.node_name == "y"
        assert left_out(session.devices.matching("/device:GPU:0")[0]) == ()
        found = await session.run(y, feeds | {filters: np.ones((2, 2, 3, 5), np.float32)})
        assert found.shape == (1, 4, 4, 5)


async def test_a_network_is_trained_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["trained_images"]()
    async with fe.Session(graph.graph) as session:
        wanted = await values_of(session, graph)
    graph, fake = GRAPHS["trained_images"](), FakeCupy(5)
    convolve_by_host(monkeypatch, fake)
    async with opened(graph.graph, fake) as session:
        found = await values_of(session, graph)
    for far, near in zip(found, wanted, strict=True):
        for a, b in zip(far, near, strict=True):
            if b is not None:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    fake.gpu.check()
    assert fake.launched.count("convolution") >= 3
    # Only what is fetched is awaited.
    assert fake.gpu.stops == 0
