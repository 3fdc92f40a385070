"""Imports every kernel module once, explicitly, so that `registry.REGISTRY` is whole."""

from __future__ import annotations

import importlib
from typing import Final

from flowengine.kernels.registry import REGISTRY, KernelRegistry

#: One line a module, in the order in which they register.
MODULES: Final = (
    "control_flow",
    "state",
    "resource_variables",
    "scatter",
    "queues",
)

_loaded = False


def load_all() -> KernelRegistry:
    """The registry with every kernel of this package in it; imports on the first call only."""
    global _loaded
    if not _loaded:
        for name in MODULES:
            importlib.import_module(f"flowengine.kernels.{name}")
        _loaded = True
    return REGISTRY
