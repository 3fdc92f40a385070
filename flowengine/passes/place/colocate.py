"""Groups of nodes that must be on one device: union-find over the reasons that a graph gives.

    groups = colocate(graph)
    groups.group_of["step"] == groups.group_of["step/Assign"]

A node stays with another if

- its `_class` says `loc:@other` (also if passes have removed the other: all nodes that name it stay
together);
- it takes a reference or a resource of the other: a variable and its assignments, a queue and its enqueues, a
  TensorArray and its reads, through Enter, Switch and Merge;
- it takes the handle of an object, which is a plain string, as of a second-version TensorArray.

Nodes that only share the name of a resource, that forward a variant, or that a loop visits in each iteration,
*prefer* to be together: they are joined if that contradicts no other demand. Time is nearly linear in nodes
and edges.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from flowengine.core.dtypes import DType, resource, variant
from flowengine.ir.attrs import AttrValue
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.opdef import OpDef
from flowengine.ir.traits import Names, SharedAs
from flowengine.passes.blocks.recurrences import recurrences

#: The prefix of `_class` before the node to stay with.
LOCATION: Final = b"loc:@"


@dataclass(frozen=True, slots=True)
class Bond:
    """A reason why two nodes are on one device."""

    node: str
    other: str
    reason: str

    def __str__(self) -> str:
        return f"'{self.node}' {self.reason} '{self.other}'"


class Groups:
    """A partition of a graph's nodes into sets that are placed together.

    names      every node in construction order, by index
    members    {representative: indices of the group, ascending}, filled in by `settle`
    bonds      the reasons for joining nodes, in the order of their discovery
    preferred  bonds that hold unless a demand contradicts
    givers     {node: the nodes that it takes a reference, a resource or the handle of an object from}
    """

    def __init__(self, graph: NodeGraph) -> None:
        self.names: list[str] = list(graph.nodes)
        self.index: dict[str, int] = {name: index for index, name in enumerate(self.names)}
        self.bonds: list[Bond] = []
        self.preferred: list[tuple[int, int, Bond]] = []
        self.givers: dict[str, list[str]] = {}
        self._parent = list(range(len(self.names)))
        self._size = [1] * len(self.names)
        #: {name of a node that is not in the graph: index of the first node that wants to be with it}
        self.absent: dict[str, int] = {}

    def find(self, index: int) -> int:
        """Return the representative of a node's group."""
        parent = self._parent
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    def join(self, a: int, b: int) -> int:
        """Join two groups; return the representative."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self._size[a] < self._size[b]:
            a, b = b, a
        self._parent[b] = a
        self._size[a] += self._size[b]
        return a

    def bind(self, node: str, other: str, reason: str) -> None:
        """Join the groups of two nodes and record the reason; the other may be absent from the graph."""
        a = self.index[node]
        b = self.index.get(other)
        if b is None:
            b = self.absent.setdefault(other, a)
        if a == b and other not in self.absent:
            return
        self.bonds.append(Bond(node, other, reason))
        self.join(a, b)

    def members(self) -> dict[int, list[int]]:
        """Return {representative: indices of the nodes of its group, ascending}."""
        found: dict[int, list[int]] = {}
        for index in range(len(self.names)):
            found.setdefault(self.find(index), []).append(index)
        return found

    def bonds_of(self, representative: int) -> list[Bond]:
        """Return the reasons why the nodes of one group are together."""
        return [bond for bond in self.bonds if self.find(self.index[bond.node]) == representative]


def colocate(
    graph: NodeGraph, supplied: Container[OutputPort] = (), wishes: Mapping[str, str] | None = None
) -> Groups:
    """Return the groups of a graph, with preferences recorded but not yet followed.

    supplied   fed ports: values from outside bind no node
    wishes     {node name: the node to be with} in addition to those of the graph
    """
    groups = Groups(graph)
    demands = _Demands()
    shared: dict[SharedName, str] = {}
    for node in graph:
        for anchor in anchors(node):
            groups.bind(node.name, anchor, "asks to be with")
        if wishes is not None and node.name in wishes:
            groups.bind(node.name, wishes[node.name], "is asked to be with")
        bound, loose = demands.of(node)
        for slot in bound:
            if slot < len(node.inputs) and node.inputs[slot] not in supplied:
                giver = node.inputs[slot].node
                groups.bind(node.name, giver, "works on what it is given by")
                groups.givers.setdefault(node.name, []).append(giver)
        for slot in loose:
            if slot < len(node.inputs) and node.inputs[slot] not in supplied:
                _prefer(groups, node.name, node.inputs[slot].node, "takes a variant from")
        key = shared_name_of(node)
        if key is not None:
            first = shared.setdefault(key, node.name)
            if first != node.name:
                _prefer(groups, node.name, first, "shares its resource by name with")
    for names in recurrences(graph):
        for name in names[1:]:
            _prefer(groups, name, names[0], "comes around in each iteration with")
    return groups


def anchors(node: Node) -> tuple[str, ...]:
    """Return the nodes that a node's `_class` names."""
    classes = node.attrs.get("_class")
    if not isinstance(classes, tuple):
        return ()
    return tuple(
        entry[len(LOCATION) :].decode("utf-8", "surrogateescape")
        for entry in classes
        if isinstance(entry, bytes) and entry.startswith(LOCATION)
    )


def follow_preferences(groups: Groups, masks: dict[int, int]) -> None:
    """Join nodes that prefer to be together if some device fits both.

    `masks` is {representative: bit set of the possible devices}; it is kept up to date.
    """
    for a, b, bond in groups.preferred:
        left, right = groups.find(a), groups.find(b)
        common = masks[left] & masks[right]
        if left != right and common:
            kept = groups.join(left, right)
            masks[kept] = common
            groups.bonds.append(bond)


def _prefer(groups: Groups, node: str, other: str, reason: str) -> None:
    if other in groups.index:
        groups.preferred.append((groups.index[node], groups.index[other], Bond(node, other, reason)))


class _Demands:
    """Finds the inputs that bind a node. Most ops never have one, which is found out once for each op."""

    def __init__(self) -> None:
        self._binding: dict[int, tuple[OpDef, bool]] = {}

    def of(self, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        """Return (slots whose producer the node must be with, slots whose producer it prefers)."""
        op_def = node.op_def
        if op_def is None or not node.inputs:
            return (), ()
        known = self._binding.get(id(op_def))
        if known is None:
            known = self._binding[id(op_def)] = (op_def, _may_bind(op_def))
        # Types that the op leaves open are attributes, so these determine the types of all inputs.
        if not known[1] and not [
            v for v in node.attrs.values() if type(v) in _CHECKED_TYPES and _is_bound(v)
        ]:
            return (), ()
        named = node.trait(Names)
        names = () if named is None else named.names
        bound: list[int] = []
        loose: list[int] = []
        slot = 0
        for arg in op_def.inputs:
            types = arg.types(node.attrs)
            for dtype in types:
                if dtype.is_ref or dtype is resource or arg.name in names:
                    bound.append(slot)
                elif dtype is variant:
                    loose.append(slot)
                slot += 1
        return bound, loose


#: Types of attributes that may determine the type of an input.
_CHECKED_TYPES: Final = frozenset({DType, tuple})


def _may_bind(op_def: OpDef) -> bool:
    """Return whether the signature alone has an input that binds."""
    return Names in op_def.traits or any(
        arg.is_ref or arg.type in (resource, variant) for arg in op_def.inputs
    )


def _is_bound(value: AttrValue) -> bool:
    if isinstance(value, tuple):
        return any(type(item) is DType and _is_bound(item) for item in value)
    return value is resource or value is variant


class SharedName(NamedTuple):
    """The name by which nodes find a resource: those of one family share one of each name."""

    family: str
    container: bytes
    name: bytes


def shared_name_of(node: Node) -> SharedName | None:
    """Return the name of a resource for an op that finds it by name: by default the node's own.

    None for any other op, and for a resource that no other node can name.
    """
    name = node.attrs.get("shared_name")
    if not isinstance(name, bytes):
        return None
    if not name:
        if node.attrs.get("use_node_name_sharing") is False:
            return None  # nobody else can name it
        name = node.name.encode()
    container = node.attrs.get("container")
    return SharedName(_family(node), container if isinstance(container, bytes) else b"", name)


def _family(node: Node) -> str:
    """Return one word for the ops that may share a resource: those of one family, or versions of one op."""
    shared = node.trait(SharedAs)
    return node.op.removesuffix("V2").removesuffix("V3") if shared is None else shared.family


def absent_anchors(groups: Groups) -> Iterable[tuple[int, str]]:
    """Return (representative, name) of every wanted node that the graph lacks."""
    for name, index in groups.absent.items():
        yield groups.find(index), name
