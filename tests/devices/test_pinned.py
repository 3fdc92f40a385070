"""The ring of pinned memory: no part is lent again while a copy uses it."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator

import numpy as np
import pytest

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.devices.cuda_driver import CudaContext, CudaStream
from flowengine.devices.pinned import PinnedRing
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
