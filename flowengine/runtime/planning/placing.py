"""The placement of the nodes of a session's steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from flowengine.core.config import Settings
from flowengine.core.dtypes import ALL as ALL_TYPES
from flowengine.core.names import DeviceName
from flowengine.devices.device import Device, DeviceSet, RatedDevice
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.context import PassContext
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.device_profiles import DeviceLinks, Offer
from flowengine.passes.place.place import Placement
from flowengine.passes.place.placer import Placer as GraphPlacer
from flowengine.passes.place.report import report

#: Maps a graph after its passes to {node name: complete device name}, of every node.
Placer: TypeAlias = Callable[[NodeGraph, PassContext], Mapping[str, str]]


class SessionPlacer:
    """Places the steps of a session by the rules of `passes.place`.

    placer   the state between placements: homes of state, measured costs
    """

    def __init__(
        self,
        devices: DeviceSet,
        kernels: KernelRegistry,
        settings: Settings,
        whole: Callable[[], NodeGraph],
        *,
        links: DeviceLinks | None = None,
        costs: CostModel | None = None,
    ) -> None:
        """`whole` returns the session's graph, which may grow between steps."""
        self._soft = settings.allow_soft_placement
        self._whole = whole
        self._devices = devices
        #: Requests whose steps are faster on one device.
        self._together: set[tuple[object, ...]] = set()
        self.placer = GraphPlacer(
            offers_of(devices),
            kernels,
            rules=settings.place,
            soft=self._is_soft(),
            log=settings.log_device_placement,
            links=links,
            costs=costs,
        )

    def _is_soft(self) -> bool:
        return len(self._devices) == 1 if self._soft is None else self._soft

    def devices_came(self) -> None:
        """Record that the session has more devices, which are places from now on."""
        self.placer.offers = offers_of(self._devices)
        self.placer.soft = self._is_soft()

    def __call__(self, graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        return self.place(graph, context).device_of

    def place(
        self,
        graph: NodeGraph,
        context: PassContext,
        *,
        present: Mapping[str, str] | None = None,
        trial: int | None = None,
    ) -> Placement:
        """Return a device for each node, with reasons. `trial`: try a device with all that may be there."""
        if trial is None and _request(context) in self._together:
            return self._on_default(graph, context)
        return self.placer.place(graph, self._whole(), supplied=context.feeds, present=present, trial=trial)

    def together(
        self, graph: NodeGraph, context: PassContext, placement: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        """Place the step on one device as far as possible, if its placement uses several of one host."""
        used = [self._devices[name] for name in dict.fromkeys(placement.values())]
        if len(used) < 2 or not all(device.shares_host_memory for device in used):
            return None
        found = self._on_default(graph, context).device_of
        return None if found == placement else found

    def keep_together(self, context: PassContext) -> None:
        """Place the step of a request on one device from now on: it was measured to be faster so."""
        self._together.add(_request(context))

    def _on_default(self, graph: NodeGraph, context: PassContext) -> Placement:
        return self.placer.place(
            graph,
            self._whole(),
            supplied=context.feeds,
            trial=list(self._devices).index(self._devices.default),
            because="measured: the step ends sooner on one device of the host",
        )

    def explain(self, graph: NodeGraph, context: PassContext) -> str:
        """Return the device of each node and the reason."""
        return report(graph, self.place(graph, context))


def _request(context: PassContext) -> tuple[object, ...]:
    return context.feeds, context.fetches, context.targets


def offers_of(devices: DeviceSet) -> list[Offer]:
    """Return the offers that describe a session's devices to placement."""
    return [_offer(device) for device in devices]


def _offer(device: Device) -> Offer:
    held = [dtype for dtype in ALL_TYPES if device.holds(dtype, True)]
    rates = device.rates if isinstance(device, RatedDevice) else None
    return Offer(
        DeviceName.parse(device.name),
        speed=float(getattr(device, "speed", 1.0)) if rates is None else rates.speed,
        memory_limit_bytes=device.ledger.limit_bytes,
        lacks=frozenset(ALL_TYPES) - frozenset(held),
        listed_only=frozenset(dtype for dtype in held if not device.holds(dtype)),
        launch_microseconds=0.0 if rates is None else rates.launch_microseconds,
        bus_bytes_a_microsecond=None if rates is None else rates.bus_bytes_a_microsecond,
    )


__all__ = ["Placer", "SessionPlacer", "offers_of"]
