"""Try and measure on a card what there is for cards: `python -m tests.gpu --out FOLDER`.

    python -m tests.gpu --out FOLDER [--seconds 540] [--only PART...]

Writes FOLDER/gpu.md: the card, and a table for each part. A part is begun only while there is time; one that
fails says so, and the others go on. The exit status is 0 if a card was there and all that is asked was kept,
2 without a card. It needs no network, and of the libraries for cards NVRTC, cuBLAS for products, and CuPy for
what sessions compute (`tests/benchmarks/gpu_*.py`).
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import trio

from flowengine.devices import cuda, cuda_device
from flowengine.devices.cuda_driver import CudaDriver
from flowengine.kernels.cuda.driver_launcher import DriverLauncher
from tests.benchmarks import gpu_latency, gpu_launches, gpu_networks, gpu_transfers
from tests.benchmarks.gpu_sessions import GpuPlace, Measurement
from tests.gpu import measuring
from tests.gpu.agreement import FAMILIES, agreement
from tests.gpu.tables import ResultTable

#: {part: (launcher) -> its table}, sizes as a card likes them.
PARTS: dict[str, Callable[[Any], ResultTable]] = {
    "agreement": lambda launcher: agreement(launcher, 16),
    "launches": lambda launcher: measuring.launches(launcher, 1000),
    "transfers": lambda launcher: measuring.transfers(launcher, 1 << 29),
    "products": lambda launcher: measuring.products(launcher, 4096),
    "session launches": lambda launcher: _by_sessions(gpu_launches.measure),
    "lateness": lambda launcher: _by_sessions(gpu_latency.measure),
    "session transfers": lambda launcher: _by_sessions(gpu_transfers.measure),
    "networks": lambda launcher: _by_sessions(gpu_networks.measure),
}
#: Parts that need CuPy, too.
BY_SESSIONS = ("session launches", "lateness", "session transfers", "networks")


def _by_sessions(measure: Measurement) -> ResultTable:
    table: ResultTable = trio.run(measure, GpuPlace(simulated=False))
    return table


def why_left_out(name: str) -> str:
    """Why a part cannot be tried; empty if it can."""
    if name == "products":
        return measuring.are_products_there()
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
    launcher: Any, parts: dict[str, Callable[[Any], ResultTable]], limit_seconds: float
) -> tuple[list[str], bool]:
    """(lines of Markdown, whether all is kept): every part, as long as there is time."""
    start, lines, kept = monotonic(), [], True
    for name, part in parts.items():
        why = why_left_out(name)
        if monotonic() - start > limit_seconds:
            why = f"no time was left after {limit_seconds:.0f} seconds"
        if why:
            lines += [f"## {name}", "", f"Left out: {why}.", ""]
            kept = False
            continue
        try:
            table = part(launcher)
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
    given = parser.parse_args(arguments)
    found = cuda.search()
    if not found.cards:
        print(f"no card: {found.reason}", file=sys.stderr)
        return 2
    major, minor = found.cards[0].capability
    lines, kept = head(found), True
    with DriverLauncher(CudaDriver(), 0, *FAMILIES, architecture=f"sm_{major}{minor}") as launcher:
        told, kept = run_parts(launcher, {name: PARTS[name] for name in given.only}, given.seconds)
    lines += told
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gpu.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
