"""The structure of what `Session.run` is asked for: names, tensors and operations in lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.structures import parts_of, with_parts
from flowengine.ir.graph import NodeGraph, OutputPort

#: The name of the method by which an object says what is fetched for it: a structure of tensors or names.
FETCH_HOOK: Final = "__flowengine_fetch__"
#: From the list of fetched values to the structure that the caller asked for.
Assemble = Callable[[Sequence[Any]], Any]


class FetchPlan:
    """A flattened request: distinct tensors to fetch, nodes to run, and how to put the result together."""

    def __init__(self, graph: NodeGraph, fetches: Any, targets: Sequence[Any] = ()) -> None:
        self._graph = graph
        self._index: dict[OutputPort, int] = {}
        self._targets: dict[str, None] = {}
        self.assemble = self._read(fetches)
        for target in targets:
            self._targets[node_of(graph, target)] = None

    @property
    def ports(self) -> tuple[OutputPort, ...]:
        return tuple(self._index)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._targets)

    def _read(self, fetch: Any) -> Assemble:
        if fetch is None:
            return lambda values: None
        if isinstance(fetch, list | tuple | Mapping) or is_dataclass(fetch):
            members = [self._read(value) for value in parts_of(fetch) or ()]
            if type(fetch) is list:
                return lambda values: [member(values) for member in members]
            return lambda values: with_parts(fetch, [member(values) for member in members])
        if hasattr(type(fetch), FETCH_HOOK):
            return self._read(fetch.__flowengine_fetch__())
        return self._leaf(fetch)

    def _leaf(self, fetch: Any) -> Assemble:
        """What is taken from the values for one name, tensor or operation."""
        name = name_of(self._graph, fetch)
        if ":" not in name:
            self._targets[node_of(self._graph, name)] = None
            return lambda values: None
        index = self._index.setdefault(port_of(self._graph, name), len(self._index))
        return lambda values: values[index]


def spread_feeds(feed_dict: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The same feeds with each structure of tensors, such as a sparse tensor, as the tensors that it holds.

    What it is fed is a structure of the same parts, or a tuple of as many values. The same object where no
    key is such a structure. Raises InvalidArgumentError where the parts do not match.
    """
    if all(not is_dataclass(key) and not isinstance(key, tuple) for key in feed_dict):
        return feed_dict
    spread: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        if not is_dataclass(key) and not isinstance(key, tuple):
            spread[key] = value
            continue
        parts, values = parts_of(key) or (), parts_of(value) or ()
        if len(parts) != len(values):
            raise InvalidArgumentError(f"{key!r} is fed {len(parts)} values, not {value!r}")
        spread.update(spread_feeds(dict(zip(parts, values, strict=True))))
    spread.pop(None, None)
    return spread


def name_of(graph: NodeGraph, element: Any) -> str:
    """The name that a fetch, feed key or target stands for: a str, or anything with a `name`.

    InvalidArgumentError for anything else, and for a tensor or operation of another graph than this.
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
    """The output that 'node:slot' names; NotFoundError or InvalidArgumentError naming what is there."""
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
    """The output that a feed key names: 'node:slot', or 'node' where the node has one output.

    NotFoundError or InvalidArgumentError, with both spellings, for any other key.
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
    """The same structure with each bare name of a node that has outputs as its first: 'y' as 'y:0'.

    For callers who have no use for None. A node without outputs, and an Operation, stay what they are.
    """
    if isinstance(fetches, list | tuple | Mapping) or is_dataclass(fetches):
        return with_parts(fetches, [as_values(graph, value) for value in parts_of(fetches) or ()])
    node = graph.nodes.get(fetches) if isinstance(fetches, str) else None
    return f"{fetches}:0" if node is not None and node.output_types else fetches


def node_of(graph: NodeGraph, element: Any) -> str:
    """The node that a target names; `node:0` is taken as `node`. NotFoundError if there is none."""
    name = name_of(graph, element).removeprefix("^")
    if name not in graph and ":" in name:
        name = name.rpartition(":")[0]
    if name not in graph:
        raise NotFoundError(f"the graph has no node '{name}': {_similar(graph, name)}")
    return name


def _identified(graph: NodeGraph) -> str:
    """A graph as nobody takes it for another one."""
    return f"{graph!r} at {id(graph):#x}"


def _similar(graph: NodeGraph, name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(graph.nodes)[:20_000], n=3)
    if close:
        return "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"it has {len(graph)} nodes"
