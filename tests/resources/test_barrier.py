"""Barriers: components meet by key, keys leave in the order in which they began."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.barrier import Barrier

_FIRST = -(2**63)


def _barrier(components: int = 2) -> Barrier:
    return Barrier("b", (dtypes.float32,) * components, (SCALAR,) * components)


def _keys(*keys: bytes) -> Any:
    array = np.empty(len(keys), dtype=object)
    array[:] = keys
    return array


def _floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_keys_become_ready_in_order_of_their_first_component() -> None:
    barrier = _barrier()
    barrier.insert_many(0, _keys(b"a", b"b", b"c"), _floats(1, 2, 3))
    assert (barrier.ready_size, barrier.incomplete_size) == (0, 3)
    barrier.insert_many(1, _keys(b"c", b"a"), _floats(30, 10))
    assert (barrier.ready_size, barrier.incomplete_size) == (2, 1)
    indices, keys, first, second = barrier.take_many_nowait(2)
    assert indices.tolist() == [_FIRST, _FIRST + 2]
    assert keys.tolist() == [b"a", b"c"]
    assert (first.tolist(), second.tolist()) == ([1, 3], [10, 30])
    assert barrier.take_many_nowait(1) is WOULD_WAIT


@given(st.permutations([(component, key) for component in range(3) for key in range(4)]))
def test_every_order_of_arrival(order: list[tuple[int, int]]) -> None:
    barrier = _barrier(3)
    began: list[int] = []
    for component, key in order:
        barrier.insert_many(component, _keys(b"%d" % key), _floats(10 * key + component))
        if key not in began:
            began.append(key)
    _, keys, *components = barrier.take_many_nowait(4)
    assert keys.tolist() == [b"%d" % key for key in began]
    for component, values in enumerate(components):
        assert values.tolist() == [10 * key + component for key in began]


def test_errors() -> None:
    barrier = _barrier()
    barrier.insert_many(0, _keys(b"a"), _floats(1))
    with pytest.raises(InvalidArgumentError, match="already has a value for component 0"):
        barrier.insert_many(0, _keys(b"a"), _floats(1))
    with pytest.raises(InvalidArgumentError, match="component ID is out of range 2"):
        barrier.insert_many(2, _keys(b"a"), _floats(1))
    with pytest.raises(InvalidArgumentError, match="as many rows"):
        barrier.insert_many(1, _keys(b"a", b"b"), _floats(1))
    with pytest.raises(InvalidArgumentError, match=r"Expected \[\], got \[2\]"):
        barrier.insert_many(1, _keys(b"a"), np.zeros((1, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match="2 component types but 1 shapes"):
        Barrier("b", (dtypes.float32,) * 2, (SCALAR,))
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        barrier.take_many_nowait(0)


def test_close_lets_begun_keys_be_completed() -> None:
    barrier = _barrier()
    barrier.insert_many(0, _keys(b"a", b"b"), _floats(1, 2))
    barrier.close()
    with pytest.raises(CancelledError, match="brand new key: b'c'"):
        barrier.insert_many(0, _keys(b"c"), _floats(3))
    with pytest.raises(CancelledError, match="already closed"):
        barrier.close()
    with pytest.raises(OutOfRangeError, match=r"requested 3, total size 2"):
        barrier.take_many_nowait(3)
    barrier.insert_many(1, _keys(b"b", b"a"), _floats(20, 10))
    assert barrier.take_many_nowait(3, up_to=True)[1].tolist() == [b"a", b"b"]
    with pytest.raises(OutOfRangeError):
        barrier.take_many_nowait(1, up_to=True)


def test_cancelling_close_forgets_begun_keys() -> None:
    barrier = _barrier()
    barrier.insert_many(0, _keys(b"a", b"b"), _floats(1, 2))
    barrier.insert_many(1, _keys(b"a"), _floats(10))
    barrier.close()
    barrier.close(cancel_pending_enqueues=True)
    assert (barrier.ready_size, barrier.incomplete_size) == (1, 0)
    with pytest.raises(CancelledError, match="Pending enqueues cancelled: True"):
        barrier.insert_many(1, _keys(b"b"), _floats(20))
    assert barrier.take_many_nowait(1)[1].tolist() == [b"a"]


def test_shapes_may_be_left_open() -> None:
    barrier = Barrier("b", (dtypes.float32,), None)
    barrier.insert_many(0, _keys(b"a"), np.ones((1, 2, 3), np.float32))
    assert barrier.take_many_nowait(1)[2].shape == (1, 2, 3)
    barrier.insert_many(0, _keys(b"b"), _floats(1))
    barrier.insert_many(0, _keys(b"c"), np.ones((1, 2), np.float32))
    partial = Barrier("p", (dtypes.float32,), (TensorShape([None]),))
    with pytest.raises(InvalidArgumentError):
        partial.insert_many(0, _keys(b"a"), _floats(1))


async def test_a_refused_key_does_not_hide_that_the_last_begun_one_is_complete(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One insertion completes the last key that was begun, and its next key is new: no more can come."""
    barrier = _barrier()

    async def take() -> None:
        with pytest.raises(OutOfRangeError, match="requested 2, current size 1"):
            await barrier.take_many(2)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            barrier.insert_many(0, _keys(b"a"), _floats(1))
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            barrier.close()
            with pytest.raises(CancelledError, match="brand new key: b'c'"):
                barrier.insert_many(1, _keys(b"a", b"c"), _floats(10, 30))
    assert barrier.take_many_nowait(1)[1].tolist() == [b"a"]


async def test_waiting_ends_with_the_last_component_or_with_close() -> None:
    barrier = _barrier()
    taken: list[Any] = []

    async def take(count: int, up_to: bool) -> None:
        try:
            taken.append((await barrier.take_many(count, up_to=up_to))[1].tolist())
        except OutOfRangeError:
            taken.append("out of range")

    async with trio.open_nursery() as nursery:
        barrier.insert_many(0, _keys(b"a", b"b"), _floats(1, 2))
        nursery.start_soon(take, 1, False)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, 5, False)
        await trio.testing.wait_all_tasks_blocked()
        barrier.insert_many(1, _keys(b"b"), _floats(20))
        await trio.testing.wait_all_tasks_blocked()
        assert taken == [[b"b"]]
        barrier.close(cancel_pending_enqueues=True)
    assert taken == [[b"b"], "out of range"]
