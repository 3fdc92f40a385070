"""A setup in which sessions on the stand-in for CuPy run our CUDA C: g++ in the place of NVRTC."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import flowengine as fe
from flowengine.devices import cuda
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.kernels.cuda import chains, compiling, cublas, cudnn, serving
from flowengine.kernels.cuda.claims import epilogues, updates
from flowengine.kernels.cuda.cublas import Cublas
from flowengine.testing.strict_array import StrictArray
from tests.devices.fake_cupy import FakeCupy, copied_out, memory_of
from tests.devices.placing import OverGpu
from tests.kernels.cuda.fake_cudnn import FakeCudnn, library_path
from tests.kernels.cuda.host_compiler import COMPILER
from tests.kernels.cuda.host_images import IMAGES


def give_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the stand-in have CuPy's `get` and `data`."""
    plain = StrictArray.get

    def get(self: Any, stream: Any = None, out: Any = None, blocking: bool = True) -> Any:
        return plain(self) if stream is None else copied_out(self, stream, out, blocking)

    monkeypatch.setattr(StrictArray, "get", get)
    monkeypatch.setattr(StrictArray, "data", property(memory_of), raising=False)


def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what works with GPUs nothing is installed, whatever is: all is computed by CuPy's stand-in."""
    found = tuple(replace(library, version="", path="") for library in cuda.libraries())
    monkeypatch.setattr(cuda, "libraries", lambda: found)
    for room in (serving, chains, epilogues, updates):
        monkeypatch.setattr(room, "is_compiled_here", lambda: False)


def compile_by_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC is there, and it is g++; of the other libraries none is."""
    give_arrays(monkeypatch)
    monkeypatch.setattr(compiling, "compile_module", IMAGES.compile_module)
    here = tuple(
        replace(library, path="here" if library.name == "nvrtc" else "") for library in cuda.libraries()
    )
    monkeypatch.setattr(cuda, "libraries", lambda: here)
    for room in (serving, chains, epilogues, updates):
        monkeypatch.setattr(room, "is_compiled_here", lambda: True)


class LateCublas(Cublas):
    """The tests' cuBLAS, whose products are work of a stand-in's card: now on what is known, and late."""

    def __init__(self, path: Path, fake: FakeCupy) -> None:
        super().__init__(str(path))
        self._library.fake_forget(0)
        self._fake = fake

    def told(self) -> list[str]:
        """Return the calls made so far, each with the arguments that matter."""
        told = self._library.fake_told
        told.restype = ctypes.c_char_p
        return str(told().decode()).split()

    def call(self, name: str, *arguments: Any) -> None:
        """See `Cublas.call`."""
        if name != "cublasGemmStridedBatchedEx":
            super().call(name, *arguments)
            return
        gpu = self._fake.gpu
        late, known = list(arguments), list(arguments)
        # The factors, which the caller's memory has no longer when the work is done.
        factors = [ctypes.create_string_buffer(ctypes.string_at(arguments[i], 16), 16) for i in _FACTORS]
        for place, buffer in zip(_FACTORS, factors, strict=True):
            late[place] = known[place] = ctypes.addressof(buffer)
        chunks = []
        with gpu._lock:
            for place in _MATRICES:
                there = self._fake.place(arguments[place])
                known[place] = there.known.ctypes.data + there.offset
                chunks.append(there.chunk)
            self._fake.launched.append("gemm")
            super().call(name, *known)

            def work() -> None:
                assert len(factors) == len(_FACTORS)
                Cublas.call(self, name, *late)

            gpu._launch("gemm", gpu._stream, work, dict.fromkeys(chunks[:2]), (chunks[2],), "launch")


#: Where alpha and beta, and the addresses of both factors and of the product, stand among the arguments.
_FACTORS: Final = (6, 15)
_MATRICES: Final = (7, 11, 16)


def multiply_by_host(monkeypatch: pytest.MonkeyPatch, path: Path, fake: FakeCupy) -> LateCublas:
    """cuBLAS is there, for one stand-in: the tests' own, compiled to `path`."""
    library = LateCublas(path, fake)
    monkeypatch.setattr(cublas, "cublas", lambda: library)
    here = tuple(
        replace(each, path=str(path)) if each.name == "cublas" else each for each in cuda.libraries()
    )
    monkeypatch.setattr(cuda, "libraries", lambda: here)
    return library


class LateCudnn(FakeCudnn):
    """The tests' cuDNN, whose convolutions are work of a stand-in's card: now on what is known, and late."""

    def __init__(self, cupy: FakeCupy) -> None:
        super().__init__()
        self._cupy = cupy

    def call(self, name: str, *arguments: Any) -> None:
        """See `Cudnn.call`."""
        if name != "cudnnBackendExecute":
            super().call(name, *arguments)
            return
        _, plan, pack = arguments
        gpu, fake = self._cupy.gpu, self.fake
        names, late = (ctypes.c_int64 * _TENSORS_MAX)(), (ctypes.c_int64 * _TENSORS_MAX)()
        workspace = ctypes.c_int64()
        count = fake.fake_pack(pack, names, late, ctypes.byref(workspace))
        text = bytes(fake.fake_plan(plan))
        direction = int(text.split()[2])
        known = (ctypes.c_int64 * _TENSORS_MAX)(*late)
        with gpu._lock:
            chunks = {}
            for place in range(count):
                there = self._cupy.place(late[place])
                known[place] = there.known.ctypes.data + there.offset
                chunks[names[place]] = there.chunk
            self._cupy.launched.append("convolution")
            assert fake.fake_run(text, ctypes.c_int64(count), names, known) == 0
            written = [chunks.pop(_WRITTEN[direction])]
            if workspace.value:
                written.append(self._cupy.place(workspace.value).chunk)

            def work() -> None:
                assert fake.fake_run(text, ctypes.c_int64(count), names, late) == 0

            reads = dict.fromkeys(chunks.values())
            gpu._launch("convolution", gpu._stream, work, reads, dict.fromkeys(written), "launch")


_TENSORS_MAX: Final = 8
#: {direction: the tensor that it writes}, as cuDNN numbers the one and we the other.
_WRITTEN: Final = {10: 3, 11: 2, 12: 1}


def convolve_by_host(monkeypatch: pytest.MonkeyPatch, fake: FakeCupy) -> LateCudnn:
    """cuDNN is there, for one stand-in: the tests' own."""
    library = LateCudnn(fake)
    monkeypatch.setattr(cudnn, "cudnn", lambda: library)
    here = tuple(
        replace(each, path=library_path()) if each.name == "cudnn" else each for each in cuda.libraries()
    )
    monkeypatch.setattr(cuda, "libraries", lambda: here)
    return library


def compiled_cublas(folder: Path) -> Path:
    """The tests' cuBLAS, compiled."""
    assert COMPILER is not None
    path = folder / "libcublas.so"
    source = Path(__file__).parents[1] / "kernels" / "cuda" / "fake_cublas.cpp"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return path


@asynccontextmanager
async def opened(
    graph: fe.Graph, fake: FakeCupy, *, scattered: int | None = None, **config: Any
) -> AsyncIterator[fe.Session]:
    """A session whose nodes are on the stand-in, where they can be."""
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", lambda name, limit: CudaDevice(name, fake, limit), lambda: 1)
    placer = OverGpu(scattered)
    settings = fe.Config(**{"worker_threads": False, **config})
    async with fe.Session(graph, config=settings, devices=devices, placer=placer) as session:
        placer.session = session
        yield session


__all__ = [
    "LateCublas",
    "LateCudnn",
    "compile_by_host",
    "compiled_cublas",
    "convolve_by_host",
    "give_arrays",
    "multiply_by_host",
    "opened",
    "without_libraries",
]
