"""Kernels through the driver API: a driver and a card of the test's own, whose streams run late."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from flowengine.kernels.common.windows import windows
from flowengine.kernels.cuda import elementwise, optimizers, pooling, rows, softmax, sources
from flowengine.kernels.cuda.driver_launcher import DriverLauncher
from flowengine.kernels.cuda.launching import KernelLaunch
from flowengine.kernels.nn import activations as on_cpu
from flowengine.kernels.nn.window_extremes import WindowReductions
from tests.devices.fake_driver import FakeDriver
from tests.kernels.cuda.closeness import floats
from tests.kernels.cuda.host_compiler import HostModule, needs_compiler

pytestmark = needs_compiler

FAMILIES = ("optimizers", "pooling", "rows", "softmax")


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return FakeDriver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder: Path = tmp_path_factory.mktemp("module")
    # Kernels of one type are enough, and a fifth of the work.
    HostModule(elementwise.prelude() + sources.source(*FAMILIES, only="float32"), folder)
    return str(folder / "module.so").encode()


@pytest.fixture
def launcher(fake: FakeDriver, image: bytes) -> Iterator[DriverLauncher]:
    def compiled(source: str, architecture: str) -> bytes:
        assert source == sources.source(*FAMILIES)
        assert architecture == "sm_80"
        return image

    made = DriverLauncher(fake.driver, 0, *FAMILIES, architecture="sm_80", compile_source=compiled)
    yield made
    made.close()
    made.close()
    gc.collect()
    kinds = {kind: n for kind, n in fake.left().items() if kind != "memory"}
    assert kinds == {}


def test_what_a_card_would_do(fake: FakeDriver, launcher: DriverLauncher) -> None:
    x, labels = floats(1, "float32", 5, 300), np.array([3, 299, 0, 7, 7], np.int32)
    before = fake.count("launched"), fake.count("waited")
    given = launcher.moved_in(x), launcher.moved_in(labels)
    loss, backprop = softmax.sparse_cross_entropy(launcher, *given)
    shares = softmax.softmax(launcher, given[0])
    assert (fake.count("launched"), fake.count("waited")) == (before[0] + 2, before[1])
    wanted = on_cpu.sparse_softmax_cross_entropy(np, x, labels)
    np.testing.assert_allclose(launcher.moved_out(loss), wanted[0], 3e-6)
    np.testing.assert_allclose(launcher.moved_out(backprop), wanted[1], 3e-6, 3e-6)
    np.testing.assert_allclose(launcher.moved_out(shares), on_cpu.softmax(np, x), 3e-6)
    launcher.check()


def test_pooling_and_an_update_of_variables_in_place(launcher: DriverLauncher) -> None:
    x, geometry = floats(2, "float32", 2, 9, 8, 3), windows((9, 8), (3, 2), (2, 2), (1, 1), b"SAME")
    gradient = floats(3, "float32", 2, *geometry.out, 3)
    found = pooling.max_pool_gradient(launcher, launcher.moved_in(x), launcher.moved_in(gradient), geometry)
    wanted = WindowReductions(np).maximum_gradient(x, gradient, geometry)
    assert launcher.moved_out(found).tolist() == wanted.tolist()
    variables = [launcher.moved_in(floats(n, "float32", 3000 + n)) for n in range(2)]
    gradients = [launcher.moved_in(floats(9 + n, "float32", 3000 + n)) for n in range(2)]
    updated = [
        optimizers.UpdatedVariable([variable], each)
        for variable, each in zip(variables, gradients, strict=True)
    ]
    optimizers.apply_all(launcher, "GradientDescent", updated, {"alpha": 0.5})
    for n, variable in enumerate(variables):
        step = floats(9 + n, "float32", 3000 + n) * np.float32(0.5)
        assert launcher.moved_out(variable).tolist() == (floats(n, "float32", 3000 + n) - step).tolist()


def test_a_refusal_is_told_once(launcher: DriverLauncher) -> None:
    params = launcher.moved_in(np.ones((3, 2), np.float32))
    rows.gather(launcher, params, launcher.moved_in(np.array([0, 5])))
    with pytest.raises(InvalidArgumentError, match="An index is out of range: 5 at place 1"):
        launcher.check()
    launcher.check()
    rows.gather(launcher, params, launcher.moved_in(np.array([-4])))
    with pytest.raises(InvalidArgumentError, match="An index is out of range: -4 at place 0"):
        launcher.check()


def test_arrays_larger_than_the_ring_and_of_nothing(launcher: DriverLauncher) -> None:
    large = np.random.default_rng(0).integers(0, 255, (40 << 20) + 3, np.uint8)
    assert launcher.moved_out(launcher.moved_in(large)).tobytes() == large.tobytes()
    assert launcher.moved_out(launcher.moved_in(np.zeros((0, 3)))).shape == (0, 3)
    assert launcher.moved_out(launcher.moved_in(np.float64(2.5))).tolist() == 2.5


def test_memory_comes_back_with_its_array(fake: FakeDriver, launcher: DriverLauncher) -> None:
    before = fake.count("memory")
    x = launcher.moved_in(np.ones((4, 3), np.float32))
    assert softmax.softmax(launcher, x).nbytes == 48
    gc.collect()
    assert fake.count("memory") == before + 1
    del x
    gc.collect()
    assert fake.count("memory") == before
    fake.capacity(1000)
    with pytest.raises(ResourceExhaustedError, match="card's memory is full"):
        launcher.empty((1000,), np.float32)
    fake.capacity(1 << 40)


def test_a_kernel_that_is_not_there_and_a_launcher_that_is_closed(fake: FakeDriver, image: bytes) -> None:
    with DriverLauncher(fake.driver, 1, "softmax", compile_source=lambda *_: image) as made:
        with pytest.raises(InternalError, match="no kernel 'unknown'"):
            made.launch(KernelLaunch("unknown", (), 1, 32), [])
        x = made.moved_in(np.ones(3, np.float32))
    with pytest.raises(FailedPreconditionError, match="launcher has been closed"):
        made.launch(KernelLaunch("softmax_float32", (1, 3), 1, 32), [x, x])
    with pytest.raises(InternalError, match="gave 209"):
        DriverLauncher(fake.driver, 0, "softmax", compile_source=lambda *_: b"/nothing.so")


def test_a_context_that_was_lost(fake: FakeDriver, image: bytes) -> None:
    made = DriverLauncher(fake.driver, 0, "softmax", compile_source=lambda *_: image)
    x = made.moved_in(np.ones(3, np.float32))
    fake.fail("cuEventSynchronize", 700)
    with pytest.raises(InternalError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        made.moved_out(x)
    del x
    gc.collect()
    made.close()
    assert fake.count("contexts") == 0
