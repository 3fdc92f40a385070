"""Units, of which a region consists: a unit is a node, or a whole while loop that was lowered.

A region's program is a list of units in an order that respects every edge, each with the *conditions*
under which it runs: pairs (predicate, side) of the Switches it depends on. Conditions of a well-formed
conditional end at its Merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import CONTROL_TRIGGER, MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import HandsOn, HandsOnEach

#: {(the predicate's port, which output of the Switch)}
Conditions: TypeAlias = frozenset[tuple[OutputPort, int]]
ALWAYS: Conditions = frozenset()


@dataclass(slots=True, eq=False)
class Unit:
    """A member of a region.

    name       of the node; of a loop, a name that no node has
    names      every node that it stands for
    inputs     ports that it needs from outside
    controls   nodes that must have run before it
    outputs    ports that it has
    """

    name: str
    order: int
    node: Node | None = None
    loop: Loop | None = None
    names: frozenset[str] = frozenset()
    inputs: tuple[OutputPort, ...] = ()
    controls: tuple[str, ...] = ()
    outputs: tuple[OutputPort, ...] = ()
    conditions: Conditions = ALWAYS
    #: Of a Merge: (predicate, side on which its first input is the one that ran).
    chooser: tuple[OutputPort, int] | None = None
    #: Of a Switch: its predicate as conditions name it.
    predicate: OutputPort | None = None


def unit_of_node(node: Node, order: int) -> Unit:
    outputs = tuple(OutputPort(node.name, slot) for slot in range(len(node.output_types)))
    return Unit(
        node.name, order, node, None, frozenset({node.name}), node.inputs, node.control_inputs, outputs
    )


@dataclass(slots=True, eq=False)
class LoopVariable:
    """A loop-carried variable: a Merge, the Enter that starts it, and the value from NextIteration."""

    merge: OutputPort
    enter: Node
    following: OutputPort


@dataclass(slots=True, eq=False)
class Loop:
    """A while loop as Python's `while`: `top` runs each round, `body` while `cond` holds.

    path        the path of its frame
    constants   Enters whose value every iteration has
    exits       {port of an Exit: index of its variable}
    deciding    names of the Enters that the condition of the first iteration depends on
    has_effects_on_top    whether `top` has a stateful node
    """

    path: FramePath
    variables: list[LoopVariable]
    constants: list[Node]
    cond: OutputPort
    cond_switch: Node
    top: list[Unit]
    body: list[Unit]
    exits: dict[OutputPort, int] = field(default_factory=dict)
    deciding: frozenset[str] = frozenset()
    has_effects_on_top: bool = False


class Aliases:
    """The origins of values, found through nodes that only forward them."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._extra: dict[OutputPort, OutputPort] = {}

    def add(self, port: OutputPort, source: OutputPort) -> None:
        self._extra[port] = source

    def is_reference(self, port: OutputPort) -> bool:
        node = self._nodes.get(port.node)
        return node is not None and port.slot < len(node.output_types) and node.output_types[port.slot].is_ref

    def forwards(self, node: Node) -> bool:
        """Return whether each of the node's outputs is its unchanged input: no reference is followed."""
        if node.has(HandsOnEach):
            return not any(self.is_reference(port) for port in node.inputs)
        return node.has(HandsOn) and (node.output_types[0].is_ref or not self.is_reference(node.inputs[0]))

    def source(self, port: OutputPort) -> OutputPort | None:
        """Return the port one node before, if this node only forwards its value; else None."""
        known = self._extra.get(port)
        if known is not None:
            return known
        node = self._nodes.get(port.node)
        if node is None or not self.forwards(node):
            return None
        return node.inputs[port.slot if node.has(HandsOnEach) else 0]

    def origin(self, port: OutputPort) -> OutputPort:
        """Return the port where the value was made."""
        while (source := self.source(port)) is not None:
            port = source
        return port


class UnreadableBranch(Exception):
    """Control flow that is left to the state machine. Never leaves the passes."""


def assign_conditions(
    units: Sequence[Unit],
    aliases: Aliases,
    given: Callable[[OutputPort], Conditions],
) -> dict[OutputPort, Conditions]:
    """Find each unit's conditions; return those of the ports. `units` are in topological order.

    Raises UnreadableBranch for a Merge that does not close a conditional.
    """
    of_port: dict[OutputPort, Conditions] = {}
    of_name: dict[str, Conditions] = {}

    def look(port: OutputPort) -> Conditions:
        found = of_port.get(port)
        return given(port) if found is None else found

    for unit in units:
        node = unit.node
        if node is not None and node.op in MERGE_OPS:
            conditions, unit.chooser = _merged([look(port) for port in unit.inputs])
        elif node is not None and node.op == CONTROL_TRIGGER:
            conditions = ALWAYS  # it runs whether or not its inputs did
        else:
            conditions = ALWAYS.union(*(look(port) for port in unit.inputs))
            conditions = conditions.union(*(of_name.get(name, ALWAYS) for name in unit.controls))
        unit.conditions = conditions
        if any((pred, 1 - side) in conditions for pred, side in conditions):
            raise UnreadableBranch
        for name in unit.names:
            of_name[name] = conditions
        if node is not None and node.op in SWITCH_OPS:
            unit.predicate = aliases.origin(unit.inputs[1])
        for port in unit.outputs:
            extra = () if unit.predicate is None else {(unit.predicate, port.slot)}
            of_port[port] = conditions.union(extra)
    return of_port


def _merged(sides: Sequence[Conditions]) -> tuple[Conditions, tuple[OutputPort, int]]:
    """Return a Merge's conditions, those its inputs share, if they differ in the side of one predicate."""
    if len(sides) != 2:
        raise UnreadableBranch
    only_left, only_right = sides[0] - sides[1], sides[1] - sides[0]
    if len(only_left) != 1 or len(only_right) != 1:
        raise UnreadableBranch
    (left,), (right,) = only_left, only_right
    if left[0] != right[0] or left[1] == right[1]:
        raise UnreadableBranch
    return sides[0] & sides[1], left


def topological(units: Iterable[Unit]) -> list[Unit]:
    """Return units after those they depend on, in order of construction; UnreadableBranch for a cycle."""
    waiting, consumers, ready = _dependencies(units)
    result: list[Unit] = []
    while ready:
        _, _, unit = heappop(ready)
        result.append(unit)
        for consumer in consumers.get(unit.name, ()):
            waiting[consumer.name] -= 1
            if not waiting[consumer.name]:
                heappush(ready, (consumer.order, consumer.name, consumer))
    if len(result) != len(waiting):
        raise UnreadableBranch
    return result


def arranged(units: Iterable[Unit]) -> list[Unit]:
    """Return a topological order in which units of the same conditions are adjacent if possible."""
    waiting, consumers, heap = _dependencies(units)
    ready: dict[Conditions, list[tuple[int, str, Unit]]] = {}
    for entry in heap:
        heappush(ready.setdefault(entry[2].conditions, []), entry)
    result: list[Unit] = []
    current = ALWAYS
    while ready:
        if current not in ready:
            current = min(ready, key=lambda conditions: ready[conditions][0][:2])
        group = ready[current]
        _, _, unit = heappop(group)
        if not group:
            del ready[current]
        result.append(unit)
        for consumer in consumers.get(unit.name, ()):
            waiting[consumer.name] -= 1
            if not waiting[consumer.name]:
                entry = (consumer.order, consumer.name, consumer)
                heappush(ready.setdefault(consumer.conditions, []), entry)
    return result


def _dependencies(
    units: Iterable[Unit],
) -> tuple[dict[str, int], dict[str, list[Unit]], list[tuple[int, str, Unit]]]:
    """Return ({unit: number of units before it}, {unit: units that wait for it}, a heap of ready ones)."""
    members = list(units)
    unit_of = {name: unit for unit in members for name in unit.names}
    waiting: dict[str, int] = {}
    consumers: dict[str, list[Unit]] = {}
    ready: list[tuple[int, str, Unit]] = []
    for unit in members:
        before = {source.name for source in _sources(unit, unit_of)} - {unit.name}
        waiting[unit.name] = len(before)
        for name in before:
            consumers.setdefault(name, []).append(unit)
        if not before:
            heappush(ready, (unit.order, unit.name, unit))
    return waiting, consumers, ready


def _sources(unit: Unit, unit_of: Mapping[str, Unit]) -> Iterator[Unit]:
    for port in unit.inputs:
        source = unit_of.get(port.node)
        if source is not None:
            yield source
    for name in unit.controls:
        source = unit_of.get(name)
        if source is not None:
            yield source
