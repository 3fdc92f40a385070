"""Large constants that are stored small stay small: each step expands one where it needs it.

    large = Const(v0, v1, ..., vk, vk, ... to the end)
    ->  large = Reshape(PadV2([v0, ..., vk], up to n, vk), shape)

A tensor proto may leave out repeats of its last element, so that two hundred bytes expand to gigabytes. Here
a kernel expands them: under the step's limit on memory and its deadline, on a thread, and freed after the
last consumer. A constant whose elements are all equal needs none of this: it is a view of one element.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import int64
from flowengine.ir import make
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.tensorproto import stored_elements
from flowengine.ir.traits import Constant
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext

#: More than is ever folded, so that folding does not expand constants that are left small here.
_LARGE_BYTES: Final = 16_000_000
#: It must be so many times smaller: a nearly full constant is as well stored expanded.
_RATIO: Final = 16


def keep_compact(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with nodes that expand its large, compact constants; itself if it has none."""
    made: dict[str, list[Node]] = {}
    for node in graph:
        constant = node.trait(Constant)
        value = None if constant is None else node.attrs.get(constant.value)
        if not isinstance(value, TensorAttr) or OutputPort(node.name, 0) in context.feeds:
            continue
        elements = value.shape.num_elements() or 0
        if elements * value.dtype.size < _LARGE_BYTES:
            continue
        stored = stored_elements(value)
        if stored is None or len(stored) * _RATIO > elements:
            continue
        nodes = _written_out(node, value, stored, elements)
        if not any(new.name in graph for new in nodes[:-1]):
            made[node.name] = nodes
    if not made:
        return graph
    return graph.rewritten(new for node in graph for new in made.get(node.name, (node,)))


def _written_out(node: Node, value: TensorAttr, stored: Array, elements: int) -> list[Node]:
    """Return the nodes that expand a constant; the last one has its name."""
    ops, dtype = op_registry(), value.dtype
    site = {"device": node.device, "creation_site": node.creation_site}

    def const(part: str, attr: TensorAttr) -> Node:
        return make.const(
            ops,
            f"_compact/{node.name}/{part}",
            attr,
            controls=node.control_inputs,
            device=node.device,
            creation_site=node.creation_site,
        )

    start = const("stored", TensorAttr.of(stored, dtype))
    last = const("last", TensorAttr.of(stored[-1:].reshape(()), dtype))
    missing = np.array([[0, elements - len(stored)]], np.int64)
    paddings = const("paddings", TensorAttr.of(missing, int64))
    shape = const("shape", TensorAttr.of(np.array(value.shape.as_list(), np.int64), int64))
    flat = make.node(
        ops,
        "PadV2",
        f"_compact/{node.name}/flat",
        inputs=[OutputPort(each.name, 0) for each in (start, paddings, last)],
        T=dtype,
        Tpaddings=int64,
        **site,
    )
    kept = {name: attr for name, attr in node.attrs.items() if name.startswith("_")}
    whole = make.node(
        ops,
        "Reshape",
        node.name,
        inputs=[OutputPort(flat.name, 0), OutputPort(shape.name, 0)],
        T=dtype,
        Tshape=int64,
        **site,
        **kept,
    )
    return [start, last, paddings, shape, flat, whole]


__all__ = ["keep_compact"]
