"""Convolutions by cuDNN beside the array module's: values, plans, what is kept of them, what is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InternalError, UnimplementedError
from flowengine.devices import cuda
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.cuda import compiling, convolution_tuning
from flowengine.kernels.cuda.convolution_plans import (
    EngineRules,
    call_of,
    channels_first,
    channels_last,
    make_plan,
    plans,
    read_plan,
    workspace_limit,
)
from flowengine.kernels.cuda.convolutions import CardConvolutions, PlanStore
from flowengine.kernels.cuda.cudnn import Attribute, CudnnHandle, CudnnPart, card_like
from flowengine.kernels.nn.conv_products import Products
from tests.kernels.cuda.fake_cudnn import FakeCudnn
from tests.kernels.cuda.host_compiler import COMPILER, needs_compiler

pytestmark = needs_compiler
Floats = np.ndarray[Any, Any]
STRICT = EngineRules()


class HostMemory:
    """Gives NumPy's memory, in which what is not written shows."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Floats:
        return np.full(shape, 85, dtype)

    def address(self, array: Floats) -> int:
        lies = (
            array.flags.c_contiguous or array.transpose(0, -1, *range(1, array.ndim - 1)).flags.c_contiguous
        )
        assert lies
        return array.ctypes.data


class Refusing:
    """A fallback for operations that cuDNN does not compute, which notes each that is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(Products(np), name)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def convolutions(
    library: FakeCudnn, rules: EngineRules = STRICT
) -> tuple[CardConvolutions, PlanStore, Refusing]:
    store, refusing = PlanStore(library, library.card(), rules), Refusing()
    made = CardConvolutions(store, CudnnHandle(library, 0), HostMemory(), np, refusing)
    return made, store, refusing


def call(library: FakeCudnn, direction: CudnnPart = CudnnPart.FORWARD, dtype: str = "float32") -> Any:
    geometry = windows((6, 6), (3, 3), (1, 1), (1, 1), b"SAME")
    laid = channels_last((2, 4, 6, 6)), channels_last((5, 4, 3, 3)), channels_last((2, 5, 6, 6))
    return call_of(direction, dtype, *laid, geometry)


def shifted(source: np.random.Generator, shape: tuple[int, ...], dtype: str, first: bool) -> Floats:
    """Small whole numbers, so that sums are exact in every order; maybe a view with the channels moved."""
    values = source.integers(-3, 4, shape).astype(dtype)
    if not first:
        return values
    return np.ascontiguousarray(np.moveaxis(values, -1, 1)).transpose(0, *range(2, values.ndim), 1)


@given(
    st.lists(
        st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2)),
        min_size=2,
        max_size=3,
    ),
    st.sampled_from([b"SAME", b"VALID"]),
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["float16", "float32", "float64"]),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 2**32 - 1),
)
def test_all_three_have_the_values_of_the_array_module(
    axes: list[tuple[int, int, int, int]],
    padding: bytes,
    counts: tuple[int, int, int],
    dtype: str,
    flags: tuple[bool, bool, bool, bool],
    seed: int,
) -> None:
    sizes, window, strides, dilations = (tuple(axis[i] for axis in axes) for i in range(4))
    if padding == b"VALID":
        sizes = tuple(s + (w - 1) * d for s, w, d in zip(sizes, window, dilations, strict=True))
    (batch, channels, width), (x_first, y_first, tensor_float_32, turned) = counts, flags
    geometry = windows(sizes, window, strides, dilations, padding)
    source = np.random.default_rng(seed)
    x = shifted(source, (batch, *sizes, channels), dtype, x_first)
    y = shifted(source, (batch, *geometry.out, width), dtype, y_first)
    filters = source.integers(-3, 4, (*window, channels, width)).astype(dtype)
    found, _, refusing = convolutions(FakeCudnn(), EngineRules(tensor_float_32, deterministic=True))
    plain = Products(np)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(convolution_tuning, "is_turned", lambda call, rules: turned)
        results = [
            (found.forward(x, filters, geometry), plain.forward(x, filters, geometry)),
            (found.filter_gradient(x, y, geometry), plain.filter_gradient(x, y, geometry)),
            (found.input_gradient(filters, y, geometry), plain.input_gradient(filters, y, geometry)),
        ]
    for ours, theirs in results:
        assert ours.dtype == dtype
        assert ours.tolist() == theirs.tolist()
    assert refusing.asked == []


@pytest.mark.parametrize("has_relu", [False, True])
def test_a_bias_and_a_relu_are_computed_with_the_convolution(has_relu: bool) -> None:
    source = np.random.default_rng(1)
    for first in (False, True):
        x = shifted(source, (2, 5, 5, 3), "float32", first)
        filters = source.integers(-3, 4, (3, 3, 3, 4)).astype(np.float32)
        bias = source.integers(-9, 9, 4).astype(np.float32)
        geometry = windows((5, 5), (3, 3), (1, 1), (1, 1), b"SAME")
        library = FakeCudnn()
        found = convolutions(library)[0].with_epilogue(x, filters, bias, geometry, has_relu=has_relu)
        wanted = Products(np).forward(x, filters, geometry) + bias
        assert found.tolist() == (np.maximum(wanted, 0) if has_relu else wanted).tolist()
        assert len([word for word in library.told() if word.startswith("execute")]) == 1


def test_what_is_no_number_goes_through_a_relu_behind_a_convolution() -> None:
    x, filters = np.array([np.nan, -1, 2], np.float32).reshape(1, 1, 3, 1), np.ones((1, 1, 1, 1), np.float32)
    geometry = windows((1, 3), (1, 1), (1, 1), (1, 1), b"VALID")
    found = convolutions(FakeCudnn())[0]
    y = found.with_epilogue(x, filters, np.zeros(1, np.float32), geometry, has_relu=True)
    np.testing.assert_array_equal(y.reshape(-1), [np.nan, 0, 2])


def test_no_generic_engine_is_taken_for_what_follows_a_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeCudnn()
    library.fake.fake_epilogues(0)
    found, store, refusing = convolutions(library)
    x, filters = np.ones((1, 6, 6, 2), np.float32), np.ones((3, 3, 2, 4), np.float32)
    geometry, bias = windows((6, 6), (3, 3), (2, 2), (1, 1), b"SAME"), np.ones(4, np.float32)
    assert geometry.before != geometry.after
    with monkeypatch.context() as patched:
        # Nothing is padded before that is known.
        patched.setattr(Windows, "pad", None)
        for has_relu in (False, True, True):
            assert found.with_epilogue(x, filters, bias, geometry, has_relu=has_relu) is None
    assert len(store.left_out) == 2
    assert "no engine but the generic one" in next(iter(store.left_out.values()))
    assert found.forward(x, filters, geometry).shape == (1, 3, 3, 4)
    assert refusing.asked == []


@pytest.mark.parametrize(
    ("dtype", "rules", "engines"),
    [
        ("float32", EngineRules(), [20, 1, 28]),
        ("float32", EngineRules(tensor_float_32=True), [67, 20, 1, 28]),
        ("float32", EngineRules(deterministic=True), [1, 28]),
        ("float32", EngineRules(tensor_float_32=True, deterministic=True), [67, 1, 28]),
        ("float16", EngineRules(deterministic=True), [67, 1, 28]),
        ("float64", EngineRules(), [67, 20, 1, 28]),
    ],
)
def test_engines_are_those_whose_notes_the_settings_allow(
    dtype: str, rules: EngineRules, engines: list[int]
) -> None:
    library = FakeCudnn()
    found = list(plans(library, library.card(), call(library, dtype=dtype), rules))
    assert [int(plan.text.split()[1]) for plan in found] == engines
    assert [plan.workspace for plan in found if plan.text.split()[1] == b"1"] == [512]


@pytest.mark.parametrize(
    ("properties", "limit"),
    [
        (b"{}", 4 << 30),
        (b"a card", 4 << 30),
        (b'{"totalGlobalMem": 4088}', 511),
        (b'{"totalGlobalMem": 4096}', 512),
    ],
)
def test_plans_want_no_more_than_a_share_of_the_cards_memory(properties: bytes, limit: int) -> None:
    library = FakeCudnn()
    card = card_like(library, properties)
    assert workspace_limit(card) == limit
    engines = [int(plan.text.split()[1]) for plan in plans(library, card, call(library), STRICT)]
    assert engines == ([20, 1, 28] if limit >= 512 else [20, 28])


def test_plans_are_made_once_and_read_by_later_processes() -> None:
    library = FakeCudnn()
    one = call(library)
    store = PlanStore(library, library.card(), STRICT)
    first = store.plan(one)
    assert first is not None
    assert store.plan(one) is first
    assert [word for word in library.told() if word.startswith("plan")] == ["plan:20"]
    library.forget()
    again = PlanStore(library, library.card(), STRICT).plan(one)
    assert again is not None
    assert (again.text, again.workspace) == (first.text, first.workspace)
    assert library.told() == []
    # Other rules are other plans, and a damaged file is made anew.
    assert PlanStore(library, library.card(), EngineRules(deterministic=True)).plan(one) is not None
    assert library.told() == ["plan:1"]
    for path in compiling.cache_folder().glob("*.plan"):
        path.write_bytes(b"{")
    library.forget()
    assert PlanStore(library, library.card(), STRICT).plan(one) is not None
    assert library.told() == ["plan:20"]


def test_a_folder_that_cannot_be_written_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "flowengine").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = FakeCudnn()
    assert PlanStore(library, library.card(), STRICT).plan(call(library)) is not None


def test_what_cudnn_has_no_engine_for_is_the_array_modules() -> None:
    library = FakeCudnn()
    library.fake.fake_engines(0)
    found, store, refusing = convolutions(library)
    x, filters = np.ones((1, 5, 5, 2), np.float32), np.ones((2, 2, 2, 3), np.float32)
    geometry = windows((5, 5), (2, 2), (1, 1), (1, 1), b"VALID")
    y = found.forward(x, filters, geometry)
    assert y.tolist() == np.full((1, 4, 4, 3), 8).tolist()
    assert found.filter_gradient(x, y, geometry).shape == filters.shape
    assert found.input_gradient(filters, y, geometry).shape == x.shape
    assert refusing.asked == ["forward", "filter_gradient", "input_gradient"]
    assert len(store.left_out) == 3
    assert all("cuDNN has no engine for" in why for why in store.left_out.values())
    with pytest.raises(UnimplementedError, match=r"FORWARD of float32 with x \[2, 4, 6, 6\], filters"):
        make_plan(library, library.card(), call(library), STRICT)
    # They are not asked for again.
    library.fake.fake_engines(99)
    found.forward(x, filters, geometry)
    assert refusing.asked[3:] == ["forward"]


@pytest.mark.parametrize("shapes", [((0, 5, 5, 2), 3), ((1, 5, 5, 2), 0)])
def test_nothing_is_not_computed_by_cudnn(shapes: tuple[tuple[int, ...], int]) -> None:
    library = FakeCudnn()
    found, _, refusing = convolutions(library)
    x, filters = np.ones(shapes[0], np.float32), np.ones((2, 2, 2, shapes[1]), np.float32)
    geometry = windows((5, 5), (2, 2), (1, 1), (1, 1), b"VALID")
    assert found.forward(x, filters, geometry).shape == (shapes[0][0], 4, 4, shapes[1])
    assert refusing.asked == ["forward"]
    assert library.told() == ["stream:0"]


@pytest.mark.parametrize("first", [False, True])
def test_what_begins_in_the_middle_of_something_is_copied(first: bool) -> None:
    """Plans are told that addresses are multiples of 16: a part of an array that is fed need not be."""
    source = np.random.default_rng(2)
    geometry = windows((3, 3), (2, 2), (1, 1), (1, 1), b"VALID")
    plain, found = Products(np), convolutions(FakeCudnn())[0]

    def part(*shape: int) -> Floats:
        """Behind a first element."""
        made = source.integers(-3, 4, 1 + int(np.prod(shape))).astype(np.float32)[1:].reshape(shape)
        assert made.ctypes.data % 16
        return made

    x, y, filters, bias = part(1, 3, 3, 2), part(1, 2, 2, 5), part(2, 2, 2, 5), part(5)
    if first:
        x, y = part(1, 2, 3, 3).transpose(0, 2, 3, 1), part(1, 5, 2, 2).transpose(0, 2, 3, 1)
    forward = plain.forward(x, filters, geometry)
    assert found.forward(x, filters, geometry).tolist() == forward.tolist()
    both = found.with_epilogue(x, filters, bias, geometry, has_relu=False)
    assert both.tolist() == (forward + bias).tolist()
    gradient = found.filter_gradient(x, y, geometry)
    assert gradient.tolist() == plain.filter_gradient(x, y, geometry).tolist()
    back = found.input_gradient(filters, y, geometry)
    assert back.tolist() == plain.input_gradient(filters, y, geometry).tolist()


def test_an_error_of_the_card_is_raised() -> None:
    library = FakeCudnn()
    found, _, _ = convolutions(library)
    x, filters = np.ones((1, 5, 5, 2), np.float32), np.ones((2, 2, 2, 3), np.float32)
    library.fails("cudnnBackendExecute", 5000)
    with pytest.raises(InternalError, match="cudnnBackendExecute gave 5000"):
        found.forward(x, filters, windows((5, 5), (2, 2), (1, 1), (1, 1), b"VALID"))


def test_padding_that_differs_is_made_before_where_engines_are_generic() -> None:
    geometry = windows((6, 6), (3, 3), (2, 2), (1, 1), b"SAME")
    assert geometry.before != geometry.after
    images = channels_last((2, 4, 6, 6)), channels_last((5, 4, 3, 3)), channels_last((2, 5, 3, 3))

    def padded(direction: CudnnPart, dtype: str, rules: EngineRules, shape: Windows = geometry) -> bool:
        return convolution_tuning.is_padded_before(call_of(direction, dtype, *images, shape), rules)

    even = replace(geometry, before=(1, 1), after=(1, 1))
    assert padded(CudnnPart.FORWARD, "float32", STRICT)
    assert padded(CudnnPart.INPUT_GRADIENT, "float64", EngineRules(tensor_float_32=True))
    assert not padded(CudnnPart.FORWARD, "float32", EngineRules(tensor_float_32=True))
    assert not padded(CudnnPart.FORWARD, "float16", STRICT)
    assert not padded(CudnnPart.FILTER_GRADIENT, "float32", STRICT)
    assert not padded(CudnnPart.FORWARD, "float32", STRICT, even)


def test_the_table_of_layouts_is_asked_by_kinds_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    one = call(FakeCudnn())
    kind = convolution_tuning.kind_of(one, STRICT)
    assert kind == (CudnnPart.FORWARD, "float32", False, 6, 4, 3, 5, 1)
    assert not convolution_tuning.is_turned(one, STRICT)
    monkeypatch.setattr(convolution_tuning, "FASTER_CHANNELS_FIRST", frozenset({kind}))
    assert convolution_tuning.is_turned(one, STRICT)
    assert not convolution_tuning.is_turned(one, EngineRules(tensor_float_32=True))


def test_strides_of_layouts() -> None:
    assert channels_last((2, 3, 4, 5)) == ((2, 3, 4, 5), (60, 1, 15, 3))
    assert channels_first((2, 3, 4, 5)) == ((2, 3, 4, 5), (60, 20, 5, 1))
    assert channels_last((2, 3, 4, 5, 6)).strides == (360, 1, 90, 18, 3)


_REAL = next(library for library in cuda.libraries() if library.name == "cudnn")
#: A card's properties as cuDNN writes them, those of an H100.
CARD = {
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 9008,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120,
    "l2CacheSize": 52428800,
    "deviceName": "H100",
    "totalGlobalMem": 85029158912,
    "deviceVer": 900,
    "driverVer": 13000,
    "cudaDeviceId": 0,
}
#: What cuDNN's libraries want of a driver before they are loaded; nothing of it is called.
_DRIVER = " ".join(
    f"int {name}() {{ return 100; }}"
    for name in (
        *("cuGetErrorString", "cuModuleGetFunction", "cuModuleLoadData", "cuModuleUnload"),
        *("cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled"),
    )
)


def plans_of_the_library(driver: str, library: str) -> None:
    """For a process of its own, which a driver that is none is loaded into: prints what cuDNN plans."""
    import ctypes

    from flowengine.kernels.cuda import cudnn

    ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
    found = cudnn.Cudnn(library)
    card = cudnn.card_like(found, json.dumps(CARD).encode())
    geometry = windows((13, 13), (3, 3), (1, 1), (1, 1), b"SAME")
    told = {}
    for direction in (CudnnPart.FORWARD, CudnnPart.INPUT_GRADIENT, CudnnPart.FILTER_GRADIENT):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            for lying in (channels_last, channels_first):
                images = lying((8, 32, 13, 13)), lying((8, 64, 13, 13))
                filters = channels_last((64, 32, 3, 3))._replace(strides=(1, 64, 6144, 2048))
                one = call_of(direction, dtype, images[0], filters, images[1], geometry)
                for rules in (
                    EngineRules(),
                    EngineRules(tensor_float_32=True),
                    EngineRules(deterministic=True),
                ):
                    plan = make_plan(found, card, one, rules)
                    again = read_plan(found, card, plan.text)
                    assert again.workspace == plan.workspace
                    told[f"{direction.name} {dtype} {lying.__name__} {rules}"] = plan.workspace
                if direction is CudnnPart.FORWARD:
                    for has_relu in (False, True):
                        fused = one._replace(has_bias=True, has_relu=has_relu)
                        try:
                            make_plan(found, card, fused, EngineRules())
                        except UnimplementedError:
                            # Of these only the generic one is left.
                            assert dtype == "float64"
    assert card.text(Attribute.CARD_JSON)
    print(json.dumps(told), file=sys.stdout)


@pytest.mark.skipif(not _REAL.path, reason=f"cuDNN is missing: install the distribution {_REAL.distribution}")
def test_the_library_makes_every_plan_for_a_card_that_is_not_there(tmp_path: Path) -> None:
    """Its own checks of our descriptors, its heuristics and its plans, without a card."""
    assert COMPILER is not None
    source, driver = tmp_path / "driver.cpp", tmp_path / "libcuda.so.1"
    source.write_text(f'extern "C" {{ {_DRIVER} }}')
    name = ["-Wl,-soname,libcuda.so.1"]
    subprocess.run([COMPILER, "-shared", "-fPIC", *name, str(source), "-o", str(driver)], check=True)
    asked = f"plans_of_the_library({str(driver)!r}, {_REAL.path!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.kernels.cuda.test_convolutions import *; {asked}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(json.loads(done.stdout.splitlines()[-1])) == 72
