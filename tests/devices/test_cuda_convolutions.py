"""Convolutions of sessions on CUDA's device are cuDNN's: the tests' own, on a card whose streams run late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.cuda.overrides.convolutions import left_out
from tests.devices.cuda_by_host import compile_by_host, convolve_by_host, opened
from tests.devices.fake_cupy import FakeCupy
from tests.devices.gpu_graphs import GRAPHS, alike, of_the_cpu, values_of
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


def biased(data_format: str, has_relu: bool, dtype: str, padding: str = "SAME") -> tuple[Any, ...]:
    """A convolution with a bias and maybe a Relu behind it."""
    g, source = fe.Graph(), np.random.default_rng(4)
    first = data_format == "NCHW"
    value = source.integers(-3, 4, (2, 4, 6, 5) if first else (2, 6, 5, 4)).astype(dtype)
    x = g.placeholder(dtype, value.shape, name="x")
    filters = g.constant(source.integers(-2, 3, (3, 3, 4, 6)).astype(dtype))
    bias = g.constant(source.integers(-9, 9, 6).astype(dtype))
    strides = [1, 1, 2, 2] if first else [1, 2, 2, 1]
    y = g.ops.Conv2D(x, filters, strides=strides, padding=padding, data_format=data_format, name="y")
    z = g.ops.BiasAdd(y, bias, data_format=data_format, name="z")
    return g, y, z, (g.ops.Relu(z, name="last") if has_relu else z), {x: value}


def text_of(session: Any, fetches: Any, feeds: Any) -> str:
    return str(session.explain(fetches, list(feeds)))


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("has_relu", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
async def test_a_bias_and_a_relu_are_computed_with_the_convolution(
    data_format: str, has_relu: bool, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    g, _, _, last, feeds = biased(data_format, has_relu, "float32")
    async with fe.Session(g) as session:
        wanted = await session.run(last, feeds)
    g, _, _, last, feeds = biased(data_format, has_relu, "float32")
    fake = FakeCupy(1)
    library = convolve_by_host(monkeypatch, fake)
    library.fake.fake_epilogues(int(is_there))
    async with opened(g, fake) as session:
        assert "_FusedContraction" in text_of(session, last, feeds)
        found = await session.run(last, feeds)
        await session.run(last, feeds)
        text = text_of(session, last, feeds)
    assert found.tolist() == wanted.tolist()
    fake.gpu.check()
    assert fake.launched.count("convolution") == 2
    behind = [name for name in fake.launched if name.startswith("bias_")]
    assert behind == ([] if is_there else [f"bias_{'relu' if has_relu else 'plain'}_float32"] * 2)
    said = "left out by cuda: cuDNN has no engine but the generic one for FORWARD of float32 with x"
    assert (said in text) is not is_there
    assert ("and a bias and a Relu behind it" in text) is (has_relu and not is_there)


async def test_what_lies_between_stays_where_somebody_else_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    g, y, z, last, feeds = biased("NHWC", True, "float32")
    beside = g.ops.Neg(z)
    fake = FakeCupy(1)
    convolve_by_host(monkeypatch, fake)
    async with opened(g, fake) as session:
        for fetches in ([y, last], [z, y], [last, g.ops.Neg(y)]):
            assert "_FusedContraction" not in text_of(session, fetches, feeds)
        # The convolution takes the bias along, and nothing the Relu.
        for fetches in ([z, last], [beside, last]):
            text = text_of(session, fetches, feeds)
            assert "z = _FusedContraction" in text
            assert "last = Relu(z:0" in text
        assert "_FusedContraction" not in text_of(session, [z], [*feeds, y])
    g, *_, last, feeds = biased("NHWC", True, "float32")
    async with opened(g, fake, fuse_contractions=False) as session:
        assert "_FusedContraction" not in text_of(session, last, feeds)


async def test_halves_are_rounded_once_with_an_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """2048 + 1 is no half: the sum rounds to 2048 by itself, and with another 1 behind it would be 2050."""
    g = fe.Graph()
    x = g.placeholder("float16", [1, 1, 1, 2], name="x")
    filters = g.constant(np.ones((1, 1, 2, 1), np.float16))
    y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="VALID")
    last = g.ops.BiasAdd(y, g.constant(np.ones(1, np.float16)))
    feeds = {x: np.array([2048, 1], np.float16).reshape(1, 1, 1, 2)}
    fake = FakeCupy(1)
    library = convolve_by_host(monkeypatch, fake)
    for is_there in (False, True):
        library.fake.fake_epilogues(int(is_there))
        async with opened(g, fake) as session:
            found = [(await session.run(last, feeds)).tolist() for _ in range(8)]
        assert found == [[[[[2050.0 if is_there else 2048.0]]]]] * 8, "hot and cold alike"


async def test_errors_of_epilogues_are_those_of_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x, filters, bias = (g.placeholder("float32", name=name) for name in ("x", "filters", "bias"))
    y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="y")
    last = g.ops.Relu(g.ops.BiasAdd(y, bias, name="z"))
    fake = FakeCupy(1)
    convolve_by_host(monkeypatch, fake)
    ones = np.ones
    feeds = {
        x: ones((1, 4, 4, 4), np.float32),
        filters: ones((1, 1, 4, 6), np.float32),
        bias: ones(6, np.float32),
    }
    async with opened(g, fake) as session:
        assert "_FusedContraction" in text_of(session, last, feeds)
        for wrong, node in ((filters, "y"), (bias, "z")):
            shape = (1, 1, 3, 6) if wrong is filters else (5,)
            with pytest.raises(fe.errors.InvalidArgumentError) as error:
                await session.run(last, feeds | {wrong: ones(shape, np.float32)})
            assert error.value.node_name == node
        # Of two groups each would take its part of the bias: the bias is a launch of its own.
        found = await session.run(last, feeds | {filters: ones((1, 1, 2, 6), np.float32)})
        assert found.tolist() == np.full((1, 4, 4, 6), 3).tolist()
        assert (await session.run(last, feeds)).tolist() == np.full((1, 4, 4, 6), 5).tolist()
    assert sum(name.startswith("bias_relu") for name in fake.launched) == 1


async def test_a_network_is_trained_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = await of_the_cpu("trained_images")
    graph, fake = GRAPHS["trained_images"](), FakeCupy(5)
    convolve_by_host(monkeypatch, fake)
    async with opened(graph.graph, fake) as session:
        found = await values_of(session, graph)
    alike(found, wanted)
    fake.gpu.check()
    assert fake.launched.count("convolution") >= 3
    # Only what is fetched is awaited.
    assert fake.gpu.stops == 0
