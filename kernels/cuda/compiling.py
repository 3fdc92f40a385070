"""Compile CUDA sources with NVRTC, many to a module, and keep what came of it on disk.

    module = compile_module([source.text for source in sources], "sm_90")      # bytes of a cubin

A module's file is named by the hash of source, options and the compiler's version: what is there is right.
Files are written beside their place and renamed, so that a reader never sees half of one, and several
processes may share a folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from flowengine.core.errors import FailedPreconditionError, InternalError
from flowengine.devices import cuda
from flowengine.kernels.cuda.elementwise import prelude

#: Without contraction a fused chain has the bits of its nodes; all else is as IEEE 754 has it by default.
OPTIONS: Final = ("--fmad=false", "--std=c++17")


class RuntimeCompiler:
    """NVRTC, loaded."""

    def __init__(self, path: str) -> None:
        """Raises FailedPreconditionError for a file that is no NVRTC."""
        try:
            self._library: Any = ctypes.CDLL(path)
            major, minor = ctypes.c_int(), ctypes.c_int()
            self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        except (OSError, AttributeError) as error:
            raise FailedPreconditionError(f"{path} cannot be used as NVRTC: {error}") from None
        self.version: Final = (major.value, minor.value)

    def compile(self, text: str, options: Sequence[str]) -> tuple[bytes, str]:
        """(the cubin, what the compiler says beside). InternalError, with what it says, if it refuses."""
        library = self._library
        program = ctypes.c_void_p()
        created = library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"flowengine.cu", 0, None, None
        )
        self._check(created, "nvrtcCreateProgram")
        try:
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = library.nvrtcCompileProgram(program, len(options), given)
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            if status:
                raise InternalError(
                    f"NVRTC {self.version[0]}.{self.version[1]} refuses a source of ours: {log}"
                )
            return self._bytes(program, "CUBIN"), log
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer), what)
        return buffer.raw

    @staticmethod
    def _check(status: int, call: str) -> None:
        if status:
            raise InternalError(f"NVRTC: {call} gave {status}")


@functools.lru_cache(maxsize=1)
def compiler() -> RuntimeCompiler:
    """The NVRTC of the Python environment; FailedPreconditionError, which says what to install, without."""
    return RuntimeCompiler(cuda.library_path("nvrtc", "NVRTC"))


def cache_folder() -> Path:
    """Return the folder of kept modules: `flowengine/cuda` in XDG_CACHE_HOME, or in ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base and os.path.isabs(base) else Path.home() / ".cache") / "flowengine" / "cuda"


def compile_module(kernels: Sequence[str], architecture: str, folder: Path | None = None) -> bytes:
    """The cubin of these kernels behind the prelude, from the folder if it is there.

    architecture   as "sm_90"
    folder         None: `cache_folder()`. A folder that cannot be written is done without.

    Raises FailedPreconditionError without NVRTC, InternalError for a source that it refuses.
    """
    found = compiler()
    text = prelude() + "\n".join(kernels)
    options = (f"--gpu-architecture={architecture}", *OPTIONS)
    key = sha256("\0".join((text, *options, *map(str, found.version))).encode()).hexdigest()
    path = (cache_folder() if folder is None else folder) / f"{key}.cubin"
    with contextlib.suppress(OSError):
        return path.read_bytes()
    module, _ = found.compile(text, options)
    with contextlib.suppress(OSError):
        keep(path, module)
    return module


def keep(path: Path, module: bytes) -> None:
    """Write a file of the cache beside its place, and move it there; OSError where that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(module)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


__all__ = ["OPTIONS", "RuntimeCompiler", "cache_folder", "compile_module", "compiler", "keep"]
