"""A plan that is cut by device: the plans of its partitions, and the transfers between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flowengine.core.work_pieces import Pieces
from flowengine.devices.device import Device, DeviceSet
from flowengine.kernels.providers import left_out
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes import explain
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import PartitionedGraph, Transfer
from flowengine.passes.pipeline import in_memories
from flowengine.runtime.planning.binding import Functions
from flowengine.runtime.planning.hardware import kernels_on
from flowengine.runtime.planning.measuring import Measure
from flowengine.runtime.planning.tiers import TieredPlan, tiered


class Part:
    """One partition's plans.

    feeds, fetches    positions among the request's
    """

    __slots__ = ("device", "feeds", "fetches", "tiers")

    def __init__(
        self, device: Device, tiers: TieredPlan, feeds: Sequence[int], fetches: Sequence[int]
    ) -> None:
        self.device = device
        self.tiers = tiers
        self.feeds = tuple(feeds)
        self.fetches = tuple(fetches)


class PartitionedPlan:
    """A request's plan, cut by device.

    parts       one for each device that has anything to do
    transfers   {edge name, target device: the transfer}
    """

    def __init__(self, transfers: Sequence[Transfer], fetches: int, parts: list[Part]) -> None:
        """See `partitioned`."""
        self.transfers: Mapping[tuple[str, str], Transfer] = {(t.edge, t.target): t for t in transfers}
        self.fetches = fetches
        self.parts = parts

    def explain(self, *, dot: bool = False, source: bool = False, form: bool = False) -> str:
        """Describe the nodes that each partition runs, and the transfers between them."""
        texts = []
        for part in self.parts:
            plan = part.tiers.interpreted
            if source:
                part.tiers.compile()
                text = "\n\n".join(part.tiers.sources()) or "nothing to compile"
            elif form:
                text = part.tiers.form()
            elif dot:
                text = explain.to_dot(plan.graph)
            else:
                text = "\n".join([explain.listing(plan.graph), *left_out(part.device)])
            texts.append(f"{'//' if dot else '#'} {part.device.name}\n{text}")
        if not (dot or source or form):
            lines = [f"  {t.edge} from {t.source} to {t.target}" for t in self.transfers.values()]
            texts.append("\n".join([f"transfers: {len(lines)}", *lines]))
        return "\n\n".join(texts)


def partitioned(
    cut: PartitionedGraph,
    context: PassContext,
    devices: DeviceSet,
    kernels: KernelRegistry,
    functions: Functions | None,
    measure: Measure | None = None,
    *,
    debugs_devices: bool = False,
) -> Pieces[PartitionedPlan]:
    """Make the plan of a cut graph, in pieces.

    measure         returns kernels that record their times, from kernels and the name of a device
    debugs_devices  whether to wait for each kernel of a device with streams
    """
    parts: list[Part] = []
    for each in cut.partitions:
        device = devices[each.device]
        own = kernels_on(kernels, device, debugs=debugs_devices)
        if measure is not None:
            own = measure(own, device.name)
        request = replace(
            context,
            feeds=tuple(context.feeds[index] for index in each.feeds),
            fetches=tuple(context.fetches[index] for index in each.fetches),
            targets=each.targets,
            kernels=own,
        )
        graph = each.graph
        if not device.shares_host_memory:
            graph = in_memories(graph, request, kernels, own, device.holds)
        tiers = yield from tiered(graph, request, own, functions)
        parts.append(Part(device, tiers, each.feeds, each.fetches))
    return PartitionedPlan(cut.transfers, len(context.fetches), parts)


__all__ = ["Part", "PartitionedPlan", "partitioned"]
