"""CUDA sources compiled by g++ and run on the CPU, each thread as a fiber."""

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
#: So many arguments a kernel of ours has at most.
_SLOTS: Final = 30
COMPILER: Final = shutil.which("g++")
needs_compiler: Final = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


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
        arrays: Sequence[np.ndarray[Any, Any] | None],
        numbers: Sequence[int],
        *,
        wide: bool = False,
        blocks: int = 2,
        threads: int = 3,
        backwards: bool = True,
    ) -> None:
        """Run a kernel: in every thread of every block, the last ones first or the first ones.

        arrays   None is the null address
        """
        kind: Any = ctypes.c_int64 if wide else ctypes.c_int32
        arguments = [*(0 if a is None else a.ctypes.data for a in arrays), *(kind(n).value for n in numbers)]
        assert len(arguments) <= _SLOTS
        slots = (ctypes.c_uint64 * _SLOTS)(*map(_slot, arguments))
        kernel = ctypes.cast(self._library[name], ctypes.c_void_p)
        status = self._library.launch_on_fibers(kernel, slots, blocks, threads, int(backwards))
        assert status == 0, f"{name}: some threads never came to a barrier where others waited"


def _slot(argument: int) -> int:
    return argument & 0xFFFFFFFFFFFFFFFF
