"""Our kernels under NVIDIA's compute-sanitizer: accesses out of bounds, and races in shared memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Final

from tests.gpu.tables import ResultTable

TOOL: Final = "compute-sanitizer"
CHECKS: Final = ("memcheck", "racecheck")
#: What the tool ends with where it has found something, and the program alone never does.
_FOUND: Final = 99
_LIMIT_SECONDS: Final = 120


def why_left_out() -> str:
    """Why nothing can be looked for; empty if it can."""
    return "" if shutil.which(TOOL) else f"{TOOL} is not installed: it comes with NVIDIA's toolkit"


def sanitizing(tool: Sequence[str] = (TOOL,), program: Sequence[str] = ()) -> ResultTable:
    """Run each check on every family of kernels, small, in its own process, and tabulate the findings.

    tool, program   in whose places others are tried
    """
    table = ResultTable("Our kernels under compute-sanitizer", ("check", "found"))
    with TemporaryDirectory() as folder:
        families = [sys.executable, "-m", "tests.gpu", "--only", "agreement", "--small", "--out", folder]
        for check in CHECKS:
            words = [*tool, "--tool", check, "--error-exitcode", str(_FOUND), *(program or families)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_SECONDS)
                told = {0: "nothing", _FOUND: done.stdout.strip()[-300:]}.get(done.returncode)
                told = f"the program ended with {done.returncode}" if told is None else told
            except subprocess.TimeoutExpired:
                told = f"not done in {_LIMIT_SECONDS} s"
            table.rows.append((check, " ".join(told.split()) or "something"))
            if told != "nothing":
                table.failures.append(f"{check}: {table.rows[-1][1]}")
    return table


__all__ = ["CHECKS", "TOOL", "sanitizing", "why_left_out"]
