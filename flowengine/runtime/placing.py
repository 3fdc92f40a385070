"""Where the nodes of a session's steps run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from flowengine.devices.device import DeviceSet
from flowengine.ir.graph import Graph
from flowengine.passes.context import PassContext

#: From a graph that passes have gone over to {node name: complete device name}, of every node.
Placer: TypeAlias = Callable[[Graph, PassContext], Mapping[str, str]]


class SessionPlacer:
    """Puts each node on the first device that it asks for, else on the session's first CPU."""

    def __init__(self, devices: DeviceSet) -> None:
        self._devices = devices

    def __call__(self, graph: Graph, context: PassContext) -> Mapping[str, str]:
        default = self._devices.default.name
        known: dict[str, str] = {"": default}
        for node in graph:
            if node.device not in known:
                fitting = self._devices.matching(node.device)
                known[node.device] = fitting[0].name if fitting else default
        return {node.name: known[node.device] for node in graph}


__all__ = ["Placer", "SessionPlacer"]
