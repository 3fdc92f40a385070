"""Turns a graph into a placement problem: the costs of nodes, and the transfers of edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import MERGE_OPS, NEXT_ITERATION_OPS
from flowengine.ir.traits import Constant, GivesVariable
from flowengine.ir.traverse import topological_order
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.cut.partition import is_copied
from flowengine.passes.place.calibrate import Calibration
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.device_profiles import DeviceLinks, Offer
from flowengine.passes.place.estimates import Estimator, bytes_of
from flowengine.passes.place.problem import Edge, Problem, link_tables

#: Microseconds of a node that is disregarded: not zero, so that time goes on.
NEXT_TO_NOTHING: Final = 0.01


def problem_of(
    graph: NodeGraph,
    offers: Sequence[Offer],
    *,
    group_of: list[int],
    masks: Sequence[int],
    kernels: KernelRegistry,
    links: DeviceLinks,
    costs: CostModel | None = None,
    supplied: Collection[OutputPort] = (),
    shapes: Mapping[str, TensorShape] | None = None,
    disregarded: Collection[str] = (),
) -> Problem:
    """Return the placement problem of a graph: one operation for each node, back edges of loops cut.

    group_of   for each node in construction order the number of its group
    masks      for each group a bit mask of its possible devices
    supplied   fed ports: no edge comes from them
    shapes     {placeholder: the shape of its feed}
    disregarded  nodes whose cost counts as next to nothing

    Nodes in a loop, and their transfers, count once for each assumed or measured iteration.
    """
    estimator = Estimator(_with_shapes(graph, shapes or {}), kernels)
    model = costs if costs is not None else CostModel()
    known = model.nodes
    rounds: list[float] = []
    estimates: dict[str, tuple[str, float]] = {}
    for node in graph:
        # Only measured nodes have a known number of runs, and only then do their times tell speeds.
        times = known[node.name].iterations if node.name in known else estimator.iterations(node)
        estimates[node.name] = (node.op, estimator.microseconds(node) * times)
        rounds.append(times)
    calibration = model.calibration(offers, estimates)
    work: list[Sequence[float]] = []
    nothing = (NEXT_TO_NOTHING,) * len(offers)
    for node, times in zip(graph, rounds, strict=True):
        if node.name in disregarded:
            work.append(nothing)
            continue
        measured = model.microseconds(node.name, offers, calibration.speeds)
        work.append(measured or _estimated(calibration, estimates[node.name], offers, times))
    latency, per_byte = link_tables(offers, links)
    return Problem(
        costs=work,
        edges=_edges(graph, estimator, model, rounds, frozenset(supplied)),
        group_of=group_of,
        allowed=[tuple(d for d in range(len(offers)) if mask >> d & 1) for mask in masks],
        latency=latency,
        per_byte=per_byte,
        resident=_resident(graph, group_of, len(masks)),
        limits=[offer.memory_limit_bytes for offer in offers],
    )


def _estimated(
    calibration: Calibration, estimate: tuple[str, float], offers: Sequence[Offer], times: float
) -> list[float]:
    """Estimate the microseconds of an unmeasured node on each device: at least a launch each time."""
    found = calibration.microseconds(*estimate)
    return [max(time, times * offer.launch_microseconds) for time, offer in zip(found, offers, strict=True)]


def _with_shapes(graph: NodeGraph, shapes: Mapping[str, TensorShape]) -> NodeGraph:
    """Return the graph with placeholders that declare the shapes of their feeds."""
    if not shapes:
        return graph
    return graph.rewritten(
        replace(node, attrs={**node.attrs, "shape": shapes[node.name]})
        if node.name in shapes and node.is_placeholder
        else node
        for node in graph
    )


def _edges(
    graph: NodeGraph,
    estimator: Estimator,
    model: CostModel,
    rounds: Sequence[float],
    supplied: frozenset[OutputPort],
) -> list[list[Edge]]:
    order = {name: position for position, name in enumerate(topological_order(graph.nodes))}
    index = {name: position for position, name in enumerate(graph.nodes)}
    edges: list[list[Edge]] = [[] for _ in index]
    sizes: dict[str, tuple[float, ...]] = {}
    copied = {node.name for node in graph if is_copied(node)}
    for node in graph:
        carried: dict[str, float] = {}
        for port in dict.fromkeys(node.inputs):
            if port in supplied or _is_back_edge(graph, port.node, node):
                continue
            size = sizes.get(port.node)
            if size is None and port.node in index:
                cost = model.nodes.get(port.node)
                size = cost.output_bytes if cost is not None and cost.output_bytes else None
                size = sizes[port.node] = size or estimator.output_bytes(graph[port.node])
            # Two outputs of one node are both sent.
            moved = 0.0 if size is None or port.slot >= len(size) else size[port.slot]
            carried[port.node] = carried.get(port.node, 0.0) + moved
        for name in node.control_inputs:
            carried.setdefault(name, 0.0)
        for name, moved in carried.items():
            # A cycle that is not a loop, or a missing input, is for planning to report.
            if order.get(name, len(order)) < order.get(node.name, -1):
                # Nodes that are cheap to copy never cross.
                times = 0.0 if name in copied else rounds[index[name]]
                edges[index[name]].append((index[node.name], times, moved * times))
    return edges


def _is_back_edge(graph: NodeGraph, source: str, node: Node) -> bool:
    if node.op not in MERGE_OPS:
        return False
    producer = graph.nodes.get(source)
    return producer is not None and producer.op in NEXT_ITERATION_OPS


def _resident(graph: NodeGraph, group_of: Sequence[int], groups: int) -> list[int]:
    """Return for each group the bytes of its variables and constants."""
    held = [0] * groups
    for group, node in zip(group_of, graph, strict=True):
        constant, variable = node.trait(Constant), node.trait(GivesVariable)
        value = None if constant is None else node.attrs.get(constant.value)
        if isinstance(value, TensorAttr):
            held[group] += int(bytes_of(value.shape, value.dtype))
        elif variable is not None:
            shape, dtype = node.attrs.get("shape"), node.attrs.get(variable.dtype)
            if isinstance(shape, TensorShape) and isinstance(dtype, DType) and shape.is_fully_defined:
                held[group] += int(bytes_of(shape, dtype))
    return held
