"""Where the nodes of a session's steps run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from flowengine.core.config import Settings
from flowengine.core.names import DeviceName
from flowengine.devices.device import DeviceSet
from flowengine.ir.graph import Graph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.context import PassContext
from flowengine.passes.costs import CostModel
from flowengine.passes.offers import Links, Offer
from flowengine.passes.place import Placement
from flowengine.passes.place_report import report
from flowengine.passes.placer import Placer as GraphPlacer

#: From a graph that passes have gone over to {node name: complete device name}, of every node.
Placer: TypeAlias = Callable[[Graph, PassContext], Mapping[str, str]]


class SessionPlacer:
    """Places the steps of a session by the rules of `passes.place`.

    placer   what it keeps between placements: homes of state, measured costs
    """

    def __init__(
        self,
        devices: DeviceSet,
        kernels: KernelRegistry,
        settings: Settings,
        whole: Callable[[], Graph],
        *,
        links: Links | None = None,
        costs: CostModel | None = None,
    ) -> None:
        """`whole` gives the session's graph, which may grow between steps."""
        soft = settings.allow_soft_placement
        self._whole = whole
        self.placer = GraphPlacer(
            offers_of(devices),
            kernels,
            rules=settings.place,
            soft=len(devices) == 1 if soft is None else soft,
            log=settings.log_device_placement,
            links=links,
            costs=costs,
        )

    def __call__(self, graph: Graph, context: PassContext) -> Mapping[str, str]:
        return self.place(graph, context).device_of

    def place(
        self,
        graph: Graph,
        context: PassContext,
        *,
        present: Mapping[str, str] | None = None,
        trial: int | None = None,
    ) -> Placement:
        """A device for each node, with reasons. `trial`: try a device with all that may be there."""
        return self.placer.place(graph, self._whole(), supplied=context.feeds, present=present, trial=trial)

    def explain(self, graph: Graph, context: PassContext) -> str:
        """The device of each node and why it is there."""
        return report(graph, self.place(graph, context))


def offers_of(devices: DeviceSet) -> list[Offer]:
    """What placement may know of a session's devices."""
    return [
        Offer(
            DeviceName.parse(device.name),
            speed=float(getattr(device, "speed", 1.0)),
            memory_limit_bytes=device.ledger.limit_bytes,
        )
        for device in devices
    ]


__all__ = ["Placer", "SessionPlacer", "offers_of"]
