"""Memory that tensors were received into is lent again once nobody has them, and given up after a while."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.wire.memory import KEPT_BYTES_MAX, KEPT_SECONDS, POOLED_BYTES_MIN, ReceivedMemory
from flowengine.transport.wire.payload import Payload
from tests.tools.links import ConnectionLink

SIZE = 2 * POOLED_BYTES_MIN
FLOAT = np.dtype(np.float32)


def where(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_lent_again_when_the_last_view_is_gone() -> None:
    memory = ReceivedMemory()
    first = memory.allocate([SIZE // 4], FLOAT, SIZE, 0.0)
    place = where(first)
    part = first.reshape(2, -1)[1][10:20].view(np.uint8)
    raw = first.data
    assert where(memory.allocate([SIZE // 4], FLOAT, SIZE, 0.0)) != place
    del first
    assert where(memory.allocate([SIZE // 4], FLOAT, SIZE, 0.0)) != place
    raw.release()
    assert where(memory.allocate([SIZE // 4], FLOAT, SIZE, 0.0)) != place
    del part
    again = memory.allocate([2, SIZE // 4], np.dtype(np.int16), SIZE, 0.0)
    assert where(again) == place
    assert again.shape == (2, SIZE // 4)
    assert again.dtype == np.int16


def test_what_is_kept_is_bounded_and_given_up() -> None:
    memory = ReceivedMemory()
    for number in range(20):
        size = KEPT_BYTES_MAX // 8 + number * 4096
        memory.allocate([size], np.dtype(np.uint8), size, float(number) / 10)
        assert memory.kept_bytes <= KEPT_BYTES_MAX
    memory.trim(1.9 + KEPT_SECONDS / 2)
    assert memory.kept_bytes
    held = memory.allocate([SIZE], np.dtype(np.uint8), SIZE, 2.0)
    memory.trim(2.0 + KEPT_SECONDS)
    assert not memory.kept_bytes
    held[:] = 1
    assert where(memory.allocate([SIZE], np.dtype(np.uint8), SIZE, 2.0)) != where(held)
    small = memory.allocate([10], FLOAT, 40, 0.0)
    assert small.base is None


def test_memory_is_given_up_when_it_was_not_received_into_for_a_while() -> None:
    """However long ago it was made."""
    memory = ReceivedMemory()
    moments = [number * 0.75 * KEPT_SECONDS for number in range(5)]
    for now in moments:
        memory.trim(now)
        assert memory.kept_bytes == (SIZE if now else 0)
        memory.allocate([SIZE], np.dtype(np.uint8), SIZE, now)
    memory.trim(moments[-1] + 0.99 * KEPT_SECONDS)
    assert memory.kept_bytes == SIZE
    memory.trim(moments[-1] + KEPT_SECONDS)
    assert memory.kept_bytes == 0


def test_pushed_tensors_share_memory_one_after_another() -> None:
    link = ConnectionLink()
    link.open()
    places = set()
    kept = []
    for step in range(1, 9):
        key = RendezvousKey(step, "/a", 1, "edge", "/b", ())
        link.dialler.tensors.push(key, Payload([np.full(SIZE // 4, step, np.float32)]), False)
        link.settle()
        (event,) = link.listener.take_events()
        assert isinstance(event, e.TensorArrival)
        assert event.value[0] == event.value[-1] == step
        link.listener.tensors.give_back(event.cost)
        places.add(where(event.value))
        if step in (3, 4):
            kept.append(event.value)
        del event
    assert len(places) == 3
    assert [array[7] for array in kept] == [3, 4]
    link.now = 100.0
    link.listener.handle_time(100.0)
    link.listener.close()
    assert [array[-1] for array in kept] == [3, 4]
