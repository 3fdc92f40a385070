"""An op's definition lies in `ops/` where its kernels lie in `kernels/`."""

from __future__ import annotations

from pathlib import Path

from flowengine.kernels.index import OPS as KERNELS
from flowengine.ops.index import OPS as DEFINITIONS


def _homes(index: dict[str, str]) -> dict[str, str]:
    """{op: its module}"""
    return {op: module for module, ops in index.items() for op in ops.split()}


def test_an_op_and_its_kernels_are_in_modules_of_one_name() -> None:
    kernels: dict[str, set[str]] = {}
    for module, ops in KERNELS.items():
        # What NumPy does faster than arrays of any library stands in front, in NumPy's own folder.
        if not module.startswith("numpy."):
            for op in ops.split():
                kernels.setdefault(op, set()).add(module)
    apart = {
        op: (module, kernels[op])
        for op, module in _homes(DEFINITIONS).items()
        if op in kernels and kernels[op] != {module}
    }
    assert not apart, f"{{op: (where it is defined, where its kernels are)}}: {apart}"


def test_no_kernel_is_numpys_alone() -> None:
    """A kernel in front has one behind it, in the family of its op."""
    families = {
        op for module, ops in KERNELS.items() if not module.startswith("numpy.") for op in ops.split()
    }
    alone = {
        op
        for module, ops in KERNELS.items()
        if module.startswith("numpy.")
        for op in ops.split()
        if op not in families and not op.startswith("_")
    }
    assert not alone


def test_every_op_has_one_home() -> None:
    assert len(_homes(DEFINITIONS)) == sum(len(ops.split()) for ops in DEFINITIONS.values())


def test_ops_lie_in_families(root: Path) -> None:
    """What several families share lies beside them, and defines nothing."""
    shared = (root / "flowengine" / "ops").glob("*.py")
    assert [path.name for path in shared if "\ndefine(" in path.read_text(encoding="utf-8")] == []
