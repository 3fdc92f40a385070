"""Normalise a batch and take the Relu of it in one pass over memory, in training.

    x -> FusedBatchNormV3 -> y -> Relu -> z    ->    x -> _BatchNormRelu -> z

The gradient of such a normalisation takes its input and the statistics, and that of the Relu its result: no
other node takes the value between them. The new node has the name of the normalisation, whose statistics
others take. Only where a provider computes both at once. Linear time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flowengine.core.dtypes import float32
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.rewire import with_groups
from flowengine.kernels.provider import ClaimContext
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.internal import BATCH_NORM_RELU

_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})


def rectify_norms(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with normalisations that take the Relu along; the same graph if there is none."""
    kernels = context.kernels
    norms = {node.name for node in graph if node.op in _NORMS}
    if not norms:
        return graph
    kept = context.kept
    # Statistics may be fetched: they stay what they are.
    seen = {port.node for port in (*(p for p in context.fetches if not p.slot), *context.feeds)}
    takers: dict[str, list[Node]] = {}
    for node in graph:
        for port in node.inputs:
            if not port.slot and port.node in norms:
                takers.setdefault(port.node, []).append(node)
    made: dict[str, Node] = {}
    #: {Relu: the normalisation that takes it along}
    dropped: dict[str, str] = {}
    for name, behind in takers.items():
        norm, last = graph[name], behind[0]
        if len(behind) == 1 and name not in seen and last.name not in kept and _belongs(last, norm):
            joined = _joined(norm)
            if _is_provided(joined, kernels):
                made[name], dropped[last.name] = joined, name
    if not made:
        return graph
    moved = {OutputPort(last, 0): OutputPort(norm, 0) for last, norm in dropped.items()}
    return with_groups(graph, made, moved, dropped)


def _belongs(last: Node, norm: Node) -> bool:
    """Whether it is a Relu that runs as soon as the normalisation has, and in the same place."""
    return (
        last.op == "Relu"
        and last.device == norm.device
        and not last.control_inputs
        and bool(norm.attrs["is_training"])
        and norm.attrs.get("exponential_avg_factor", 1.0) == 1
        and norm.attrs["T"] is float32
    )


def _joined(norm: Node) -> Node:
    attrs = {name: norm.attrs[name] for name in ("T", "epsilon", "data_format", "is_training")}
    # The first two versions have no separate type for the numbers of channels.
    attrs["U"] = norm.attrs.get("U", float32)
    return replace(
        norm,
        op=BATCH_NORM_RELU.name,
        op_def=BATCH_NORM_RELU,
        attrs=attrs,
        output_types=(float32,) * 6,
    )


def _is_provided(node: Node, kernels: KernelRegistry) -> bool:
    try:
        return kernels.find(node).maker is not None
    except OpError:
        return False
