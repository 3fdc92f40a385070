"""Primitives that run one after the other on shared memories, prepared once and called with addresses.

A call binds addresses to memory objects and executes: some 4 us for a layer. Calls of one program may
overlap in any number of threads, each with separate memory objects (a *frame*, kept for the next call),
and with scratch memory that belongs to the thread.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InternalError
from flowengine.kernels.common.pieces import Turn
from flowengine.kernels.onednn import library as loading
from flowengine.kernels.onednn.library import Library, address
from flowengine.kernels.onednn.objects import QUERY_SCRATCHPAD, Description, Handle

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Numbers by which primitives know their arguments.
SRC: Final = 1
SRC_1: Final = 2
DST: Final = 17
WEIGHTS: Final = 33
MEAN: Final = 49
VARIANCE: Final = 50
SCALE: Final = 51
SHIFT: Final = 52
WORKSPACE: Final = 64
_SCRATCHPAD: Final = 80
DIFF_SRC: Final = 129
DIFF_DST: Final = 145
DIFF_WEIGHTS: Final = 161
DIFF_SCALE: Final = 255
DIFF_SHIFT: Final = 256
#: To be added to the number of an argument that is multiplied by a number: that number.
SCALE_OF: Final = 4096


def operand_after(place: int) -> int:
    """The number of the other operand of what is applied to a result in this place."""
    return 32768 * (place + 1) | SRC_1


_ALIGNMENT: Final = 64
#: Scratch memory that a thread keeps from call to call; what needs more gets it for the call.
KEPT_BYTES: Final = 64 << 20
#: Bytes up to which a memory is brought into another order on one thread, some 50 us of work.
_REORDERED_ALONE: Final = 512 << 10


#: What NumPy does with arrays; the last of them it writes.
Computing: TypeAlias = Callable[[Sequence[Array]], None]


class _Argument(ctypes.Structure):
    _fields_ = (("argument", ctypes.c_int), ("memory", ctypes.c_void_p))


class _Scratch(threading.local):
    """A thread's scratch memory: `base` is aligned. And whether its calls may have started other threads."""

    def __init__(self) -> None:
        self.size = 0
        self.base = 0
        self.kept: Any = None
        self.has_team = False


_scratch: Final = _Scratch()


def padded(size: int) -> int:
    """Bytes of scratch memory that so many take."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def aligned(size: int) -> tuple[Any, int]:
    """(what owns `size` bytes of memory, their aligned address)."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    return memory, -(-address(memory) // _ALIGNMENT) * _ALIGNMENT


class _NumpyCall:
    """A NumPy computation in a program, with arrays that lie at its addresses."""

    __slots__ = ("_arrays", "_compute", "_forms", "_where")

    def __init__(self, compute: Computing, memories: Sequence[tuple[Any, int, int]]) -> None:
        self._compute = compute
        self._forms: list[tuple[tuple[int, ...], int, int]] = list(memories)
        self._where = [0] * len(memories)
        self._arrays: list[Array] = [np.empty(0, np.float32)] * len(memories)

    def place(self, addresses: Sequence[int], base: int) -> None:
        """The arrays lie at these addresses, or that far into the scratch memory, which begins at `base`."""
        for number, (shape, place, skipped) in enumerate(self._forms):
            where = (addresses[~place] if place < 0 else base + place) + skipped
            if where != self._where[number]:
                self._where[number] = where
                memory: Any = (ctypes.c_byte * (4 * math.prod(shape))).from_address(where)
                self._arrays[number] = np.ndarray(shape, np.float32, memory)

    def __call__(self) -> None:
        self._compute(self._arrays)


class _Frame:
    """The memory objects of one call, and the arguments of its primitives."""

    __slots__ = ("addresses", "arguments", "base", "by_numpy", "calls", "inside", "memories", "outside")

    def __init__(self, program: PrimitiveProgram) -> None:
        library = program.library
        free = library._functions.dnnl_memory_destroy
        self.memories = [
            Handle(library.new("memory_create", form.value, library.engine, None), free)
            if isinstance(form, Handle)
            else None
            for form, _, _ in program.memories
        ]
        #: For each address that is given, the memories that lie there, or so many bytes behind it.
        self.outside: list[list[tuple[int, int]]] = [[] for _ in range(program.given)]
        #: (memory, its offset in the scratch memory)
        self.inside: list[tuple[int, int]] = []
        for handle, (_, place, skipped) in zip(self.memories, program.memories, strict=True):
            if handle is None:
                continue
            if place < 0:
                self.outside[~place].append((handle.value, skipped))
            else:
                self.inside.append((handle.value, place + skipped))
        self.base = 0
        self.addresses = (0,) * len(self.outside)
        self.arguments: list[Any] = []
        #: (whether it stays on one thread, primitive, count and address of its arguments). Numbers they are:
        #: an object that is looked at behind a large layer is one that the caches have lost. What NumPy does
        #: has no primitive, and stands where the address would.
        self.calls: list[tuple[bool, int, int, Any]] = []
        self.by_numpy: list[_NumpyCall] = []
        is_alone = program._alone
        for (what, count, apart), arguments in zip(program._steps, program.arguments, strict=True):
            if isinstance(what, Handle):
                is_alone = apart or program._alone
                given = [_Argument(n, cast(Handle, self.memories[i]).value) for n, i in arguments]
                self.arguments.append((_Argument * count)(*given))
                where = ctypes.addressof(self.arguments[-1])
                self.calls.append((is_alone, what.value, count, where))
            else:
                bound = _NumpyCall(what, [program.memories[i] for _, i in arguments])
                self.by_numpy.append(bound)
                self.calls.append((is_alone, 0, 0, bound))


class PrimitiveProgram:
    """Memories and steps; call it with the addresses of the outside memories in order.

    alone   compute on the calling thread alone: to wake another and wait for it takes 10 to 30 us
    """

    def __init__(self, library: Library, alone: bool = False) -> None:
        self.library = library
        self._alone = alone
        #: (descriptor, offset in the scratch memory; ~n for what lies at the caller's n-th address, bytes
        #: that are skipped from there). What NumPy uses has its shape instead of a descriptor.
        self.memories: list[tuple[Any, int, int]] = []
        #: {part of a memory: its number}, and {operation: primitive, number of its scratch memory}: steps
        #: come one after another, so those of one operation have that in common.
        self._parts: dict[tuple[Any, int, int], int] = {}
        self._made: dict[Description, tuple[Handle, int | None]] = {}
        #: How many addresses a call takes.
        self.given = 0
        self.arguments: list[list[tuple[int, int]]] = []
        self.scratch_bytes = 0
        #: (primitive, or what NumPy computes; count of its arguments, whether it stays on one thread)
        self._steps: list[tuple[Handle | Computing, int, bool]] = []
        self._frames: deque[_Frame] = deque()

    def outside(self, form: Handle) -> int:
        """A memory whose address is given at each call."""
        self.memories.append((form, ~self.given, 0))
        self.given += 1
        return len(self.memories) - 1

    def numbers(self, shape: tuple[int, ...]) -> int:
        """A memory for NumPy, float32 and C-contiguous, whose address is given at each call."""
        self.memories.append((shape, ~self.given, 0))
        self.given += 1
        return len(self.memories) - 1

    def inside(self, form: Handle) -> int:
        """A memory that lives for a call."""
        return self.room(form, self.library.size_of(form.value))

    def room(self, form: Handle | tuple[int, ...], size: int) -> int:
        """A memory of so many bytes that lives for a call; NumPy knows it by its shape."""
        self.memories.append((form, self.scratch_bytes, 0))
        self.scratch_bytes += padded(size)
        return len(self.memories) - 1

    def within(self, memory: int, form: Handle | tuple[int, ...], skipped: int = 0) -> int:
        """A part of a memory, which begins so many bytes into it; what NumPy is to see of it has a shape."""
        _, place, before = self.memories[memory]
        part = (form, place, before + skipped)
        number = self._parts.get(part)
        if number is None:
            number = self._parts[part] = len(self.memories)
            self.memories.append(part)
        return number

    def include(self, other: PrimitiveProgram, places: Sequence[int], scratch: int) -> None:
        """Do what another program does, after what this one does so far.

        places   for each address that the other is called with: an offset in this one's scratch memory, or
                 ~n for the n-th address that this one is called with
        scratch  where the other's scratch memory begins in this one's
        """
        if len(places) != other.given:
            raise InternalError(f"a program that takes {other.given} addresses was given {len(places)}")
        first = len(self.memories)
        for form, place, skipped in other.memories:
            self.memories.append((form, places[~place] if place < 0 else scratch + place, skipped))
        self.given = max([self.given, *(~place + 1 for place in places if place < 0)])
        self.scratch_bytes = max(self.scratch_bytes, scratch + other.scratch_bytes)
        for listed, (primitive, count, apart) in zip(other.arguments, other._steps, strict=True):
            self.arguments.append([(number, first + memory) for number, memory in listed])
            self._steps.append((primitive, count, apart or other._alone))

    def step(self, description: Description, arguments: Mapping[int, int], alone: bool | None = None) -> None:
        """Run a primitive on memories: {number of the argument: memory}.

        alone   on the calling thread alone; as the program, if nothing is said
        """
        made = self._made.get(description)
        if made is None:
            scratchpad = description.memory(QUERY_SCRATCHPAD)
            needed = self.library.size_of(scratchpad.value)
            made = description.primitive(), self.inside(scratchpad) if needed else None
            self._made[description] = made
        primitive, scratch = made
        listed = list(arguments.items())
        if scratch is not None:
            listed.append((_SCRATCHPAD, scratch))
        self.arguments.append(listed)
        self._steps.append((primitive, len(listed), bool(alone)))

    def by_numpy(self, compute: Computing, memories: Sequence[int]) -> None:
        """Have something computed with arrays that lie in these memories, which have shapes."""
        self.arguments.append(list(enumerate(memories)))
        self._steps.append((compute, len(memories), False))

    def reorder(self, source: int, target: int, attributes: Handle) -> None:
        """Copy a memory into another order; a small one on the calling thread alone."""
        library = self.library
        alone = library.size_of(self.memories[target][0].value) <= _REORDERED_ALONE
        threads = library.alone() if alone else 0
        try:
            description = Description(
                library,
                "reorder",
                self.memories[source][0].value,
                library.engine,
                self.memories[target][0].value,
                library.engine,
                attributes.value,
            )
            self.step(description, {SRC: source, DST: target}, alone)
        finally:
            library.together(threads)

    def __call__(self, *addresses: int) -> None:
        frame, own = self._placed(addresses)
        self._proceed(frame, 0, None)
        self._frames.append(frame)
        del own

    def begin(self, addresses: tuple[int, ...], turn: Turn | None) -> SuspendedProgram | None:
        """As a call, but where the turn is over it is suspended between two steps; None once it is done."""
        frame, own = self._placed(addresses)
        done = self._proceed(frame, 0, turn)
        if done < len(frame.calls):
            if frame.base and frame.base == _scratch.base:
                # Others will compute on this thread before it goes on, and not in this memory.
                own, _scratch.kept, _scratch.base, _scratch.size = _scratch.kept, None, 0, 0
            return SuspendedProgram(frame, done, own)
        self._frames.append(frame)
        return None

    def go_on(self, suspended: SuspendedProgram, turn: Turn | None) -> bool:
        """Whether it is done now. On any thread."""
        suspended.done = self._proceed(suspended.frame, suspended.done, turn)
        if suspended.done < len(suspended.frame.calls):
            return False
        suspended.frame.base = 0  # that memory is let go of
        self._frames.append(suspended.frame)
        return True

    def _placed(self, addresses: tuple[int, ...]) -> tuple[_Frame, Any]:
        """(a frame whose memories lie at these addresses, the owner of scratch memory of its own)."""
        library = self.library
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        set_handle = library.set_handle
        moved = addresses != frame.addresses
        if moved:
            # Filters mostly lie where they lay, and results often.
            for memories, where, before in zip(frame.outside, addresses, frame.addresses, strict=True):
                if where != before:
                    for memory, skipped in memories:
                        set_handle(memory, where + skipped)
            frame.addresses = addresses
        own = None
        if self.scratch_bytes:
            base = _scratch.base
            if _scratch.size < self.scratch_bytes:
                own, base = aligned(self.scratch_bytes)
                if self.scratch_bytes <= KEPT_BYTES:
                    _scratch.kept, _scratch.base, _scratch.size = own, base, self.scratch_bytes
            if frame.base != base:
                for memory, offset in frame.inside:
                    set_handle(memory, base + offset)
                frame.base = base
                moved = True
        if moved:
            for bound in frame.by_numpy:
                bound.place(addresses, frame.base)
        return frame, own

    def _proceed(self, frame: _Frame, position: int, turn: Turn | None) -> int:
        """Take steps from this one on: all, or one and more until the turn is over. How many are done."""
        library = self.library
        execute, stream = library.execute, library.stream
        is_alone = False
        threads = 0
        done = position
        try:
            for apart, primitive, count, arguments in frame.calls[position:] if position else frame.calls:
                if turn is not None and done > position and perf_counter() > turn.ends and turn.is_over():
                    break
                if apart is not is_alone:
                    is_alone = apart
                    if is_alone:
                        threads = library.alone()
                    else:
                        library.together(threads)
                if not is_alone:
                    _scratch.has_team = True
                status = execute(primitive, stream, count, arguments) if primitive else arguments()
                if status:
                    raise InternalError(f"oneDNN could not compute: status {status}")
                done += 1
        finally:
            if is_alone:
                library.together(threads)
        return done


class SuspendedProgram:
    """A call that will go on: its frame, how many steps are done, the owner of its scratch memory."""

    __slots__ = ("done", "frame", "own")

    def __init__(self, frame: _Frame, done: int, own: Any) -> None:
        self.frame = frame
        self.done = done
        self.own = own


def one_step(what: Description, alone: bool, given: Mapping[int, Handle]) -> PrimitiveProgram:
    """A program of one primitive, called with the addresses of its arguments in this order."""
    program = PrimitiveProgram(what.library, alone)
    program.step(what, {number: program.outside(form) for number, form in given.items()})
    return program


def dismiss_team() -> None:
    """End the threads that the library keeps for calls from the calling thread, where it can.

    They would only sleep, but they count: OpenMP lets idle threads look for work before they sleep while
    there are no more of them than cores. A thread that leaves the work to another one dismisses its team.
    """
    if _scratch.has_team:
        _scratch.has_team = False
        library = loading.library()
        if library is not None:
            library.dismiss_team()


def dense_array(array: Array) -> Array:
    """The array, or a C-contiguous copy of it: what has an address to give."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
