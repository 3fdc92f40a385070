"""The parts of CuPy that `devices/cuda_device.py` uses, over a simulated GPU that never waits by itself.

Every wait is one that the device under test has asked a stream for. All accesses are checked by the simulated
GPU's vector clocks, so a wait that it forgets is a finding, whatever order was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from flowengine.core.errors import ResourceExhaustedError
from flowengine.devices.ordering import StreamEvent
from flowengine.testing.strict_array import StrictArray, root_of
from tests.kernels.cuda.host_images import HostImage
from tests.tools.simulated_gpu import SimulatedGpu
from tests.tools.simulated_gpu.module import LateCall

#: {attribute of a device: what it is}: clock and width of its memory, and its capability, as of an H100.
ATTRIBUTES = {36: 2_619_000, 37: 5120, 75: 9}
#: What the query of an event gives that has not happened.
NOT_READY = 600


class CudaError(Exception):
    """CUDARuntimeError, and the driver's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError: {status}")
        self.status = status


class _Gpu(SimulatedGpu):
    """One whose work is refused once the context has ended."""

    fake: FakeCupy

    def call(self, call: LateCall) -> Any:
        self.fake.check()
        return super().call(call)


class FakeCupy:
    """The module. Array functions are those of a simulated GPU's array module.

    gpu       where it all happens
    forgets   (how many waits were asked for before) -> whether this one is not made
    waits     how many a stream was asked to make
    status    what the next look at an event fails with; 0: nothing
    ended     what every call fails with, since it has ended the context; 0: it lives
    launched  the names of our kernels, in the order in which they were launched
    pinned    {address: memory} of what is pinned
    unpinned  memory that was
    """

    ndarray = StrictArray

    def __init__(self, seed: int = 0, cards: int = 1, capacity_bytes: int | None = None) -> None:
        self._capacity_bytes = capacity_bytes
        self.gpu = self._new_gpu(seed)
        self.ended = 0
        self.forgets: Callable[[int], bool] = lambda number: False
        self.waits = 0
        self.status = 0
        self.trimmed = 0
        self.launched: list[str] = []
        self.pinned: dict[int, Any] = {}
        self.unpinned: list[Any] = []
        fake = self
        streams = iter(range(10**6))

        class Stream:
            def __init__(self, *, non_blocking: bool) -> None:
                assert non_blocking
                fake.check()
                self.number = next(streams)
                self._before: list[int] = []

            def __enter__(self) -> None:
                self._before.append(fake.gpu._stream)
                fake.gpu._stream = self.number

            def __exit__(self, *_: object) -> None:
                fake.gpu._stream = self._before.pop()

            def wait_event(self, event: Any) -> None:
                fake.waits += 1
                if not fake.forgets(fake.waits - 1):
                    with fake.gpu._lock:
                        fake.gpu._accesses.waited(self.number, *event.at)
                        fake.gpu._streams.wait(self.number, *event.at)

            def synchronize(self) -> None:
                event = Event(block=True, disable_timing=True)
                event.record(self)
                event.synchronize()

        class Event:
            def __init__(self, *, block: bool, disable_timing: bool) -> None:
                assert block
                self.is_timed = not disable_timing
                self.seconds: float | None = None

            def record(self, stream: Stream) -> None:
                # An event is a piece of work: it comes after what its stream was told to wait for.
                fake.check()

                def happen() -> None:
                    self.seconds = perf_counter()

                with fake.gpu._lock:
                    access = fake.gpu._accesses.launched(stream.number, "event", (), ())
                    fake.gpu._streams.launch(stream.number, happen)
                    fake.gpu.ordering.launch(stream.number)
                self.at = (access.stream, access.position)

            @property
            def ptr(self) -> Any:
                return self

            def synchronize(self) -> None:
                while status := query(self):
                    if status != NOT_READY:
                        raise CudaError(status)

        def query(event: Event) -> int:
            if fake.status or fake.ended:
                return fake.ended or fake.status
            with fake.gpu._lock:
                fake.gpu._streams.run_one()
                if not fake.gpu._streams.has_reached(*event.at):
                    return NOT_READY
                fake.gpu._seen(StreamEvent(*event.at, before={}))
                return 0

        def elapsed(one: Event, other: Event) -> float:
            """Milliseconds between two events that have happened."""
            assert one.is_timed
            assert other.is_timed
            assert one.seconds is not None
            assert other.seconds is not None
            return 1e3 * (other.seconds - one.seconds)

        class MemoryPool:
            def malloc(self, size: int) -> None:
                """Whether there is as much; the array itself takes it."""
                try:
                    block = fake.gpu.pool.allocate(size, fake.gpu._stream)
                except ResourceExhaustedError as error:
                    raise MemoryError(str(error)) from None
                fake.gpu.pool.give_back(block)

            def free_all_blocks(self) -> None:
                fake.trimmed += 1
                fake.gpu._trim()

        self._allocator: Callable[[int], Any] = lambda size: None
        self.cuda = SimpleNamespace(
            Stream=Stream,
            Event=Event,
            MemoryPool=MemoryPool,
            Device=_Card,
            function=SimpleNamespace(Module=partial(_CardModule, self)),
            get_current_stream=lambda: SimpleNamespace(ptr=self.gpu._stream + 1),
            get_elapsed_time=elapsed,
            using_allocator=self._using,
            runtime=SimpleNamespace(
                CUDARuntimeError=CudaError,
                getDeviceCount=lambda: cards,
                eventQuery=query,
                deviceGetAttribute=lambda attribute, device: ATTRIBUTES[attribute],
                hostAlloc=self._host_alloc,
                freeHost=self._free_host,
            ),
            driver=SimpleNamespace(CUDADriverError=CudaError),
        )

    def _new_gpu(self, seed: int) -> SimulatedGpu:
        gpu = _Gpu("fake:0", seed=seed, capacity_bytes=self._capacity_bytes)
        gpu.leaves_out = lambda kind, event: True
        gpu.fake = self
        return gpu

    def check(self) -> None:
        """Raises what has ended the context, as every call does from then on."""
        if self.ended:
            raise CudaError(self.ended)

    def restart(self, seed: int = 0) -> None:
        """Another context, which has nothing of the one that has ended."""
        self.ended = 0
        self.gpu = self._new_gpu(seed)

    def _host_alloc(self, size: int, flags: int) -> int:
        self.check()
        memory = np.zeros(size, np.uint8)
        self.pinned[memory.ctypes.data] = memory
        return memory.ctypes.data

    def _free_host(self, address: int) -> None:
        """Give pinned memory back. What still reads it finds other bytes, and the process goes on."""
        memory = self.pinned.pop(address)
        memory[...] = 0xA5
        self.unpinned.append(memory)

    def pinned_bytes(self, array: Any) -> Any:
        """The bytes of an array in pinned memory, found by their address: who has the array is nobody's."""
        place = array.ctypes.data
        for address, memory in self.pinned.items():
            if address <= place and place + array.nbytes <= address + memory.size:
                return memory[place - address : place - address + array.nbytes]
        raise AssertionError("what is copied is not in pinned memory")

    @contextmanager
    def _using(self, allocate: Callable[[int], Any]) -> Iterator[None]:
        before, self._allocator = self._allocator, allocate
        try:
            yield
        finally:
            self._allocator = before

    def empty(self, shape: Any, dtype: Any) -> StrictArray:
        self.check()
        self._allocator(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        gpu = self.gpu
        with gpu._lock:
            known = np.zeros(shape, dtype)
            gpu._new_block(known, gpu._stream)
            return CardArray(known, gpu.xp, self)

    def from_dlpack(self, lender: Any) -> StrictArray:
        """The lender's array, for whose stream the current one waits."""
        return lender.__dlpack__(stream=self.gpu._stream + 1)  # type: ignore[no-any-return]

    def place(self, address: int) -> _Place:
        """Return the place in memory that a card's address points at; raise if no block lives there."""
        for reference, block in self.gpu._blocks.values():
            known = reference()
            if known is None or not block.is_live:
                continue
            offset = address - np.frombuffer(block.chunk.data, np.uint8).ctypes.data
            if 0 <= offset < max(known.nbytes, 1):
                return _Place(block.chunk, known, offset)
        raise AssertionError(f"nothing lives at address {address:#x} of the card")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gpu.xp, name)


class CardMemory:
    """Memory of the card, as long as this lives; `ptr` is where an array begins in it."""

    def __init__(self, array: StrictArray) -> None:
        data: Any = array._data
        self._root = root_of(data)
        #: Of arrays of another module's, as of the simulated GPU itself, there is no such thing.
        self.ptr = array._module._runner._late(data).ctypes.data


def memory_of(array: StrictArray) -> CardMemory:
    """`ndarray.data` of CuPy."""
    return CardMemory(array)


class _Place(NamedTuple):
    """The target of an address: its memory, its array of known values, and its offset from the beginning."""

    chunk: Any
    known: Any
    offset: int


class _CardModule:
    """A module of kernels, which g++ has compiled: see `tests/kernels/cuda/host_images.py`.

    A kernel runs twice, as all work of a simulated GPU does: at once on the values that are known, and late
    on those in the card's memory.
    """

    def __init__(self, fake: FakeCupy) -> None:
        self._fake = fake
        self._image: Any = None

    def load(self, image: bytes) -> None:
        self._image = HostImage(image)

    def get_function(self, name: str) -> Callable[..., None]:
        assert name in self._image.arguments, f"there is no kernel {name}"
        return partial(self._launch, name)

    def _launch(self, name: str, grid: Any, block: Any, values: Sequence[Any]) -> None:
        gpu, image = self._fake.gpu, self._image
        arguments = image.arguments[name]
        assert len(values) == len(arguments), f"{name} takes {len(arguments)} arguments, not {len(values)}"
        late, known = [int(value) for value in values], [int(value) for value in values]
        reads: list[Any] = []
        writes: list[Any] = []
        kept = []
        with gpu._lock:
            for number, argument in enumerate(arguments):
                if not argument.is_address or not late[number]:
                    continue
                place = self._fake.place(late[number])
                known[number] = place.known.ctypes.data + place.offset
                (reads if argument.is_read else writes).append(place.chunk)
                if argument.name == "table":
                    table, changed, read = self._translated(place)
                    known[number] = table.ctypes.data
                    kept.append(table)
                    writes += changed
                    reads += read
            backwards = len(self._fake.launched) % 2 == 0
            self._fake.launched.append(name)
            size = grid[0], block[0]
            image.launch(name, known, *size, backwards)
            gpu._updated.update(chunk.number for chunk in writes)
            work = partial(image.launch, name, late, *size, backwards)
            gpu._launch(name, gpu._stream, work, dict.fromkeys(reads), dict.fromkeys(writes), "launch")

    def _translated(self, place: _Place) -> tuple[Any, list[Any], list[Any]]:
        """(a table of addresses of known values, the memory that is changed, that is read).

        The last two columns are the gradient's address and a size.
        """
        table = place.known.copy()
        changed: list[Any] = []
        read: list[Any] = []
        for row in table:
            for column in range(len(row) - 1):
                there = self._fake.place(int(row[column]))
                (read if column == len(row) - 2 else changed).append(there.chunk)
                row[column] = there.known.ctypes.data + there.offset
        return table, changed, read


class _Card:
    compute_capability = "90"

    def __init__(self, ordinal: int = 0) -> None:
        assert ordinal >= 0

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class CardArray(StrictArray):
    """An array that `empty` has made."""

    __slots__ = ("_fake",)

    def __init__(self, data: Any, module: Any, fake: FakeCupy) -> None:
        super().__init__(data, module)
        self._fake = fake

    @property
    def data(self) -> Any:
        """The object that keeps the array's memory alive."""
        return memory_of(self)

    def set(self, pinned: Any, stream: Any) -> None:
        gpu = self._fake.gpu
        self._data[...] = pinned
        source = _seen_by_card(self._fake, pinned)
        with gpu._lock:
            block, target = gpu._block_of(self._data), gpu._late(self._data)
            assert block is not None
            gpu._launch("set", stream.number, lambda: np.copyto(target, source), (), (block.chunk,), "")


def copied_out(array: StrictArray, stream: Any, out: Any, blocking: bool) -> None:
    """`ndarray.get` of CuPy, which does not wait with `blocking=False`."""
    assert not blocking
    gpu: Any = array._module._runner
    target = _seen_by_card(gpu.fake, out)
    with gpu._lock:
        block, source = gpu._block_of(array._data), gpu._late(array._data)
        assert block is not None
        gpu._launch("get", stream.number, lambda: np.copyto(target, source), (block.chunk,), (), "")


def _seen_by_card(fake: FakeCupy, array: Any) -> Any:
    """An array as the card sees it: it keeps an address, and no part of a ring."""
    return fake.pinned_bytes(array).view(array.dtype).reshape(array.shape)


__all__ = ["CardArray", "CardMemory", "CudaError", "FakeCupy", "copied_out", "memory_of"]
