"""The device types of this package, registered."""

from __future__ import annotations

from typing import Final

from flowengine.devices.cpu import CpuDevice
from flowengine.devices.device import DeviceRegistry

#: What a session takes its devices from unless it is given another registry.
DEVICES: Final = DeviceRegistry()
DEVICES.register("CPU", CpuDevice, lambda: 1)

__all__ = ["DEVICES"]
