"""The devices of a session, and those that are added when its graph names a plugin's device type.

A graph grows, so each look searches the nodes that are new since the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from flowengine.core.config import Settings
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName
from flowengine.devices.device import DeviceRegistry, DeviceSet
from flowengine.devices.settings import give_settings
from flowengine.ir.graph import NodeGraph


class OfferedDevices:
    """The devices that a session has by its settings, its registry and its graph.

    graph     the graph whose nodes, and those of its functions, name device types; None if they run elsewhere
    devices   the set, which `grow` extends
    """

    def __init__(self, types: DeviceRegistry, graph: NodeGraph | None, settings: Settings) -> None:
        """Raises InvalidArgumentError as `DeviceRegistry.make`."""
        self._types = types
        self._graph = graph
        self._counts, self._limits = settings.device_count, settings.device_memory_limits
        self._settings = settings.of_devices
        self._nodes = 0
        self._has_library = False
        #: Names of devices that were read already.
        self._read: set[str] = set()
        types.look_for(self._named_by(device for _, device in settings.place) if graph is not None else ())
        types.look_for(self._new_types())
        self.devices: DeviceSet = types.make(self._counts, self._limits)
        give_settings(self.devices, self._settings)

    def grow(self) -> bool:
        """Take in what the graph has come to name; whether there are more devices now."""
        offered = self._types.look_for(self._new_types())
        more = self._types.make_some(offered, self._counts, self._limits)
        give_settings(more, self._settings)
        self.devices.extend(more)
        return bool(more)

    def _new_types(self) -> Iterator[str]:
        graph = self._graph
        if graph is None:
            return
        nodes = islice(graph, self._nodes, None)
        self._nodes = len(graph)
        yield from self._named_by(node.device for node in nodes)
        library: Any = graph.library
        if library is not None and not self._has_library:
            self._has_library = True
            for function in library.function:
                yield from self._named_by(node.device for node in function.node_def)

    def _named_by(self, devices: Iterator[str]) -> Iterator[str]:
        """The types in names that are new. What is no device's name is left to who places."""
        for text in devices:
            if text in self._read:
                continue
            self._read.add(text)
            kind = _type_in(text)
            if kind is not None:
                yield kind


def _type_in(text: str) -> str | None:
    """The type in `/device:TPU:0`, or in a rule's `TPU:0` or `@node`."""
    if not text or text.startswith("@"):
        return None
    try:
        return DeviceName.parse(text if "/" in text else f"/device:{text}").type
    except InvalidArgumentError:
        return None


__all__ = ["OfferedDevices"]
