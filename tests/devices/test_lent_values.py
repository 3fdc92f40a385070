"""Arrays of other libraries on the card, fed by DLPack: no copy, no access too early, and none too late."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.dlpack_values import LentValue, is_lent
from flowengine.testing.strict_array import StrictArray
from tests.devices.cuda_by_host import give_arrays, opened, without_libraries
from tests.devices.fake_cupy import FakeCupy

#: The lender's own stream.
_LENDING = 7


@pytest.fixture(autouse=True)
def _arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    give_arrays(monkeypatch)
    without_libraries(monkeypatch)


class Tensor:
    """An array of another library, computed on a stream of its own; it gives back its memory when it goes."""

    def __init__(self, fake: FakeCupy, value: Any, ordinal: int = 0, kind: int = 2) -> None:
        self.shape = value.shape
        self._fake = fake
        self._device = kind, ordinal
        gpu = fake.gpu
        self._source = there = gpu.copy_in(value)
        self._wait(1, _LENDING)
        with gpu.on(_LENDING):
            self._array: StrictArray = there * 1
        self.asked: list[int] = []

    def _wait(self, before: int, after: int) -> None:
        """A stream waits for all that was given to another one."""
        gpu = self._fake.gpu
        with gpu._lock:
            access = gpu._accesses.launched(before, "event", (), ())
            gpu._streams.launch(before, lambda: None)
            gpu.ordering.launch(before)
            gpu._accesses.waited(after, access.stream, access.position)
            gpu._streams.wait(after, access.stream, access.position)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, stream: int) -> StrictArray:
        self.asked.append(stream)
        self._wait(_LENDING, stream - 1)
        # Over the same memory, and not the same object: who lends does not learn of it.
        return StrictArray(self._array._data.view(), self._array._module)


def graph() -> tuple[fe.Graph, Any, Any]:
    g = fe.Graph()
    x = g.placeholder("float32", [None, 3], name="x")
    return g, x, g.ops.Exp(x * 2.0)


@pytest.mark.parametrize("seed", range(6))
async def test_an_array_on_the_card_is_fed_without_a_copy(seed: int) -> None:
    g, x, y = graph()
    fake = FakeCupy(seed)
    value = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    async with opened(g, fake) as session:
        await session.run(y, {x: value})
        for number in range(3):
            tensor = Tensor(fake, value + number)
            copies = len(fake.gpu.copies["in"])
            found = await session.run(y, {x: tensor})
            np.testing.assert_allclose(found, np.exp(2 * (value + number)), rtol=1e-6)
            assert tensor.asked == [1], "the lender is told the stream of work"
            assert len(fake.gpu.copies["in"]) == copies
    fake.gpu.check()


async def test_a_lender_is_kept_until_the_work_is_done() -> None:
    fake = FakeCupy(3)
    device = CudaDevice("/job:localhost/replica:0/task:0/device:GPU:0", fake)
    tensor = Tensor(fake, np.ones((1, 3), np.float32))
    gone = weakref.ref(tensor)
    there: Any = device.copy_in(LentValue("x", tensor, lambda array: array))
    del tensor
    with device.computing():
        made = there + there
    del there
    gc.collect()
    assert gone() is not None, "the sum may not have been computed yet"
    assert device.copy_out(made).tolist() == [[2, 2, 2]]
    device.synchronize()
    gc.collect()
    assert gone() is None
    fake.gpu.check()


async def test_what_cannot_be_borrowed_is_told_of() -> None:
    g, x, y = graph()
    fake = FakeCupy(1)
    async with opened(g, fake) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"array of float64 on a device for 'x:0'"):
            await session.run(y, {x: Tensor(fake, np.ones((1, 3)))})
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"shape \[1, 2\] for 'x:0'"):
            await session.run(y, {x: Tensor(fake, np.ones((1, 2), np.float32))})
        for ordinal, kind in ((1, 2), (0, 10)):
            with pytest.raises(fe.errors.InvalidArgumentError, match="which is card 0 of CUDA's type 2"):
                await session.run(y, {x: Tensor(fake, np.ones((1, 3), np.float32), ordinal, kind)})
        good = await session.run(y, {x: np.zeros((1, 3), np.float32)})
        assert good.tolist() == [[1, 1, 1]]


async def test_on_a_cpu_the_remedy_is_told() -> None:
    g, x, y = graph()
    async with fe.Session(g) as session:
        tensor = Tensor(FakeCupy(1), np.ones((1, 3), np.float32))
        for fetch in (y, x):
            with pytest.raises(fe.errors.InvalidArgumentError, match="'x:0' was fed an array in the memory"):
                await session.run(fetch, {x: tensor})


def test_arrays_of_the_host_are_not_far() -> None:
    assert not is_lent(np.ones(3))
    assert not is_lent([1.0])
    assert not is_lent(Tensor(FakeCupy(1), np.ones(3), kind=3))
    assert is_lent(Tensor(FakeCupy(1), np.ones(3)))


@pytest.mark.parametrize("seed", range(4))
async def test_fetched_values_stay_on_the_card_and_never_change(seed: int) -> None:
    g, x, y = graph()
    fake = FakeCupy(seed)
    stays = fe.RunOptions(keep_on_device=True)
    variable = g.variable(np.zeros(3, np.float32), name="v")
    more = variable.assign_add(np.ones(3, np.float32))
    value = np.ones((1, 3), np.float32)
    async with opened(g, fake) as session:
        await session.initialize()
        kept = []
        for number in range(3):
            copies = len(fake.gpu.copies["out"])
            (there, held), _ = await session.run([[y, variable.value()], more], {x: value}, options=stays)
            assert isinstance(there, StrictArray)
            assert len(fake.gpu.copies["out"]) == copies
            kept.append(held)
            # What was kept can be fed again, and looked at by whoever has it.
            again = await session.run(y, {x: Lent(there)})
            np.testing.assert_allclose(again, np.exp(2 * np.exp(2 * value)), rtol=1e-6)
            del number
        before = [array.get().tolist() for array in kept]
        await session.run(more)
        assert [array.get().tolist() for array in kept] == before
    fake.gpu.check()


class Lent:
    """A lender with the part of CuPy's arrays that DLPack needs."""

    def __init__(self, array: StrictArray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int) -> StrictArray:
        assert stream
        return StrictArray(self._array._data.view(), self._array._module)


async def test_fetches_of_a_cpu_are_there_already() -> None:
    g, x, y = graph()
    async with fe.Session(g) as session:
        found = await session.run(
            y, {x: np.zeros((1, 3), np.float32)}, options=fe.RunOptions(keep_on_device=True)
        )
        assert found.tolist() == [[1, 1, 1]]
