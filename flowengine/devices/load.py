"""The device types of this package, registered."""

from __future__ import annotations

from typing import Final

from flowengine.devices.cpu import CpuDevice
from flowengine.devices.device import DeviceRegistry


class _StandardDevices(DeviceRegistry):
    """The types of this package, and those that other distributions offer."""

    def _is_offered(self, kind: str) -> bool:
        from flowengine.core import plugins

        return plugins.load(plugins.DEVICES, kind) and kind in self._types


#: What a session takes its devices from unless it is given another registry.
DEVICES: Final = _StandardDevices()
DEVICES.register("CPU", CpuDevice, lambda: 1)

__all__ = ["DEVICES"]
