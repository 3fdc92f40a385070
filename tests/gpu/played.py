"""A launcher on a card of the tests' own: its driver, and kernels of float32 as g++ compiles them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from flowengine.kernels.cuda import elementwise, sources
from flowengine.kernels.cuda.cublas import Cublas
from flowengine.kernels.cuda.cudnn import Cudnn
from flowengine.kernels.cuda.driver_launcher import DriverLauncher
from tests.devices.cuda_by_host import compiled_cublas
from tests.devices.fake_driver import FakeDriver
from tests.gpu.agreement import FAMILIES
from tests.kernels.cuda.fake_cudnn import FakeCudnn
from tests.kernels.cuda.host_compiler import HostModule


@contextmanager
def played_launcher() -> Iterator[DriverLauncher]:
    """Of the families that are tried on a card. It needs g++."""
    with tempfile.TemporaryDirectory(prefix="played") as name:
        folder = Path(name)
        HostModule(elementwise.prelude() + sources.source(*FAMILIES, only="float32"), folder)
        image = str(folder / "module.so").encode()
        driver = FakeDriver(folder).driver
        with DriverLauncher(driver, 0, *FAMILIES, compile_source=lambda *_: image) as made:
            yield made


def played_cublas() -> Cublas:
    """The tests' own cuBLAS."""
    folder = tempfile.TemporaryDirectory(prefix="played")
    library = Cublas(str(compiled_cublas(Path(folder.name))))
    _FOLDERS.append(folder)
    return library


def played_cudnn() -> Cudnn:
    """The tests' own cuDNN."""
    return FakeCudnn()


#: What libraries are loaded from.
_FOLDERS: Final[list[tempfile.TemporaryDirectory[str]]] = []

__all__ = ["played_cublas", "played_cudnn", "played_launcher"]
