"""Reports on GPUs: on machines without a driver, and with a driver of the test's own making."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flowengine.devices import cuda

COMPILER = shutil.which("g++")
#: A driver of two cards by cuda.h's signatures. Macros: how it starts, and how many cards it tells of.
FAKE = """
#include <cstring>
#define TOLD extern "C" __attribute__((visibility("default"))) int
TOLD cuInit(unsigned int flags) { return flags ? 1 : STATUS; }
TOLD cuDriverGetVersion(int* version) { *version = 13020; return 0; }
TOLD cuDeviceGetCount(int* count) { *count = CARDS; return 0; }
TOLD cuDeviceGet(int* device, int ordinal) { *device = ordinal + 40; return 0; }
TOLD cuDeviceGetName(char* name, int length, int device) {
  strncpy(name, device == 40 ? "Card A" : "Card B", length);
  return 0;
}
TOLD cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = (size_t)device << 32; return 0; }
TOLD cuDeviceGetAttribute(int* value, int number, int device) {
  *value = number == 75 ? 9 : number == 76 ? 0 : number == 16 ? 132 : -1;
  return 0;
}
"""


def driver(folder: Path, *, status: int = 0, cards: int = 2) -> str:
    if COMPILER is None:
        pytest.skip("g++ is not installed")
    source, library = folder / "driver.cpp", folder / f"driver_{status}_{cards}.so"
    source.write_text(f"#define STATUS {status}\n#define CARDS {cards}\n{FAKE}")
    subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return str(library)


def test_cards_are_those_that_the_driver_tells_of(tmp_path: Path) -> None:
    found = cuda.search(driver(tmp_path))
    assert found.cards == (
        cuda.CudaCard("Card A", 40 << 32, (9, 0), 132),
        cuda.CudaCard("Card B", 41 << 32, (9, 0), 132),
    )
    assert (found.cuda_version, found.reason) == ((13, 2), "")


@pytest.mark.parametrize(
    ("status", "cards", "reason"),
    [
        (0, 0, "sees no card"),
        (100, 0, "sees no card"),
        (34, 0, "toolkit's stub"),
        (999, 0, "does not start (CUresult 999)"),
    ],
)
def test_why_there_is_no_card(tmp_path: Path, status: int, cards: int, reason: str) -> None:
    found = cuda.search(driver(tmp_path, status=status, cards=cards))
    assert found.cards == ()
    assert reason in found.reason


def test_no_driver_and_no_driver_of_nvidia() -> None:
    found = cuda.search("libno_such_driver.so.1")
    assert (found.cards, found.cuda_version) == ((), None)
    assert "libno_such_driver.so.1 is not on this machine: GPUs need NVIDIA's driver" in found.reason
    if sys.platform == "linux":
        assert "is not NVIDIA's" in cuda.search("libc.so.6").reason


def test_libraries_are_found_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    file.parent.mkdir(parents=True)
    file.touch()
    facts = tmp_path / "nvidia_cuda_nvrtc-13.5.37.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-nvrtc\nVersion: 13.5.37\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = {library.name: library for library in cuda.libraries()}
    assert list(found) == ["cupy", "nvrtc", "cublas", "cudnn"]
    assert (found["nvrtc"].version, found["nvrtc"].path) == ("13.5.37", str(file))
    assert found["cudnn"].distribution == "nvidia-cudnn-cu13"


def test_nothing_is_looked_for_before_somebody_asks() -> None:
    code = (
        "import sys, flowengine as fe\n"
        "g = fe.Graph()\n"
        "y = g.ops.Neg(g.constant(1.0))\n"
        "with fe.blocking.Session(g) as s: s.run(y)\n"
        "print(*({'cupy', 'flowengine.devices.cuda', 'flowengine.kernels.cuda'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
