"""The tests' cuDNN, compiled once a process: see `fake_cudnn.cpp`."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from flowengine.kernels.cuda.cudnn import Cudnn, Descriptor, card_like
from tests.kernels.cuda.host_compiler import COMPILER

_SOURCE: Final = Path(__file__).with_name("fake_cudnn.cpp")


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    assert COMPILER is not None
    folder = tempfile.TemporaryDirectory(prefix="cudnn")
    path = str(Path(folder.name) / "libcudnn.so.9")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", str(_SOURCE), "-o", path], check=True)
    return folder


def library_path() -> str:
    """The compiled library's file."""
    return str(Path(_folder().name) / "libcudnn.so.9")


class FakeCudnn(Cudnn):
    """The library, and what it has been called with."""

    def __init__(self) -> None:
        super().__init__(library_path())
        self.fake: Any = ctypes.CDLL(library_path())
        for name in ("fake_told", "fake_plan"):
            getattr(self.fake, name).restype = ctypes.c_char_p
        self.fake.fake_fail.argtypes = (ctypes.c_char_p, ctypes.c_int)
        self.fake.fake_fail(b"", 0)
        self.fake.fake_engines(99)
        self.fake.fake_epilogues(1)
        self.forget()

    def told(self) -> list[str]:
        """Return the computations, plans and settings noted since the notes were last cleared."""
        return str(self.fake.fake_told().decode()).split()

    def forget(self) -> None:
        """Forget what was told."""
        self.fake.fake_forget()

    def fails(self, name: str, status: int) -> None:
        """The next call of a function gives this status."""
        self.fake.fake_fail(name.encode(), status)

    @property
    def alive(self) -> int:
        """Descriptors that there are."""
        return int(self.fake.fake_alive())

    @property
    def handles(self) -> int:
        """Handles that there are."""
        return int(self.fake.fake_handles())

    def card(self) -> Descriptor:
        """The properties of some card."""
        return card_like(self, b'{"deviceVer": 900}')


__all__ = ["FakeCudnn", "library_path"]
