"""Put regions into a graph: a `_Region` node for each, its members gone, edges turned to it.

The inputs of a region are the values that it takes from outside, its outputs those that others take from its
members. A Const costs nothing: it is copied into each region, and also kept if others need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.work_pieces import Pieces
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import Constant
from flowengine.ops.internal import REGION
from flowengine.passes.blocks.program import Extents, Program
from flowengine.passes.blocks.region_units import Aliases, Unit


@dataclass(frozen=True, slots=True)
class BlockGraph:
    """`moved` maps a port of a member to the region's output with its value."""

    graph: NodeGraph
    moved: Mapping[OutputPort, OutputPort]


class Region:
    """Units that become one node. `copied` are members that may also stay in the graph."""

    __slots__ = ("copied", "outputs", "units")

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.outputs: tuple[OutputPort, ...] = ()
        self.copied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The graph that regions are put into, and the facts about it.

    declared    {name: node} of fed nodes that are no longer in the graph
    consumers   {port: the nodes that take it}
    scalars, extents, costs   as of `Program`
    """

    graph: NodeGraph
    feeds: frozenset[OutputPort]
    fetches: frozenset[OutputPort]
    declared: Mapping[str, Node]
    consumers: Mapping[OutputPort, Sequence[str]]
    aliases: Aliases
    scalars: frozenset[OutputPort]
    extents: Mapping[OutputPort, Extents]
    costs: Mapping[str, float]

    def putting(self, regions: Sequence[Region]) -> Pieces[BlockGraph]:
        """Return the graph with regions instead of their members, made in pieces."""
        moved: dict[OutputPort, OutputPort] = {}
        renamed: dict[str, str] = {}
        made: dict[str, tuple[Region, Node]] = {}
        for number, region in enumerate(regions):
            yield
            name = self._name(number)
            node = self._region_node(name, region)
            for unit in region.units:
                for member in unit.names:
                    if member not in region.copied:
                        renamed[member] = name
                        made[member] = (region, node)
            for slot, port in enumerate(region.outputs):
                moved[port] = OutputPort(name, slot)
        yield
        nodes: list[Node] = []
        placed: set[str] = set()
        for node in self.graph:
            entry = made.get(node.name)
            if entry is None:
                nodes.append(_rewired(node, moved, renamed, self.feeds))
            elif entry[1].name not in placed:
                placed.add(entry[1].name)
                nodes.append(_rewired(entry[1], moved, renamed, self.feeds))
        return BlockGraph(self.graph.rewritten(nodes), moved)

    def _name(self, number: int) -> str:
        name = f"_region/{number}"
        while name in self.graph:
            name += "_"
        return name

    def _region_node(self, name: str, region: Region) -> Node:
        """Return the node of a region, with its inputs from outside and the outputs that others take."""
        units = region.units
        own = {member for unit in units for member in unit.names}
        # A Const costs nothing: it is copied into each region, and also kept if others need it.
        consts = {u.name for u in units if u.node is not None and u.node.has(Constant)}
        region.copied = frozenset(consts)
        produced = own - consts
        program = Program(
            tuple(units), self.aliases, self.graph.nodes, self.feeds, self.scalars, self.extents, self.costs
        )
        outputs = [
            port
            for unit in units
            if unit.name not in consts
            for port in unit.outputs
            if port not in self.feeds
            and (port in self.fetches or any(c not in own for c in self.consumers.get(port, ())))
        ]
        program.give(outputs)
        region.outputs = program.outputs
        inputs = program.inputs
        controls: dict[str, None] = {}
        for unit in units:
            for control in unit.controls:
                if control not in own:
                    controls[control] = None
            # The region waits for a Const's control inputs although it only copies the Const.
        for control in tuple(controls):
            if control in produced:
                del controls[control]
        # An Identity's source may be outside although nobody reads it here: keep the order and deadness.
        taken = {port.node for port in inputs}
        for unit in units:
            for port in unit.inputs:
                source = self.graph.nodes.get(port.node)
                if source is not None and source.has(Constant) and not source.control_inputs:
                    continue
                if port.node not in own and port.node not in taken and port not in self.feeds:
                    inputs = inputs if port in inputs else (*inputs, port)
                    taken.add(port.node)
        program.inputs = inputs
        types = {"Tin": self._types(inputs), "Tout": self._types(outputs)}
        return Node(
            name,
            REGION.name,
            inputs=inputs,
            control_inputs=tuple(controls),
            attrs={**types, "program": program},
            device=next((u.node.device for u in units if u.node is not None), ""),
            op_def=REGION,
            output_types=types["Tout"],
        )

    def _types(self, ports: Iterable[OutputPort]) -> tuple[DType, ...]:
        result = []
        for port in ports:
            node = self.graph.nodes.get(port.node) or self.declared.get(port.node)
            types = () if node is None else node.output_types
            dtype = types[port.slot] if port.slot < len(types) else dtypes.variant
            result.append(dtype.base if port in self.feeds else dtype)
        return tuple(result)


def _rewired(
    node: Node,
    moved: Mapping[OutputPort, OutputPort],
    renamed: Mapping[str, str],
    feeds: frozenset[OutputPort],
) -> Node:
    """Return the node with edges from members replaced by edges from their regions."""
    inputs = tuple(port if port in feeds else moved.get(port, port) for port in node.inputs)
    controls = tuple(dict.fromkeys(renamed.get(name, name) for name in node.control_inputs))
    controls = tuple(name for name in controls if name != node.name)
    if inputs == node.inputs and controls == node.control_inputs:
        return node
    return replace(node, inputs=inputs, control_inputs=controls)


__all__ = ["BlockGraph", "Region", "Surroundings"]
