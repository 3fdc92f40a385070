"""A CUDA driver of the tests' own, compiled by g++: see `fake_driver.cpp`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from flowengine.devices.cuda_driver import CudaDriver

_SOURCE: Final = Path(__file__).with_name("fake_driver.cpp")
_COMPILER: Final = shutil.which("g++")


class FakeDriver:
    """The driver, and what the test may ask and tell it."""

    def __init__(self, folder: Path) -> None:
        if _COMPILER is None:
            pytest.skip("g++ is not installed")
        path = folder / "libcuda.so"
        options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC"]
        subprocess.run([_COMPILER, *options, str(_SOURCE), "-o", str(path)], check=True)
        self.path: Final = str(path)
        self.driver: Final = CudaDriver(self.path)
        self._fake = ctypes.CDLL(self.path)
        self._fake.fake_capacity.argtypes = (ctypes.c_size_t,)

    def fail(self, function: str, status: int) -> None:
        """The next call of a function gives this status."""
        self._fake.fake_fail(function.encode(), status)

    def capacity(self, size: int) -> None:
        """So many bytes the card has."""
        self._fake.fake_capacity(size)

    def count(self, what: str) -> int:
        """How many there are: streams, events, blocks of memory, pinned ones, contexts, launches, waits."""
        return int(self._fake.fake_count(what.encode()))

    def left(self) -> dict[str, int]:
        """Return the number of objects, by kind, that were created and not freed."""
        kinds = ("streams", "events", "memory", "pinned", "contexts")
        return {kind: number for kind in kinds if (number := self.count(kind))}
