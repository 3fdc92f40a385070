"""NVIDIA's driver API through ctypes: contexts, streams, events, memory and modules, with errors of ours.

    context = CudaContext(CudaDriver(), 0)
    stream = context.stream()
    address = context.allocate(stream, 1 << 20)

A `CudaDriver` loads the library. Calls enqueue work, unless their docstring says that they wait. Several
threads may use a context; each makes it its current one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any, Final

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    OpError,
    ResourceExhaustedError,
)
from flowengine.devices.cuda import DRIVER, ENDS_CONTEXT

_HANDLE: Final = ctypes.c_void_p
_HANDLES: Final = ctypes.POINTER(ctypes.c_void_p)
_ADDRESS: Final = ctypes.c_uint64
_UINT: Final = ctypes.c_uint
_SIZE: Final = ctypes.c_size_t
#: {function: the types of its arguments}, as cuda.h has them; each returns a status.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (_UINT,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (_HANDLES, ctypes.c_int),
    "cuDevicePrimaryCtxRelease_v2": (ctypes.c_int,),
    "cuCtxSetCurrent": (_HANDLE,),
    "cuStreamCreate": (_HANDLES, _UINT),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, _UINT),
    "cuEventCreate": (_HANDLES, _UINT),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventSynchronize": (_HANDLE,),
    "cuEventDestroy_v2": (_HANDLE,),
    "cuMemAllocAsync": (ctypes.POINTER(_ADDRESS), _SIZE, _HANDLE),
    "cuMemFreeAsync": (_ADDRESS, _HANDLE),
    "cuMemHostAlloc": (_HANDLES, _SIZE, _UINT),
    "cuMemFreeHost": (_HANDLE,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, ctypes.c_void_p, _SIZE, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, _ADDRESS, _SIZE, _HANDLE),
    "cuModuleLoadData": (_HANDLES, ctypes.c_char_p),
    "cuModuleUnload": (_HANDLE,),
    "cuModuleGetFunction": (_HANDLES, _HANDLE, ctypes.c_char_p),
    "cuLaunchKernel": (
        *(_HANDLE, _UINT, _UINT, _UINT, _UINT, _UINT, _UINT, _UINT, _HANDLE),
        *(ctypes.c_void_p, _HANDLES),
    ),
}

#: Flags: streams that do not wait for the default one; events that a thread sleeps for and that take no time;
#: pinned memory for every context.
_NON_BLOCKING: Final = 1
_SLEEPING_UNTIMED: Final = 1 | 2
_PORTABLE: Final = 1
#: CUresult.
_OUT_OF_MEMORY: Final = 2
_NOT_FOUND: Final = 500
_NOT_READY: Final = 600
#: Which context is current in each thread.
_CURRENT: Final = threading.local()
#: cuLaunchKernel's `extra`: arguments packed in a buffer, their size, no more.
_BUFFER, _BUFFER_SIZE, _END = 1, 2, 0


class CudaDriver:
    """The driver's library, loaded and initialized."""

    def __init__(self, path: str = DRIVER) -> None:
        """Raises FailedPreconditionError where there is no driver, it is too old, or it does not start."""
        try:
            self._library: Any = ctypes.CDLL(path)
            for name, arguments in SIGNATURES.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, ctypes.c_int
        except (OSError, AttributeError) as error:
            raise FailedPreconditionError(f"{path} cannot be used as NVIDIA's driver: {error}") from None
        status = self._library.cuInit(0)
        if status:
            raise FailedPreconditionError(
                f"NVIDIA's driver does not start: {self._describe_status('cuInit', status)}"
            )

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function of `SIGNATURES`; its status."""
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; ResourceExhaustedError where memory is short, else InternalError."""
        status = self.status(name, *arguments)
        if status:
            raise self.error(name, status)

    def error(self, name: str, status: int) -> OpError:
        """The error of a status."""
        text = self._describe_status(name, status)
        if status == _OUT_OF_MEMORY:
            return ResourceExhaustedError(f"the card's memory is full: {text}")
        return InternalError(text)

    def _describe_status(self, name: str, status: int) -> str:
        word = ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(word))
        known = word.value.decode(errors="replace") if word.value else "a status that is not known"
        return f"{name} gave {status}, {known}"


class CudaStream:
    """A stream, by its handle. Made by a context, which closes it."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle: Final = handle


class CudaEvent:
    """The end of what was enqueued on a stream so far. Made by a context."""

    __slots__ = ("_context", "_handle")

    def __init__(self, context: CudaContext, handle: int) -> None:
        self._context = context
        self._handle: int | None = handle

    @property
    def handle(self) -> int:
        """For the driver; FailedPreconditionError once it was closed."""
        if self._handle is None:
            raise FailedPreconditionError("this event has been closed")
        return self._handle

    def is_done(self) -> bool:
        """Whether it has happened. Raises what ended the context before it."""
        status = self._context.status("cuEventQuery", self.handle)
        if status == _NOT_READY:
            return False
        if status:
            raise self._context.failure("cuEventQuery", status)
        return True

    def wait(self) -> None:
        """Sleep until it has happened, other threads going on. Raises what ended the context."""
        self._context.call("cuEventSynchronize", self.handle)

    def close(self) -> None:
        """Give it back; again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._context.call("cuEventDestroy_v2", handle)


class CudaContext:
    """The primary context of a card, retained until `close`.

    lost   the error that ended it, as a text; empty before. Each later call raises InternalError with it.
    """

    def __init__(self, driver: CudaDriver, ordinal: int) -> None:
        """Raises what `CudaDriver.call` does for a card that is not there or cannot be used."""
        self.driver: Final = driver
        self.lost = ""
        self._streams: list[CudaStream] = []
        device, context = ctypes.c_int(), ctypes.c_void_p()
        driver.call("cuDeviceGet", ctypes.byref(device), ordinal)
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._device: Final = device
        self._context: ctypes.c_void_p | None = context

    # -- calls --------------------------------------------------------------------------------------

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function of the driver with this context as the thread's current one; its status."""
        if self._context is None:
            raise FailedPreconditionError("this CUDA context has been closed")
        if self.lost:
            raise InternalError(self.lost)
        if getattr(_CURRENT, "context", None) is not self:
            self.driver.call("cuCtxSetCurrent", self._context)
            _CURRENT.context = self
        return self.driver.status(name, *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver. Raises what `CudaDriver.call` does."""
        status = self.status(name, *arguments)
        if status:
            raise self.failure(name, status)

    def failure(self, name: str, status: int) -> OpError:
        """The error of a status, remembered where it has ended the context."""
        error = self.driver.error(name, status)
        if status in ENDS_CONTEXT:
            self.lost = (
                f"{error.message}: what was enqueued before has ended the CUDA context of this process, and "
                "all values on the card are lost. Start the process anew"
            )
            return InternalError(self.lost)
        return error

    def close(self) -> None:
        """Give back streams and context; again does nothing."""
        if self._context is None:
            return
        streams, self._streams = self._streams, []
        try:
            for stream in streams if not self.lost else ():
                self.call("cuStreamDestroy_v2", stream.handle)
        finally:
            self._context = None
            self.driver.status("cuDevicePrimaryCtxRelease_v2", self._device)

    # -- streams and events ---------------------------------------------------------------------------

    def _made(self, name: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0

    def stream(self) -> CudaStream:
        """A new stream, which waits for no other one by itself."""
        made = CudaStream(self._made("cuStreamCreate", _NON_BLOCKING))
        self._streams.append(made)
        return made

    def record(self, stream: CudaStream) -> CudaEvent:
        """An event at the end of what the stream was given so far."""
        event = CudaEvent(self, self._made("cuEventCreate", _SLEEPING_UNTIMED))
        try:
            self.call("cuEventRecord", event.handle, stream.handle)
        except BaseException:
            if not self.lost:
                event.close()
            raise
        return event

    def let_wait(self, stream: CudaStream, event: CudaEvent) -> None:
        """All that the stream is given from now on comes after the event."""
        self.call("cuStreamWaitEvent", stream.handle, event.handle, 0)

    def synchronize(self, stream: CudaStream) -> None:
        """Sleep until the stream has done all it was given."""
        self.call("cuStreamSynchronize", stream.handle)

    # -- memory -----------------------------------------------------------------------------------------

    def allocate(self, stream: CudaStream, size: int) -> int:
        """The address of memory of the card, for work of this stream and what comes after it.

        Raises ResourceExhaustedError if the card has less.
        """
        address = _ADDRESS()
        self.call("cuMemAllocAsync", ctypes.byref(address), max(size, 1), stream.handle)
        return address.value

    def free(self, stream: CudaStream, address: int) -> None:
        """Give memory back, once the stream has done what it was given so far."""
        self.call("cuMemFreeAsync", address, stream.handle)

    def allocate_pinned(self, size: int) -> int:
        """The address of host memory that cards read and write by themselves."""
        return self._made("cuMemHostAlloc", size, _PORTABLE)

    def free_pinned(self, address: int) -> None:
        """Give pinned memory back; nothing that is enqueued may use it any more."""
        self.call("cuMemFreeHost", address)

    def copy_in(self, stream: CudaStream, target: int, source: int, size: int) -> None:
        """Enqueue a copy from host memory at `source`, which must be pinned for the call not to wait."""
        self.call("cuMemcpyHtoDAsync_v2", target, source, size, stream.handle)

    def copy_out(self, stream: CudaStream, target: int, source: int, size: int) -> None:
        """Enqueue a copy to host memory at `target`, which must be pinned for the call not to wait."""
        self.call("cuMemcpyDtoHAsync_v2", target, source, size, stream.handle)

    # -- modules ----------------------------------------------------------------------------------------

    def module(self, image: bytes) -> CudaModule:
        """A compiled module, loaded; InternalError for one that is not for this card."""
        return CudaModule(self, self._made("cuModuleLoadData", image))

    def launch(
        self, stream: CudaStream, function: int, blocks: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """Enqueue a kernel whose arguments are addresses and numbers of 64 bits each."""
        packed = (ctypes.c_uint64 * len(arguments))(*(a & 0xFFFFFFFFFFFFFFFF for a in arguments))
        size = _SIZE(ctypes.sizeof(packed))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER, ctypes.addressof(packed), _BUFFER_SIZE, ctypes.addressof(size), _END
        )
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream.handle, None, extra)


class CudaModule:
    """Kernels by name. Made by a context, with which it goes."""

    def __init__(self, context: CudaContext, handle: int) -> None:
        self._context = context
        self._handle = handle
        self._functions: dict[str, int] = {}

    def function(self, name: str) -> int:
        """The handle of a kernel; InternalError for a name that the module lacks."""
        found = self._functions.get(name)
        if found is not None:
            return found
        handle = ctypes.c_void_p()
        status = self._context.status(
            "cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode()
        )
        if status == _NOT_FOUND:
            raise InternalError(f"there is no kernel '{name}' in this module")
        if status:
            raise self._context.failure("cuModuleGetFunction", status)
        self._functions[name] = handle.value or 0
        return self._functions[name]


__all__ = ["SIGNATURES", "CudaContext", "CudaDriver", "CudaEvent", "CudaModule", "CudaStream"]
