"""The device types of this package, registered."""

from __future__ import annotations

from typing import Final

from flowengine.devices.cpu import CpuDevice
from flowengine.devices.device import DeviceRegistry

#: NVIDIA's cards.
GPU: Final = "GPU"


class _StandardDevices(DeviceRegistry):
    """The types of this package, and those that other distributions offer."""

    def _is_offered(self, kind: str) -> bool:
        from flowengine.core import plugins

        if plugins.load(plugins.DEVICES, kind):
            return kind in self._types
        if kind != GPU or self.why_not(kind):
            return False
        from flowengine.devices.cuda_device import cards_with_cupy, make_cuda_device

        self.register(GPU, make_cuda_device, cards_with_cupy)
        return True

    def why_not(self, kind: str) -> str:
        if kind != GPU:
            return ""
        # Imported here, because it searches for cards.
        from flowengine.devices.cuda_device import why_no_gpu

        return why_no_gpu()


#: The registry from which a session takes its devices by default.
DEVICES: Final = _StandardDevices()
DEVICES.register("CPU", CpuDevice, lambda: 1)

__all__ = ["DEVICES"]
