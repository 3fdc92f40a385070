"""Kernels are found without importing all of them, and none is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry


def run(root: Path, code: str, *arguments: str) -> str:
    """Return the output of a fresh interpreter."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def test_asking_for_one_op_does_not_import_every_module(root: Path) -> None:
    code = (
        "import sys; from flowengine.kernels.index import OPS; from flowengine.kernels.load import registry\n"
        "assert registry().has('Add')\n"
        "print(sum(f'flowengine.kernels.{name}' in sys.modules for name in OPS), len(OPS))"
    )
    imported, every = map(int, run(root, code).split())
    assert imported <= 3
    assert every > 40


def test_an_op_that_is_in_no_index_imports_nothing(root: Path) -> None:
    code = (
        "import sys; from flowengine.kernels.index import OPS; from flowengine.kernels.load import registry\n"
        "assert not registry().has('NoSuchOp')\n"
        "print(sum(f'flowengine.kernels.{name}' in sys.modules for name in OPS))"
    )
    assert run(root, code).split() == ["0"]


def test_the_order_of_imports_decides_nothing(root: Path) -> None:
    code = (
        "import random, sys; from flowengine.kernels import index, load\n"
        "names = sorted(index.OPS); random.Random(sys.argv[1]).shuffle(names); load.load(names)\n"
        "for op in sorted(op for ops in index.OPS.values() for op in ops.split()):\n"
        "    found = load.registry('numpy').candidates(op)\n"
        "    print(op, [(k.function.__module__, k.function.__name__, k.types and sorted(map(str, k.types)))"
        " for k in found])"
    )
    orders = {run(root, code, str(seed)) for seed in range(3)}
    assert len(orders) == 1
    assert orders.pop().count("\n") > 700


def test_no_kernel_is_hidden_by_one_before_it() -> None:
    """Of an op's kernels for CPUs, and of those for any device, one that takes everything is the last.

    Those for any device may stand behind one for CPUs that takes everything: other devices find them.
    """
    registered = load_all()
    hidden = []
    for op in {kernel.op for kernel in registered}:
        for device in ("CPU", None):
            before = [kernel for kernel in registered.candidates(op) if kernel.device == device][:-1]
            hidden += [op for kernel in before if kernel.types is None and kernel.supports is None]
    assert hidden == []


def test_what_was_found_is_found_anew_after_a_registration() -> None:
    parent = KernelRegistry()
    registry = KernelRegistry(parent=parent)
    assert not registry.has("Mine")
    parent.kernel("Mine")(np.negative)
    assert [kernel.device for kernel in registry.candidates("Mine", "FAR")] == [None]

    @registry.kernel("Mine")
    def mine(x: Any) -> Any:
        return x

    assert [kernel.device for kernel in registry.candidates("Mine")] == ["CPU", None]
    assert [kernel.device for kernel in registry.candidates("Mine", "FAR")] == [None]
