"""Resources that devices with memory of their own hold between steps: above all, variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from flowengine.devices.device import Device
from flowengine.resources.container import ResourceManager
from flowengine.resources.variable import Variable


class DeviceResources:
    """The resources of each device, made on first use. A device's successor begins with none.

    by_name   {name of a device: its resources}
    """

    def __init__(self) -> None:
        self._managers: dict[str, ResourceManager] = {}
        self._holders: dict[str, Device] = {}
        #: {a lost device: the names of its variables that had a value}
        self._gone: WeakKeyDictionary[Device, list[str]] = WeakKeyDictionary()

    @property
    def by_name(self) -> Mapping[str, ResourceManager]:
        return self._managers

    def of(self, device: Device) -> ResourceManager:
        """Return the resources that a device holds."""
        held = self._managers.get(device.name)
        if held is None or self._holders[device.name] is not device:
            if held is not None:
                held.close()  # the resources of a former device of this name
            held = self._managers[device.name] = ResourceManager()
            self._holders[device.name] = device
        return held

    def lost(self, device: Device) -> Sequence[str]:
        """Discard the resources of a lost device; return the names of its variables that had a value."""
        if self._holders.get(device.name) is device:
            held = self._managers.pop(device.name)
            del self._holders[device.name]
            variables = held.held(Variable)
            names = {each.name for each in variables if each.is_initialized}
            # A step on a lost device without a successor has made some there meanwhile.
            self._gone[device] = sorted(names.union(self._gone.get(device, ())))
            held.close()
        return self._gone.get(device, ())

    def close(self) -> None:
        """Discard the resources of all devices."""
        for held in self._managers.values():
            held.close()
        self._managers.clear()
        self._holders.clear()


__all__ = ["DeviceResources"]
