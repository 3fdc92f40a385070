"""Placement: a device for every node of a graph.

    placement = place(graph, cpu_offers(4), kernels=registry)
    placement.device_of["y"]      # '/job:localhost/replica:0/task:0/device:CPU:2'

It intersects the feasible devices of each node (kernels, the user's constraint) over colocated nodes, then
simulates a step: each group goes to the device where it makes the step end first, with transfers. Costs are
estimated from ops and shapes, or measured from earlier steps. `Placement.reasons` gives the reason for the
place of each node.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flowengine.core.errors import ResourceExhaustedError
from flowengine.core.names import DeviceName
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.place.colocate import Groups, colocate
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.device_profiles import DeviceLinks, Offer, UsualLinks
from flowengine.passes.place.feasible import Feasible
from flowengine.passes.place.problem import Problem
from flowengine.passes.place.problem_graph import problem_of
from flowengine.passes.place.reasons import Reasons
from flowengine.passes.place.search import search
from flowengine.passes.place.simulate import simulate

logger: Final = logging.getLogger("flowengine.placement")


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """The wishes for a placement in addition to graph and devices.

    demands    {node name: constraint} instead of the nodes' own device fields; also of nodes that passes
               removed, since
               others may be colocated with them
    pinned     {node name: complete device name}: the device that has its state
    supplied   fed ports: their values exist when the step begins, on every device
    soft       relax demands that cannot be met instead of raising
    lenient    allow nodes that no device can take: for a graph with parts that never run
    wishes     {node name: the node to be with} in addition to those of the graph
    shapes     {node name: shape} of placeholders' feeds, if more is known than they declare
    present    {node name: device} of a placement to compare with
    trial      index of a device for all nodes that may be there
    because    the reason, for `reasons`; without it, to learn the device's speed
    disregarded  nodes whose cost counts as next to nothing
    links      the times of transfers
    costs      measured costs, used if there are any
    seed       the seed of the search's random moves
    effort     share of the usual work of the search; 0 takes the best first placement
    """

    demands: Mapping[str, DeviceName] | None = None
    pinned: Mapping[str, str] = field(default_factory=dict)
    supplied: Collection[OutputPort] = ()
    soft: bool = False
    lenient: bool = False
    wishes: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, TensorShape] = field(default_factory=dict)
    present: Mapping[str, str] | None = None
    trial: int | None = None
    because: str = ""
    disregarded: Collection[str] = ()
    links: DeviceLinks = field(default_factory=UsualLinks)
    costs: CostModel | None = None
    seed: int = 0
    effort: float = 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of every node.

    device_of    {node name: complete device name}
    reasons      {node name: the reason for its place}
    relaxed      {node name: the unmet demand, and the reason}: soft placement only
    unplaced     nodes that no device can take; only if the request was lenient
    is_free      whether any node could be elsewhere
    makespan     estimated microseconds of the step
    present      the same for the placement that the request compares with
    baselines    the same for all nodes on one device, and for groups in turn
    """

    device_of: Mapping[str, str]
    reasons: Mapping[str, str]
    relaxed: Mapping[str, str]
    unplaced: frozenset[str]
    is_free: bool
    makespan: float
    present: float | None
    baselines: Mapping[str, float]

    def apply(self, graph: NodeGraph) -> NodeGraph:
        """Return the graph with complete devices as its nodes' requested ones."""
        return graph.rewritten(
            node
            if node.device == self.device_of[node.name]
            else replace(node, device=self.device_of[node.name])
            for node in graph
        )

    def log(self, graph: NodeGraph) -> None:
        """Log one line for each node at level INFO, to `flowengine.placement`."""
        for node in graph:
            logger.info("%s: (%s): %s", node.name, node.op, self.device_of[node.name])


def place(
    graph: NodeGraph,
    offers: Sequence[Offer],
    *,
    kernels: KernelRegistry,
    request: PlaceRequest | None = None,
) -> Placement:
    """Choose a device for every node.

    Raises InvalidArgumentError that names the nodes and their demands if no device meets them, and
    ResourceExhaustedError that names the largest groups if the devices' memory cannot hold them.
    """
    request = request if request is not None else PlaceRequest()
    groups = colocate(graph, frozenset(request.supplied), request.wishes)
    feasible = Feasible(
        graph,
        groups,
        offers,
        kernels,
        demands=request.demands,
        pinned=request.pinned,
        soft=request.soft,
        lenient=request.lenient,
    )
    members = groups.members()
    number = {representative: index for index, representative in enumerate(members)}
    group_of = [number[groups.find(index)] for index in range(len(groups.names))]
    masks = [feasible.masks[representative] for representative in members]
    problem = problem_of(
        graph,
        offers,
        group_of=group_of,
        masks=masks,
        kernels=kernels,
        links=request.links,
        costs=request.costs,
        supplied=request.supplied,
        shapes=request.shapes,
        disregarded=request.disregarded,
    )
    found = search(problem, seed=request.seed, effort=request.effort, trial=request.trial)
    if found is None:
        raise _too_large(groups, list(members), problem, offers)
    names = [str(offer.name) for offer in offers]
    device_of = {name: names[found.places[group_of[index]]] for index, name in enumerate(groups.names)}
    _warn_of_relaxed(feasible, device_of)
    reasons = Reasons(graph, groups, feasible, offers, request.pinned, found, group_of, request.because)
    unplaced = frozenset(
        name for index, name in enumerate(groups.names) if groups.find(index) in feasible.impossible
    )
    is_free = any(len(allowed) > 1 for allowed in problem.allowed)
    present = None
    if request.present is not None:
        present = _makespan(problem, groups, group_of, names, request.present)
    return Placement(
        device_of, reasons, feasible.relaxed, unplaced, is_free, found.makespan, present, found.baselines
    )


def _makespan(
    problem: Problem,
    groups: Groups,
    group_of: Sequence[int],
    names: Sequence[str],
    device_of: Mapping[str, str],
) -> float | None:
    """Estimate the step's microseconds with another placement; None if a device of it is not offered."""
    positions = {name: index for index, name in enumerate(names)}
    places = [0] * len(problem.allowed)
    for index, name in enumerate(groups.names):
        place = positions.get(device_of.get(name, ""))
        if place is None:
            return None
        places[group_of[index]] = place
    return simulate(problem, places).makespan


def _too_large(
    groups: Groups, representatives: Sequence[int], problem: Problem, offers: Sequence[Offer]
) -> ResourceExhaustedError:
    largest = sorted(range(len(problem.resident)), key=lambda group: -problem.resident[group])
    shown = ", ".join(
        f"'{groups.names[representatives[group]]}' and its group keep {problem.resident[group]:,} bytes"
        for group in largest[:_NAMED_MAX]
    )
    room = ", ".join(
        f"{offer.name} "
        + ("without limit" if offer.memory_limit_bytes is None else f"{offer.memory_limit_bytes:,} bytes")
        for offer in offers
    )
    return ResourceExhaustedError(
        f"variables and constants do not fit into the memory of the devices: {shown}; devices: {room}. "
        "Raise the devices' memory limits, or add devices"
    )


#: The number of groups that an error names.
_NAMED_MAX: Final = 5


def _warn_of_relaxed(feasible: Feasible, device_of: Mapping[str, str]) -> None:
    """Log the nodes that are not on their requested device: one line for those with the same request."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, why in feasible.relaxed.items():
        place = device_of.get(name, "another device")
        alike.setdefault((str(feasible.demands[name]), why, place), []).append(name)
    for (demand, why, place), (first, *others) in alike.items():
        if not others:
            logger.warning("'%s' asks for %s (%s): soft placement puts it on %s", first, demand, why, place)
            continue
        logger.warning(
            "'%s' and %d more node%s ask for %s (%s): soft placement puts them on %s",
            first,
            len(others),
            "" if len(others) == 1 else "s",
            demand,
            why,
            place,
        )
