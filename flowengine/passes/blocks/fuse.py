"""Fuse many synchronous nodes of one frame into one `_Region` node, with whole loops and conditionals.

    a -> b -> c, all synchronous, with the same token sources  ->  _Region{a; b; c}

Nodes may share a region if they are in one frame and wait for the same *token sources* (`tokens.py`): every
node that stays outside of regions is one, also a heavy one. Such a region is convex, it is wholly live or
wholly dead, and waiting for all its inputs cannot deadlock, because none of its members could have run
without them.

A conditional goes into a region as a whole, Switch to Merge, or not at all, so that no dead token crosses
a region's boundary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.frames import FramePath, assign_frames, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import (
    CONTROL_TRIGGER,
    ENTER_OPS,
    EXIT_OPS,
    LOOP_COND,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    REFERENCE_CARRIERS,
    REGION,
    SWITCH_OPS,
    TRANSFER_OPS,
)
from flowengine.ir.traits import Constant, HandsOn, Orders
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.blocks.cutting import REGION_LIMITS, BodyLimits, cut
from flowengine.passes.blocks.deadness import ENTERED, LIVE, Tokens, UnwrittenLoop, check_loops
from flowengine.passes.blocks.loops import lower_loop
from flowengine.passes.blocks.region_nodes import BlockGraph, Region, Surroundings
from flowengine.passes.blocks.region_units import (
    ALWAYS,
    Aliases,
    Conditions,
    Unit,
    UnreadableBranch,
    arranged,
    assign_conditions,
    topological,
    unit_of_node,
)
from flowengine.passes.blocks.tokens import ADDS, PASSES, SPLITS, TokenSets, joined, role_of
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.known_shapes import known_shapes

#: Fewer kernel calls than this are not worth a region.
_CALLS_MIN: Final = 2

_CONTROL: Final = ENTER_OPS | EXIT_OPS | NEXT_ITERATION_OPS | REFERENCE_CARRIERS | {LOOP_COND}
_OUTSIDE: Final = TRANSFER_OPS | {CONTROL_TRIGGER, REGION}


def fuse(
    graph: NodeGraph,
    context: PassContext,
    *,
    heavy: frozenset[str] = frozenset(),
    costs: Mapping[str, float] | None = None,
    limits: BodyLimits = REGION_LIMITS,
) -> BlockGraph:
    """Return the graph with regions instead of their members, and the new places of the members' outputs.

    heavy   nodes that proved to be worth a worker thread: they stay items of their own
    costs   {node: microseconds}, of measured nodes; any other counts as small
    """
    return at_once(fusing(graph, context, heavy=heavy, costs=costs, limits=limits))


def fusing(
    graph: NodeGraph,
    context: PassContext,
    *,
    heavy: frozenset[str] = frozenset(),
    costs: Mapping[str, float] | None = None,
    limits: BodyLimits = REGION_LIMITS,
) -> Pieces[BlockGraph]:
    """Fuse as `fuse` does, in pieces."""
    if context.kernels is None:
        return BlockGraph(graph, {})
    fusion = _RegionBuilder(graph, context, context.kernels, heavy, costs or {}, limits)
    yield
    return (yield from fusion.run())


class _RegionBuilder:
    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        kernels: KernelRegistry,
        heavy: frozenset[str],
        costs: Mapping[str, float],
        limits: BodyLimits,
    ) -> None:
        self.graph = graph
        self.feeds = frozenset(context.feeds)
        #: Fed nodes that are no longer in the graph.
        self.declared = {node.name: node for node in context.declared}
        self.fetches = frozenset(context.fetches)
        self.targets = frozenset(context.targets)
        self.kernels = kernels
        self.heavy = heavy
        self.costs = costs
        self.limits = limits
        self.order = {name: index for index, name in enumerate(graph.nodes)}
        self.aliases = Aliases(graph.nodes)
        #: Loops that are left to the state machine, because they may be dead in part.
        self.unlowered: set[FramePath] = set()
        self.frames = assign_frames(graph, self.feeds)
        self.scalars, self.extents = known_shapes(graph, context)
        #: {port: the nodes that take it}; {node: the nodes that wait for it}
        self.consumers: dict[OutputPort, list[str]] = {}
        self.followers: dict[str, list[str]] = {}
        for node in graph:
            for port in node.inputs:
                self.consumers.setdefault(port, []).append(node.name)
            for name in node.control_inputs:
                self.followers.setdefault(name, []).append(node.name)

    def run(self) -> Pieces[BlockGraph]:
        by_frame: dict[FramePath, list[Node]] = {}
        for node in self.graph:
            by_frame.setdefault(self.frames.get(node.name, ()), []).append(node)
        regions: list[Region] | None = None
        while regions is None:
            try:
                regions = yield from self._all_regions(by_frame)
            except UnwrittenLoop as stays:
                self.unlowered.add(stays.frame)
                self.aliases = Aliases(self.graph.nodes)
        if not regions:
            return BlockGraph(self.graph, {})
        around = Surroundings(
            *(self.graph, self.feeds, self.fetches, self.declared, self.consumers),
            *(self.aliases, self.scalars, self.extents, self.costs),
        )
        return (yield from around.putting(regions))

    def _all_regions(self, by_frame: Mapping[FramePath, list[Node]]) -> Pieces[list[Region]]:
        lowered = self._lower_loops(by_frame)
        yield
        regions: list[Region] = []
        for path, nodes in by_frame.items():
            if path in lowered:
                continue
            inner = [unit for frame, unit in lowered.items() if frame[:-1] == path]
            regions += yield from self._regions_of(nodes, inner)
        return regions

    # -- members ------------------------------------------------------------------------------------

    def is_member(self, node: Node) -> bool:
        """Return whether a node can be part of a region: it never waits and is not worth a thread."""
        op_def = node.op_def
        if op_def is None or node.name in self.heavy or node.op in _CONTROL or node.op in _OUTSIDE:
            return node.op == LOOP_COND and op_def is not None
        if node.is_placeholder:
            return False
        if any(OutputPort(node.name, slot) in self.feeds for slot in range(len(node.output_types))):
            return False
        if node.op in MERGE_OPS:
            back = any(self._is_back_edge(port) for port in node.inputs)
            return not back
        if node.has(Constant) and not node.control_inputs:
            return False  # its value is always there, for any consumer
        if node.op in SWITCH_OPS or _is_silent(node):
            return True
        if op_def.is_stateful and not node.inputs:
            return False  # it makes a variable or a queue: the region takes the object
        kernel = next((k for k in self.kernels.candidates(node.op) if k.serves(node)), None)
        return kernel is not None and not kernel.is_async

    def _is_back_edge(self, port: OutputPort) -> bool:
        node = self.graph.nodes.get(port.node)
        return node is not None and node.op in NEXT_ITERATION_OPS

    def used(self, port: OutputPort) -> bool:
        return port in self.consumers or port in self.fetches

    # -- loops --------------------------------------------------------------------------------------

    def _lower_loops(self, by_frame: Mapping[FramePath, list[Node]]) -> dict[FramePath, Unit]:
        """Return {frame: its loop}, of the loops that can be lowered; inner ones first."""
        lowered: dict[FramePath, Unit] = {}
        enters: dict[FramePath, list[Node]] = {}
        for node in self.graph:
            if node.op in ENTER_OPS and node.name in self.frames:
                enters.setdefault(output_frame(node, self.frames[node.name]), []).append(node)
        for path in sorted((p for p in by_frame if p), key=len, reverse=True):
            inner = [unit for frame, unit in lowered.items() if frame[:-1] == path]
            exits = [n for n in by_frame[path] if n.op in EXIT_OPS]
            if path in self.unlowered or any(OutputPort(n.name, 0) in self.feeds for n in exits):
                continue
            try:
                unit = lower_loop(
                    path,
                    enters.get(path, []),
                    by_frame[path],
                    inner,
                    self.order,
                    self.aliases,
                    self.is_member,
                    self.used,
                )
            except UnreadableBranch:
                continue
            lowered[path] = unit
        return lowered

    # -- regions ------------------------------------------------------------------------------------

    def _regions_of(self, nodes: Sequence[Node], inner: Sequence[Unit]) -> Pieces[list[Region]]:
        """Return the regions of one frame that stays with the state machine, or of the root."""
        inside = {name for unit in inner for name in unit.names}
        members: list[Unit] = []
        outsiders: list[Unit] = []
        for node in nodes:
            if node.name in inside:
                continue
            if node.op != LOOP_COND and self.is_member(node):
                members.append(unit_of_node(node, self.order[node.name]))
            elif not node.has(Constant) or node.control_inputs:
                outsiders.append(unit_of_node(node, self.order[node.name]))
        yield
        try:
            return (yield from self._grown([*members, *inner], outsiders))
        except UnreadableBranch:
            return []

    def _grown(self, members: list[Unit], outsiders: list[Unit]) -> Pieces[list[Region]]:
        """Take conditionals out until the remaining ones are whole, then cut the groups into regions."""
        group_of: dict[str, int] = {}
        while True:
            everything = topological([*members, *map(self._forward, outsiders)])
            yield
            check_loops(everything, self.aliases, self._tokens_from_outside)
            yield
            inside = {unit.name for unit in members}
            try:
                of_port = assign_conditions(
                    [unit for unit in everything if unit.name in inside], self.aliases, lambda port: ALWAYS
                )
                yield
                group_of = self._groups(everything, inside)
                yield
                broken = self._broken(members, group_of, of_port)
            except UnreadableBranch:
                broken = {unit.name for unit in members if _is_control(unit)}
                if not broken:
                    raise
            if not broken:
                break
            outsiders = [*outsiders, *(unit for unit in members if unit.name in broken)]
            members = [unit for unit in members if unit.name not in broken]
        groups: dict[int, list[Unit]] = {}
        for unit in members:
            groups.setdefault(group_of[unit.name], []).append(unit)
        regions: list[Region] = []
        for units in groups.values():
            yield
            pieces = cut(arranged(units), self.costs, self.limits)
            regions += [Region(piece) for piece in pieces if _is_worth_it(piece)]
        return regions

    def _forward(self, unit: Unit) -> Unit:
        """Return a unit that stays outside, with back edges cut."""
        if any(self._is_back_edge(port) for port in unit.inputs):
            forward = tuple(port for port in unit.inputs if not self._is_back_edge(port))
            return replace(unit, inputs=forward)
        return unit

    def _groups(self, everything: Sequence[Unit], inside: set[str]) -> dict[str, int]:
        """Return {member: number of its group}; members of a group have the same token sources."""
        numbers: dict[int, int] = {}
        sets: TokenSets[str | OutputPort] = TokenSets()
        groups: dict[str, int] = {}
        for unit in everything:
            waits = 0
            for name in unit.controls:
                waits = joined(waits, self._behind(sets, name))
            for port in unit.inputs:
                if port not in self.feeds:
                    side = sets.behind(port)
                    waits = joined(waits, self._behind(sets, port.node) if side is None else side)
            role = PASSES
            if unit.name in inside:
                groups[unit.name] = numbers.setdefault(waits, len(numbers))
            elif unit.node is not None:
                role = role_of(unit.node, self.kernels)
                if role == PASSES and (unit.inputs or unit.controls):
                    role = ADDS  # or its consumers could share a region with its sources
            for name in unit.names:
                sets.add(name, waits, role, unit.outputs if role == SPLITS else ())
        return groups

    def _behind(self, sets: TokenSets[str | OutputPort], name: str) -> int:
        """Return the token set that the consumers of a node wait for.

        A node of another frame is a source, unless it is a Const.
        """
        known = sets.behind(name)
        if known is not None:
            return known
        node = self.graph.nodes.get(name)
        return 0 if node is None or node.has(Constant) else sets.source(name)

    def _tokens_from_outside(self, port: OutputPort) -> Tokens:
        """Return the tokens that may kill a value from another frame.

        All values that enter one frame count as live or dead together.
        """
        node = self.graph.nodes.get(port.node)
        if node is None or port in self.feeds or node.has(Constant):
            return LIVE
        return frozenset({ENTERED if node.op in ENTER_OPS else node.name})

    def _broken(
        self, members: Sequence[Unit], group_of: Mapping[str, int], of_port: Mapping[OutputPort, Conditions]
    ) -> set[str]:
        """Return the Switches and Merges of conditionals from which a dead token would leave a region."""
        unit_of = {name: unit for unit in members for name in unit.names}
        predicates: set[OutputPort] = set()

        def leaves(unit: Unit, consumer: str) -> bool:
            other = unit_of.get(consumer)
            return other is None or group_of[other.name] != group_of[unit.name]

        for unit in members:
            for port in unit.outputs:
                conditions = of_port.get(port, ALWAYS)
                if conditions and (
                    port in self.fetches or any(leaves(unit, c) for c in self.consumers.get(port, ()))
                ):
                    predicates |= {pred for pred, _ in conditions}
            if unit.conditions:
                followers = (f for name in unit.names for f in self.followers.get(name, ()))
                if any(leaves(unit, follower) for follower in followers):
                    predicates |= {pred for pred, _ in unit.conditions}
        if not predicates:
            return set()
        return {unit.name for unit in members if _is_control(unit) and self._belongs(unit, predicates)}

    @staticmethod
    def _belongs(unit: Unit, predicates: set[OutputPort]) -> bool:
        """Return whether a Switch opens, or a Merge closes, a conditional on one of the predicates."""
        if unit.chooser is not None:
            return unit.chooser[0] in predicates
        return unit.predicate in predicates


def _is_silent(node: Node) -> bool:
    """Return whether a node computes nothing: its value exists already, or it has none."""
    return node.has(HandsOn) or node.has(Constant) or node.has(Orders)


def _is_control(unit: Unit) -> bool:
    return unit.node is not None and (unit.node.op in SWITCH_OPS or unit.node.op in MERGE_OPS)


def _is_worth_it(units: Iterable[Unit]) -> bool:
    calls = 0
    for unit in units:
        if unit.loop is not None:
            return True
        assert unit.node is not None
        calls += not _is_silent(unit.node)
    return calls >= _CALLS_MIN


__all__ = ["fuse", "fusing"]
