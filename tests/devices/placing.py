"""Placements over a CPU and a simulated GPU, for graphs that ask for neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flowengine as fe
from flowengine.core.checksums.hashing import fingerprint64
from flowengine.core.names import DeviceName
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.load import registry
from flowengine.passes.context import PassContext
from flowengine.passes.place.colocate import SharedName, colocate, shared_name_of
from flowengine.passes.place.place import PlaceRequest, place
from flowengine.runtime.planning.placing import offers_of
from tests.tools.simulated_gpu import SimulatedGpu, simulated_gpus

_CPU, _GPU = DeviceName(type="CPU"), DeviceName(type="GPU")


class OverGpu:
    """Puts each node on the GPU, or at random on one of the two, where it can be there.

    The same node is always on the same one, and so are nodes that have to be together, as those which share a
    resource by its name: a session refuses to have it in two memories. `session` is to be set before the
    first step.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Without a seed all that can be is on the GPU."""
        self.session: fe.Session | None = None
        self._seed = seed
        self._version = -1
        self._home: dict[str, str] = {}
        #: {node name: the first node of those that it is to be with}
        self._together: dict[str, str] = {}

    def __call__(self, graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        assert self.session is not None
        offers = offers_of(self.session.devices)
        whole = self.session.graph
        if self._version != whole.version:
            self._version = whole.version
            self._together = _together(whole)
            demands = {node.name: self._wish(node) for node in whole}
            wishes = PlaceRequest(demands=demands, pinned=self._home, soft=True, lenient=True)
            found = place(whole, offers, kernels=registry(), request=wishes)
            for name, device in found.device_of.items():
                self._home.setdefault(name, device)
        demands = {node.name: self._wish(node) for node in graph if node.name not in self._home}
        demands |= {
            node.name: DeviceName.parse(self._home[node.name]) for node in graph if node.name in self._home
        }
        request = PlaceRequest(demands=demands, supplied=context.feeds, soft=True)
        return place(graph, offers, kernels=registry(), request=request).device_of

    def _wish(self, node: Node) -> DeviceName:
        if self._seed is None:
            return _GPU
        name = self._together.get(node.name, node.name)
        return _GPU if fingerprint64(f"{self._seed} {name}".encode()) % 2 else _CPU


def _together(graph: NodeGraph) -> dict[str, str]:
    """Of each node the first of those that are bound to each other, or to one resource by its name."""
    groups = colocate(graph)
    named: dict[SharedName, int] = {}
    for node in graph:
        shared = shared_name_of(node)
        if shared is not None:
            index = groups.index[node.name]
            groups.join(index, named.setdefault(shared, index))
    names = groups.names
    return {names[each]: names[members[0]] for members in groups.members().values() for each in members}


def opener(
    gpus: list[SimulatedGpu], seed: int = 0, *, scattered: bool = False, **config: Any
) -> Callable[[fe.Graph], fe.Session]:
    """Opens sessions over a CPU and a GPU, whose GPU is put into the list.

    scattered   nodes are thrown on either by the seed, rather than all put on the GPU
    """

    def open_session(graph: fe.Graph) -> fe.Session:
        devices = DeviceRegistry(parent=DEVICES)
        devices.register("GPU", simulated_gpus(seed), lambda: 1)
        placer = OverGpu(seed if scattered else None)
        session = fe.Session(graph, config=fe.Config(**config), devices=devices, placer=placer)
        placer.session = session
        gpu: Any = session.devices.matching("/device:GPU:0")[0]
        gpus.append(gpu)
        return session

    return open_session


__all__ = ["OverGpu", "opener"]
