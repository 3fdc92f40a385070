"""Fuse consecutive large nodes, so that all of them make one trip to a worker thread.

    Conv2D -> MaxPool -> Conv2D -> ConcatV2 -> ...  ->  _FusedSequence{all, one after another}

An item that runs on a worker thread returns some 50 us later, and the next in line waits for that: a network
of a hundred layers loses as much time so as it spends in ten of them. Products, nodes that a library
computes, and the nodes between them are gathered, as long as they take a tenth of a second in all, and run as
one, each by its own kernel; no bit changes. A node that only forwards a member's value, such as the Identity
nodes between the blocks of many networks, is a member without a step.

Nodes are walked in topological order and numbered, so that no edge leads to a lower number: a node joins the
open sequence of its device unless a node between them is not a member. Members wait for the same token
sources (`blocks/tokens.py`), so that none waits longer than it must, and none is dead while another lives.
Linear time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flowengine.core.errors import OpError
from flowengine.ir.frames import assign_frames
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.rewire import with_groups
from flowengine.ir.traits import HandsOn, NetworkLayer
from flowengine.ir.traverse import forward_sources
from flowengine.kernels.common.pieces import has_pieces
from flowengine.kernels.numpy.sequences import Sequence, SequenceStep
from flowengine.kernels.provider import outside
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.ops.internal import FUSED_SEQUENCE
from flowengine.passes.blocks.cutting import SEQUENCE_LIMITS
from flowengine.passes.blocks.tokens import token_sets
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.purity import Purity


@dataclass(slots=True)
class _OpenSequence:
    """A sequence that is being gathered."""

    number: int
    members: list[Node] = field(default_factory=list)
    microseconds: float = 0.0


def fuse_sequences(
    graph: NodeGraph, context: PassContext, heavy: Collection[str], costs: Mapping[str, float]
) -> NodeGraph:
    """Return the graph with each sequence of large nodes as one node; the same graph if there is none.

    heavy   nodes for a worker thread: every sequence has one, or several that can be joined
    costs   {node: microseconds} of measured nodes
    """
    if context.kernels is None or not (heavy or any(map(_is_large, graph))):
        return graph
    found = _SequenceFinder(graph, context, context.kernels, heavy, costs).run()
    return _rewritten(graph, found, context.kernels) if found else graph


def _is_large(node: Node) -> bool:
    """Return whether the node is a layer; without a layer, or a heavy node, there is nothing to gather."""
    layer = node.trait(NetworkLayer)
    return layer is not None and layer.is_large


class _SequenceFinder:
    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        kernels: KernelRegistry,
        heavy: Collection[str],
        costs: Mapping[str, float],
    ) -> None:
        self._graph = graph
        self._kernels = kernels
        self._heavy = heavy
        self._costs = costs
        self._is_pure = Purity(kernels)
        self._frames = assign_frames(graph, frozenset(context.feeds))
        self._kept = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)

    def run(self) -> list[list[Node]]:
        """Return the members of each sequence, in order."""
        nodes = self._graph.nodes
        # Sequences have even numbers; a node outside of them has the odd one after all that it waits for.
        number_of: dict[str, int] = {}
        opened: dict[tuple[str, int], _OpenSequence] = {}
        every: list[_OpenSequence] = []
        for name, tokens in token_sets(self._graph, self._kernels).items():
            node = nodes[name]
            sources = [source for source in forward_sources(node, nodes) if source in number_of]
            above = max((number_of[source] for source in sources), default=-1)
            key = (node.device or "", tokens)
            group = opened.get(key)
            if group is not None and self._hands_on(node, group, number_of) and above <= group.number:
                group.members.append(node)
                number_of[name] = group.number
                continue
            if not self._joins(node):
                number_of[name] = above if above % 2 else above + 1
                continue
            cost = self._costs.get(name, 0.0)
            if (
                group is None
                or above > group.number
                or not SEQUENCE_LIMITS.has_room(len(group.members), group.microseconds, cost)
            ):
                group = opened[key] = _OpenSequence(2 * len(every) + 2)
                every.append(group)
            group.members.append(node)
            group.microseconds += cost
            number_of[name] = group.number
        return [group.members for group in every if self._is_worth_it(_with_steps(group.members))]

    def _hands_on(self, node: Node, group: _OpenSequence, number_of: Mapping[str, int]) -> bool:
        """Return whether a node forwards the value of a member of the group; members have no references."""
        if not node.has(HandsOn) or node.name in self._kept:
            return False
        return number_of.get(node.inputs[0].node) == group.number

    def _is_worth_it(self, members: list[Node]) -> bool:
        if len(members) < 2:
            return False
        if any(node.name in self._heavy for node in members):
            return True
        # Light ones do best in regions, unless they are joined.
        joined = sum(map(self._is_joinable, members))
        return joined > 1 and 2 * joined >= len(members)

    def _is_joinable(self, node: Node) -> bool:
        """Return whether it can be joined with similar nodes, as far as is known before it runs."""
        kernel = self._kernel(node)
        return kernel is not None and has_pieces(node.attrs.get("program", kernel.bind(node)))

    def _joins(self, node: Node) -> bool:
        if node.name in self._kept or self._frames.get(node.name, None) != ():
            return False
        if not node.inputs or not self._is_pure(node):
            return False
        kernel = self._kernel(node)
        if kernel is None or kernel.is_async or kernel.takes_context:
            return False
        # Nodes that no library spreads over the cores run beside those that are spread.
        return node.has(NetworkLayer) or (kernel.maker is not None and not kernel.one_core)

    def _kernel(self, node: Node) -> Kernel | None:
        try:
            return self._kernels.find(node)
        except OpError:
            return None


def _with_steps(members: list[Node]) -> list[Node]:
    return [node for node in members if not node.has(HandsOn)]


def _rewritten(graph: NodeGraph, sequences: list[list[Node]], kernels: KernelRegistry) -> NodeGraph:
    takers: dict[OutputPort, set[str]] = {}
    for node in graph:
        for port in node.inputs:
            takers.setdefault(port, set()).add(node.name)
    made: dict[str, Node] = {}
    moved: dict[OutputPort, OutputPort] = {}
    name_of: dict[str, str] = {}
    for members in sequences:
        own = {node.name for node in members}
        name = members[-1].name
        gives = [
            (port, dtype)
            for node in members
            for slot, dtype in enumerate(node.output_types)
            if takers.get(port := OutputPort(node.name, slot), own) - own
        ]
        inputs = outside(members)
        numbers = {port: i for i, port in enumerate(inputs)}
        steps = []
        count = len(inputs)
        for node in members:
            if node.has(HandsOn):
                numbers[OutputPort(node.name, 0)] = numbers[node.inputs[0]]
                continue
            steps.append(_step(node, kernels, numbers))
            for slot in range(len(node.output_types)):
                numbers[OutputPort(node.name, slot)] = count
                count += 1
        # Forwarded values are passed once.
        given = {numbers[port]: dtype for port, dtype in gives}
        slots = {number: slot for slot, number in enumerate(given)}
        program = Sequence(len(inputs), steps, list(given))
        controls = dict.fromkeys(c for node in members for c in node.control_inputs if c not in own)
        types = {
            port: dtype
            for node in members
            for port, dtype in zip(node.inputs, node.input_types(), strict=True)
        }
        root = members[-1]
        made[name] = Node(
            name=name,
            op=FUSED_SEQUENCE.name,
            inputs=inputs,
            control_inputs=tuple(controls),
            attrs={
                "Tin": tuple(types[port] for port in inputs),
                "Tout": tuple(given.values()),
                "program": program,
            },
            device=root.device,
            op_def=FUSED_SEQUENCE,
            output_types=tuple(given.values()),
            creation_site=root.creation_site,
        )
        moved.update((port, OutputPort(name, slots[numbers[port]])) for port, _ in gives)
        name_of.update((member, name) for member in own)

    return with_groups(graph, made, moved, name_of)


def _step(node: Node, kernels: KernelRegistry, numbers: Mapping[OutputPort, int]) -> SequenceStep:
    assert node.op_def is not None
    sources: list[int | tuple[int, ...]] = []
    places = iter([numbers[port] for port in node.inputs])
    for arg in node.op_def.inputs:
        taken = tuple(next(places) for _ in arg.types(node.attrs))
        sources.append(taken if arg.is_list else taken[0])
    function = kernels.find(node).bind(node)
    return SequenceStep(node, function, tuple(sources), len(node.output_types))
