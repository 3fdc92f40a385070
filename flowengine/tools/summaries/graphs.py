"""The graph as TensorBoard draws it: a GraphDef whose nodes note the shapes of their outputs.

Edges are as thick as the tensors that flow there are large, where shapes are known.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_to_def
from flowengine.ir.proto import GraphDef
from flowengine.ir.tensorproto import shape_to_proto

#: The attribute in which TensorFlow's exporters note shapes, and TensorBoard looks for them.
_SHAPES = "_output_shapes"
#: A constant with more bytes than this is written without them: TensorBoard does not show it anyway.
_BYTES_MAX = 1024


def drawn_graph(graph: Any) -> bytes:
    """The GraphDef of a graph, serialized, with shapes; large constants are left empty.

    Raises InvalidArgumentError for anything but a graph, and what `graph_to_def` raises.
    """
    if not isinstance(graph, NodeGraph):
        raise InvalidArgumentError(f"add_graph takes a fe.Graph, such as session.graph, not {graph!r:.80}")
    written: GraphDef = graph_to_def(graph)
    for node in written.node:
        if "value" in node.attr and node.attr["value"].tensor.ByteSize() > _BYTES_MAX:
            tensor = node.attr["value"].tensor
            dtype, shape = tensor.dtype, tensor.tensor_shape
            node.attr["value"].tensor.CopyFrom(type(tensor)(dtype=dtype, tensor_shape=shape))
        outputs = graph[node.name].output_types
        if _SHAPES in node.attr or not outputs or not isinstance(graph, Graph):
            continue
        shapes = [graph.shape_of(OutputPort(node.name, slot)) for slot in range(len(outputs))]
        if any(shape.dims is not None for shape in shapes):
            node.attr[_SHAPES].list.shape.extend(map(shape_to_proto, shapes))
    return written.SerializeToString(deterministic=True)


__all__ = ["drawn_graph"]
