"""Finds the kernels: all modules explicitly, or only those that the ops of a graph need.

Importing every module takes 0.15 s, a third of the time of `flowengine run` on a small graph. `registry()`
imports the modules of an op at the first search for its kernel. `index.py`, which `make generate` writes,
lists them. An op that is not in it has no kernel here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flowengine.kernels import providers
from flowengine.kernels.index import OPS
from flowengine.kernels.registry import REGISTRY, Kernel, KernelRegistry

_loaded: Final[set[str]] = set()


def load(names: Iterable[str]) -> None:
    """Import these kernel modules, those that are not yet."""
    for name in names:
        if name not in _loaded:
            # Added after the import, so that another thread that needs the module meanwhile waits for it.
            importlib.import_module(f"flowengine.kernels.{name}")
            _loaded.add(name)


def load_all() -> KernelRegistry:
    """The registry with every kernel of this package in it; imports on the first call only."""
    load(OPS)
    return REGISTRY


class _KernelsOnDemand(KernelRegistry):
    """`REGISTRY`, whose modules are imported as their ops are asked for, behind a provider's kernels."""

    def __init__(self, provided: bool) -> None:
        super().__init__(parent=REGISTRY)
        self._provided = provided
        #: {op: the modules that have its kernels}
        self._modules: dict[str, list[str]] = {}
        for module, ops in OPS.items():
            for op in ops.split():
                self._modules.setdefault(op, []).append(module)

    def _look_up(self, op: str, device: str) -> Sequence[Kernel]:
        load(self._modules.get(op, ()))
        kernels = REGISTRY.candidates(op, device)
        return [*providers.candidates(op, device), *kernels] if self._provided else kernels

    def providers(self) -> tuple[str, ...]:
        return (providers.ONEDNN, providers.NUMPY) if self._provided else (providers.NUMPY,)

    def __iter__(self) -> Iterator[Kernel]:
        if self._provided:
            yield from providers.kernels()
        yield from load_all()


_on_demand: Final = _KernelsOnDemand(True)
_of_numpy: Final = _KernelsOnDemand(False)


def import_for(ops: Iterable[str], kernels: KernelRegistry) -> None:
    """Import what planning a graph of these ops needs: their kernels, and how providers claim parts of it.

    Imports take up to 0.1 s the first time. Call this on a thread where an event loop must not wait.
    """
    for op in sorted(set(ops)):
        kernels.candidates(op)
    providers.providers_of(kernels)


def registry(provider: str = providers.AUTO) -> KernelRegistry:
    """The kernels of this package, imported at the first search for them.

    provider   one of `core.config.KERNEL_PROVIDERS`: NumPy alone, or faster libraries before it
    Raises FailedPreconditionError if the named provider is not installed.
    """
    providers.check(provider)
    return _of_numpy if provider == providers.NUMPY else _on_demand
