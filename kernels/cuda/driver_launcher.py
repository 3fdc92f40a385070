"""A launcher over NVIDIA's driver: one stream, the memory of its pool, and kernels compiled for the card.

    with DriverLauncher(CudaDriver(), 0, "softmax") as launcher:
        probabilities = softmax(launcher, launcher.moved_in(logits))
        print(launcher.moved_out(probabilities))

It is what the kernels are tried with on a card. It is no device of a session: all of its work is on one
stream, so nothing has to wait for anything, but the host for what it reads.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import FailedPreconditionError
from flowengine.devices.cuda_driver import CudaContext, CudaDriver, CudaStream
from flowengine.devices.pinned import PinnedRing
from flowengine.kernels.cuda import compiling, functions, sources
from flowengine.kernels.cuda.launching import KernelLaunch


class CardArray:
    """An array in a card's memory, row by row without gaps; its memory goes back to the pool with it."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.address: Final = address
        self.shape: Final[tuple[int, ...]] = shape
        self.dtype: Final = np.dtype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return self.size * int(self.dtype.itemsize)


class DriverLauncher:
    """Keeps `launching.Launcher`. For one thread at a time; close it, or use it in a `with` block."""

    def __init__(
        self,
        driver: CudaDriver,
        ordinal: int,
        *families: str,
        architecture: str = "sm_90",
        compile_source: Callable[[str, str], bytes] | None = None,
    ) -> None:
        """
        families         whose kernels are compiled; see `sources.FAMILIES`
        architecture     of the card
        compile_source   (source behind the prelude, architecture) -> module; None: NVRTC, as `compile_module`

        Raises FailedPreconditionError without NVRTC, InternalError for a card that the driver cannot use.
        """
        compiled = (compile_source or _compiled)(sources.source(*families), architecture)
        self.context: Final = CudaContext(driver, ordinal)
        self._closed = False
        try:
            self.stream: Final[CudaStream] = self.context.stream()
            self._module = self.context.module(compiled)
            self._ring = PinnedRing(self.context)
            self._record: Any = self.moved_in(np.zeros(3, np.int64))
        except BaseException:
            self._closed = True
            self.context.close()
            raise

    # -- as a launcher ------------------------------------------------------------------------------

    @property
    def error_record(self) -> Any:
        """See `Launcher`."""
        return self._record

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array that holds anything; ResourceExhaustedError where the card's memory is full."""
        kind = np.dtype(dtype)
        address = self.context.allocate(self.stream, math.prod(shape) * kind.itemsize)
        made = CardArray(address, tuple(shape), kind)
        weakref.finalize(made, self._free, address).atexit = False
        return made

    def moved_in(self, array: Any) -> Any:
        """A NumPy array in the card's memory; it may be changed as soon as this has returned."""
        whole = np.ascontiguousarray(array)
        made = self.empty(np.shape(array), whole.dtype)
        flat = whole.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, self._ring.size):
            piece = flat[start : start + self._ring.size]
            with self._ring.lent(piece.size) as part:
                part.data[...] = piece
                self.context.copy_in(self.stream, made.address + start, part.address, piece.size)
                part.used_until(self.context.record(self.stream))
        return made

    def moved_out(self, array: Any) -> Array:
        """An array in host memory; stands still until it is there."""
        made = np.empty(array.shape, array.dtype)
        flat = made.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, self._ring.size):
            size = min(flat.size - start, self._ring.size)
            with self._ring.lent(size) as part:
                self.context.copy_out(self.stream, part.address, array.address + start, size)
                event = self.context.record(self.stream)
                part.used_until(event)
                event.wait()
                flat[start : start + size] = part.data
        return made

    def address(self, array: Any) -> int:
        """Return the address of an array."""
        return int(array.address)

    def launch(self, launch: KernelLaunch, arrays: Sequence[Any]) -> None:
        """Enqueue a kernel; InternalError for one that none of the families has."""
        if self._closed:
            raise FailedPreconditionError("this launcher has been closed")
        function = self._module.function(launch.name)
        addresses = [0 if array is None else array.address for array in arrays]
        self.context.launch(
            self.stream, function, launch.blocks, launch.threads, [*addresses, *launch.numbers]
        )

    # -- besides --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Wait for all that was enqueued. Raises what a kernel has refused, which is then forgotten."""
        refused = functions.refusal(self.moved_out(self._record).tolist())
        if refused is not None:
            self._record = self.moved_in(np.zeros(3, np.int64))
            raise refused

    def _free(self, address: int) -> None:
        if not self._closed and not self.context.lost:
            self.context.free(self.stream, address)

    def close(self) -> None:
        """Wait for what was enqueued and give all back, arrays as well. Again does nothing."""
        if self._closed:
            return
        try:
            if not self.context.lost:
                self.context.synchronize(self.stream)
                self._ring.close()
        finally:
            self._closed = True
            self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _compiled(source: str, architecture: str) -> bytes:
    return compiling.compile_module([source], architecture)


__all__ = ["CardArray", "DriverLauncher"]
