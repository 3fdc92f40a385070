"""Our CUDA sources under NVIDIA's compilers: no warning, no spill; and what is kept of them on disk."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from flowengine.devices import cuda
from flowengine.kernels.cuda import compiling, elementwise, functions, random_numbers, sources
from tests.effort import IS_NIGHTLY
from tests.kernels.cuda.drawn_chains import single_nodes
from tests.kernels.cuda.host_compiler import COMPILER, needs_compiler

ARCHITECTURES = ("sm_80", "sm_90")
TOOLKIT = shutil.which("nvcc")
_NVRTC = next(library for library in cuda.libraries() if library.name == "nvrtc")
needs_nvrtc = pytest.mark.skipif(
    not _NVRTC.path, reason=f"NVRTC is missing: install the distribution {_NVRTC.distribution}"
)


@cache
def every_source() -> tuple[str, ...]:
    """A kernel for each op and type, by turns whole, of numbers, and strided in 32 and in 64 bits."""
    made: dict[str, str] = {}
    for number, chain in enumerate(single_nodes(functions.C_TYPES, functions.C_TYPES)):
        wanted = (6, 10)
        own = [(6, 10) if number % 2 else (6, 1)] * len(chain.types)
        shape = elementwise.geometry(wanted, own)
        is_wide = number % 4 == 0
        shape = elementwise.BroadcastGeometry(shape.shape, shape.views, shape.strides, is_wide)
        source = elementwise.write(chain.steps, chain.types, shape)
        made[source.name] = source.text
    return tuple(made.values())


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_every_source_without_a_warning(architecture: str) -> None:
    options = (f"--gpu-architecture={architecture}", *compiling.OPTIONS)
    text = elementwise.prelude() + "\n".join([*every_source(), random_numbers.source()])
    module, log = compiling.compiler().compile(text, options)
    assert log == ""
    assert module[:4] == b"\x7fELF"


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("family", sources.FAMILIES)
def test_nvrtc_compiles_a_family_without_a_warning(family: str, architecture: str) -> None:
    options = (f"--gpu-architecture={architecture}", *compiling.OPTIONS)
    module, log = compiling.compiler().compile(elementwise.prelude() + sources.source(family), options)
    assert log == ""
    assert module[:4] == b"\x7fELF"


def test_a_family_that_there_is_not() -> None:
    with pytest.raises(InvalidArgumentError, match="the family 'convolution': there are batch_norm, bias"):
        sources.source("bias", "convolution")
    assert sources.source("bias", "bias").count("struct BiasGradients") == 1


def names_of_kernels(text: str) -> set[str]:
    """Return the names of the kernels that a source defines once it is preprocessed."""
    assert COMPILER is not None
    command = [COMPILER, "-E", "-P", "-xc++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return set(re.findall(r'extern "C" __global__ void (\w+)\s*\(', done.stdout))


@needs_compiler
@pytest.mark.parametrize("family", sources.FAMILIES)
def test_kernels_of_one_type_are_those_that_are_asked_for_by_it(family: str) -> None:
    every = names_of_kernels(sources.source(family))
    assert every
    found = {dtype: {n for n in every if sources.type_of(family, n) == dtype} for dtype in ("", "float32")}
    if not found["float32"]:
        assert found[""] == every
    else:
        assert found[""] == set()
        assert names_of_kernels(sources.source(family, only="float32")) == found["float32"]


@pytest.mark.slow
@pytest.mark.skipif(TOOLKIT is None, reason="nvcc is not installed: it comes with NVIDIA's toolkit")
def test_no_kernel_spills(tmp_path: Path) -> None:
    assert TOOLKIT is not None
    texts = every_source()[:: 9 if IS_NIGHTLY else 45]
    source = tmp_path / "module.cu"
    kept = [sources.source(*sources.FAMILIES)]
    source.write_text(elementwise.prelude() + "\n".join([*texts, *kept]))
    command = [TOOLKIT, "-cubin", "-arch=sm_90", "-Xptxas", "-v", "-Werror", "all-warnings", "-o"]
    options = [str(tmp_path / "module.cubin"), "-std=c++17", "-fmad=false", str(source)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    spills = [line for line in done.stderr.splitlines() if "spill" in line]
    assert len(spills) >= len(texts)  # long functions of doubles are not written out where they are called
    assert all("0 bytes spill stores, 0 bytes spill loads" in line for line in spills)


class CountingCompiler:
    version = (13, 5)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def compile(self, text: str, options: Sequence[str]) -> tuple[bytes, str]:
        self.texts.append(text)
        return f"{len(self.texts)} {' '.join(options)}".encode(), ""


def test_modules_are_kept_by_source_options_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = CountingCompiler()
    monkeypatch.setattr(compiling, "compiler", lambda: counting)
    folder = tmp_path / "a" / "b"
    first = compiling.compile_module(["one"], "sm_90", folder)
    assert first == b"1 --gpu-architecture=sm_90 --fmad=false --std=c++17"
    assert compiling.compile_module(["one"], "sm_90", folder) == first
    assert len(counting.texts) == 1
    compiling.compile_module(["two"], "sm_90", folder)
    compiling.compile_module(["one"], "sm_80", folder)
    counting.version = (13, 6)
    compiling.compile_module(["one"], "sm_90", folder)
    assert len(counting.texts) == 4
    assert len(list(folder.iterdir())) == 4
    (tmp_path / "file").touch()
    assert compiling.compile_module(["one"], "sm_90", tmp_path / "file" / "below")[:1] == b"5"


def test_where_modules_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiling.cache_folder() == tmp_path / "flowengine" / "cuda"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert compiling.cache_folder() == Path.home() / ".cache" / "flowengine" / "cuda"


def test_without_nvrtc_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    compiling.compiler.cache_clear()
    with pytest.raises(FailedPreconditionError, match="install the distribution nvidia-cuda-nvrtc"):
        compiling.compiler()
    with pytest.raises(FailedPreconditionError, match="cannot be used as NVRTC"):
        compiling.RuntimeCompiler(str(tmp_path / "nothing.so"))


@needs_nvrtc
def test_a_source_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="no_such_type"):
        compiling.compile_module(["no_such_type x;"], "sm_90", tmp_path)
    assert not list(tmp_path.iterdir())


@needs_nvrtc
def test_a_chain_becomes_a_module(tmp_path: Path) -> None:
    chain = next(iter(single_nodes([dtypes.float32], [])))
    source = elementwise.write(
        chain.steps, chain.types, elementwise.geometry((61,), [(61,)] * len(chain.types))
    )
    module = compiling.compile_module([source.text], "sm_90", tmp_path)
    assert source.name.encode() in module
    assert compiling.compile_module([source.text], "sm_90", tmp_path) == module
