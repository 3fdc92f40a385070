"""Large memory begins with a line of the caches, and is used again once nothing refers to it, not before."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from flowengine.core.buffers import (
    ALIGNED,
    LARGE,
    LINE,
    IdleMemory,
    MemoryLease,
    aligned,
    copied,
    empty,
    rounded,
)
from flowengine.core.dtypes import float32
from flowengine.core.shapes import TensorShape
from flowengine.devices.allocation import Ledger
from flowengine.devices.cpu import CpuDevice
from flowengine.resources.variable import Variable
from flowengine.runtime.planning.values import FetchSpec


def test_memory_comes_back_with_its_last_view() -> None:
    kept = IdleMemory()
    a = kept.empty((100, 50), np.float32)
    a.fill(3)
    where, view = a.ctypes.data, a[7:, ::2]
    del a
    assert kept.idle_bytes == 0
    assert (view == 3).all()
    del view
    assert kept.idle_bytes == rounded(20_000) + LINE
    b = kept.empty((5000,), np.float32)
    assert b.ctypes.data == where
    assert b.flags.writeable
    assert kept.idle_bytes == 0


def test_another_size_gets_other_memory_and_too_much_is_let_go() -> None:
    kept = IdleMemory(idle_max=3000)
    arrays = [kept.empty((size,), np.uint8) for size in (1000, 1024, 2048)]
    assert len({a.ctypes.data for a in arrays}) == 3
    del arrays
    assert kept.idle_bytes <= 3000


def test_a_size_that_nobody_asks_for_any_more_is_let_go() -> None:
    moment = [0.0]
    kept = IdleMemory(idle_max=1 << 20, clock=lambda: moment[0])
    kept.empty((50_000,), np.uint8)
    for now in (1.0, 9.0, 20.0):
        moment[0] = now
        assert kept.idle_bytes >= 50_000
        for _ in range(20):
            kept.empty((10_000,), np.uint8)
    assert 10_000 <= kept.idle_bytes < 50_000


def test_sizes_are_rounded_by_little() -> None:
    for size in (1, 7, 8, 9, 1000, 123_456_789):
        assert size <= rounded(size) <= size * 9 / 8 + 1


def test_only_large_arrays_are_kept_and_devices_count_them_once() -> None:
    assert empty((10,), np.float32).flags.owndata
    large = empty((LARGE // 4, 1), np.float32)
    assert isinstance(large.base, MemoryLease)
    device = CpuDevice("/device:CPU:0")
    owner = device.owner_of(large)
    assert owner is not None
    assert owner[1] >= large.nbytes
    assert device.owner_of(large[1:]) == owner
    ledger = Ledger()
    ledger.hold(*owner, "large")
    assert ledger.live == owner[1]
    del large, owner
    assert ledger.live == 0


def test_threads_never_share_memory() -> None:
    kept = IdleMemory()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            a = kept.empty((1000,), np.int32)
            a.fill(number)
            if not (a == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("size", [ALIGNED // 4, ALIGNED, 3_000_000, LARGE // 4, LARGE])
def test_arrays_from_64_kb_on_begin_with_a_line(size: int) -> None:
    arrays = [empty((size,), np.float32) for _ in range(5)]
    variable = Variable("v", float32, TensorShape((None,)))
    variable.assign(arrays[0])
    lent = variable.read()
    arrays += [copied(arrays[0]), lent, variable.mutable()]
    assert arrays[-1] is not lent
    assert [a.ctypes.data % LINE for a in arrays] == [0] * len(arrays)
    for number, array in enumerate(arrays):
        array.fill(number)
    assert [a.min() for a in arrays] == [a.max() for a in arrays] == list(range(len(arrays)))


def test_a_view_of_aligned_memory_refers_to_the_array_and_devices_count_it_once() -> None:
    array = aligned((ALIGNED,), np.float32)
    view = array[5:].reshape(1, -1)
    assert view.base is array
    device = CpuDevice("/device:CPU:0")
    assert device.owner_of(view) == device.owner_of(array) == (array.base, array.nbytes)


def test_a_copy_is_dense_and_of_the_dtype_asked_for() -> None:
    turned = np.arange(6.0).reshape(2, 3).T
    for dtype in (None, np.float32, object):
        copy = copied(turned, dtype)
        assert copy.flags.c_contiguous
        assert copy.dtype == (dtype or turned.dtype)
        assert (copy == turned).all()


def test_what_is_fetched_is_copied_only_where_something_else_refers_to_it() -> None:
    fetch = FetchSpec("x:0", float32)

    def given(array: Any) -> tuple[int, list[Any]]:
        return array.ctypes.data, [array]

    where, values = given(aligned((ALIGNED,), np.float32))
    assert fetch.convert(values, 0).ctypes.data == where
    where, values = given(aligned((ALIGNED,), np.float32))
    view = values[0][1:]
    assert fetch.convert(values, 0).ctypes.data != where
    where, values = given(aligned((ALIGNED,), np.float32))
    block = values[0].base
    assert fetch.convert(values, 0).ctypes.data != where
    del view, block
