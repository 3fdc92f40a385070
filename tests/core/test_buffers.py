"""Large memory is used again once nothing refers to it, and not before."""

from __future__ import annotations

import threading

import numpy as np

from flowengine.core.buffers import LARGE, Kept, Lease, empty, rounded
from flowengine.devices.cpu import CpuDevice


def test_memory_comes_back_with_its_last_view() -> None:
    kept = Kept()
    a = kept.empty((100, 50), np.float32)
    a.fill(3)
    where, view = a.ctypes.data, a[7:, ::2]
    del a
    assert kept.idle_bytes == 0
    assert (view == 3).all()
    del view
    assert kept.idle_bytes == rounded(20_000)
    b = kept.empty((5000,), np.float32)
    assert b.ctypes.data == where
    assert b.flags.writeable
    assert kept.idle_bytes == 0


def test_another_size_gets_other_memory_and_too_much_is_let_go() -> None:
    kept = Kept(idle_max=3000)
    arrays = [kept.empty((size,), np.uint8) for size in (1000, 1024, 2048)]
    assert len({a.ctypes.data for a in arrays}) == 3
    del arrays
    assert kept.idle_bytes <= 3000


def test_sizes_are_rounded_by_little() -> None:
    for size in (1, 7, 8, 9, 1000, 123_456_789):
        assert size <= rounded(size) <= size * 9 / 8 + 1


def test_only_large_arrays_are_kept_and_devices_count_them_once() -> None:
    assert empty((10,), np.float32).flags.owndata
    large = empty((LARGE // 4, 1), np.float32)
    assert isinstance(large.base, Lease)
    device = CpuDevice("/device:CPU:0")
    owner = device.owner_of(large)
    assert owner is not None
    assert owner[1] >= large.nbytes
    assert device.owner_of(large[1:]) == owner


def test_threads_never_share_memory() -> None:
    kept = Kept()
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
