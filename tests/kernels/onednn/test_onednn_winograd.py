"""Convolutions in tiles of rows give what convolutions give, where they are chosen and where they are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.numpy import conv_products as conv
from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers import winograd, winograd_programs
from flowengine.kernels.onednn.layers.backward import FilterGradient, InputGradient
from flowengine.kernels.onednn.layers.filters import PackedVariable
from flowengine.kernels.onednn.layers.forward import ConvolutionForward
from flowengine.kernels.onednn.layers.post_ops import ZERO
from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes
from flowengine.kernels.onednn.layers.winograd import Tiles, blocks, spread, tiles_of
from flowengine.kernels.onednn.library import LibraryError, address, library, search
from tests.effort import examples
from tests.kernels.onednn.rig import constant

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

ONE = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), False)
#: A layer that is worth it on one core and on two.
LARGE = (8, 28, 28, 256), (3, 3, 256, 512)


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def near(got: Any, wanted: Any) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))


@pytest.fixture
def forget() -> Iterator[None]:
    """Forget prepared programs before and after a test, so that each test prepares its own."""
    prepared: Any = (convolution.forward, convolution.input_gradient, convolution.filter_gradient)
    for each in prepared:
        each.cache_clear()
    yield
    for each in prepared:
        each.cache_clear()


class Always:
    """Tiles wherever there may be any, in blocks of so many bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(winograd, "_GAIN", np.inf)
        self._patch.setattr(winograd, "_CHANNELS_MIN", 1)
        for name in ("BLOCK_BYTES", "LARGE_BLOCK_BYTES"):
            self._patch.setattr(winograd_programs, name, self._limit)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def is_tiled(layer: ConvolutionForward) -> bool:
    """Whether NumPy has a part in it."""
    return any(isinstance(form, tuple) for form, _, _ in layer._program.memories)


# (1) The same values as NumPy's, whatever the geometry and wherever blocks end.

edge = st.integers(0, 2)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 3),
    st.tuples(st.integers(1, 9), st.integers(1, 6)),
    st.integers(1, 4),
    st.sampled_from([b"SAME", b"VALID", b"EXPLICIT"]),
    st.tuples(edge, edge, edge, edge),
    st.sampled_from([1, 5, 32]),
    st.sampled_from([1, 7, 48]),
    st.sampled_from([1, 3000, 1 << 20]),
)
def test_any_geometry(
    images: int,
    sizes: tuple[int, int],
    wide: int,
    padding: bytes,
    edges: tuple[int, ...],
    channels: int,
    width: int,
    limit: int,
) -> None:
    explicit = (0, 0, *edges, 0, 0) if padding == b"EXPLICIT" else ()
    sliding = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), padding, explicit, False)
    x_shape, w_shape = (images, *sizes, channels), (3, wide, channels, width)
    try:
        layer = Layer(sliding, x_shape, w_shape)
    except LibraryError:
        assume(False)
        raise
    x, w, gradient = numbers(0, *x_shape), numbers(1, *w_shape), numbers(2, *layer.output)
    geometry = layer.geometry
    with Always(limit):
        tiles = tiles_of(sliding, layer, 1)
        assert tiles is not None
        made: Any = np.full(layer.output, np.nan, np.float32)
        forward = winograd_programs.TiledForward(layer, tiles, (), alone=True)
        forward.program(address(x), address(w), address(made))
        near(made, conv.forward(x, w, geometry))
        owner, packed = forward.packed.pack(w)
        again: Any = np.full(layer.output, np.nan, np.float32)
        forward.packed_program(address(x), packed, address(again))
        del owner
        np.testing.assert_array_equal(again, made)
        made = np.full(x_shape, np.nan, np.float32)
        backward = winograd_programs.input_gradient(layer, tiles, alone=True)
        backward(address(gradient), address(w), address(made))
        near(made, conv.input_gradient(w, gradient, geometry))
        made = np.full(w_shape, np.nan, np.float32)
        of_filters = winograd_programs.filter_gradient(layer, tiles, alone=True)
        of_filters(address(x), address(gradient), address(made))
        near(made, conv.filter_gradient(x, gradient, geometry))


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 100), st.integers(1, 2000))
def test_blocks_are_all_tiles_once_and_as_small_as_asked(
    images: int, tiles: int, row: int, limit: int
) -> None:
    seen = np.zeros((images, tiles), int)
    every = blocks(images, tiles, row, limit)
    for block in every:
        seen[block.images, block.start : block.stop] += 1
        count, rows = block.shape
        assert seen[block.images, block.start : block.stop].shape == (count, rows)
        assert count * rows * row <= max(limit, row)
        # Memory is made for the first.
        assert count <= every[0].shape[0]
        assert rows <= every[0].shape[1]
    assert (seen == 1).all()


def test_the_rounding_is_that_of_sums_in_another_order() -> None:
    x, w = numbers(0, 2, 16, 16, 128), numbers(1, 3, 3, 128, 64)
    gradient = numbers(2, 2, 16, 16, 64)
    layer = Layer(ONE, x.shape, w.shape)
    right = conv.forward(x.astype(np.float64), w.astype(np.float64), layer.geometry)
    with Always(1 << 20):
        tiled = ConvolutionForward(ONE, x.shape, w.shape, (), alone=True)(x, w)
    plain = ConvolutionForward(ONE, x.shape, w.shape, (), alone=True)(x, w)
    assert not np.array_equal(tiled, plain)
    error, usual = (float(np.sqrt(np.mean((each - right) ** 2))) for each in (tiled, plain))
    assert error < 4 * usual
    right = conv.filter_gradient(x.astype(np.float64), gradient.astype(np.float64), layer.geometry)
    with Always(1 << 20):
        tiled = FilterGradient(ONE, x.shape, w.shape, alone=True)(x, gradient)
    plain = FilterGradient(ONE, x.shape, w.shape, alone=True)(x, gradient)
    error, usual = (float(np.sqrt(np.mean((each - right) ** 2))) for each in (tiled, plain))
    assert error < 4 * usual


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("row", [0, 3, 4, 8])
def test_what_is_not_finite_reaches_the_same_elements(value: float, row: int) -> None:
    x, w, gradient = numbers(0, 1, 9, 7, 16), numbers(1, 3, 3, 16, 24), numbers(2, 1, 9, 7, 24)
    x[0, row, 3, 5] = gradient[0, row, 2, 1] = value

    def computed() -> list[Any]:
        forward = ConvolutionForward(ONE, x.shape, w.shape, (), alone=True)
        backward = InputGradient(ONE, x.shape, w.shape, alone=True)
        of_filters = FilterGradient(ONE, x.shape, w.shape, alone=True)
        return [forward(x, w), backward(w, gradient), of_filters(x, numbers(2, 1, 9, 7, 24))]

    with np.errstate(all="ignore"):
        wanted = computed()
        with Always(1 << 20):
            got = computed()
    for mine, right in zip(got[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(np.isfinite(mine), np.isfinite(right))
    # Of the filters, those of that channel, and no others.
    assert np.isfinite(np.delete(got[2], 5, axis=2)).all()
    assert not np.isfinite(got[2][:, :, 5][~np.isfinite(wanted[2][:, :, 5])]).any()


# (2) What follows, constants and variables.


@pytest.mark.parametrize(
    "forms",
    [
        ("add channel",),
        ("add channel", "relu"),
        ("sub channel", "mul channel", "add channel", "relu6"),
        ("mul number",),
        ("add channel", "add whole", "relu"),
        ("add whole", "mul channel", "sub number", "relu6"),
    ],
)
def test_what_follows_gives_the_bits_that_it_gives_by_itself(forms: tuple[str, ...]) -> None:
    x, w = numbers(0, 2, 7, 6, 16), numbers(1, 3, 3, 16, 24)
    with Always(10_000):
        wanted = ConvolutionForward(ONE, x.shape, w.shape, (), alone=True)(x, w)
        layer = ConvolutionForward(ONE, x.shape, w.shape, forms, alone=True)
    assert is_tiled(layer)
    x[0, 0, 0, 0] = np.nan
    reached = np.zeros(wanted.shape, bool)
    reached[0, :2, :2] = True
    operands = []
    for seed, form in enumerate(forms):
        if form.startswith("relu"):
            operands.append(ZERO)
            wanted = np.maximum(wanted, 0)
            wanted = np.minimum(wanted, 6) if form == "relu6" else wanted
            continue
        name, reach = form.split()
        shape = {"channel": (24,), "number": (1,), "whole": wanted.shape}[reach]
        operands.append(numbers(seed + 5, *shape))
        does: Any = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
        wanted = does(wanted, operands[-1])
    got = layer(x, w, *operands)
    np.testing.assert_array_equal(np.isnan(got), reached)
    np.testing.assert_array_equal(got[~reached], wanted[~reached])


def test_filters_are_made_ready_once_where_they_stay() -> None:
    x, w = numbers(0, 1, 8, 8, 16), constant(numbers(1, 3, 3, 16, 24))
    with Always(1 << 20):
        layer = ConvolutionForward(ONE, x.shape, w.shape, (), True, alone=True)
    changing = w.copy()
    wanted = layer(x, changing)
    kept = layer.kept()
    np.testing.assert_array_equal(layer(x, w), wanted)
    assert layer.kept() == kept + 1
    np.testing.assert_array_equal(layer.settled(w, ())(x), wanted)
    lasting = PackedVariable()
    for _ in range(8):
        np.testing.assert_array_equal(layer(x, changing, lasting=lasting), wanted)
    held = layer._packed
    assert held is not None
    assert lasting.held(changing, held) is not None


async def test_a_network_and_its_gradients_are_as_by_numpy(
    forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built() -> tuple[fe.Graph, list[Any]]:
        graph = fe.Graph()
        ops = graph.ops
        x = graph.placeholder("float32", [2, 11, 10, 16], name="x")
        w, bias = graph.constant(numbers(1, 3, 3, 16, 16) / 8), graph.constant(numbers(7, 16))
        one: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        y = ops.Relu(ops.BiasAdd(ops.Conv2D(x, w, **one), bias))
        z = ops.Relu(ops.AddV2(ops.Conv2D(y, w, **one), y))
        gradient = ops.ReluGrad(z, z)
        sizes = graph.constant(np.array([2, 11, 10, 16], np.int32))
        of_filters = ops.Conv2DBackpropFilter(
            y, graph.constant(np.array([3, 3, 16, 16], np.int32)), gradient, **one
        )
        of_input = ops.Conv2DBackpropInput(sizes, w, gradient, **one)
        return graph, [z, of_filters, ops.ReluGrad(of_input, y)]

    made: list[Any] = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return spread(*given)

    monkeypatch.setattr(winograd_programs, "spread", counted)
    got = []
    with Always(20_000):
        for provider in ("onednn", "numpy"):
            graph, fetches = built()
            async with fe.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
                x = numbers(9, 2, 11, 10, 16)
                got.append([await session.run(fetches, {"x:0": x}) for _ in range(12)])
    assert made
    for run, right_run in zip(*got, strict=True):
        for mine, right in zip(run, right_run, strict=True):
            near(np.asarray(mine), np.asarray(right))


def test_calls_in_many_threads_give_the_same_bits() -> None:
    x_shape, w_shape = (2, 12, 12, 32), (3, 3, 32, 32)
    with Always(40_000):
        layers = (
            ConvolutionForward(ONE, x_shape, w_shape, (), alone=True),
            InputGradient(ONE, x_shape, w_shape, alone=True),
            FilterGradient(ONE, x_shape, w_shape, alone=True),
        )
    given = [(numbers(n, *x_shape), numbers(n + 10, *w_shape)) for n in range(4)]
    wanted = [(layers[0](x, w), layers[1](w, x), layers[2](x, x)) for x, w in given]
    wrong: list[Any] = []

    def work(n: int) -> None:
        x, w = given[n]
        for _ in range(50):
            made = layers[0](x, w), layers[1](w, x), layers[2](x, x)
            if any(not np.array_equal(a, b) for a, b in zip(made, wanted[n], strict=True)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# (3) Which are.


def choice(x: tuple[int, ...], w: tuple[int, ...], threads: int = 1, **given: Any) -> Tiles | None:
    sliding = WindowAttributes(
        given.get("strides", (1, 1, 1, 1)),
        given.get("dilations", (1, 1, 1, 1)),
        given.get("padding", b"SAME"),
        given.get("explicit", ()),
        given.get("first", False),
        given.get("depthwise", False),
    )
    return tiles_of(sliding, Layer(sliding, x, w), threads, given.get("constant", False))


def test_large_layers_are() -> None:
    assert choice(*LARGE) == Tiles(28, 1, 28)
    assert choice(*LARGE, threads=2) == Tiles(28, 1, 28)
    assert choice((8, 71, 71, 96), (3, 3, 96, 192), padding=b"VALID") == Tiles(71, 0, 69)
    assert choice((8, 28, 28, 128), (3, 3, 128, 192)) is not None


def test_filters_that_never_change_cost_less() -> None:
    few_pixels = (2, 12, 12, 256), (3, 3, 256, 256)
    assert choice(*few_pixels) is None
    assert choice(*few_pixels, constant=True) is not None


@pytest.mark.parametrize(
    ("x", "w", "given", "why"),
    [
        ((8, 28, 28, 256), (1, 3, 256, 256), {}, "windows of one row"),
        ((8, 28, 28, 256), (5, 5, 256, 256), {}, "windows of five rows"),
        ((8, 28, 28, 256), (3, 3, 256, 256), {"strides": (1, 2, 2, 1)}, "strides"),
        ((8, 28, 28, 256), (3, 3, 256, 256), {"dilations": (1, 2, 2, 1)}, "dilations"),
        ((8, 256, 28, 28), (3, 3, 256, 256), {"first": True}, "channels before height and width"),
        ((8, 28, 28, 256), (3, 3, 256, 1), {"depthwise": True}, "channel by channel"),
        ((8, 28, 28, 256), (3, 3, 128, 256), {}, "groups"),
        ((8, 224, 224, 3), (3, 3, 3, 64), {}, "few channels: more is added than is saved"),
        ((8, 56, 56, 32), (3, 3, 32, 32), {}, "few channels"),
        ((8, 1, 28, 512), (3, 3, 512, 512), {}, "half of each tile would lie below the image"),
        ((1, 4, 4, 512), (3, 3, 512, 512), {}, "few pixels for so many filters"),
        (
            (8, 28, 28, 256),
            (3, 3, 256, 256),
            {"padding": b"EXPLICIT", "explicit": (0, 0, 3, 0, 0, 0, 0, 0)},
            "a row of nothing but zeros",
        ),
    ],
)
def test_others_are_not(x: tuple[int, ...], w: tuple[int, ...], given: dict[str, Any], why: str) -> None:
    assert choice(x, w, **given) is None, why


@pytest.mark.parametrize("value", ["off", "0", " OFF "])
def test_they_can_be_turned_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(winograd.VARIABLE, value)
    assert choice(*LARGE) is None
    monkeypatch.setenv(winograd.VARIABLE, "on")
    assert choice(*LARGE) is not None


def test_a_layer_that_is_large_enough_is_in_tiles() -> None:
    x, w = numbers(0, *LARGE[0]), numbers(1, *LARGE[1])
    layer = ConvolutionForward(ONE, x.shape, w.shape, (), alone=False)
    assert is_tiled(layer)
    near(layer(x, w), conv.forward(x, w, Layer(ONE, x.shape, w.shape).geometry))
    assert library() is not None
