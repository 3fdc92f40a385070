"""Random placements for tests: what must be on one device is kept together, the rest is thrown.

fe.Session(graph, config=fe.Config(device_count={"CPU": 4}), placer=RandomPlacer(graph, 4, seed=7))
"""

from __future__ import annotations

from collections.abc import Mapping

from flowengine.core.checksums.hashing import fingerprint64
from flowengine.devices.device import LOCAL_TASK
from flowengine.ir.graph import NodeGraph
from flowengine.passes.context import PassContext
from flowengine.passes.place.colocate import colocate


class RandomPlacer:
    """A device for every node by seed; the same node is always on the same one.

    Groups are found in the whole graph, so that what a step leaves out does not part what belongs together.
    """

    def __init__(self, graph: NodeGraph, devices: int, seed: int) -> None:
        self._graph = graph
        self._version = -1
        self._devices = devices
        self._seed = seed
        self._group: dict[str, str] = {}

    def __call__(self, graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        if self._version != self._graph.version:
            groups = colocate(self._graph)
            for a, b, _ in groups.preferred:
                groups.join(a, b)
            first: dict[int, str] = {}
            for index, name in enumerate(groups.names):
                self._group[name] = first.setdefault(groups.find(index), name)
            self._version = self._graph.version
        made = self._groups_of_made(graph)
        return {node.name: self.device_of(made.get(node.name, node.name)) for node in graph}

    def _groups_of_made(self, graph: NodeGraph) -> dict[str, str]:
        """{node that a pass has made: one that it is kept together with}."""
        if all(node.name in self._group for node in graph):
            return {}
        groups = colocate(graph)
        for a, b, _ in groups.preferred:
            groups.join(a, b)
        anchors: dict[int, str] = {}
        for index, name in sorted(enumerate(groups.names), key=lambda each: each[1] not in self._group):
            anchors.setdefault(groups.find(index), name)
        return {
            name: anchors[groups.find(index)]
            for index, name in enumerate(groups.names)
            if name not in self._group
        }

    def device_of(self, name: str) -> str:
        """The device of a node, or of one that a pass has made and nothing is kept together with."""
        number = fingerprint64(f"{self._seed} {self._group.get(name, name)}".encode())
        return f"{LOCAL_TASK}/device:CPU:{number % self._devices}"


__all__ = ["RandomPlacer"]
