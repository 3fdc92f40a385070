"""The settings that a session passes to its devices, for those that have a choice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from flowengine.core.device_config import DeviceSettings
from flowengine.devices.device import Device


@runtime_checkable
class TunedDevice(Device, Protocol):
    """A device that computes with floats in more than one way.

    settings   set before the first kernel is made for it
    """

    settings: DeviceSettings


def give_settings(devices: Iterable[Device], settings: DeviceSettings) -> None:
    """Tell devices how to compute; those that have no choice are left alone."""
    for device in devices:
        if isinstance(device, TunedDevice):
            device.settings = settings


__all__ = ["TunedDevice", "give_settings"]
