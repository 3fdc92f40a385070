"""A region's program: units in order, with their inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import CONTROL_TRIGGER, MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import Constant, Orders
from flowengine.passes.blocks.region_units import Aliases, Loop, Unit

#: Dimensions; None for one that is only known at run time.
Extents: TypeAlias = tuple[int | None, ...]


class Program:
    """Units in an order that respects their edges.

    inputs    ports that it takes from outside, origins of the units' inputs
    outputs   ports that others take from it
    feeds     ports that the caller supplies, whatever node they are named after
    scalars   ports of numbers that are known to be of rank 0
    extents   the dimensions of ports that depend only on shapes of feeds and constants
    costs     {node: microseconds} of nodes that were measured to take long
    """

    __slots__ = (
        "_defined",
        "_indices",
        "_origins",
        "_own",
        "_predicates",
        "_used",
        "aliases",
        "costs",
        "extents",
        "feeds",
        "inputs",
        "nodes",
        "outputs",
        "scalars",
        "units",
    )

    def __init__(
        self,
        units: tuple[Unit, ...],
        aliases: Aliases,
        nodes: Mapping[str, Node],
        feeds: frozenset[OutputPort],
        scalars: frozenset[OutputPort] = frozenset(),
        extents: Mapping[OutputPort, Extents] | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.scalars = scalars
        self.extents: Mapping[OutputPort, Extents] = {} if extents is None else extents
        self.costs: Mapping[str, float] = {} if costs is None else costs
        self.units = units
        self.aliases = aliases
        self.nodes = nodes
        self.feeds = feeds
        self.outputs: tuple[OutputPort, ...] = ()
        #: The nodes that the units stand for: a value is followed back only through these.
        self._own = frozenset(name for unit in units for name in unit.names)
        #: {a predicate in conditions: the port that has it in this program}
        self._predicates: dict[OutputPort, OutputPort] = {}
        self._alias_switches(units)
        #: Answers to earlier questions; a region asks each question several times.
        self._origins: dict[OutputPort, OutputPort] = {}
        self._defined: dict[str, tuple[OutputPort, ...]] = {}
        self._used: dict[str, tuple[OutputPort, ...]] = {}
        #: The chosen inputs of Merges, for those that ask.
        self._indices = frozenset(port for unit in units for port in _merge_indices(unit, self.nodes))
        made = {port for unit in units for port in self.defines(unit)}
        self.inputs: tuple[OutputPort, ...] = tuple(
            dict.fromkeys(port for unit in units for port in self.uses(unit) if port not in made)
        )

    def give(self, ports: Iterable[OutputPort]) -> None:
        """Set the ports that others take.

        A unit that only forwards one may need an input from outside for it.
        """
        self.outputs = tuple(ports)
        indices = {port for port in self.outputs if _is_index(port, self.nodes)}
        if indices:
            self._indices |= indices
            self._defined.clear()
        made = {port for unit in self.units for port in self.defines(unit)}
        origins = (self.origin(port) for port in self.outputs)
        more = (port for port in origins if port not in made and self.constant(port) is None)
        self.inputs = tuple(dict.fromkeys((*self.inputs, *more)))

    def _alias_switches(self, units: Iterable[Unit]) -> None:
        """A Switch inside a region forwards its input to both sides; conditions decide which nodes run."""
        for unit in units:
            if unit.loop is not None:
                self._alias_switches((*unit.loop.top, *unit.loop.body))
            elif unit.node is not None and unit.node.op in SWITCH_OPS:
                assert unit.predicate is not None
                self._predicates[unit.predicate] = unit.node.inputs[1]
                source = unit.node.inputs[0]
                if self.aliases.is_reference(source) and source not in self.feeds:
                    source = OutputPort(unit.name, 0)
                else:
                    self.aliases.add(OutputPort(unit.name, 0), source)
                self.aliases.add(OutputPort(unit.name, 1), source)

    def origin(self, port: OutputPort) -> OutputPort:
        """Return the port where a value was made, or where it enters the program."""
        known = self._origins.get(port)
        if known is not None:
            return known
        asked = port
        while port not in self.feeds and port.node in self._own:
            source = self.aliases.source(port)
            if source is None:
                break
            port = source
        self._origins[asked] = port
        return port

    def predicate(self, port: OutputPort) -> OutputPort:
        """Return the origin of a predicate in a condition."""
        return self.origin(self._predicates.get(port, port))

    def constant(self, port: OutputPort) -> Node | None:
        """Return the Const of a port, if no feed replaces it."""
        node = self.nodes.get(port.node)
        return node if node is not None and node.has(Constant) and port not in self.feeds else None

    def reads(self, port: OutputPort) -> bool:
        """Return whether the value of a port is a reference."""
        return port not in self.feeds and self.aliases.is_reference(port)

    def is_silent(self, unit: Unit) -> bool:
        """Return whether no code is written for a unit, because it only forwards a value or an order."""
        node = unit.node
        if node is None:
            return False
        if (
            node.has(Constant)
            or node.has(Orders)
            or node.op == CONTROL_TRIGGER
            or self.aliases.forwards(node)
        ):
            return True
        return node.op in SWITCH_OPS and not self.reads(node.inputs[0])

    def defines(self, unit: Unit) -> tuple[OutputPort, ...]:
        """Return the ports that a unit's code sets."""
        known = self._defined.get(unit.name)
        if known is None:
            known = self._defined[unit.name] = tuple(self._all_defined(unit))
        return known

    def _all_defined(self, unit: Unit) -> Iterator[OutputPort]:
        if self.is_silent(unit):
            return
        node = unit.node
        if node is not None and (node.op in SWITCH_OPS or node.op in MERGE_OPS):
            yield OutputPort(unit.name, 0)
            if node.op in MERGE_OPS and (index := OutputPort(unit.name, 1)) in self._indices:
                yield index
            return
        yield from unit.outputs

    def uses(self, unit: Unit) -> tuple[OutputPort, ...]:
        """Return the origins that a unit's code takes from outside of the unit, without Consts."""
        known = self._used.get(unit.name)
        if known is None:
            origins = map(self.origin, self._all_uses(unit))
            known = tuple(origin for origin in origins if self.constant(origin) is None)
            self._used[unit.name] = known
        return known

    def _all_uses(self, unit: Unit) -> Iterator[OutputPort]:
        for pred, _ in unit.conditions:
            yield self.predicate(pred)
        if unit.chooser is not None:
            yield self.predicate(unit.chooser[0])
        if unit.loop is not None:
            yield from self._loop_uses(unit.loop)
            return
        node = unit.node
        assert node is not None
        if node.op in SWITCH_OPS:
            yield node.inputs[1]
            if not self.is_silent(unit):
                yield node.inputs[0]
        elif not self.is_silent(unit):
            yield from unit.inputs

    def _loop_uses(self, loop: Loop) -> Iterator[OutputPort]:
        inside = {variable.merge for variable in loop.variables}
        units = (*loop.top, *loop.body)
        for unit in units:
            inside.update(self.defines(unit))
        entered = {OutputPort(node.name, 0) for node in loop.constants}
        for variable in loop.variables:
            yield variable.enter.inputs[0]
        for node in loop.constants:
            yield node.inputs[0]
        wanted = [port for unit in units for port in self.uses(unit)]
        wanted += [self.origin(loop.cond), *(self.origin(v.following) for v in loop.variables)]
        for port in wanted:
            if port not in inside and port not in entered:
                yield port


def _is_index(port: OutputPort, nodes: Mapping[str, Node]) -> bool:
    """Return whether a port says which input of a Merge was the live one."""
    return port.slot == 1 and port.node in nodes and nodes[port.node].op in MERGE_OPS


def _merge_indices(unit: Unit, nodes: Mapping[str, Node]) -> Iterator[OutputPort]:
    """Return those among a unit's inputs, and among those of the units in it."""
    yield from (port for port in unit.inputs if _is_index(port, nodes))
    if unit.loop is None:
        return
    yield from (v.following for v in unit.loop.variables if _is_index(v.following, nodes))
    for inner in (*unit.loop.top, *unit.loop.body):
        yield from _merge_indices(inner, nodes)
