"""The libraries of kernels: NumPy, and oneDNN before it if that is installed.

The extra `fast` installs oneDNN. The engine looks for it when a graph first needs it, and logs one line if it
is missing; `providers()` returns the result.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.setting_values import KERNEL_PROVIDERS
from flowengine.devices.device import ProvidedDevice
from flowengine.kernels.index import PROVIDED

if TYPE_CHECKING:
    from flowengine.devices.device import Device
    from flowengine.kernels.provider import Provider
    from flowengine.kernels.registry import Kernel, KernelRegistry

AUTO: Final = "auto"
NUMPY: Final = "numpy"
ONEDNN: Final = "onednn"


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """A library that kernels call, and whether it is here.

    available   whether it is used
    version     the version that the library reports; empty without a library
    path        the file that was loaded; empty without a library
    threads     the threads of one call from here; 0 if only the library knows
    reason      the reason why it is not used; empty if it is
    """

    name: str
    available: bool
    version: str
    path: str
    threads: int
    reason: str


def providers() -> tuple[ProviderStatus, ...]:
    """Every provider, in the order in which they are preferred. Loads what is there."""
    from flowengine.kernels.onednn.library import search

    found = search()
    library = found.library
    if library is None:
        onednn = ProviderStatus(ONEDNN, False, "", "", 0, found.reason)
    else:
        version = ".".join(map(str, library.version))
        onednn = ProviderStatus(ONEDNN, True, version, library.path, library.threads(), "")
    return onednn, ProviderStatus(NUMPY, True, np.__version__, np.__file__ or "", 0, "")


def check(provider: str) -> None:
    """InvalidArgumentError for no choice, FailedPreconditionError for one that is not there."""
    if provider not in KERNEL_PROVIDERS:
        raise InvalidArgumentError(
            f"kernel_provider is {provider!r}: it must be one of {', '.join(KERNEL_PROVIDERS)}"
        )
    if provider == ONEDNN:
        from flowengine.kernels.onednn.library import search

        found = search()
        if found.library is None:
            raise FailedPreconditionError(f"kernel_provider is {ONEDNN!r}, but {found.reason}")


def dismiss_team() -> None:
    """End the threads that libraries keep for the calling thread: another one computes from now on."""
    program = sys.modules.get("flowengine.kernels.onednn.programs.program")
    if program is not None:
        program.dismiss_team()


@functools.cache
def _modules() -> dict[str, str]:
    """{op: the module that has a provider's kernel of it}."""
    return {op: module for module, ops in PROVIDED.items() for op in ops.split()}


def candidates(op: str, device: str = "CPU") -> Sequence[Kernel]:
    """The kernels of providers for an op; imports the module that has them."""
    module = _modules().get(op)
    if module is None or device != "CPU":
        return ()
    return _loaded(module).candidates(op, device)


@functools.cache
def _loaded(module: str) -> KernelRegistry:
    importlib.import_module(f"flowengine.kernels.{module}")
    from flowengine.kernels.onednn.serving import REGISTRY

    return REGISTRY


def kernels() -> Iterator[Kernel]:
    """Every kernel of every provider but NumPy."""
    for op in _modules():
        yield from candidates(op)


def providers_of(registry: KernelRegistry) -> tuple[Provider, ...]:
    """Return the providers that may claim parts of a graph with these kernels, in the order of asking."""
    return tuple(_claimant(name) for name in registry.providers())


def kernels_of(device: Device) -> KernelRegistry | None:
    """The kernels of single nodes that a device's own provider has for it; None where there are none."""
    if not isinstance(device, ProvidedDevice):
        return None
    kernels = _claimant(device.provider).kernels
    return None if kernels is None else kernels(device)


def left_out(device: Device) -> Sequence[str]:
    """List work that a device's own provider was wanted for and does not compute so far, for `explain`."""
    if not isinstance(device, ProvidedDevice):
        return ()
    found = _claimant(device.provider).left_out
    return () if found is None else [f"left out by {device.provider}: {why}" for why in found(device)]


@functools.cache
def _claimant(name: str) -> Provider:
    # A device from outside of this package names its own package.
    package = name if "." in name else f"flowengine.kernels.{name}"
    found: Provider = importlib.import_module(f"{package}.claims").PROVIDER
    return found
