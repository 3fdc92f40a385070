"""The facts of a record that its graph knows: the nodes of the step, their origins and dependences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowengine.core.config import Config
from flowengine.graphs.graph import Graph
from flowengine.graphs.reading import conditional_nodes, readers_of
from flowengine.ir.attrs import FuncAttr, TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.traits import Constant, GivesVariable, HandsOn
from flowengine.kernels.load import registry as kernel_registry
from flowengine.passes.simplify.open_calls import open_calls
from flowengine.passes.simplify.prune import prune
from flowengine.runtime.planning.fetches import unpack
from flowengine.runtime.planning.requests import Requests
from flowengine.tools.compare.records import CONSTANT, FEED, RANDOM, VARIABLE, NodeRecord
from flowengine.tools.compare.tensors import TensorRecord

#: An attribute as text is cut here.
_TEXT_MAX = 200


def opened(
    graph: Graph, fetches: Sequence[str], feeds: Mapping[str, Any], targets: Sequence[str], config: Config
) -> tuple[NodeGraph, dict[str, Any]]:
    """Return the nodes that a step runs, calls of functions opened, and the values that it is fed.

    Raises InvalidArgumentError or NotFoundError for a request that the graph cannot serve.
    """
    leaves, _ = unpack(list(fetches))
    requests = Requests(graph)
    request = requests.read(leaves, list(feeds), list(targets))
    settings = config.resolved()
    context = requests.context(request, settings, kernel_registry(settings.kernel_provider))
    values = {
        str(port): spec.convert(value)
        for port, spec, value in zip(request.ports, request.feeds, feeds.values(), strict=True)
    }
    return prune(open_calls(graph.snapshot(), context), context), values


def constants_in(graph: NodeGraph, feeds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (tensor, value) of the constants that are not fed."""
    for node in graph:
        constant = node.trait(Constant)
        value = None if constant is None else node.attrs.get(constant.value)
        if isinstance(value, TensorAttr) and f"{node.name}:0" not in feeds:
            yield f"{node.name}:0", value.value()


def variables_in(graph: NodeGraph, whole: Graph, feeds: Mapping[str, Any]) -> dict[str, str]:
    """Return {the variable's output: the tensor with its value} of variables whose value can be fetched."""
    readers, hidden = readers_of(whole), conditional_nodes(whole)
    found = {}
    for node in graph:
        name = f"{node.name}:0"
        if not node.has(GivesVariable) or name in feeds or node.name not in whole:
            continue
        tensor = name if node.output_types[0].is_ref else readers.get(node.name)
        if tensor is not None and tensor.rpartition(":")[0] not in hidden:
            found[name] = tensor
    return found


def unused_in(graph: NodeGraph, fetches: Sequence[str]) -> set[str]:
    """Return the outputs that nothing takes, of nodes with several outputs: they may hold anything."""
    used = {str(port) for node in graph for port in node.inputs} | set(fetches)
    return {
        name
        for node in graph
        if len(node.output_types) > 1
        for slot in range(len(node.output_types))
        if (name := f"{node.name}:{slot}") not in used
    }


def dependences(
    graph: NodeGraph, tensors: Sequence[TensorRecord], feeds: Mapping[str, Any]
) -> tuple[list[TensorRecord], dict[str, NodeRecord]]:
    """Return the tensors, with those that only hand one of them on behind it, and the facts of the nodes."""
    recorded = {tensor.name for tensor in tensors}
    aliases = _aliases(graph, recorded)
    recorded.update(alias for names in aliases.values() for alias in names)
    whole = []
    waiting = list(reversed(tensors))
    while waiting:
        tensor = waiting.pop()
        whole.append(tensor)
        waiting.extend(replace(tensor, name=alias) for alias in reversed(aliases.get(tensor.name, ())))
    nodes = {
        node.name: NodeRecord(
            node.op, _inputs(graph, node, recorded), _origin(node, feeds), _attributes(node)
        )
        for node in graph
    }
    for name in feeds:
        node = name.rpartition(":")[0]
        nodes[node] = replace(nodes.get(node, NodeRecord()), inputs=(), origin=FEED)
    return whole, nodes


def _aliases(graph: NodeGraph, recorded: set[str]) -> dict[str, list[str]]:
    """Return {tensor: the tensors that have its value, and did not run}."""
    found: dict[str, list[str]] = {}
    known = set(recorded)
    for node in graph:
        name = f"{node.name}:0"
        if name in known or not node.has(HandsOn) or node.op in CONTROL_FLOW_OPS or not node.inputs:
            continue
        source = str(node.inputs[0])
        if source in known:
            found.setdefault(source, []).append(name)
            known.add(name)
    return found


def _inputs(graph: NodeGraph, node: Node, recorded: set[str]) -> tuple[str, ...]:
    """Return the recorded tensors that a node depends on, past nodes that are not recorded."""
    found: dict[str, None] = {}
    seen: set[OutputPort] = set()
    waiting = list(reversed(node.inputs))
    while waiting:
        port = waiting.pop()
        if port in seen:
            continue
        seen.add(port)
        if str(port) in recorded:
            found[str(port)] = None
        elif port.node in graph.nodes:
            waiting.extend(reversed(graph.nodes[port.node].inputs))
    return tuple(found)


def _origin(node: Node, feeds: Mapping[str, Any]) -> str:
    if node.has(Constant):
        return CONSTANT
    if node.has(GivesVariable):
        return VARIABLE
    has_seeds = "seed" in node.attrs and "seed2" in node.attrs
    if has_seeds and node.is_stateful and not (node.attrs["seed"] or node.attrs["seed2"]):
        return RANDOM
    return ""


def _attributes(node: Node) -> str:
    """Return the attributes of a node as text, without tensors and notes of exporters."""
    shown = (
        f"{name}={_text(value)}"
        for name, value in sorted(node.attrs.items())
        if not name.startswith("_") and not isinstance(value, TensorAttr)
    )
    return "; ".join(shown)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"[:_TEXT_MAX]
    if isinstance(value, FuncAttr):
        return value.name
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")[:_TEXT_MAX]
    return str(value)[:_TEXT_MAX]


__all__ = ["constants_in", "dependences", "opened", "unused_in", "variables_in"]
