"""Fuse a product of matrices with the step of gradient descent that it is made for.

    MatMul(x, g) -> Identity -> ApplyGradientDescent(w)      ->      _DescentByProduct(w, x, g)

The gradient of a dense layer's weights is as large as they are: to write it down, and read it again for the
update, takes twice as long as to change each block of the weights by its block of the product. What waited
for the product waits for what the product waited for, and the update waits for what the Identity did, so that
nothing that has a state runs in another order. No bit changes. Linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flowengine.core.dtypes import float32
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS, MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import HandsOn
from flowengine.kernels.provider import ClaimContext
from flowengine.kernels.registry import KernelRegistry
from flowengine.kernels.training.fused_descent import DescentByProduct
from flowengine.ops.internal import DESCENT_BY_PRODUCT


def fuse_updates(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with large products and their updates as one; the same graph if there is none."""
    kernels = context.kernels
    large = context.large
    updates = [graph[name] for name in large if name in graph and graph[name].op == "ApplyGradientDescent"]
    if not updates:
        return graph
    fed = frozenset(context.feeds)
    kept = context.kept
    takers: dict[str, int] = {}
    waits: set[str] = set()
    for node in graph:
        for port in node.inputs:
            takers[port.node] = takers.get(port.node, 0) + 1
        waits.update(node.control_inputs)
    made: dict[str, Node] = {}
    #: {product: what is to be waited for in its place}
    instead: dict[str, tuple[str, ...]] = {}
    dropped: set[str] = set()
    for update in updates:
        product = None if update.inputs[2] in fed else graph[update.inputs[2].node]
        between = None
        if product is not None and product.has(HandsOn):
            behind = product.inputs[0]
            between, product = product, None if behind in fed else graph[behind.node]
        if product is None:
            continue
        inner = [product] if between is None else [product, between]
        if (
            product.name not in large
            or not fed.isdisjoint(product.inputs)
            or not _serves(graph, product, update, fed)
        ):
            continue
        if any(node.name in kept or takers[node.name] != 1 or node.device != update.device for node in inner):
            continue
        if between is not None and between.name in waits:
            continue
        fused = _fused(product, between, update, kernels)
        if fused is not None:
            made[update.name] = fused
            dropped.update(node.name for node in inner)
            instead[product.name] = (*(port.node for port in product.inputs), *product.control_inputs)
    if not made:
        return graph
    return graph.rewritten(
        _waiting(made.get(node.name, node), instead) for node in graph if node.name not in dropped
    )


def _serves(graph: NodeGraph, product: Node, update: Node, fed: frozenset[OutputPort]) -> bool:
    """Whether it is a product of two values, which no update can change, and may be waited for.

    None of its inputs is fed itself; a fed value further away is nobody's buffer, and its node is not there.
    """
    if product.op != "MatMul" or product.attrs["T"] is not float32:
        return False
    for port in product.inputs:
        source = graph[port.node]
        if source.op in CONTROL_FLOW_OPS:
            return False  # a control edge out of it is alive where a data edge may be dead
        # What only hands on a reference gives the variable's buffer: a later update would be seen in it.
        while not (is_ref := source.output_types[port.slot].is_ref) and source.has(HandsOn):
            port = source.inputs[0]
            if port in fed:
                break
            source = graph[port.node]
        if is_ref or source.op in SWITCH_OPS or source.op in MERGE_OPS:
            return False
    return update.attrs["T"] is float32


def _fused(product: Node, between: Node | None, update: Node, kernels: KernelRegistry) -> Node | None:
    try:
        functions = [kernels.find(node).bind(node) for node in (product, update)]
    except OpError:
        return None  # the plan says what is wrong
    if not hasattr(functions[1], "by_product"):
        return None
    controls = [*update.control_inputs, *product.control_inputs]
    if between is not None:
        controls.extend(between.control_inputs)
    return replace(
        update,
        op=DESCENT_BY_PRODUCT.name,
        op_def=DESCENT_BY_PRODUCT,
        inputs=(*update.inputs[:2], *product.inputs),
        control_inputs=tuple(dict.fromkeys(c for c in controls if c != product.name)),
        attrs={"T": float32, "program": DescentByProduct(product, functions[0], update, functions[1])},
    )


def _waiting(node: Node, instead: Mapping[str, tuple[str, ...]]) -> Node:
    """The node, which waits for what a product that is gone had waited for."""
    if instead.keys().isdisjoint(node.control_inputs):
        return node
    found: dict[str, None] = {}
    left = list(reversed(node.control_inputs))
    while left:
        name = left.pop()
        if name in instead:
            left.extend(reversed(instead[name]))
        else:
            found[name] = None
    return replace(node, control_inputs=tuple(found))
