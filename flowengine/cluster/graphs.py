"""Graphs beside messages: complete graphs of clients, and a task's partitions of a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from flowengine.cluster.messages import RegisterGraph
from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import parse_tensor_name
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_from_def, graph_to_def
from flowengine.ir.graphfile import parse_graph_def
from flowengine.ops.load import registry as op_registry
from flowengine.passes.cut.partition import Partition


def graph_tensor(graph: NodeGraph) -> Any:
    """Return the graph as a tensor of bytes that can be sent beside a message."""
    return np.frombuffer(graph_to_def(graph).SerializeToString(), np.uint8)


def read_graph(tensor: Value, supplied: Collection[OutputPort] = ()) -> NodeGraph:
    """Read a graph that `graph_tensor` wrote. Raises InvalidArgumentError if it is not a graph.

    supplied   ports that are fed; their nodes may be missing
    """
    if not isinstance(tensor, np.ndarray) or tensor.dtype != np.uint8 or tensor.ndim != 1:
        raise InvalidArgumentError("a graph travels as a vector of bytes")
    return graph_from_def(parse_graph_def(tensor.tobytes()), op_registry(), supplied=supplied)


def read_partitions(message: RegisterGraph, tensors: Sequence[Value]) -> tuple[Partition, ...]:
    """Return the partitions that a message describes. Raises InvalidArgumentError for unreadable ones."""
    if not tensors or len(tensors) != len(message.partitions):
        raise InvalidArgumentError(
            f"{len(message.partitions)} partitions come with as many graphs, not with {len(tensors)}"
        )
    return tuple(
        _partition(entry, tensor, message) for entry, tensor in zip(message.partitions, tensors, strict=True)
    )


def _partition(entry: Mapping[str, Any], tensor: Value, message: RegisterGraph) -> Partition:
    device, feeds = entry.get("device"), entry.get("feeds")
    fetches, targets = entry.get("fetches"), entry.get("targets")
    if not (
        isinstance(device, str)
        and _are_positions(feeds, len(message.feeds))
        and _are_positions(fetches, len(message.fetches))
        and isinstance(targets, list)
        and all(isinstance(target, str) for target in targets)
    ):
        raise InvalidArgumentError(f"no partition can be read from {entry!r:.200}")
    graph = read_graph(tensor, ports(message.feeds))
    return Partition(device, graph, tuple(feeds or ()), tuple(fetches or ()), tuple(targets))


def _are_positions(values: Any, count: int) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < count for value in values)


def ports(names: Sequence[str]) -> tuple[OutputPort, ...]:
    """Return the ports of these names."""
    return tuple(OutputPort(*parse_tensor_name(name)) for name in names)


__all__ = ["graph_tensor", "ports", "read_graph", "read_partitions"]
