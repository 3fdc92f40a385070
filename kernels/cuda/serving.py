"""Kernels of single nodes by our CUDA C and by cuBLAS: they stand in front of those over CuPy's arrays.

    @serves("Softmax", family="softmax", types=OF_FLOATS)
    def softmax_kernel(launcher, node, otherwise):
        return lambda logits: softmax(launcher, dense(launcher, logits))

What is made for a node is called with arrays of the device, within its `computing()`. `otherwise` is the
kernel of the node over CuPy's arrays; calls that the sources have no kernel for go there, bad ones too: it
has the words for what is wrong with them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, float16, float32, float64
from flowengine.devices import cuda
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.kernels.cuda.session_launcher import CardModules, SessionLauncher, modules_of
from flowengine.kernels.numpy.fused import fused_contraction
from flowengine.kernels.registry import KernelRegistry
from flowengine.kernels.training.gathered_updates import gathered_resource_updates, gathered_updates

PROVIDER_NAME: Final = "cuda"
#: What a device keeps them as.
_KEPT: Final = "kernels"
#: The floats that CuPy's arrays hold.
FLOATS: Final = (float16, float32, float64)
OF_FLOATS: Final[Mapping[str, Iterable[DType]]] = {"T": FLOATS}

#: (launcher, node, the node's kernel over CuPy's arrays) -> what computes the node.
CardMaker = Callable[[SessionLauncher, Node, Callable[..., Any]], Callable[..., Any]]
_Made = TypeVar("_Made", bound=CardMaker)


@dataclass(frozen=True, slots=True)
class CardOffer:
    """Kernels of some ops.

    needs   the library without which there are none: a name of `cuda.libraries()`
    """

    ops: tuple[str, ...]
    family: str
    types: Mapping[str, Iterable[DType]]
    supports: Callable[[Mapping[str, Any]], bool] | None
    needs: str
    maker: CardMaker


_OFFERS: Final[list[CardOffer]] = []


def serves(
    *ops: str,
    family: str,
    types: Mapping[str, Iterable[DType]] = OF_FLOATS,
    supports: Callable[[Mapping[str, Any]], bool] | None = None,
    needs: str = "nvrtc",
) -> Callable[[_Made], _Made]:
    """Have a function make the kernels of these ops; `types` and `supports` as in `registry.Kernel`."""

    def register(maker: _Made) -> _Made:
        _OFFERS.append(CardOffer(ops, family, types, supports, needs, maker))
        return maker

    return register


def served() -> frozenset[str]:
    """The ops that there are kernels of here."""
    from flowengine.kernels.cuda import overrides  # which registers them here

    assert overrides.__all__
    return frozenset(op for offer in _OFFERS for op in offer.ops)


def card_kernels(device: Device) -> KernelRegistry:
    """The kernels of single nodes for a device of CUDA's, of the libraries that are here."""
    assert isinstance(device, CudaDevice)
    found = device.kept.get(_KEPT)
    if found is None:
        found = device.kept.setdefault(_KEPT, _made_for(modules_of(device)))
    assert isinstance(found, KernelRegistry)
    return found


def _made_for(modules: CardModules) -> KernelRegistry:
    assert served()
    here = {library.name for library in cuda.libraries() if library.path}
    registry = KernelRegistry()
    for offer in _OFFERS:
        if offer.needs in here:
            registry.register_provided(
                *offer.ops,
                maker=partial(offer.maker, modules.launcher(offer.family)),
                provider=PROVIDER_NAME,
                types=offer.types,
                supports=offer.supports,
                device=modules.device.type,
            )
    of_device = partial(registry.kernel, device=modules.device.type, provider=PROVIDER_NAME)
    of_device("_FusedContraction")(fused_contraction)
    of_device("_GatheredUpdates")(gathered_updates)
    of_device("_GatheredResourceUpdates")(gathered_resource_updates)
    return registry


@functools.lru_cache(maxsize=1)
def is_compiled_here() -> bool:
    """Whether there is NVRTC, without which CuPy computes all."""
    return any(library.name == "nvrtc" and library.path for library in cuda.libraries())


def dense(launcher: SessionLauncher, array: Any) -> Array:
    """An array that lies row by row without gaps: itself, or a copy."""
    if array.flags.c_contiguous:
        return array  # type: ignore[no-any-return]
    copied: Array = launcher.xp.ascontiguousarray(array)
    return copied


__all__ = [
    "FLOATS",
    "OF_FLOATS",
    "PROVIDER_NAME",
    "CardMaker",
    "CardOffer",
    "card_kernels",
    "dense",
    "is_compiled_here",
    "served",
    "serves",
]
