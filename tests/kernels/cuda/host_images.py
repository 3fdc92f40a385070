"""CUDA sources as g++ compiles them, in the place of NVRTC.

An image is no cubin: it names a library and tells of its kernels' arguments.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from flowengine.kernels.cuda import elementwise
from tests.kernels.cuda.host_compiler import COMPILER, SHIM, HostModule

#: What the shim makes of `extern "C" __global__ void name(arguments)`.
_KERNEL: Final = re.compile(
    r'extern "C" __attribute__\(\(visibility\("default"\)\)\) void (\w+)\s*\(([^)]*)\)'
)
#: Blocks that are played: a loop over the grid must do the rest.
_BLOCKS: Final = 3
_SLOTS: Final = 30


class KernelArgument(NamedTuple):
    """name, and what it is: an address to read or to write, or a number."""

    name: str
    is_address: bool
    is_read: bool


class HostImages:
    """Compiles each text once, as long as this process runs."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="images")
        self._made: dict[str, bytes] = {}

    def compile_module(self, kernels: Sequence[str], architecture: str, folder: Path | None = None) -> bytes:
        """In the place of `compiling.compile_module`."""
        assert architecture == "sm_90"
        text = elementwise.prelude() + "\n".join(kernels)
        key = sha256(text.encode()).hexdigest()[:20]
        if key not in self._made:
            own = Path(self._folder.name) / key
            own.mkdir()
            HostModule(text, own)
            self._made[key] = json.dumps([str(own / "module.so"), _arguments(own / "module.cpp")]).encode()
        return self._made[key]


#: One for all tests of a process.
IMAGES: Final = HostImages()


def _arguments(source: Path) -> dict[str, list[KernelArgument]]:
    assert COMPILER is not None
    done = subprocess.run(
        [COMPILER, "-std=c++17", "-E", "-P", str(source)], capture_output=True, text=True, check=True
    )
    assert SHIM.is_file()
    found = {}
    for name, arguments in _KERNEL.findall(done.stdout):
        each = [argument.strip() for argument in arguments.split(",")]
        found[name] = [
            KernelArgument(re.split(r"[\s*]", text)[-1], "*" in text, text.startswith("const "))
            for text in each
        ]
    return found


class HostImage:
    """An image, loaded."""

    def __init__(self, image: bytes) -> None:
        path, arguments = json.loads(image)
        self.arguments = {name: [KernelArgument(*a) for a in each] for name, each in arguments.items()}
        self._library = ctypes.CDLL(path)

    def launch(self, name: str, values: Sequence[int], blocks: int, threads: int, backwards: bool) -> None:
        """Run a kernel with these addresses and numbers, on this thread, now."""
        slots: Any = (ctypes.c_uint64 * _SLOTS)(*(value & 0xFFFFFFFFFFFFFFFF for value in values))
        kernel = ctypes.cast(self._library[name], ctypes.c_void_p)
        played = min(blocks, _BLOCKS)
        status = self._library.launch_on_fibers(kernel, slots, played, threads, int(backwards))
        assert status == 0, f"{name}: some threads never came to a barrier where others waited"


__all__ = ["IMAGES", "HostImage", "HostImages", "KernelArgument"]
