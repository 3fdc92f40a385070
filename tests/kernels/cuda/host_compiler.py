"""CUDA sources compiled by g++ and run on the CPU, a thread after another."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

SHIM: Final = Path(__file__).with_name("shim.h")
COMPILER: Final = shutil.which("g++")
needs_compiler: Final = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


class _Place(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class HostModule:
    """A module of kernels that take addresses, then numbers."""

    def __init__(self, text: str, folder: Path) -> None:
        assert COMPILER is not None
        source, library = folder / "module.cpp", folder / "module.so"
        source.write_text(f'#include "{SHIM}"\n{text}')
        options = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC"]
        done = subprocess.run(
            [COMPILER, *options, str(source), "-o", str(library)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:4000]
        self._library = ctypes.CDLL(str(library))

    def launch(
        self,
        name: str,
        arrays: Sequence[np.ndarray[Any, Any]],
        numbers: Sequence[int],
        *,
        wide: bool = False,
        blocks: int = 2,
        threads: int = 3,
    ) -> None:
        """Run a kernel: in every thread of every block, the last ones first."""
        kind: Any = ctypes.c_int64 if wide else ctypes.c_int32
        arguments = [*(ctypes.c_void_p(a.ctypes.data) for a in arrays), *(kind(n) for n in numbers)]
        place = {
            word: _Place.in_dll(self._library, word)
            for word in ("threadIdx", "blockIdx", "blockDim", "gridDim")
        }
        place["gridDim"].x, place["blockDim"].x = blocks, threads
        for block in reversed(range(blocks)):
            for thread in reversed(range(threads)):
                place["blockIdx"].x, place["threadIdx"].x = block, thread
                self._library[name](*arguments)
