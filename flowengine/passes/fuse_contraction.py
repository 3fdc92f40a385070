"""Fuse a product with the elementwise nodes behind it: they work in place, block by block, on its result.

    Conv2D -> BiasAdd -> Relu  ->  _FusedContraction{Conv2D, then BiasAdd and Relu in place}

A convolution, matrix product or normalisation that was seen to be heavy, and whose result only the group
takes, needs one tensor instead of three. Its own kernel computes it, a provider's where there is one; the
elementwise steps are those of `fuse_elementwise`. No value changes in any bit. Linear time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from flowengine.core.errors import OpError
from flowengine.ir import traverse
from flowengine.ir.graph import Graph, Node, OutputPort
from flowengine.kernels.fused import Chain, Contraction, Step
from flowengine.ops.internal import FUSED_CONTRACTION
from flowengine.passes.context import PassContext
from flowengine.passes.fuse_elementwise import Groups, outside

#: What makes a large result that is its own: the first output, where there are several.
PRODUCTS: Final = frozenset(
    {
        *("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul", "BatchMatMul", "BatchMatMulV2"),
        *("Conv2DBackpropInput", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
    }
)


def fuse_contractions(graph: Graph, context: PassContext, heavy: Collection[str]) -> Graph:
    """The graph with heavy products and what follows them fused; the same graph if there is none."""
    if context.kernels is None or not any(graph[name].op in PRODUCTS for name in heavy if name in graph):
        return graph
    groups = Groups(graph, context, context.kernels)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for name in reversed(traverse.topological_order(graph.nodes)):
        if name in dropped or not groups.is_elementwise(graph[name]):
            continue
        members = groups.grown(graph[name], lambda node: True)
        product = _product(members, groups, heavy)
        if product is None:
            continue
        node = _fused(product, members, groups, context)
        if node is not None:
            made[name] = node
            dropped.update((product.name, *(member.name for member in members[:-1])))
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph if node.name not in dropped)


def _product(members: list[Node], groups: Groups, heavy: Collection[str]) -> Node | None:
    """The heavy product that the first members take and nobody else."""
    for port in outside(members):
        node = groups.graph.nodes.get(port.node)
        if (
            node is not None
            and port.slot == 0
            and node.op in PRODUCTS
            and node.name in heavy
            and node.device == members[-1].device
            and groups.is_inner(node.name)
        ):
            return node
    return None


def _fused(product: Node, members: list[Node], groups: Groups, context: PassContext) -> Node | None:
    assert context.kernels is not None
    try:
        kernel = context.kernels.find(product)
    except OpError:
        return None  # the plan says what is wrong
    if not kernel.fresh or kernel.is_async or kernel.takes_context:
        return None
    result = OutputPort(product.name, 0)
    inputs = outside([product, *members])
    numbers = {port: i for i, port in enumerate(inputs)}
    step = Step(product, kernel.bind(product, np), tuple(numbers[port] for port in product.inputs))
    numbers[result] = len(inputs)
    taken = outside(members)
    chain = Chain(
        groups.steps(members, {port: i for i, port in enumerate(taken)}),
        members[-1].output_types[0].as_numpy_dtype,
    )
    program = Contraction(step, chain, [numbers[port] for port in taken])
    return groups.node(FUSED_CONTRACTION, [product, *members], inputs, program)
