"""A GPU of NVIDIA's as a device of sessions: CuPy's arrays, one stream for work and one for copies each way.

    device = CudaDevice("/job:localhost/replica:0/task:0/device:GPU:0", cupy_module())

All kernels run on one stream, so they do not wait for each other. Copies and kernels wait as follows:

* Copies in have another stream, and copy into memory of that stream's part of the pool; later kernels wait
  for them. Before the stream uses such memory again, it waits for the kernels launched until then.
* A copy out waits for the kernels that were launched before. The device keeps its array until the copy is
  done, so no other value gets the memory, and a step that writes a variable with this array writes elsewhere.
* Copies go through a ring of pinned memory (`pinned.py`), whose parts are kept until the copies are done, so
  the host does not wait.

`flowengine.devices.ordering` records the accesses, with the work as one block of memory, so that no stream
waits for an event twice. The module gets CuPy as an argument, so tests can replace it.
"""

from __future__ import annotations

import importlib
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.device_config import DeviceSettings
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from flowengine.devices import cuda
from flowengine.devices.allocation import Ledger
from flowengine.devices.cuda_calls import CardCalls
from flowengine.devices.cuda_copies import HELD_TYPES, CardPinnedSource, CudaCopy
from flowengine.devices.cuda_errors import CudaErrors
from flowengine.devices.cuda_times import CudaTimes
from flowengine.devices.dlpack_values import CUDA, LentValue
from flowengine.devices.launch_record import LaunchRecord
from flowengine.devices.ordering import Launch, Ordering, StreamEvent
from flowengine.devices.pinned import PinnedMemory
from flowengine.devices.rates import DeviceRates, card_rates
from flowengine.devices.short_memory import allocated

COMPUTE: Final = 0
COPY_IN: Final = 1
COPY_OUT: Final = 2
#: cudaError_t of an event that has not happened yet.
_NOT_READY: Final = 600
#: cudaDevAttrMemoryClockRate, GlobalMemoryBusWidth and ComputeCapabilityMajor.
_MEMORY_CLOCK, _BUS_WIDTH, _CAPABILITY = 36, 37, 75
#: The work of all kernels, as a block of memory.
_WORK: Final = "work"


def cupy_module() -> Any:
    """CuPy; FailedPreconditionError, with the reason, where there is no card or no CuPy."""
    found = cuda.search()
    if found.reason:
        raise FailedPreconditionError(f"there is no GPU: {found.reason}")
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise FailedPreconditionError(
            f"a GPU needs CuPy, which cannot be imported ({error}): install the extra `cuda`"
        ) from None


def make_cuda_device(name: str, memory_limit: int | None) -> CudaDevice:
    """For a registry of types. Raises FailedPreconditionError as `cupy_module` does."""
    return CudaDevice(name, cupy_module(), memory_limit)


def why_no_gpu() -> str:
    """Why sessions can use no GPU of NVIDIA's; empty if they can."""
    found = cuda.search()
    if found.reason or cards_with_cupy():
        return found.reason
    return "a GPU needs CuPy: install the extra `cuda`"


def cards_with_cupy() -> int:
    """How many GPUs sessions can use: 0 without CuPy, which is not imported for this."""
    found = cuda.search()
    has_cupy = any(library.name == "cupy" and library.version for library in found.libraries)
    return len(found.cards) if has_cupy else 0


class _KeptValue(NamedTuple):
    """A reference that is kept until a copy or other work is done.

    For a copy it is pinned memory and, on the way out, the array; for work it is the lender of an array.
    """

    event: StreamEvent
    value: Any


class CudaDevice:
    """Keeps `StreamDevice`, `TimedDevice`, `RatedDevice` and `MortalDevice` of `flowengine.devices.device`.

    Of several names on one card each is a device.

    provider   the provider of kernels beside CuPy's: our CUDA C and cuBLAS (`kernels/cuda/claims`)
    settings   the precision of float arithmetic; read when kernels are made
    kept       {name: an object that kernels keep as long as the device exists}
    """

    def __init__(
        self, name: str, cupy: Any, memory_limit: int | None = None, *, ordinal: int | None = None
    ) -> None:
        """
        cupy      CuPy's module
        ordinal   the card; None: by the number of the name, counted round where there are fewer cards

        Raises FailedPreconditionError where CuPy finds no GPU: check the driver with nvidia-smi.
        """
        self.name = name
        self.type = "GPU"
        self.incarnation = secrets.randbits(63)
        self.ledger = Ledger(memory_limit, f"device_memory_limits, of {name}")
        self.shares_host_memory = False
        self.xp: Any = cupy
        self.provider = "cuda"
        self.settings = DeviceSettings()
        self.kept: dict[str, object] = {}
        self._cupy = cupy
        self._memory_limit = memory_limit
        self._errors = CudaErrors(name, cupy)
        self._times = CudaTimes(name, cupy)
        count = cupy.cuda.runtime.getDeviceCount()
        if not count:
            raise FailedPreconditionError("CuPy finds no GPU: check the driver with nvidia-smi")
        self._ordinal = int(name.rpartition(":")[2]) % count if ordinal is None else ordinal
        self._pool = cupy.cuda.MemoryPool()
        self._pinned = PinnedMemory(CardPinnedSource(cupy, self._ordinal))
        with self._card:
            self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in (COMPUTE, COPY_IN, COPY_OUT)]
        #: A thread may wait while others launch.
        self._lock = threading.RLock()
        self._ordering = Ordering()
        using = partial(cupy.cuda.using_allocator, self._allocate)
        self._calls = CardCalls(lambda: self._card, using, self._streams[COMPUTE], self._errors, self._times)
        #: {(stream, position): CuPy's event} of the events that are not known to be done
        self._events: dict[tuple[int, int], Any] = {}
        #: The values of copies that are not known to be done, in the order in which they were launched.
        self._kept: list[_KeptValue] = []
        #: Memory of copies in whose arrays were freed; the thread that frees one only appends here.
        self._given_up: deque[Any] = deque()
        #: The lenders of borrowed arrays that were freed, until the work that may use their memory is done.
        self._returned: deque[Any] = deque()

    @property
    def lost(self) -> str:
        """The error that ended the card's context, as a text; empty as long as the context lives."""
        return self._errors.lost

    @property
    def rates(self) -> DeviceRates:
        """The rates that placement may expect, from the card's properties."""
        attribute = self._cupy.cuda.runtime.deviceGetAttribute
        return card_rates(
            memory_kilohertz=attribute(_MEMORY_CLOCK, self._ordinal),
            bus_bits=attribute(_BUS_WIDTH, self._ordinal),
            capability=attribute(_CAPABILITY, self._ordinal),
        )

    # -- methods of a device ------------------------------------------------------------------------

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """The types of CuPy's arrays."""
        return dtype.name in HELD_TYPES

    def computing(self) -> AbstractContextManager[None]:
        """Return a context in which this thread's computations are work of this device."""
        return self._calls.around()

    def entered(self) -> AbstractContextManager[None]:
        """Around a row of kernels on this thread: see `cuda_calls.py`."""
        return self._calls.entered()

    def copy_in(self, value: Value) -> Value:
        """Copy a value from host memory to the GPU; return anything but an array of numbers unchanged.

        An array that is lent by DLPack is borrowed: kernels wait for the work of its lender, and the lender
        is kept until all work is done that may use the array. InvalidArgumentError if it is on another card.
        """
        if isinstance(value, LentValue):
            return self._borrowed(value)
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.hasobject:
            return value
        with self._errors.translated(), self._lock:
            self._take_back()
            pinned = self._pinned.array(value.shape, value.dtype)
            pinned[...] = value
            with self._on(COPY_IN), self._times.around(COPY_IN, "copy in", self._streams[COPY_IN]):
                made = self._cupy.empty(value.shape, value.dtype)
                if made.nbytes:
                    made.set(pinned, stream=self._streams[COPY_IN])
            copied = self._launched(self._ordering.launch(COPY_IN), COPY_IN)
            self._kept.append(_KeptValue(copied, pinned))
            self._streams[COMPUTE].wait_event(self._event(copied))
            self._ordering.wait(COMPUTE, copied)
            weakref.finalize(made, self._given_up.append, made.data).atexit = False
            return made

    def _borrowed(self, value: LentValue) -> Array:
        """An array of CuPy over the memory of another library's."""
        lender = value.lender
        kind, ordinal = lender.__dlpack_device__()
        if int(kind) not in CUDA or ordinal != self._ordinal:
            raise InvalidArgumentError(
                f"an array on device {ordinal} of DLPack's type {int(kind)} is fed to {self.name}, which is "
                f"card {self._ordinal} of CUDA's type 2: copy it there first"
            )
        with self._errors.translated(), self._lock, self._on(COMPUTE):
            # CuPy passes the current stream to the lender, which makes it wait for its own stream.
            made = self._cupy.from_dlpack(lender)
            value.check(made)
            self._calls.has_worked = True
            weakref.finalize(made, self._returned.append, lender).atexit = False
            return made  # type: ignore[no-any-return]

    def start_copy_out(self, value: Value) -> CudaCopy | None:
        """Launch the copy of a value to host memory; None for what is no array of the card."""
        if not isinstance(value, self._cupy.ndarray):
            return None
        with self._errors.translated(), self._lock:
            # Also for values that were copied in and never used: the work waits for those copies.
            self._calls.has_worked = True
            self._end_work()
            pinned = self._pinned.array(value.shape, value.dtype)
            launch = self._ordering.launch(COPY_OUT, reads=[_WORK])
            self._make_waits(launch, COPY_OUT)
            with self._on(COPY_OUT), self._times.around(COPY_OUT, "copy out", self._streams[COPY_OUT]):
                if value.nbytes:
                    value.get(stream=self._streams[COPY_OUT], out=pinned, blocking=False)
            self._recorded(launch.event)
            # Keep the memory, because the card writes to it even if the caller has ended.
            self._kept.append(_KeptValue(launch.event, (value, pinned)))
            return CudaCopy(launch.event, pinned)

    def copy_out(self, value: Value) -> Value:
        """A value of the card as a NumPy array or scalar; the host stands still for it."""
        copy = self.start_copy_out(value)
        if copy is None:
            return value
        self.wait(copy.event)
        return copy.value()

    def is_done(self, event: StreamEvent) -> bool:
        """Whether an event has happened. Raises what ended the context before it."""
        with self._errors.translated(), self._lock:
            if self._ordering.is_complete(event):
                return True
            runtime = self._cupy.cuda.runtime
            with self._card:
                # CuPy's own `Event.done` takes an event that failed for one that has not happened yet.
                status = runtime.eventQuery(self._event(event).ptr)
            if status == _NOT_READY:
                return False
            if status:
                raise runtime.CUDARuntimeError(status)
            self._seen(event)
            return True

    def wait(self, event: StreamEvent) -> None:
        """Sleep until an event has happened. Raises what ended the context before it."""
        with self._errors.translated():
            with self._lock:
                if self._ordering.is_complete(event):
                    return
                found = self._event(event)
            with self._card:
                found.synchronize()  # without the lock: others go on
            with self._lock:
                self._seen(event)

    def unfinished(self) -> Sequence[StreamEvent]:
        """The ends of all that was given to the card and is not known to be done."""
        with self._errors.translated(), self._lock:
            self._end_work()
            return self._ordering.unfinished()

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        """The array at the bottom of a chain of views."""
        if not isinstance(value, self._cupy.ndarray):
            return None
        owner = value
        while owner.base is not None:
            owner = owner.base
        return owner, int(owner.nbytes)

    def synchronize(self) -> None:
        """Stand still until everything launched is done."""
        for event in self.unfinished():
            self.wait(event)

    def note(self, launches: list[LaunchRecord] | None, node: str) -> None:
        """Have what is launched next, on this thread, noted as work of a node when it is done; None: not."""
        self._times.note(launches, node)

    def successor(self) -> CudaDevice | None:
        """Another one of this name on the card, once that computes again for this process; else None.

        Mostly it does not before the process ends; but a context may be destroyed and made anew.
        """
        with suppress(OpError, *self._errors.kinds):
            following = CudaDevice(self.name, self._cupy, self._memory_limit, ordinal=self._ordinal)
            one = following.copy_in(np.ones(2, np.float32))
            with following.computing():
                two = one + one
            if following.copy_out(two).tolist() == [2, 2]:
                following.settings = self.settings
                return following
        return None

    def __repr__(self) -> str:
        return f"<CudaDevice {self.name}>"

    # -- streams and events -------------------------------------------------------------------------

    @property
    def _card(self) -> Any:
        """The card as a context; a new one each time, since several threads may be in it."""
        return self._cupy.cuda.Device(self._ordinal)

    @contextmanager
    def _on(self, stream: int) -> Iterator[None]:
        """CuPy's calls on this thread use this card, a stream, and this device's memory."""
        with (
            self._card,
            self._streams[stream],
            self._cupy.cuda.using_allocator(self._allocate),
        ):
            yield

    def _end_work(self) -> None:
        """Enter what was computed since as one piece of work."""
        if self._calls.has_worked or self._returned:
            self._calls.has_worked = False
            done = self._launched(self._ordering.launch(COMPUTE, writes=[_WORK]), COMPUTE)
            while self._returned:
                self._kept.append(_KeptValue(done, self._returned.popleft()))

    def _launched(self, launch: Launch, stream: int) -> StreamEvent:
        self._make_waits(launch, stream)
        return self._recorded(launch.event)

    def _make_waits(self, launch: Launch, stream: int) -> None:
        for event in launch.waits:
            self._streams[stream].wait_event(self._event(event))

    def _recorded(self, event: StreamEvent) -> StreamEvent:
        self._times.ends_by(event)
        with self._card:
            made = self._cupy.cuda.Event(block=True, disable_timing=True)
            made.record(self._streams[event.stream])
        self._events[event.stream, event.position] = made
        return event

    def _event(self, event: StreamEvent) -> Any:
        return self._events[event.stream, event.position]

    def _seen(self, event: StreamEvent) -> None:
        """Forget what is over with an event."""
        self._ordering.complete(event)
        is_over = self._ordering.is_complete
        self._times.read(is_over)
        self._kept = [each for each in self._kept if not is_over(each.event)]
        for key in [k for k in self._events if is_over(StreamEvent(*k, before={}))]:
            del self._events[key]

    # -- memory -------------------------------------------------------------------------------------

    def _allocate(self, size: int) -> Any:
        """Memory of the pool for the current stream, at the second try if need be."""
        return allocated(
            partial(self._asked, size), wait=self._finish_all, give_back=self._pool.free_all_blocks
        )

    def _asked(self, size: int) -> Any:
        try:
            return self._pool.malloc(size)
        except MemoryError as error:
            raise ResourceExhaustedError(f"the memory of {self.name} is full: {error}") from None

    def _finish_all(self) -> None:
        with self._lock:
            self._take_back()
        with self._card:
            for stream in self._streams:
                stream.synchronize()

    def _take_back(self) -> None:
        """Let memory of copies in be used by later ones, after all work until now."""
        if self._given_up:
            self._end_work()
            self._launched(self._ordering.launch(COPY_IN, reads=[_WORK]), COPY_IN)
            self._given_up.clear()


__all__ = [
    "COMPUTE",
    "COPY_IN",
    "COPY_OUT",
    "CudaDevice",
    "cards_with_cupy",
    "cupy_module",
    "make_cuda_device",
    "why_no_gpu",
]
