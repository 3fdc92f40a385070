"""Find oneDNN on this machine, load it once, and declare the functions of its C interface that are called.

Looked for in this order: the file that `FLOWENGINE_ONEDNN` names, the library folder of the Python
environment (where the packages of the extra `fast` put it), the system's libraries. It must be of version 3
and compute on the caller's own threads (OpenMP, TBB or none). The log has one line for a missing
or unsuitable library, and the NumPy kernels compute.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

logger: Final = logging.getLogger(__name__)

VARIABLE: Final = "FLOWENGINE_ONEDNN"
_MAJOR: Final = 3
_CPU: Final = 1
_IN_ORDER: Final = 1
#: Names of the runtimes that compute before the call returns, on threads that need no driver.
_RUNTIMES: Final = {1: "sequential", 2: "OpenMP", 4: "TBB"}

#: OpenMP 5.0: free resources that can be allocated again, and keep the settings of `omp_set_num_threads`.
_PAUSE_SOFT: Final = 1

#: How many turns of a loop around the processor's PAUSE an idle thread of GNU's OpenMP looks for work before
#: it sleeps. To wake it takes up to 0.1 ms on a virtual machine, and the threads of a team must outlast that:
#: this is 0.13 ms where a PAUSE takes 13 ns (2026-11, a Xeon of 2023), and would be 0.5 ms where it
#: takes 140 cycles. OpenMP's own is milliseconds. Not yet compared with other numbers on an idle machine.
_IDLE_TURNS: Final = 10_000
_IDLE_VARIABLE: Final = "GOMP_SPINCOUNT"
_IDLE_VARIABLES: Final = (_IDLE_VARIABLE, "OMP_WAIT_POLICY")

Pointer = ctypes.c_void_p
#: What oneDNN writes a new object to.
Out = ctypes.POINTER(ctypes.c_void_p)
Dims = ctypes.POINTER(ctypes.c_int64)

_FLOAT = ctypes.c_float
_INT = ctypes.c_int

#: {function: its arguments}; all return a status.
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "engine_create": (Out, _INT, ctypes.c_size_t),
    "stream_create": (Out, Pointer, ctypes.c_uint),
    "memory_create": (Out, Pointer, Pointer, Pointer),
    "memory_destroy": (Pointer,),
    "memory_set_data_handle": (Pointer, Pointer),
    "memory_desc_create_with_strides": (Out, _INT, Dims, _INT, Dims),
    "memory_desc_create_with_tag": (Out, _INT, Dims, _INT, _INT),
    "memory_desc_clone": (Out, Pointer),
    "memory_desc_destroy": (Pointer,),
    "primitive_attr_create": (Out,),
    "primitive_attr_destroy": (Pointer,),
    "primitive_attr_set_scratchpad_mode": (Pointer, _INT),
    "primitive_attr_set_post_ops": (Pointer, Pointer),
    "primitive_attr_set_scales_mask": (Pointer, _INT, _INT),
    "post_ops_create": (Out,),
    "post_ops_destroy": (Pointer,),
    "post_ops_append_eltwise": (Pointer, _INT, _FLOAT, _FLOAT),
    "post_ops_append_binary": (Pointer, _INT, Pointer),
    "post_ops_append_prelu": (Pointer, _INT),
    "post_ops_append_sum": (Pointer, _FLOAT, _INT, _INT),
    "primitive_desc_destroy": (Pointer,),
    "primitive_desc_query": (Pointer, _INT, _INT, Pointer),
    "primitive_create": (Out, Pointer),
    "primitive_destroy": (Pointer,),
    "primitive_execute": (Pointer, Pointer, _INT, Pointer),
    "reorder_primitive_desc_create": (Out, Pointer, Pointer, Pointer, Pointer, Pointer),
    "convolution_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, _INT, Pointer, Pointer, Pointer, Pointer),
        *(Dims, Dims, Dims, Dims, Pointer),
    ),
    "convolution_backward_data_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, Pointer),
        *(Dims, Dims, Dims, Dims, Pointer, Pointer),
    ),
    "convolution_backward_weights_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, Pointer, Pointer),
        *(Dims, Dims, Dims, Dims, Pointer, Pointer),
    ),
    "pooling_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, _INT, Pointer, Pointer),
        *(Dims, Dims, Dims, Dims, Dims, Pointer),
    ),
    "pooling_backward_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer),
        *(Dims, Dims, Dims, Dims, Dims, Pointer, Pointer),
    ),
    "batch_normalization_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, _FLOAT, ctypes.c_uint, Pointer),
    ),
    "batch_normalization_backward_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, Pointer, _FLOAT, ctypes.c_uint, Pointer, Pointer),
    ),
    "lrn_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, _INT, Pointer, Pointer),
        *(ctypes.c_int64, _FLOAT, _FLOAT, _FLOAT, Pointer),
    ),
    "lrn_backward_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, Pointer),
        *(ctypes.c_int64, _FLOAT, _FLOAT, _FLOAT, Pointer, Pointer),
    ),
    "resampling_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, _INT, Pointer, Pointer, Pointer, Pointer),
    ),
    "eltwise_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, _INT, Pointer, Pointer, _FLOAT, _FLOAT, Pointer),
    ),
    "binary_primitive_desc_create": (Out, Pointer, _INT, Pointer, Pointer, Pointer, Pointer),
    "inner_product_forward_primitive_desc_create": (
        *(Out, Pointer, _INT, Pointer, Pointer, Pointer, Pointer, Pointer),
    ),
    "matmul_primitive_desc_create": (Out, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer),
}


@contextmanager
def brief_idle_threads() -> Iterator[None]:
    """While a library is loaded, tell GNU's OpenMP not to keep idle threads busy for long.

    It reads its settings when it is loaded, and only then: a host's own are respected, and the environment
    is left as it was found.
    """
    if any(name in os.environ for name in _IDLE_VARIABLES):
        yield
        return
    os.environ[_IDLE_VARIABLE] = str(_IDLE_TURNS)
    try:
        yield
    finally:
        del os.environ[_IDLE_VARIABLE]


class LibraryError(Exception):
    """oneDNN is missing, unfit, or has refused what it was asked for."""


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", _INT),
        ("minor", _INT),
        ("patch", _INT),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class Library:
    """The loaded library: `call("memory_create", ...)` raises LibraryError where the status says so.

    path      the file
    version   (3, minor, patch)
    runtime   "OpenMP", "TBB" or "sequential"
    engine    the one engine, of this machine's CPU
    stream    the one stream: work is done when a call returns, on the calling thread and its team
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with brief_idle_threads():
            self._functions = ctypes.CDLL(path)
        self.version, self.runtime = self._check()
        for name, arguments in _FUNCTIONS.items():
            function = getattr(self._functions, f"dnnl_{name}", None)
            if function is None:
                raise LibraryError(f"it has no function dnnl_{name}")
            function.argtypes = arguments
            function.restype = _INT
        query = self._functions.dnnl_primitive_desc_query_md
        query.argtypes, query.restype = (Pointer, _INT, _INT), Pointer
        size = self._functions.dnnl_memory_desc_get_size
        size.argtypes, size.restype = (Pointer,), ctypes.c_size_t
        equal = self._functions.dnnl_memory_desc_equal
        equal.argtypes, equal.restype = (Pointer, Pointer), _INT
        self.query, self.size_of, self._equal = query, size, equal
        self.engine = self.new("engine_create", _CPU, 0)
        self.stream = self.new("stream_create", self.engine, _IN_ORDER)
        # Calls that take less than to let go of the interpreter and to have it again.
        brief = ctypes.PyDLL(path)
        self._get_threads = getattr(brief, "omp_get_max_threads", None)
        self._set_threads = getattr(brief, "omp_set_num_threads", None)
        if self._set_threads is not None:
            self._set_threads.argtypes, self._set_threads.restype = (_INT,), None
        self._pause = getattr(self._functions, "omp_pause_resource_all", None)
        if self._pause is not None:
            self._pause.argtypes, self._pause.restype = (_INT,), _INT
        #: Bare functions, for the calls that a step makes.
        self.execute = self._functions.dnnl_primitive_execute
        self.set_handle = brief.dnnl_memory_set_data_handle
        self.set_handle.argtypes, self.set_handle.restype = _FUNCTIONS["memory_set_data_handle"], _INT

    def _check(self) -> tuple[tuple[int, int, int], str]:
        tell = getattr(self._functions, "dnnl_version", None)
        if tell is None:
            raise LibraryError("it does not tell its version")
        tell.restype = ctypes.POINTER(_Version)
        found = tell().contents
        if found.major != _MAJOR:
            raise LibraryError(f"its version is {found.major}.{found.minor}, and {_MAJOR} is needed")
        runtime = _RUNTIMES.get(found.cpu_runtime)
        if runtime is None:
            raise LibraryError(f"its CPU runtime {found.cpu_runtime} is not OpenMP, TBB or sequential")
        return (found.major, found.minor, found.patch), runtime

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; LibraryError unless it succeeds."""
        status = getattr(self._functions, f"dnnl_{name}")(*arguments)
        if status:
            raise LibraryError(f"dnnl_{name} has returned status {status}")

    def new(self, name: str, *arguments: Any) -> int:
        """The address of the object that a function makes."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def equal(self, one: int, other: int) -> bool:
        """Whether two memory descriptors are the same."""
        return bool(self._equal(one, other))

    def threads(self) -> int:
        """How many threads a call from this thread uses."""
        if self._get_threads is not None:
            return int(self._get_threads())
        return 1 if self.runtime == "sequential" else (os.cpu_count() or 1)

    def alone(self) -> int:
        """Make this thread's calls compute on it alone; returns what `together` puts back."""
        if self._set_threads is None or self._get_threads is None:
            return 0
        before = int(self._get_threads())
        if before > 1:
            self._set_threads(1)
        return before

    def dismiss_team(self) -> None:
        """End the threads of this thread's team; the next call that needs them starts them again."""
        if self._pause is not None:
            self._pause(_PAUSE_SOFT)

    def together(self, before: int) -> None:
        """Undo `alone`."""
        if before > 1 and self._set_threads is not None:
            self._set_threads(before)


#: As the system's loader knows it, on Linux.
_BY_NAME: Final = "libdnnl.so.3"
#: libdnnl.so.3.2, libdnnl.3.2.dylib, libdnnl.3.dll.
_VERSION_IN_NAME: Final = re.compile(r"\.(\d+(?:\.\d+)*)(?:\.dylib|\.dll)?$")


def candidates() -> Iterator[str]:
    """Yield the library's possible paths, the best first: files that exist, a name the system knows."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    folder = os.path.join(sys.prefix, "Library" if os.name == "nt" else "lib")
    for name in ("libdnnl.so.3", "libdnnl.3.dylib", "libdnnl.3.dll"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            yield path
    if sys.platform.startswith("linux"):
        # To search for it starts a compiler, which takes long, and may do nothing in a sandbox.
        yield _BY_NAME
    elif found := ctypes.util.find_library("dnnl"):
        yield found


def named_version() -> str:
    """Return the version of the best candidate as its file says, such as "3.2", without loading it.

    Files say as much of it as their builders wrote: `libdnnl.so.3` lies beside, or points to,
    `libdnnl.so.3.2`.
    A name that only the system's loader knows is loaded; "" if there is no library.
    """
    path = next(candidates(), "")
    if not os.path.isfile(path):
        library = search().library
        return "" if library is None else ".".join(map(str, library.version))
    folder, name = os.path.split(os.path.realpath(path))
    beside = (each for each in os.listdir(folder) if each.startswith(f"{name}.") or each == name)
    versions = [found[1] for each in beside if (found := _VERSION_IN_NAME.search(each))]
    return max(versions, key=len, default="of unknown version")


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search for the library: the library, or why there is none."""

    library: Library | None
    reason: str


_lock: Final = threading.Lock()
_found: Search | None = None


def search() -> Search:
    """Look for the library and load it; the first call does, the others remember."""
    global _found
    found = _found
    if found is None:
        with _lock:
            found = _found
            if found is None:
                found = _found = _search()
                if found.library is None:
                    logger.info("oneDNN is not used: %s; NumPy does all work", found.reason)
                else:
                    version = ".".join(map(str, found.library.version))
                    logger.info(
                        "oneDNN %s (%s) is used: %s", version, found.library.runtime, found.library.path
                    )
    return found


#: The system's libdnnl, or what the extra `fast` brings.
_NOT_INSTALLED: Final = (
    "it is not installed (the system's libdnnl, or on Linux x86-64: pip install 'onednn-cpu-gomp>=2023.2')"
)


def _search() -> Search:
    if not _addresses_are_found():
        return Search(None, "this Python does not tell where arrays lie")
    reason = _NOT_INSTALLED
    for path in candidates():
        try:
            return Search(Library(path), "")
        except (OSError, LibraryError) as error:
            if path != _BY_NAME or "No such file" not in str(error):
                reason = f"{path}: {error}"
    return Search(None, reason)


def library() -> Library | None:
    """The library, loaded on the first call; None where there is none that can be used."""
    return search().library


def forget(reason: str) -> bool:
    """Do without the library from now on; whether it had been loaded."""
    global _found
    loaded = _found is not None and _found.library is not None
    if loaded:
        _found = Search(None, reason)
    return loaded


_from_address: Final = ctypes.c_void_p.from_address
_DATA: Final = object.__basicsize__


def address(array: Any) -> int:
    """Return the address of an array's first element.

    Read from the array's own structure, whose first field is that pointer: a step of a network asks a
    thousand times, and `array.ctypes.data` takes 1 us of which this takes 0.1.
    """
    return _from_address(id(array) + _DATA).value or 0


@functools.cache
def _addresses_are_found() -> bool:
    if sys.implementation.name != "cpython":
        return False
    for length in (1, 1000):
        array = np.empty(length, np.float32)
        if (
            address(array) != array.ctypes.data
            or address(array[length // 2 :]) != array[length // 2 :].ctypes.data
        ):
            return False
    return True
