"""Placer: the state that a session keeps between placements of its graph.

State stays on its device: a variable's device must not depend on which step comes first. So all of a new
graph is placed once, quickly, with its calls open, as if initializers and savers cost nothing, and stateful
nodes get their homes. Each step is then placed for itself, with these homes. A few steps are measured, and
placed again from the measurements if that promises enough.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.names import DeviceName
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import Bookkeeping, OfOneStep
from flowengine.ir.traverse import sources, topological_order
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.device_profiles import DeviceLinks, Offer, UsualLinks
from flowengine.passes.place.feasible import requested
from flowengine.passes.place.place import Placement, PlaceRequest, place
from flowengine.passes.simplify.open_calls import open_calls

logger: Final = logging.getLogger("flowengine.placement")

#: A step is placed again if that is expected to shorten it by this share.
REPLACING_WORTH: Final = 0.1
#: Share of the usual work of a search, for homes: the whole graph is not a step, so its best is not worth
#: more.
_HOMES_EFFORT: Final = 0.2


class Placer:
    """The placements of one session's graph.

    offers   the devices, in the order of preference
    rules    (pattern of node names, device) in order, the last match counts; `@name` as a device is the
             device of
             that node. They override the demands of the graph
    soft     relax demands that cannot be met
    costs    measured costs, which grow as steps are measured
    homes    {stateful node: complete device name}
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        kernels: KernelRegistry,
        *,
        rules: Sequence[tuple[str, str]] = (),
        soft: bool = False,
        log: bool = False,
        links: DeviceLinks | None = None,
        costs: CostModel | None = None,
    ) -> None:
        """Create a placer. Raises InvalidArgumentError for a rule with an invalid device."""
        self.offers = offers
        self.soft = soft
        self.costs = costs if costs is not None else CostModel()
        self.homes: dict[str, str] = {}
        self._kernels = kernels
        self._links = links if links is not None else UsualLinks()
        self._log = log
        self._rules = [(pattern, _rule(pattern, device)) for pattern, device in rules]
        self._version = -1
        #: Nodes of the session's graph that were examined for homes, or whose code was.
        self._looked_at: set[str] = set()
        self._demands: dict[str, DeviceName] = {}
        self._wishes: dict[str, str] = {}

    def place(
        self,
        graph: NodeGraph,
        whole: NodeGraph,
        *,
        supplied: Collection[OutputPort] = (),
        shapes: Mapping[str, TensorShape] | None = None,
        present: Mapping[str, str] | None = None,
        trial: int | None = None,
        because: str = "",
    ) -> Placement:
        """Choose a device for each node of a step's pruned graph.

        whole   the session's graph, from which it was made
        shapes  {placeholder: shape of its feed}
        present {node: device} of a placement to compare with
        trial   index of a device to try all nodes on that may be there
        because the reason that is then given

        Raises the errors of `place`, for nodes of the step; others of the session's graph may be impossible.
        """
        self._take_in(whole)
        demands, wishes = self._with_made(graph, whole)
        placement = place(
            graph,
            self.offers,
            kernels=self._kernels,
            request=PlaceRequest(
                demands=demands,
                wishes=wishes,
                pinned=self.homes,
                supplied=supplied,
                soft=self.soft,
                shapes=shapes or {},
                present=present,
                trial=trial,
                because=because,
                links=self._links,
                costs=self.costs,
            ),
        )
        self._settle(graph, placement)
        if self._log:
            placement.log(graph)
        return placement

    def untried(self, graph: NodeGraph) -> int | None:
        """Return the index of a device of a kind of unknown speed, if there are measurements.

        Devices of one type in one process are of one kind, if they are offered with one speed.
        """
        unknown = self.costs.unknown(self.offers, {node.name: node.op for node in graph})
        kinds = {_kind(offer) for index, offer in enumerate(self.offers) if index not in unknown}
        return next((index for index in unknown if _kind(self.offers[index]) not in kinds), None)

    # -- the whole graph ----------------------------------------------------------------------------

    def _take_in(self, whole: NodeGraph) -> None:
        """Read the demands of a new or extended graph, and choose homes for its state."""
        if whole.version == self._version:
            return
        self._demands, self._wishes = self._asked(whole, whole)
        stateful = {node.name for node in whole if _keeps_state(node)}
        if len(self.offers) > 1 and not stateful <= self._looked_at:
            self._give_homes(with_open_calls(whole, self._kernels), whole)
            self._looked_at |= stateful
        self._version = whole.version

    def _give_homes(self, opened: NodeGraph, whole: NodeGraph) -> None:
        demands, wishes = self._with_made(opened, whole)
        try:
            placement = place(
                opened,
                self.offers,
                kernels=self._kernels,
                request=PlaceRequest(
                    demands=demands,
                    wishes=wishes,
                    pinned=self.homes,
                    soft=self.soft,
                    lenient=True,
                    links=self._links,
                    costs=self.costs,
                    disregarded=runs_rarely(opened),
                    effort=_HOMES_EFFORT,
                ),
            )
        except OpError as error:
            # A step that reaches the faulty node will report it.
            logger.debug("the graph as a whole could not be placed: %s", error)
        else:
            self._settle(opened, placement)

    def _with_made(self, graph: NodeGraph, whole: NodeGraph) -> tuple[dict[str, DeviceName], dict[str, str]]:
        """Return the demands and wishes, with those of code that passes have put in place of calls."""
        made = [node for node in graph if node.name not in whole]
        more, others = self._asked(made, whole) if made else ({}, {})
        return {**more, **self._demands}, {**others, **self._wishes}

    def _asked(self, nodes: Iterable[Node], whole: NodeGraph) -> tuple[dict[str, DeviceName], dict[str, str]]:
        """Return the demands and wishes of nodes, and of the rules that match their names."""
        nodes = list(nodes)
        demands = requested(nodes)
        wishes: dict[str, str] = {}
        for pattern, (demand, other) in self._rules:
            # The demands of a call apply to its code.
            patterns = pattern, f"{pattern}/called/*"
            names = [node.name for node in nodes if any(fnmatchcase(node.name, each) for each in patterns)]
            if other is not None and other not in whole:
                raise InvalidArgumentError(
                    f"'{pattern}' is to be placed with '{other}', but the graph has no node of that name"
                )
            for name in names:
                demands.pop(name, None)
                wishes.pop(name, None)
                if other is None:
                    demands[name] = demand
                elif other != name:
                    wishes[name] = other
        return demands, wishes

    def _settle(self, graph: NodeGraph, placement: Placement) -> None:
        for node in graph:
            if _keeps_state(node) and node.name not in placement.unplaced:
                self.homes.setdefault(node.name, placement.device_of[node.name])


def with_open_calls(whole: NodeGraph, kernels: KernelRegistry) -> NodeGraph:
    """Return the graph as steps run it: the inputs of a call's code tell which home is best."""
    if whole.library is None:
        return whole
    registry = whole.registry if isinstance(whole, Graph) else op_registry()
    context = PassContext(targets=tuple(whole.nodes), kernels=kernels, registry=registry)
    try:
        return open_calls(whole, context)
    except OpError:
        return whole  # a node is missing; a step that reaches it will report it


def _keeps_state(node: Node) -> bool:
    """Return whether a node keeps state for the next step."""
    return node.is_stateful and node.op_def is not None and not node.has(OfOneStep)


def runs_rarely(graph: NodeGraph) -> frozenset[str]:
    """Return the nodes that only set, keep or report state."""
    consumers: dict[str, list[str]] = {}
    for node in graph:
        for source in dict.fromkeys(sources(node)):
            consumers.setdefault(source, []).append(node.name)
    rare: set[str] = set()
    for name in reversed(topological_order(graph.nodes)):
        behind = consumers.get(name)
        if graph.nodes[name].has(Bookkeeping) or (behind and all(each in rare for each in behind)):
            rare.add(name)
    return frozenset(rare)


def _rule(pattern: str, device: str) -> tuple[DeviceName, str | None]:
    """Parse the demand of a rule: a partial device name, or the node to be with."""
    if device.startswith("@"):
        if len(device) == 1:
            raise InvalidArgumentError(f"'{pattern}={device}' names no node: write @node")
        return DeviceName(), device[1:]
    text = device if device.startswith("/") else f"/device:{device}"
    return DeviceName.parse(text), None


def _kind(offer: Offer) -> tuple[object, ...]:
    return (*offer.task, offer.type, offer.speed)
