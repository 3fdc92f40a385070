"""Requests to `Session.run`: the names, tensors and operations of fetches, feeds and targets.

The structure of fetches is taken apart, and its places are filled with values:

    leaves, pack = unpack({"loss": loss, "parts": [a, None]})     # (loss, a, None)
    pack([0.5, 1.0, None])                                        # {"loss": 0.5, "parts": [1.0, None]}

Each step does both, so the structure is not part of the key of a plan: a tensor, a list of it and a
dictionary of it share one plan. The caller may change the structure between two steps, or during one. A
session keeps no structure after the step; a function of `make_callable` keeps its own copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from flowengine.core.dtypes import resource
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.structures import field_names, maker_of, parts_of, with_parts
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.traits import GivesVariable, ValueOf

#: The name of the method by which an object defines its fetches: a structure of tensors or names.
FETCH_HOOK: Final = "__flowengine_fetch__"

#: Makes the caller's structure from the values of the leaves, in order. The list is its own.
Packer: TypeAlias = Callable[[list[Any]], Any]
_Place: TypeAlias = Callable[[Iterator[Any]], Any]

_LEAVES: Final = frozenset({str, Tensor, Operation, type(None)})


def unpack(fetches: Any) -> tuple[tuple[Any, ...], Packer]:
    """Take a structure of fetches apart.

    returns   its leaves from left to right (names, tensors, operations, and None if nothing is fetched), and
              the function
              that makes a structure of the same classes from as many values
    """
    kind = type(fetches)
    # Most structures have nothing but leaves, so that they need no recursion.
    if kind in _LEAVES:
        return (fetches,), _only
    if kind is list:
        if len(fetches) == 1:
            return _unpack_only(fetches[0], _same, _in_list)
        if _LEAVES.issuperset(map(type, fetches)):
            return tuple(fetches), _same
    elif kind is tuple:
        if len(fetches) == 1:
            return _unpack_only(fetches[0], tuple, _in_tuple)
        if _LEAVES.issuperset(map(type, fetches)):
            return fetches, tuple
    elif kind is dict:
        if len(fetches) == 1:
            ((key, member),) = fetches.items()
            return _unpack_only(
                member, lambda values: {key: values[0]}, lambda pack: lambda values: {key: pack(values)}
            )
        parts = tuple(fetches.values())
        if _LEAVES.issuperset(map(type, parts)):
            keys = tuple(fetches)
            return parts, lambda values: dict(zip(keys, values))  # noqa: B905 - as many values as keys
    leaves: list[Any] = []
    place = _taken_apart(fetches, leaves)
    return tuple(leaves), lambda values: place(iter(values))


def _unpack_only(
    member: Any, of_leaf: Packer, of_pack: Callable[[Packer], Packer]
) -> tuple[tuple[Any, ...], Packer]:
    """Take the only member of a structure apart: it has all values, and they need not be counted."""
    if type(member) in _LEAVES:
        return (member,), of_leaf
    leaves, pack = unpack(member)
    return leaves, of_pack(pack)


def _in_list(pack: Packer) -> Packer:
    return lambda values: [pack(values)]


def _in_tuple(pack: Packer) -> Packer:
    return lambda values: (pack(values),)


def is_structure(value: Any) -> bool:
    """Return whether a fetch or the key of a feed is a structure, rather than one tensor or name."""
    kind = type(value)
    return kind not in _LEAVES and (
        isinstance(value, list | tuple | Mapping) or field_names(kind) is not None
    )


def _only(values: list[Any]) -> Any:
    return values[0]


def _same(values: list[Any]) -> Any:
    return values


def _taken_apart(structure: Any, leaves: list[Any]) -> _Place:
    """Add the leaves of a structure to a list; return a function that puts values in their places."""
    kind = type(structure)
    if kind in _LEAVES:
        leaves.append(structure)
        return next
    if kind is dict:
        keys, parts = tuple(structure), structure.values()
        if _LEAVES.issuperset(map(type, parts)):
            leaves.extend(parts)
            return lambda values: dict(zip(keys, values))  # noqa: B905 - of the values as many as there are keys
        members = [_taken_apart(part, leaves) for part in parts]
        return lambda values: {key: member(values) for key, member in zip(keys, members, strict=True)}
    if kind is list or kind is tuple:
        if _LEAVES.issuperset(map(type, structure)):
            leaves.extend(structure)
            count = len(structure)
            return lambda values: kind(islice(values, count))
        members = [_taken_apart(part, leaves) for part in structure]
        return lambda values: kind([member(values) for member in members])
    if hasattr(kind, FETCH_HOOK):
        return _taken_apart(structure.__flowengine_fetch__(), leaves)
    if not is_structure(structure):
        leaves.append(_plain(structure))
        return next
    members = [_taken_apart(part, leaves) for part in parts_of(structure) or ()]
    make = maker_of(structure)
    return lambda values: make([member(values) for member in members])


def _plain(leaf: Any) -> Any:
    """Return the name of a leaf of an unknown class, so that no cache holds the object."""
    if isinstance(leaf, str):
        return str(leaf)
    name = getattr(leaf, "name", None)
    belongs = isinstance(getattr(leaf, "graph", None), NodeGraph)  # then a message names its graph
    return name if isinstance(name, str) and not belongs else leaf


class FetchPlan:
    """The leaves of a request: distinct tensors to fetch, nodes to run, and the place of each leaf's value.

    ports     the tensors, each once
    targets   the nodes that run for their effect
    slots     for each leaf the index of its tensor in `ports`; -1 for a leaf without a value
    """

    def __init__(self, graph: NodeGraph, leaves: Iterable[Any], targets: Sequence[Any] = ()) -> None:
        index: dict[OutputPort, int] = {}
        nodes: dict[str, None] = {}
        slots = []
        for leaf in leaves:
            name = None if leaf is None else name_of(graph, leaf)
            if type(leaf) is str:
                name = value_of_variable(graph, leaf) or leaf
            if name is not None and ":" in name:
                slots.append(index.setdefault(port_of(graph, name), len(index)))
                continue
            slots.append(-1)
            if name is not None:
                nodes[node_of(graph, name)] = None
        for target in targets:
            nodes[node_of(graph, target)] = None
        self.ports = tuple(index)
        self.targets = tuple(nodes)
        self.slots = tuple(slots)


def leaf_values(values: list[Any], slots: Sequence[int]) -> list[Any]:
    """Return the value of each leaf from those of the distinct tensors; None for a leaf without a value."""
    return [None if slot < 0 else values[slot] for slot in slots]


def spread_feeds(feed_dict: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the same feeds with each structure, such as a sparse tensor, as the tensors in it.

    Its value is a structure of the same parts, or a tuple of as many values. Returns the same object if no
    key is such a structure. Raises InvalidArgumentError if the parts do not match.
    """
    if not any(map(is_structure, feed_dict)):
        return feed_dict
    spread: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        if not is_structure(key):
            spread[key] = value
            continue
        parts, values = parts_of(key) or (), parts_of(value) or ()
        if len(parts) != len(values):
            raise InvalidArgumentError(f"{key!r} takes {len(parts)} values, one for each part, not {value!r}")
        spread.update(spread_feeds(dict(zip(parts, values, strict=True))))
    spread.pop(None, None)
    return spread


def name_of(graph: NodeGraph, element: Any) -> str:
    """Return the name of a fetch, feed key or target: a str, or anything with a `name`.

    Raises InvalidArgumentError for anything else, and for a tensor or operation of another graph.
    """
    if isinstance(element, str):
        return element
    name = getattr(element, "name", None)
    if isinstance(name, str):
        owner = getattr(element, "graph", None)
        if isinstance(owner, NodeGraph) and owner is not graph:
            raise InvalidArgumentError(
                f"'{name}' belongs to another graph, {_identified(owner)}, than this session runs, "
                f"{_identified(graph)}: give a tensor or operation of that graph, or a name"
            )
        return name
    raise InvalidArgumentError(
        f"cannot fetch or feed {element!r}: give the name of a tensor ('node:0') or of a node, "
        "a Tensor or an Operation"
    )


def port_of(graph: NodeGraph, element: Any) -> OutputPort:
    """Return the output that 'node:slot' names; NotFoundError or InvalidArgumentError that lists outputs."""
    name, slot = parse_tensor_name(name_of(graph, element))
    node = graph.nodes.get(name)
    if node is None:
        raise NotFoundError(f"the graph has no tensor '{name}:{slot}': {_similar(graph, name)}")
    if node.op_def is not None and slot >= len(node.output_types):
        raise InvalidArgumentError(
            f"'{name}' ({node.op}) has {len(node.output_types)} outputs; there is no '{name}:{slot}'"
        )
    return OutputPort(name, slot)


def fed_port_of(graph: NodeGraph, element: Any) -> OutputPort:
    """Return the output that a feed key names: 'node:slot', or 'node' if the node has one output.

    Raises NotFoundError or InvalidArgumentError, with both spellings, for any other key.
    """
    name = name_of(graph, element)
    if ":" in name or name.startswith("^"):
        return port_of(graph, name)
    node = graph.nodes.get(name)
    if node is None:
        raise NotFoundError(f"the graph has no tensor '{name}:0' or '{name}': {_similar(graph, name)}")
    count = len(node.output_types)
    if node.op_def is not None and count != 1:
        spellings = f"write '{name}:0' to '{name}:{count - 1}'" if count else "it cannot be fed"
        raise InvalidArgumentError(
            f"'{name}' ({node.op}) has {count or 'no'} outputs, so '{name}' is no tensor to feed: {spellings}"
        )
    return OutputPort(name, 0)


def as_values(graph: NodeGraph, fetches: Any) -> Any:
    """Return the structure with each bare name of a node that has outputs as its first: 'y' as 'y:0'.

    For callers who have no use for None. A node without outputs, and an Operation, stay unchanged.
    """
    if is_structure(fetches):
        return with_parts(fetches, [as_values(graph, value) for value in parts_of(fetches) or ()])
    node = graph.nodes.get(fetches) if isinstance(fetches, str) else None
    return f"{fetches}:0" if node is not None and node.output_types else fetches


def node_of(graph: NodeGraph, element: Any) -> str:
    """Return the node that a target names; `node:0` means `node`. NotFoundError if there is none."""
    name = name_of(graph, element).removeprefix("^")
    if name not in graph and ":" in name:
        name = name.rpartition(":")[0]
    if name not in graph:
        raise NotFoundError(f"the graph has no node '{name}': {_similar(graph, name)}")
    return name


def _identified(graph: NodeGraph) -> str:
    """Describe a graph so that nobody takes it for another one."""
    return f"{graph!r} at {id(graph):#x}"


def value_of_variable(graph: NodeGraph, name: str) -> str | None:
    """Return the tensor with the value of the variable whose handle a fetch names, 'v' or 'v:0'.

    None for any other name, and if no node of the graph reads the variable.
    """
    node = graph.nodes.get(name.removesuffix(":0"))
    if node is None or not node.has(GivesVariable) or node.output_types[0].base is not resource:
        return None
    port = OutputPort(node.name, 0)
    readers = (each for each in graph if port in each.inputs and each.has(ValueOf))
    return next((f"{each.name}:0" for each in readers if not each.control_inputs), None)


def _similar(graph: NodeGraph, name: str) -> str:
    parts = [each for each in graph.nodes if re.fullmatch(rf"{re.escape(name)}/part_\d+", each)]
    if parts:
        return (
            f"a variable of this name is kept in {len(parts)} parts; fetch the PartitionedVariable that "
            f"get_variable returned, or the parts by their names, '{parts[0]}:0' and so on"
        )
    from difflib import get_close_matches

    close = get_close_matches(name, list(graph.nodes)[:20_000], n=3)
    if close:
        return "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"it has {len(graph)} nodes"
