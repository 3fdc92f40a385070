"""Kernels are found without importing all of them, and none is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(root: Path, code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def test_the_index_says_what_the_modules_register(root: Path) -> None:
    printed = run(root, "from flowengine.kernels.load import index_source; print(index_source(), end='')")
    hint = "kernels/index.py is out of date: run python -m flowengine.kernels.load"
    assert (root / "kernels" / "index.py").read_text() == printed, hint


def test_asking_for_one_op_does_not_import_every_module(root: Path) -> None:
    code = (
        "import sys; from flowengine.kernels.load import MODULES, registry\n"
        "assert registry().has('Add')\n"
        "print(sum(f'flowengine.kernels.{name}' in sys.modules for name in MODULES), len(MODULES))"
    )
    imported, every = map(int, run(root, code).split())
    assert imported <= 3
    assert every > 40


def test_an_op_that_is_in_no_index_is_looked_for_everywhere(root: Path) -> None:
    code = (
        "from flowengine.kernels import index; index.OPS.clear()\n"
        "from flowengine.kernels.load import registry\n"
        "print(registry().has('Add'), registry().has('NoSuchOp'))"
    )
    assert run(root, code).split() == ["True", "False"]
