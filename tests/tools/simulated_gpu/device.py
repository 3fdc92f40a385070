"""The simulated GPU itself: a device whose work runs late on streams, in memory of its own.

    gpu = SimulatedGpu("/job:localhost/replica:0/task:0/device:GPU:0", seed=3)
    x = gpu.copy_in(np.arange(4.0))
    with gpu.on(1):                                  # another stream; the waits are the device's to make
        y = gpu.xp.exp(x)
    assert gpu.copy_out(y).shape == (4,)
    gpu.check()

A fault is planted by `leaves_out`: waits for which it is true are not made.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import Array, Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InternalError, UnavailableError
from flowengine.devices.allocation import Ledger
from flowengine.devices.launch_record import LaunchRecord
from flowengine.devices.ordering import Ordering, StreamEvent
from flowengine.devices.short_memory import allocated
from flowengine.testing import cupy_names
from flowengine.testing.strict_array import root_of
from flowengine.testing.strict_arrays import StrictArray
from tests.tools.simulated_gpu.accesses import Access, AccessCheck, Finding
from tests.tools.simulated_gpu.host_copy import HostCopy
from tests.tools.simulated_gpu.module import GpuModule, LateCall, arrays_in, offset_in
from tests.tools.simulated_gpu.pool import POISON, Chunk, MemoryBlock, MemoryPool
from tests.tools.simulated_gpu.streams import LateStreams, noted

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True

#: The streams that a device begins with; others are any other numbers.
COMPUTE: Final = 0
COPY_IN: Final = 1
COPY_OUT: Final = 2
_STREAMS: Final = {COMPUTE: "compute", COPY_IN: "copy in", COPY_OUT: "copy out"}


class SimulatedGpu:
    """Keeps `flowengine.devices.device.Device`.

    ordering     who waits for whom, as a real device goes by it
    leaves_out   (kind, event) -> whether a wait is not made. Kinds: "copy in" (work on what is copied in),
                 "launch" (work on what another stream uses), "copy out", "update" (a copy out of what was
                 last written in place, as variables are) and "reuse" (memory that comes back)
    fails_at     name of a function -> whether its work fails: told late, to whoever next asks for an event
    ends_at      name of a function -> whether its work ends the context: the device is `lost` from then on
    lost         what has ended it; empty as long as it lives
    waits        {kind: how many waits were asked for}
    stops        how often an event loop has stood still for the device
    copies       {"in": the bytes of each copy from the host, "out": of each copy to it}, in order
    launches     the name of each function that was launched, in order
    """

    def __init__(
        self, name: str, memory_limit: int | None = None, *, seed: int = 0, capacity_bytes: int | None = None
    ) -> None:
        self.name = name
        self.type = "GPU"
        self.incarnation = secrets.randbits(63)
        self.ledger = Ledger(memory_limit, f"device_memory_limits, of {name}")
        self.shares_host_memory = False
        self.provider = "tests.tools.simulated_gpu"
        self.ordering = Ordering()
        self.leaves_out: Callable[[str, StreamEvent], bool] = lambda kind, event: False
        self.fails_at: Callable[[str], bool] = lambda name: False
        self.ends_at: Callable[[str], bool] = lambda name: False
        self.lost = ""
        self._failure: InternalError | None = None
        self.waits: dict[str, int] = {}
        self.stops = 0
        self.copies: dict[str, list[int]] = {"in": [], "out": []}
        self.launches: list[str] = []
        self.xp: Any = GpuModule(self)
        self._accesses = AccessCheck()
        self._limit, self._seed = memory_limit, seed
        self._streams = LateStreams(seed)
        self.pool = MemoryPool(capacity_bytes, self._accesses.find)
        self._stream = COMPUTE
        self._is_in_step = False
        #: The pieces of memory that were written in place since they were given out.
        self._updated: set[int] = set()
        #: Of each thread: where what it launches is noted, and the node whose work it is.
        self._noted = threading.local()
        #: A thread may wait while others launch.
        self._lock = threading.RLock()
        #: {id of an array that owns memory: (the array, its block)}
        self._blocks: dict[int, tuple[weakref.ref[Array], MemoryBlock]] = {}
        #: Blocks whose arrays are gone: whoever drops the last reference does no work.
        self._dropped: deque[MemoryBlock] = deque()

    # -- what a device does -------------------------------------------------------------------------

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """The types of CuPy's arrays."""
        return dtype.name in cupy_names.DTYPES

    def copy_in(self, value: Value) -> Value:
        """A value of host memory in this device's; what is no array of numbers passes as it is."""
        if isinstance(value, StrictArray) or not isinstance(value, np.ndarray | np.generic):
            return value
        if value.dtype.hasobject:
            return value
        staged, known = np.array(value), np.array(value)
        with self._lock:
            self._check_alive()
            self.copies["in"].append(known.nbytes)
            block = self._new_block(known, COPY_IN)
            target = self._late(known)
            self._launch("copy in", COPY_IN, lambda: np.copyto(target, staged), (), (block.chunk,), "copy in")
        return StrictArray(known, self.xp)

    def copy_out(self, value: Value) -> Value:
        """A value of this device's memory as a NumPy array or scalar; the host stands still for it."""
        if not isinstance(value, StrictArray):
            return value
        copy = self._start_copy(value._data)
        self.wait(copy.event)
        return copy.value()

    def computing(self) -> AbstractContextManager[None]:
        """Nothing: its array module knows whose it is."""
        return nullcontext()

    def start_copy_out(self, value: Value) -> HostCopy | None:
        """Launch the copy of a value to host memory; None for what is no array of this device."""
        return self._start_copy(value._data) if isinstance(value, StrictArray) else None

    def wait(self, event: StreamEvent) -> None:
        """Stand still until an event has happened."""
        self._stops_loop(str(event))
        self._reach(event)

    def _stops_loop(self, what: str) -> None:
        """Count it, and find it in a step, where an event loop stands still."""
        if trio.lowlevel.in_trio_run():
            self.stops += 1
            if self._is_in_step:
                self._accesses.find("loop stopped", f"an event loop stands still for {what}")

    def _reach(self, event: StreamEvent) -> None:
        while not self.is_done(event):
            pass

    def is_done(self, event: StreamEvent) -> bool:
        """Look whether an event has happened; meanwhile the streams may come a little further."""
        with self._lock:
            self._streams.run_one()
            self._check_alive()
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            if not self._streams.has_reached(event.stream, event.position):
                return False
            self._seen(event)
            return True

    def unfinished(self) -> Sequence[StreamEvent]:
        """The ends of all that was given to the device and is not known to be done."""
        with self._lock:
            self._check_alive()
            self._collect()
            return self.ordering.unfinished()

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        """The array at the bottom of a chain of views."""
        if not isinstance(value, StrictArray):
            return None
        root = root_of(value._data)
        return root, root.nbytes

    def synchronize(self) -> None:
        """Stand still until everything launched is done."""
        for event in self.unfinished():
            self.wait(event)

    def note(self, launches: list[LaunchRecord] | None, node: str) -> None:
        """Have what is launched next, on this thread, noted as work of a node when it is done; None: not."""
        self._noted.sink = None if launches is None else (launches, node)

    def successor(self) -> SimulatedGpu:
        """Another one of this name, whose order is drawn anew. Plants and counts are not handed on."""
        return SimulatedGpu(
            self.name, self._limit, seed=self._seed + 1, capacity_bytes=self.pool.capacity_bytes
        )

    # -- what a test does ---------------------------------------------------------------------------

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Launch the work that is computed meanwhile on another stream."""
        before, self._stream = self._stream, stream
        try:
            yield
        finally:
            self._stream = before

    @contextmanager
    def step(self) -> Iterator[None]:
        """No value may be looked at meanwhile, and no event loop stand still; what was found is raised at the
        end, as by `check`."""
        self._is_in_step = True
        try:
            yield
        finally:
            self._is_in_step = False
        self.check()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings since the last `check`."""
        return tuple(self._accesses.findings)

    def check(self) -> None:
        """Let all work run to its end. AssertionError with all findings, which are then forgotten."""
        with self._lock:
            self._collect()
            self._streams.run_all()
        findings = self.findings
        self._accesses.findings.clear()
        if findings:
            raise AssertionError(
                "\n".join([f"{len(findings)} findings on {self.name}:", *map(str, findings)])
            )

    def give_back(self, value: StrictArray) -> None:
        """Free the memory of an array, whoever still has it: using that array again is a finding."""
        with self._lock:
            _, block = self._blocks[id(root_of(value._data))]
            self._free(block)

    def __repr__(self) -> str:
        return f"<SimulatedGpu {self.name}>"

    # -- for the array module -----------------------------------------------------------------------

    def call(self, call: LateCall) -> Any:
        """Make a call now for its shapes, and launch it; NumPy's result, in arrays of known memory."""
        with self._lock:
            self._check_alive()
            result = call.result()
            made = [(i, a) for i, a in enumerate(arrays_in(result)) if self._block_of(a) is None]
            if made or call.writes:  # else it is a view, or no array
                self._launch_call(call, made)
        return result

    def _launch_call(self, call: LateCall, made: Sequence[tuple[int, Array]]) -> None:
        """Launch a call that makes these arrays, each with its place among those of the result."""
        # Their memory is given out before that of the results: a result never has that of an argument.
        reads = [block for a in call.arrays if (block := self._block_of(a)) is not None]
        late = call.replaced(self._late)
        changed = [block for a in call.writes if (block := self._block_of(a)) is not None]
        self._updated.update(block.chunk.number for block in changed)
        for _, array in made:
            if self._block_of(array) is None:
                changed.append(self._new_block(root_of(array), self._stream))
        targets = [(i, self._late(array)) for i, array in made]
        for block in (*reads, *changed):
            if not block.is_live:
                self._accesses.find("use after free", f"'{call.name}' uses memory {block.chunk.number}")
        self.launches.append(call.name)
        read = dict.fromkeys(block.chunk for block in reads)
        written = dict.fromkeys(block.chunk for block in changed)
        self._launch(call.name, self._stream, partial(self._compute, late, targets), read, written, "launch")

    def note_read(self, what: str) -> None:
        """Somebody on the host looks at a value, or at how many there are."""
        self._stops_loop(what)
        if self._is_in_step:
            self._accesses.find("host read", what)
            raise FailedPreconditionError(f"a value of {self.name} is looked at inside a step: {what}")

    def fetched(self, data: Array) -> Array:
        """The values of an array out of the device's memory, when they are there."""
        copy = self._start_copy(data)
        self._reach(copy.event)
        return np.asarray(copy.value())

    # -- within -------------------------------------------------------------------------------------

    def _compute(self, call: LateCall, targets: Iterable[tuple[int, Array]]) -> None:
        """Do a piece of work, at last."""
        name = call.name
        if self.ends_at(name):
            self.lost = f"{self.name} is lost: '{name}' has ended its context, and all values there are gone"
            self._streams.end()
            return
        if self.fails_at(name):
            self._failure = InternalError(f"'{name}' failed on {self.name}")
            return
        try:
            with np.errstate(all="ignore"):
                results = list(arrays_in(call.result()))
            for index, target in targets:
                np.copyto(target, results[index])
        except Exception as error:
            self._accesses.find("late failure", f"'{name}': {type(error).__name__}: {error}")

    def _start_copy(self, data: Array) -> HostCopy:
        with self._lock:
            self._check_alive()
            return self._copy(data)

    def _check_alive(self) -> None:
        if self.lost:
            raise UnavailableError(self.lost)

    def _copy(self, data: Array) -> HostCopy:
        block = self._block_of(data)
        assert block is not None, "an array that this device has not made"
        if not block.is_live:
            self._accesses.find("use after free", f"'copy out' uses memory {block.chunk.number}")
        self.copies["out"].append(data.nbytes)
        # What the host would read too early is no number that was computed.
        target = np.frombuffer(bytearray([POISON]) * data.nbytes, data.dtype).reshape(data.shape)
        source = self._late(data)
        kind = "update" if block.chunk.number in self._updated else "copy out"
        event, written = self._launch(
            "copy out", COPY_OUT, lambda: np.copyto(target, source), (block.chunk,), (), kind
        )
        return HostCopy(event, target, written, self._accesses)

    def _launch(
        self,
        name: str,
        stream: int,
        work: Callable[[], None],
        reads: Iterable[Chunk],
        writes: Iterable[Chunk],
        kind: str,
    ) -> tuple[StreamEvent, Access]:
        """Let a stream make the waits that the ordering asks for, and give it a piece of work."""
        noting = getattr(self._noted, "sink", None)
        if noting is not None and kind != "reuse":
            launches, node = noting
            work = noted(work, launches, node, name, self.name, _STREAMS.get(stream, f"stream {stream}"))
        launch = self.ordering.launch(stream, [c.number for c in reads], [c.number for c in writes])
        for event in launch.waits:
            self._wait(stream, event, kind)
        access = self._accesses.launched(stream, name, tuple(reads), tuple(writes))
        self._streams.launch(stream, work)
        return launch.event, access

    def _wait(self, stream: int, event: StreamEvent, kind: str) -> None:
        if kind == "launch" and event.stream == COPY_IN:
            kind = "copy in"
        self.waits[kind] = self.waits.get(kind, 0) + 1
        if not self.leaves_out(kind, event):
            self._accesses.waited(stream, event.stream, event.position)
            self._streams.wait(stream, event.stream, event.position)

    def _seen(self, event: StreamEvent) -> None:
        self.ordering.complete(event)
        self._accesses.host_waited(event.stream, event.position)

    def _new_block(self, root: Array, stream: int) -> MemoryBlock:
        """Memory for an array that owns its own, given back when that array goes."""
        self._collect()
        block = allocated(
            lambda: self.pool.allocate(root.nbytes, stream), wait=self._finish_all, give_back=self._trim
        )
        key = id(root)
        self._blocks[key] = (weakref.ref(root, partial(self._drop, key, block)), block)
        return block

    def _finish_all(self) -> None:
        """Stand still until everything launched is done, since memory is short."""
        self._stops_loop("memory")
        self._collect()
        for event in self.ordering.unfinished():
            self._reach(event)

    def _trim(self) -> None:
        """Give cached memory back, which nothing in flight may use."""
        if self.ordering.unfinished():
            self._accesses.find("given back in use", "memory goes back while work is under way")
        self.pool.trim()

    def _drop(self, key: int, block: MemoryBlock, reference: object) -> None:
        known = self._blocks.get(key)
        if known is not None and known[0] is reference:
            del self._blocks[key]
        self._dropped.append(block)

    def _collect(self) -> None:
        """Give back the memory of arrays that are gone."""
        while self._dropped:
            block = self._dropped.popleft()
            if block.is_live and not self.lost:
                self._free(block)

    def _free(self, block: MemoryBlock) -> None:
        """Poison a block after all that uses it, on the stream whose pool it goes back to."""
        chunk = block.chunk
        for event in self.ordering.release(chunk.number, block.stream):
            self.ordering.wait(block.stream, event)
            self._wait(block.stream, event, "reuse")
        self._updated.discard(chunk.number)
        self._launch("freed", block.stream, lambda: chunk.data.fill(POISON), (), (chunk,), "reuse")
        self.pool.give_back(block)

    def _block_of(self, array: Array) -> MemoryBlock | None:
        root = root_of(array)
        known = self._blocks.get(id(root))
        return known[1] if known is not None and known[0]() is root else None

    def _late(self, array: Array) -> Array:
        """Return a device array over the device's memory, or a copy of a host array as it is now."""
        block = self._block_of(array)
        if block is None:
            return array.copy()
        offset = offset_in(root_of(array), array)
        return np.ndarray(array.shape, array.dtype, block.chunk.data, offset, array.strides)


def simulated_gpus(
    seed: int = 0, capacity_bytes: int | None = None
) -> Callable[[str, int | None], SimulatedGpu]:
    """Return a function that makes a registry's simulated GPUs, whose order the seed and name determine."""

    def make(name: str, memory_limit: int | None) -> SimulatedGpu:
        index = int(name.rpartition(":")[2])
        return SimulatedGpu(name, memory_limit, seed=seed * 1000 + index, capacity_bytes=capacity_bytes)

    return make


__all__ = ["COMPUTE", "COPY_IN", "COPY_OUT", "HostCopy", "SimulatedGpu", "simulated_gpus"]
