"""The registry of a card's kernels of single nodes: what `overrides` offers and this machine can compile."""

from __future__ import annotations

from functools import partial
from typing import Final

from flowengine.devices import cuda
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import Device
from flowengine.kernels.cuda.serving import OFFERS, PROVIDER_NAME
from flowengine.kernels.cuda.session_launcher import CardModules, modules_of
from flowengine.kernels.numpy.fused import fused_contraction
from flowengine.kernels.registry import KernelRegistry
from flowengine.kernels.training.gathered_updates import gathered_resource_updates, gathered_updates

#: What a device keeps them as.
_KEPT: Final = "kernels"


def served() -> frozenset[str]:
    """The ops that there are kernels of here."""
    from flowengine.kernels.cuda import overrides  # which registers them here

    assert overrides.__all__
    return frozenset(op for offer in OFFERS for op in offer.ops)


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
    for offer in OFFERS:
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


__all__ = ["card_kernels", "served"]
