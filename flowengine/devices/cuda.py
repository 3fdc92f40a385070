"""Whether this machine has NVIDIA GPUs, and what there is to use them: asked of the driver, never of CuPy.

    found = search()
    found.reason        "the driver's library libcuda.so.1 is not on this machine ...", or ""

It searches when a caller first needs the result. It looks for the driver's library first, so that a machine
without one takes half a millisecond. It initializes the driver, but creates no context. After a search, a
fork of the process cannot use the GPU, because a driver does not survive a fork.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowengine.core.errors import FailedPreconditionError

DRIVER: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

#: Attributes of a device by their numbers in cuda.h.
_MULTIPROCESSORS: Final = 16
_CAPABILITY_MAJOR: Final = 75
_CAPABILITY_MINOR: Final = 76
_NAME_BYTES: Final = 256
#: CUresult of the stub that is part of the toolkit, and of a machine whose cards are hidden or removed.
_STUB: Final = 34
_NO_DEVICE: Final = 100
#: CUresult, and cudaError_t, of the errors that end a context: of memory, addresses, instructions, asserts,
#: launches, and unknown ones.
ENDS_CONTEXT: Final = frozenset({214, 220, 226, 700, 702, 709, 710, *range(714, 720), 999})

#: {library: (files below a folder of the Python path, the distribution that brings them)}.
_LIBRARIES: Final = {
    "nvrtc": (("nvidia/cu13/lib/libnvrtc.so.13",), "nvidia-cuda-nvrtc"),
    "cublas": (("nvidia/cu13/lib/libcublas.so.13",), "nvidia-cublas"),
    "cudnn": (("nvidia/cudnn/lib/libcudnn.so.9",), "nvidia-cudnn-cu13"),
}
_CUPY: Final = "cupy-cuda13x"


@dataclass(frozen=True, slots=True)
class CudaCard:
    """One GPU. `capability` is (9, 0) for sm_90."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class CudaLibrary:
    """A library of the Python environment that works with GPUs.

    version        of its distribution; empty if it is not here
    path           of its file; empty for a Python package, and if it is not here
    distribution   the distribution that has it
    """

    name: str
    version: str
    path: str
    distribution: str


@dataclass(frozen=True, slots=True)
class CudaSearch:
    """The result of a search for cards and libraries.

    cards          in the driver's order, as CUDA_VISIBLE_DEVICES leaves them
    cuda_version   the newest CUDA that the driver can run, (13, 0); None where no driver answered
    libraries      those that were looked for, whether here or not
    reason         the reason why there is no card; empty if there is one
    """

    cards: tuple[CudaCard, ...]
    cuda_version: tuple[int, int] | None
    libraries: tuple[CudaLibrary, ...]
    reason: str


@functools.lru_cache(maxsize=8)
def search(driver: str = DRIVER) -> CudaSearch:
    """Look for cards and libraries, once in a process for each name of a driver's library. Raises nothing."""
    found = libraries()
    try:
        library = ctypes.CDLL(driver)
        start = library.cuInit
    except (OSError, AttributeError) as error:
        missing = "is not on this machine" if isinstance(error, OSError) else f"is not NVIDIA's: {error}"
        return CudaSearch(
            (),
            None,
            found,
            f"the driver's library {driver} {missing}: GPUs need NVIDIA's driver, version 580 or newer",
        )
    status = start(ctypes.c_uint(0))
    if status:
        return CudaSearch((), None, found, _why(status))
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    cuda = (version.value // 1000, version.value % 1000 // 10)
    cards = tuple(_cards(library))
    return CudaSearch(cards, cuda, found, "" if cards else _why(_NO_DEVICE))


def _why(status: int) -> str:
    if status == _STUB:
        return "the driver's library is the toolkit's stub: take its folder out of LD_LIBRARY_PATH"
    if status == _NO_DEVICE:
        return "the driver sees no card: look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES"
    return f"the driver does not start (CUresult {status}): look at `nvidia-smi`"


def _cards(library: Any) -> Iterator[CudaCard]:
    count = ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)):
        return
    for number in range(count.value):
        device = ctypes.c_int()
        if library.cuDeviceGet(ctypes.byref(device), number):
            continue
        name = ctypes.create_string_buffer(_NAME_BYTES)
        size = ctypes.c_size_t()
        library.cuDeviceGetName(name, _NAME_BYTES, device)
        library.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        major, minor, processors = (
            _attribute(library, each, device)
            for each in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _MULTIPROCESSORS)
        )
        yield CudaCard(name.value.decode(errors="replace"), size.value, (major, minor), processors)


def _attribute(library: Any, number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


def libraries() -> tuple[CudaLibrary, ...]:
    """The libraries that work with GPUs, found by their files and without loading one."""
    found = [
        CudaLibrary("cupy", _version(_CUPY) if importlib.util.find_spec("cupy") else "", "", _CUPY),
    ]
    for name, (files, distribution) in _LIBRARIES.items():
        paths = (Path(folder, file) for folder in sys.path for file in files)
        path = next((path for path in paths if path.is_file()), None)
        found.append(
            CudaLibrary(name, "" if path is None else _version(distribution), str(path or ""), distribution)
        )
    return tuple(found)


def library_path(name: str, title: str) -> str:
    """Return the path of a library; FailedPreconditionError, if it is missing, names what to install.

    title   its name in the error
    """
    (found,) = (library for library in libraries() if library.name == name)
    if not found.path:
        raise FailedPreconditionError(f"there is no {title}: install the distribution {found.distribution}")
    return found.path


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


__all__ = [
    "DRIVER",
    "ENDS_CONTEXT",
    "CudaCard",
    "CudaLibrary",
    "CudaSearch",
    "libraries",
    "library_path",
    "search",
]
