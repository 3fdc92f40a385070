"""Gather an optimizer's steps on small variables: one node changes all of them.

    ApplyAdagrad(v, s, lr, g), ApplyAdagrad(w, t, lr, h)    ->    _GatheredUpdates(v, w, s, t, lr, g, h)

Variables are known by reference or by resource handle; the two are gathered apart.
A network has a hundred vectors of a hundred numbers, and a step on one of them costs as much as it does on
one of ten thousand. Gathered are updates by the same numbers of variables whose shapes are known, none of
which waits for another, and all for the same queues and branches: nothing that has an order gets another. The
last one's place is that of all. No bit changes. Linear time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from flowengine.core.dtypes import DType, float32
from flowengine.core.errors import OpError
from flowengine.ir.frames import assign_frames
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.rewire import with_groups
from flowengine.ir.traits import GivesVariable
from flowengine.ir.traverse import forward_sources
from flowengine.kernels.provider import ClaimContext, ClaimedBody
from flowengine.kernels.registry import KernelRegistry
from flowengine.kernels.training.apply import dense_updates
from flowengine.kernels.training.gathered_updates import GatheredUpdates
from flowengine.ops.internal import GATHERED_RESOURCE_UPDATES, GATHERED_UPDATES

#: Elements of a variable above which its own step takes no longer than to copy it there and back.
_SMALL: Final = 1 << 13
#: So many are gathered at least.
_MEMBERS_MIN: Final = 4


@dataclass(slots=True)
class UpdateGroup:
    """Updates that may be one.

    members     the nodes, the last of which gives its name and place
    shapes      of their variables
    variables   the nodes of all variables and slots
    """

    members: list[Node] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class UpdateLimits:
    """Which updates are gathered.

    members_min    so many at least
    elements_max   of each variable; None for any number
    types          of the variables
    """

    members_min: int
    elements_max: int | None
    types: frozenset[DType]


def gather_updates(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with small updates as one for each set of numbers; the same graph if there are few."""
    limits = UpdateLimits(_MEMBERS_MIN, _SMALL, frozenset({float32}))
    return gathered(graph, context, limits, lambda group: _program(group, context.kernels))


def gathered(
    graph: NodeGraph,
    context: ClaimContext,
    limits: UpdateLimits,
    program: Callable[[UpdateGroup], ClaimedBody | None],
) -> NodeGraph:
    """The graph with updates as one for each set of numbers; the same graph if there are few.

    program   the body of a group's node, whose `run` takes variables, numbers and gradients; None to leave it
    """
    candidates = {node.name for node in graph if node.op in dense_updates()}
    if len(candidates) < limits.members_min:
        return graph
    groups = _groups(graph, context, candidates, limits)
    made: dict[str, Node] = {}
    moved: dict[OutputPort, OutputPort] = {}
    name_of: dict[str, str] = {}
    for group in groups:
        body = program(group) if len(group.members) >= limits.members_min else None
        if body is None:
            continue
        fused = _fused(group, body)
        made[fused.name] = fused
        name_of |= dict.fromkeys((node.name for node in group.members), fused.name)
        if fused.output_types:
            moved |= {
                OutputPort(node.name, 0): OutputPort(fused.name, slot)
                for slot, node in enumerate(group.members)
            }
    if not made:
        return graph
    return with_groups(graph, made, moved, name_of)


def _groups(
    graph: NodeGraph, context: ClaimContext, candidates: set[str], limits: UpdateLimits
) -> list[UpdateGroup]:
    nodes = graph.nodes
    kept = context.kept
    frames = assign_frames(graph, frozenset(context.feeds))
    fed = frozenset(context.feeds)
    #: Those that wait for a candidate.
    behind: set[str] = set()
    groups: dict[Hashable, UpdateGroup] = {}
    for name, tokens in context.waits(graph).items():
        node = nodes[name]
        sources = forward_sources(node, nodes)
        if any(source in behind or source in candidates for source in sources):
            behind.add(name)
        if name not in candidates or name in behind or name in kept or frames.get(name) != ():
            continue
        found = _variables(node, graph, fed, limits)
        if found is None:
            continue
        names, shape = found
        update = dense_updates()[node.op]
        numbers = _numbers(node)
        attrs = tuple(node.attrs[attr] for attr in update.attrs)
        kind = (node.op, node.attrs["T"], node.device)
        group = groups.setdefault((kind, attrs, numbers, tokens), UpdateGroup())
        if group.variables.isdisjoint(names):
            group.members.append(node)
            group.shapes.append(shape)
            group.variables.update(names)
    return list(groups.values())


def _numbers(node: Node) -> tuple[OutputPort, ...]:
    update = dense_updates()[node.op]
    values = list(node.inputs[len(update.slots) :])
    del values[update.gradient]
    return tuple(values)


def _gradient(node: Node) -> OutputPort:
    update = dense_updates()[node.op]
    return node.inputs[len(update.slots) + update.gradient]


def _variables(
    node: Node, graph: NodeGraph, fed: frozenset[OutputPort], limits: UpdateLimits
) -> tuple[set[str], tuple[int, ...]] | None:
    """(the nodes of the variable and its slots, its shape) if they are within the limits and are variables
    themselves."""
    if node.attrs["T"] not in limits.types:
        return None
    names = set()
    shapes = set()
    ports = node.inputs[: len(dense_updates()[node.op].slots)]
    for port in ports:
        source = graph.nodes.get(port.node)
        if source is None or not source.has(GivesVariable) or port in fed:
            return None
        names.add(source.name)
        shapes.add(source.attrs["shape"].as_tuple())
    shape = shapes.pop()
    if shapes or shape is None or len(names) < len(ports) or not math.prod(shape):
        return None
    if limits.elements_max is not None and math.prod(shape) > limits.elements_max:
        return None
    return names, shape


def _program(group: UpdateGroup, kernels: KernelRegistry) -> GatheredUpdates | None:
    root = group.members[-1]
    update = dense_updates()[root.op]
    try:
        functions = [kernels.find(node).bind(node) for node in group.members]
    except OpError:
        return None  # the plan says what is wrong
    attrs = {attr: root.attrs[attr] for attr in update.attrs}
    return GatheredUpdates(group.members, functions, update, attrs, group.shapes)


def _fused(group: UpdateGroup, program: ClaimedBody) -> Node:
    members = group.members
    root = members[-1]
    update = dense_updates()[root.op]
    variables = [node.inputs[slot] for slot in range(len(update.slots)) for node in members]
    numbers = _numbers(root)
    gradients = [_gradient(node) for node in members]
    # Ops of references hand them on, those of handles give nothing.
    op_def = GATHERED_UPDATES if root.output_types else GATHERED_RESOURCE_UPDATES
    return replace(
        root,
        op=op_def.name,
        op_def=op_def,
        inputs=(*variables, *numbers, *gradients),
        control_inputs=tuple(dict.fromkeys(c for node in members for c in node.control_inputs)),
        attrs={
            "T": root.attrs["T"],
            "V": len(variables),
            "M": len(numbers),
            "N": len(gradients),
            "program": program,
        },
        output_types=root.output_types * len(members),
    )
