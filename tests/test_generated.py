"""The files that `make generate` writes are what the tree says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.generate.__main__ import GENERATED
from tests.generate.kernel_index import TwoModulesError, check_one_module

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_checked_in_is_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "tests.generate", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert all((ROOT / name).exists() for name in GENERATED)


def test_an_op_in_two_modules_is_refused() -> None:
    homes: dict[tuple[str, str | None], str] = {}
    check_one_module(homes, "Exp", None, "math.unary")
    check_one_module(homes, "Neg", None, "math.unary")
    check_one_module(homes, "Neg", "CPU", "numpy.unary")
    with pytest.raises(
        TwoModulesError,
        match=r"'Neg' has kernels for any device in kernels.math.unary and in kernels.nn.x",
    ):
        check_one_module(homes, "Neg", None, "nn.x")
