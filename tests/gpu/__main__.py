"""Try and measure on a card what there is for cards: `python -m tests.gpu --out FOLDER`.

    python -m tests.gpu --out FOLDER [--seconds 540] [--only PART...] [--small] [--simulated]

Writes FOLDER/gpu.md: the card, and a table for each part. A part is begun only while there is time; one that
fails says so, and the others go on. The exit status is 0 if a card was there and all that is asked was kept,
2 without a card. It needs no network, and of the libraries for cards NVRTC, cuBLAS for products, cuDNN for
convolutions, and CuPy for what sessions compute (`tests/benchmarks/gpu_*.py`).

With --simulated all of it runs small and without a card, on the tests' own driver, cuBLAS and cuDNN, which
g++ compiles, and on the simulated GPU: what it says there is whether it runs.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import trio

from flowengine.devices import cuda, cuda_device
from flowengine.devices.cuda_driver import CudaDriver
from flowengine.kernels.cuda.driver_launcher import DriverLauncher
from tests.benchmarks import gpu_agreement, gpu_latency, gpu_launches, gpu_networks, gpu_transfers
from tests.benchmarks.gpu_sessions import GpuPlace, Measurement
from tests.gpu import convolving, measuring, sanitizing
from tests.gpu.agreement import FAMILIES, agreement
from tests.gpu.played import played_cublas, played_cudnn, played_launcher
from tests.gpu.tables import ResultTable

#: (launcher, whether it is small) -> the table.
GpuPart = Callable[[Any, bool], ResultTable]


def _by_sessions(measure: Measurement) -> GpuPart:
    def part(launcher: Any, simulated: bool) -> ResultTable:
        table: ResultTable = trio.run(measure, GpuPlace(simulated=simulated))
        return table

    return part


#: {part: what gives its table}, sizes as a card likes them, or small.
PARTS: dict[str, GpuPart] = {
    "agreement": lambda launcher, small: agreement(launcher, 2 if small else 16),
    # Without a card there is no tool either: how it is asked is tried with a program that does nothing.
    "sanitizer": lambda launcher, small: (
        sanitizing.sanitizing((sys.executable, "-c", "pass")) if small else sanitizing.sanitizing()
    ),
    "launches": lambda launcher, small: measuring.launches(launcher, 20 if small else 1000),
    "transfers": lambda launcher, small: measuring.transfers(launcher, 1 << 20 if small else 1 << 29),
    "products": lambda launcher, small: measuring.products(
        launcher, 16 if small else 4096, played_cublas() if small else None
    ),
    "convolutions": lambda launcher, small: convolving.convolutions(
        launcher, simulated=small, library=played_cudnn() if small else None
    ),
    "values": _by_sessions(gpu_agreement.measure),
    "session launches": _by_sessions(gpu_launches.measure),
    "lateness": _by_sessions(gpu_latency.measure),
    "session transfers": _by_sessions(gpu_transfers.measure),
    "networks": _by_sessions(gpu_networks.measure),
}
#: Parts that need CuPy, too.
BY_SESSIONS = ("values", "session launches", "lateness", "session transfers", "networks")


def why_left_out(name: str) -> str:
    """Why a part cannot be tried on a card; empty if it can."""
    if name == "products":
        return measuring.are_products_there()
    if name == "convolutions":
        return convolving.why_left_out()
    if name == "sanitizer":
        return sanitizing.why_left_out()
    return cuda_device.why_no_gpu() if name in BY_SESSIONS else ""


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def head(found: cuda.CudaSearch) -> list[str]:
    """The card, the driver and the libraries, as Markdown."""
    assert found.cuda_version is not None
    card = found.cards[0]
    lines = [
        f"# {card.name}",
        "",
        f"{card.memory_bytes:,} bytes, {card.multiprocessors} multiprocessors, compute capability "
        f"{_dotted(card.capability)}; the driver runs CUDA {_dotted(found.cuda_version)}.",
        "",
    ]
    return [*lines, *(f"- {each.name} {each.version or 'is not installed'}" for each in found.libraries), ""]


def run_parts(
    launcher: Any,
    parts: Mapping[str, GpuPart],
    limit_seconds: float,
    *,
    simulated: bool = False,
    small: bool = False,
) -> tuple[list[str], bool]:
    """(lines of Markdown, whether all is kept): every part, as long as there is time."""
    start, lines, kept = monotonic(), [], True
    for name, part in parts.items():
        why = "" if simulated else why_left_out(name)
        if monotonic() - start > limit_seconds:
            why = f"no time was left after {limit_seconds:.0f} seconds"
        if why:
            lines += [f"## {name}", "", f"Left out: {why}.", ""]
            kept = False
            continue
        try:
            table = part(launcher, simulated or small)
        except Exception:
            lines += [f"## {name}", "", "Failed:", "", "```", traceback.format_exc(), "```", ""]
            kept = False
            continue
        kept = kept and not table.failures
        lines += [table.markdown(), f"{monotonic() - start:.0f} seconds by then.", ""]
    return lines, kept


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="on a card, but with sizes as without one")
    parser.add_argument("--simulated", action="store_true", help="small, and without a card")
    given = parser.parse_args(arguments)
    parts = {name: PARTS[name] for name in given.only}
    if given.simulated:
        lines = ["# Without a card", "", "Whether it runs, not how fast anything is.", ""]
        with played_launcher() as launcher:
            told, kept = run_parts(launcher, parts, given.seconds, simulated=True)
    else:
        found = cuda.search()
        if not found.cards:
            print(f"no card: {found.reason}", file=sys.stderr)
            return 2
        major, minor = found.cards[0].capability
        lines = head(found)
        with DriverLauncher(CudaDriver(), 0, *FAMILIES, architecture=f"sm_{major}{minor}") as launcher:
            told, kept = run_parts(launcher, parts, given.seconds, small=given.small)
    lines += told
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gpu.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    # What is simulated is tried, not measured: only what does not run is a failure.
    failed = any(line == "Failed:" for line in lines) if given.simulated else not kept
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
