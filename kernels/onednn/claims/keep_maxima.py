"""Keep where a pooling has found its maxima for its gradient, which need not look for them again.

    x -> MaxPool -> y,  MaxPoolGrad(x, y, g)    ->    x -> _MaxPoolWithPlaces -> y, places,
                                                      _MaxPoolGradAtPlaces(x, y, g, places)

Half of the time of such a gradient is another pooling. That the two belong together is seen in the graph,
never from arrays; the places are a tensor of the plan like any other, an eighth of a pooling's input for
windows of 2 x 2, and live until the gradient has been computed. Only kernels of a provider have any to give.
No bit changes, until `numpy/claims/contractions.py` lets such a gradient compute that of the Relu before the
pooling: it stops gradients of maxima then, not of all elements, and what it stops is +0. Linear time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flowengine.core.dtypes import float32, uint8
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.kernels.provider import ClaimContext
from flowengine.ops.internal import MAX_POOL_GRAD_AT_PLACES, MAX_POOL_WITH_PLACES

_WINDOWS: Final = ("T", "ksize", "strides", "padding", "data_format")


def keep_maxima(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with large poolings and their gradients as such pairs; the same graph if there is none."""
    kernels = context.kernels
    fed = frozenset(context.feeds)
    made: dict[str, Node] = {}
    for name in context.large:
        node = graph.nodes.get(name)
        if node is None or node.op != "MaxPoolGrad":
            continue
        pooling = graph.nodes.get(node.inputs[1].node)
        if pooling is None or node.inputs[1] in fed or not _belongs(node, pooling):
            continue
        pair = _with_places(pooling), _at_places(node)
        try:
            given = [kernels.find(each).maker is not None for each in pair]
        except OpError:
            continue
        if all(given):
            made.update((each.name, each) for each in pair)
    return graph.rewritten(made.get(node.name, node) for node in graph) if made else graph


def _belongs(gradient: Node, pooling: Node) -> bool:
    """Whether it is the gradient of that very call."""
    return (
        pooling.op == "MaxPool"
        and gradient.inputs[:2] == (pooling.inputs[0], OutputPort(pooling.name, 0))
        and pooling.device == gradient.device
        and pooling.attrs["T"] is float32
        and all(pooling.attrs[name] == gradient.attrs[name] for name in _WINDOWS)
    )


def _with_places(pooling: Node) -> Node:
    return replace(
        pooling,
        op=MAX_POOL_WITH_PLACES.name,
        op_def=MAX_POOL_WITH_PLACES,
        attrs={name: pooling.attrs[name] for name in _WINDOWS},
        output_types=(float32, uint8),
    )


def _at_places(gradient: Node) -> Node:
    return replace(
        gradient,
        op=MAX_POOL_GRAD_AT_PLACES.name,
        op_def=MAX_POOL_GRAD_AT_PLACES,
        inputs=(*gradient.inputs, OutputPort(gradient.inputs[1].node, 1)),
        attrs={name: gradient.attrs[name] for name in _WINDOWS},
    )
