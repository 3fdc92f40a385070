"""The driver API through ctypes, against a driver whose streams do nothing until somebody waits for them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowengine.core.errors import FailedPreconditionError, InternalError, ResourceExhaustedError
from flowengine.devices.cuda_driver import CudaContext, CudaDriver
from tests.devices.fake_driver import FakeDriver


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return FakeDriver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[CudaContext]:
    made = CudaContext(fake.driver, 0)
    yield made
    made.close()
    made.close()
    assert fake.left() == {}


def numbers(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint8 * count).from_address(address))


def test_copies_wait_for_events_across_streams(fake: FakeDriver, context: CudaContext) -> None:
    first, second = context.stream(), context.stream()
    pinned = context.allocate_pinned(64)
    ctypes.memset(pinned, 7, 16)
    on_card = context.allocate(first, 16)
    context.copy_in(first, on_card, pinned, 16)
    copied = context.record(first)
    assert not copied.is_done()
    context.let_wait(second, copied)
    context.copy_out(second, pinned + 32, on_card, 16)
    read = context.record(second)
    read.wait()
    assert copied.is_done()
    assert numbers(pinned + 32, 16) == [7] * 16
    context.free(second, on_card)
    for event in (copied, read):
        event.close()
        event.close()
    with pytest.raises(FailedPreconditionError, match="event has been closed"):
        copied.is_done()
    context.synchronize(second)
    context.free_pinned(pinned)


def test_an_event_that_is_looked_at_happens_in_the_end(context: CudaContext) -> None:
    event = context.record(context.stream())
    looks = 0
    while not event.is_done():
        looks += 1
    assert looks >= 1
    event.close()


def test_memory_that_is_short_is_said(fake: FakeDriver, context: CudaContext) -> None:
    fake.capacity(100)
    stream = context.stream()
    with pytest.raises(
        ResourceExhaustedError,
        match="card's memory is full: cuMemAllocAsync gave 2, CUDA_ERROR_OUT_OF_MEMORY",
    ):
        context.allocate(stream, 101)
    address = context.allocate(stream, 100)
    context.free(stream, address)
    fake.capacity(1 << 40)
    assert context.lost == ""


def test_an_error_of_a_call_leaves_the_context(fake: FakeDriver, context: CudaContext) -> None:
    stream = context.stream()
    fake.fail("cuEventRecord", 1)
    with pytest.raises(InternalError, match="cuEventRecord gave 1, a status that is not known"):
        context.record(stream)
    assert fake.count("events") == 0
    context.record(stream).close()


@pytest.mark.parametrize("where", ["cuEventQuery", "cuEventSynchronize", "cuStreamSynchronize"])
def test_what_ends_a_context_is_told_by_every_later_call(fake: FakeDriver, where: str) -> None:
    context = CudaContext(fake.driver, 0)
    stream = context.stream()
    event = context.record(stream)
    fake.fail(where, 700)
    with pytest.raises(InternalError, match="CUDA_ERROR_ILLEGAL_ADDRESS: what was enqueued before has ended"):
        {"cuEventQuery": event.is_done, "cuEventSynchronize": event.wait}.get(
            where, lambda: context.synchronize(stream)
        )()
    with pytest.raises(InternalError, match="values on the card are lost"):
        context.allocate(stream, 4)
    context.close()
    assert fake.count("contexts") == 0
    with pytest.raises(FailedPreconditionError, match="context has been closed"):
        context.stream()
    # The driver forgets a context that was lost with all it had; this one keeps what is clean.
    later = CudaContext(fake.driver, 0)
    later.call("cuEventDestroy_v2", event.handle)
    later.call("cuStreamDestroy_v2", stream.handle)
    later.close()


def test_each_thread_has_the_context_that_it_uses(fake: FakeDriver) -> None:
    first, second = CudaContext(fake.driver, 0), CudaContext(fake.driver, 1)
    seen: list[int] = []

    def use(context: CudaContext) -> None:
        context.stream()
        seen.append(fake.count("current"))

    use(first)
    use(second)
    use(first)
    thread = threading.Thread(target=use, args=(second,))
    thread.start()
    thread.join()
    assert seen == [400, 410, 400, 410]
    # The fake has one current context for all threads.
    first.driver.call("cuCtxSetCurrent", 400)
    first.close()
    second.close()
    assert fake.left() == {}


def test_a_card_that_is_not_there(fake: FakeDriver) -> None:
    with pytest.raises(InternalError, match="cuDeviceGet gave 101, CUDA_ERROR_INVALID_DEVICE"):
        CudaContext(fake.driver, 2)
    assert fake.left() == {}


def test_a_driver_that_is_none_or_does_not_start(fake: FakeDriver, tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match="cannot be used as NVIDIA's driver"):
        CudaDriver(str(tmp_path / "nothing.so"))
    with pytest.raises(FailedPreconditionError, match="cannot be used as NVIDIA's driver"):
        CudaDriver("libm.so.6")
    fake.fail("cuInit", 100)
    with pytest.raises(FailedPreconditionError, match="NVIDIA's driver does not start: cuInit gave 100"):
        CudaDriver(fake.path)


def test_an_image_that_is_no_module(fake: FakeDriver, context: CudaContext) -> None:
    with pytest.raises(InternalError, match="cuModuleLoadData gave 209"):
        context.module(b"/nothing.so")
    module = context.module(fake.path.encode())
    with pytest.raises(InternalError, match="no kernel 'softmax' in this module"):
        module.function("softmax")
    assert module.function("cuInit") == module.function("cuInit") != 0
