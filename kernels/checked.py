"""Kernels of users under `Config(checked=True)`: the shapes that they give are looked at, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flowengine.kernels.registry import Kernel, KernelRegistry


class CheckedKernels(KernelRegistry):
    """Another registry's kernels; those from outside of this package are held to their shape functions."""

    def __init__(self, kernels: KernelRegistry) -> None:
        super().__init__(parent=kernels)

    def _look_up(self, op: str, device: str) -> Sequence[Kernel]:
        found = super()._look_up(op, device)
        return [replace(kernel, checks_shapes=True) if kernel.is_foreign else kernel for kernel in found]


__all__ = ["CheckedKernels"]
