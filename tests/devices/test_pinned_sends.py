"""Tensors that leave a card for another task go from pinned memory to the socket, without a copy between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster import server
from flowengine.cluster.local import free_ports
from flowengine.devices.cuda_copies import CudaCopy
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.devices.pinned import RING_BYTES
from flowengine.transport.wire import encoding, payload
from flowengine.transport.wire.identity import new_key
from tests.devices.cuda_by_host import give_arrays, opened, without_libraries
from tests.devices.fake_cupy import FakeCupy

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
FLOATS = 50_000


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    give_arrays(monkeypatch)
    without_libraries(monkeypatch)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """How what was copied out was taken from pinned memory, and what that gave."""
    found: list[tuple[str, Any]] = []

    def noted(way: str) -> Any:
        plain = getattr(CudaCopy, way)

        def take(self: CudaCopy) -> Any:
            value = plain(self)
            found.append((way, value))
            return value

        return take

    for way in ("value", "lent"):
        monkeypatch.setattr(CudaCopy, way, noted(way))
    return found


@pytest.mark.parametrize("also_here", [False, True])
async def test_a_tensor_for_another_task_is_sent_from_pinned_memory(
    also_here: bool, taken: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, fake = DeviceRegistry(parent=DEVICES), FakeCupy(2)
    registry.register("GPU", lambda name, limit: CudaDevice(name, fake, limit), lambda: 1)
    monkeypatch.setattr(server, "DEVICES", registry)
    encoded: list[Any] = []
    encode = encoding.encode

    def noted(value: Any) -> Any:
        made = encode(value)
        encoded.append((value, made.copied))
        return made

    monkeypatch.setattr(payload, "encode", noted)
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    g = fe.Graph()
    x = g.placeholder("float32", [FLOATS], name="x")
    with g.device(f"{PS}/device:GPU:0"):
        y = g.ops.Tanh(x)
    fetches = []
    with g.device(f"{WORKER}/device:CPU:0"):
        fetches.append(g.ops.Neg(y, name="there"))
    if also_here:
        with g.device(f"{PS}/device:CPU:0"):
            fetches.append(g.ops.Sum(y, g.constant(np.int32(0)), name="here"))
    async with (
        fe.Server(spec, "ps", 0),
        fe.Server(spec, "worker", 0) as second,
        fe.Session(g, target=second.target) as session,
    ):
        for _ in range(2):
            found = await session.run(fetches, {x: np.ones(FLOATS, np.float32)})
            np.testing.assert_allclose(found[0], np.full(FLOATS, -np.tanh(1)), rtol=1e-6)
    fake.gpu.check()
    large = [(way, value) for way, value in taken if value.nbytes == 4 * FLOATS]
    # What stays in the process may stay for long, so it is copied out of pinned memory.
    assert [way for way, _ in large] == (["value"] * 2 if also_here else ["lent"] * 2)
    # For the wire nothing is copied either way.
    for _, value in large:
        assert {copied for sent, copied in encoded if sent is value} == {0}


async def test_what_is_fetched_or_stays_in_the_process_is_copied_out_of_pinned_memory(
    taken: list[tuple[str, Any]],
) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [FLOATS], name="x")
    y = g.ops.Tanh(x)
    async with opened(g, FakeCupy(3)) as session:
        await session.run(y, {x: np.ones(FLOATS, np.float32)})
    assert [(way, value.nbytes) for way, value in taken] == [("value", 4 * FLOATS)]


def test_pinned_memory_is_kept_until_the_card_has_written_it() -> None:
    """Pinned memory stays taken until the card has written it, even if the waiter is cancelled before."""
    fake = FakeCupy(4)
    device = CudaDevice(NAME, fake)
    with device.computing():
        value = device.xp.ones(64)
    copy = device.start_copy_out(value)
    assert copy is not None
    event, address = copy.event, copy.lent().ctypes.data
    copy = None
    others = [device.start_copy_out(value) for _ in range(3)]
    assert address not in {other.lent().ctypes.data for other in others if other is not None}
    device.wait(event)
    (memory,) = fake.pinned.values()
    at = address - memory.ctypes.data
    assert memory[at : at + 8].view(np.float64).tolist() == [1.0]


async def test_copies_of_a_session_go_through_one_ring() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [FLOATS], name="x")
    y = g.ops.Tanh(x)
    fake = FakeCupy(5)
    async with opened(g, fake) as session:
        for number in range(200):
            found = await session.run(y, {x: np.full(FLOATS, number / 100, np.float32)})
            np.testing.assert_allclose(found, np.full(FLOATS, np.tanh(np.float32(number / 100))), rtol=1e-6)
            del found
    assert [memory.size for memory in (*fake.pinned.values(), *fake.unpinned)] == [RING_BYTES]
