"""The ring of pinned memory: no part is lent again while a copy uses it."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.devices.cuda_driver import CudaContext, CudaStream
from flowengine.devices.pinned import PinnedMemory, PinnedRing
from tests.devices.fake_driver import FakeDriver


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return FakeDriver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[CudaContext]:
    made = CudaContext(fake.driver, 0)
    yield made
    made.close()
    assert fake.left() == {}


def send(context: CudaContext, stream: CudaStream, ring: PinnedRing, target: int, values: bytes) -> None:
    with ring.lent(len(values)) as part:
        part.data[...] = np.frombuffer(values, np.uint8)
        context.copy_in(stream, target, part.address, len(values))
        part.used_until(context.record(stream))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_copied_late_is_what_was_written(fake: FakeDriver, context: CudaContext, seed: int) -> None:
    chance = random.Random(seed)
    stream, ring = context.stream(), PinnedRing(context, 4096)
    sent: list[tuple[int, bytes]] = []
    for _ in range(60):
        values = chance.randbytes(chance.choice([1, 255, 256, 257, 1000, 2500, 4096]))
        target = context.allocate(stream, len(values))
        send(context, stream, ring, target, values)
        sent.append((target, values))
    ring.close()
    ring.close()
    assert all(ctypes.string_at(target, len(values)) == values for target, values in sent)
    for target, _ in sent:
        context.free(stream, target)
    with pytest.raises(FailedPreconditionError, match="ring of pinned memory has been closed"), ring.lent(1):
        pass


def test_nothing_is_waited_for_while_there_is_room(fake: FakeDriver, context: CudaContext) -> None:
    stream, ring = context.stream(), PinnedRing(context, 4096)
    target = context.allocate(stream, 1024)
    before = fake.count("waited")
    for _ in range(4):
        send(context, stream, ring, target, bytes(1024))
    assert fake.count("waited") == before
    send(context, stream, ring, target, bytes(1024))
    assert fake.count("waited") == before + 1
    ring.close()
    context.free(stream, target)


def test_more_than_the_ring_has(context: CudaContext) -> None:
    ring = PinnedRing(context, 4096)
    with pytest.raises(InvalidArgumentError, match="4096 pinned bytes cannot lend 4097"), ring.lent(4097):
        pass
    with pytest.raises(InvalidArgumentError, match="cannot lend 0"), ring.lent(0):
        pass
    ring.close()


class _Pinned:
    """Memory that is pinned and given back: {address: its bytes}."""

    def __init__(self) -> None:
        self.live: dict[int, Any] = {}
        self.sizes: list[int] = []

    def allocate_pinned(self, size: int) -> int:
        memory = np.zeros(size, np.uint8)
        self.live[memory.ctypes.data] = memory
        self.sizes.append(size)
        return memory.ctypes.data

    def free_pinned(self, address: int) -> None:
        del self.live[address]


@pytest.mark.parametrize("seed", range(20))
def test_no_two_arrays_that_somebody_has_share_memory(seed: int) -> None:
    chance = random.Random(seed)
    pinning = _Pinned()
    pinned = PinnedMemory(pinning, 4096)
    held: list[tuple[Any, int]] = []
    array = each = None
    for number in range(300):
        shape, dtype = chance.choice([(), (3,), (2, 5), (100,), (0, 4), (3000,)]), chance.choice("bdfF?")
        array = pinned.array(shape, np.dtype(dtype))
        assert array.shape == shape
        assert array.dtype == dtype
        array.reshape(-1).view(np.uint8)[...] = number % 251
        # A view is as good as the array.
        held.append((array[..., None] if chance.random() < 0.5 else array, number % 251))
        while len(held) > chance.choice([0, 2, 5, 9]):
            del held[chance.randrange(len(held))]
        for each, value in held:
            assert (np.ascontiguousarray(each).view(np.uint8) == value).all()
    assert pinning.sizes.count(4096) >= 1
    del pinned, array, each
    assert len(pinning.live) <= len(held)
    held.clear()
    assert pinning.live == {}


def test_an_array_outlives_its_ring() -> None:
    pinning = _Pinned()
    ring = PinnedRing(pinning, 4096)
    array = ring.array((4,), np.dtype(np.int32))
    assert array is not None
    ring.close()
    assert len(pinning.live) == 1
    array[...] = 7
    del array
    assert pinning.live == {}


def test_while_the_oldest_part_is_in_use_there_is_no_room() -> None:
    ring = PinnedRing(_Pinned(), 4096)
    kept = ring.array((1024,), np.dtype(np.uint8))
    for _ in range(3):
        assert ring.array((1024,), np.dtype(np.uint8)) is not None
    assert ring.array((1024,), np.dtype(np.uint8)) is None
    assert kept is not None
    del kept
    assert ring.array((1024,), np.dtype(np.uint8)) is not None


def test_large_arrays_have_blocks_that_are_used_again() -> None:
    pinning = _Pinned()
    pinned = PinnedMemory(pinning, 4096)
    for _ in range(5):
        pinned.array((5000,), np.dtype(np.uint8))
    assert pinning.sizes == [8192]
    two = [pinned.array((5000,), np.dtype(np.uint8)) for _ in range(2)]
    assert pinning.sizes == [8192, 8192]
    assert two[0].ctypes.data != two[1].ctypes.data
