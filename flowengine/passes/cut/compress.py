"""Lossy compression of tensors between devices: float32 cut to its upper 16 bits (white paper 5.5).

    x -> Send    Recv -> y        ->        x -> Narrow -> Send    Recv -> Widen -> y

The lower half of the mantissa is dropped, not rounded, and filled with zeros on arrival: the range stays that
of float32, and 8 of its 24 bits of precision remain. Only marked tensors are compressed: by the attribute
`_lossy_transfer` of their node, by its scope, or all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from flowengine.core.dtypes import float32, uint16
from flowengine.ir import make
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ops.load import registry as op_registry
from flowengine.passes.cut.partition import Partition, PartitionedGraph, Transfer

#: True on a node whose outputs may lose precision when they cross, False on one whose may not.
ATTRIBUTE: Final = "_lossy_transfer"


def compress_transfers(
    cut: PartitionedGraph, graph: NodeGraph, scopes: Sequence[str] = ()
) -> PartitionedGraph:
    """Return the same partitions, with the chosen transfers at half the size.

    graph    the graph before it was cut: the attribute of its nodes overrides any scope
    scopes   name scopes whose nodes' tensors may lose precision; "" is every node
    """
    chosen = [transfer for transfer in cut.transfers if _is_chosen(transfer, graph, scopes)]
    if not chosen:
        return cut
    sends = {transfer.send: transfer for transfer in chosen}
    receives = {transfer.receive: transfer for transfer in chosen}
    return replace(
        cut,
        partitions=tuple(_rewritten(part, sends, receives) for part in cut.partitions),
        transfers=tuple(
            replace(each, is_compressed=True) if each.send in sends else each for each in cut.transfers
        ),
    )


def _is_chosen(transfer: Transfer, graph: NodeGraph, scopes: Sequence[str]) -> bool:
    if transfer.dtype is not float32 or transfer.edge.startswith("^"):
        return False
    node = graph.nodes.get(transfer.port.node)
    asked = None if node is None else node.attrs.get(ATTRIBUTE)
    if isinstance(asked, bool):
        return asked
    return any(_is_in(transfer.port.node, scope) for scope in scopes)


def _is_in(name: str, scope: str) -> bool:
    scope = scope.rstrip("/")
    return not scope or name == scope or name.startswith(f"{scope}/")


def _rewritten(part: Partition, sends: dict[str, Transfer], receives: dict[str, Transfer]) -> Partition:
    if not any(node.name in sends or node.name in receives for node in part.graph):
        return part
    nodes: list[Node] = []
    for node in part.graph:
        if node.name in sends:
            nodes += _narrowed(node)
        elif node.name in receives:
            nodes += _widened(node)
        else:
            nodes.append(node)
    return replace(part, graph=part.graph.rewritten(nodes))


def _narrowed(send: Node) -> Iterable[Node]:
    narrow = make.node(op_registry(), "_Narrow", f"{send.name}/_narrow", inputs=send.inputs)
    inputs = (OutputPort(narrow.name, 0),)
    return narrow, replace(send, inputs=inputs, attrs={**send.attrs, "T": uint16})


def _widened(receive: Node) -> Iterable[Node]:
    """Return the Recv under another name, and a widening node under its name, so that no consumer changes."""
    name = f"{receive.name}/_narrow"
    attrs = {**receive.attrs, "tensor_type": uint16}
    narrow = replace(receive, name=name, attrs=attrs, output_types=(uint16,))
    return narrow, make.node(op_registry(), "_Widen", receive.name, inputs=(OutputPort(name, 0),))


__all__ = ["ATTRIBUTE", "compress_transfers"]
