"""Symbolic tensors and operations: what names a place in a graph under construction.

Both are light values that refer to a graph and a name; equal ones compare equal, so either may be a key of
a feed dictionary or stand among the fetches of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import tensor_name
from flowengine.core.shapes import TensorShape
from flowengine.graphs.errors import builds
from flowengine.graphs.operators import TensorOperators
from flowengine.ir.graph import Node, OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class Tensor(TensorOperators):
    """One output of one node: `graph`, `node_name`, `slot`; `name` is `node:slot`.

    It has no value while a graph is built: `session.run(tensor)` returns one. Operators and indexing add
    nodes. Raises ConstructionTypeError if it is used as a number.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", None, name="x")
    >>> x.set_shape([None, 4])
    >>> (2.0 * x + 1.0)[:, 0]
    <Tensor 'strided_slice:0' shape=[?] dtype=float32>
    >>> x.name, str(x.shape), x.op.type
    ('x:0', '[?,4]', 'Placeholder')
    """

    __slots__ = ("graph", "node_name", "slot")

    def __init__(self, graph: Graph, node_name: str, slot: int) -> None:
        self.graph = graph
        self.node_name = node_name
        self.slot = slot

    @property
    def name(self) -> str:
        return tensor_name(self.node_name, self.slot)

    @property
    def port(self) -> OutputPort:
        """The end of an edge that this is."""
        return OutputPort(self.node_name, self.slot)

    @property
    def op(self) -> Operation:
        """The operation that makes it."""
        return Operation(self.graph, self.node_name)

    @property
    def dtype(self) -> DType:
        """The element type; a reference type for the output of a reference variable.

        Raises InvalidArgumentError for the output of an unknown op, which has no type.
        """
        node = self.graph[self.node_name]
        try:
            return node.output_types[self.slot]
        except IndexError:
            raise InvalidArgumentError(
                f"'{self.name}' has no type: op {node.op} has {len(node.output_types)} outputs known "
                "here; import what registers the op, or take another output"
            ) from None

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as the graph alone determines it."""
        return self.graph.shape_of(self.port)

    @builds
    def set_shape(self, shape: Any) -> None:
        """Declare a shape that the graph alone does not determine; it is merged with the known one.

        `shape` may be partial. Nodes that are built later see it; a step does not check it. Raises ValueError
        (as InvalidArgumentError) if it contradicts the known shape.
        """
        self.graph.refine_shape(self.port, TensorShape(shape))

    def __eq__(self, other: object) -> bool:
        """Whether both are the same output of the same node; the values are compared by `ops.Equal`."""
        return (
            isinstance(other, Tensor)
            and self.graph is other.graph
            and self.node_name == other.node_name
            and self.slot == other.slot
        )

    def __hash__(self) -> int:
        return hash((self.node_name, self.slot))

    def _repr_html_(self) -> str:
        from flowengine.core import html

        return f"{html.code(self.name)} {html.text(f'{self.dtype} {self.shape} by {self.op.type}')}"

    def __repr__(self) -> str:
        return f"<Tensor '{self.name}' shape={self.shape} dtype={self.dtype}>"


class Operation:
    """One node of a graph under construction: `graph` and `name`.

    Properties raise NotFoundError if the graph has no node of this name.

    >>> graph = fe.Graph()
    >>> op = fe.matmul(graph.constant([[1.0]]), graph.constant([[2.0]]), name="product").op
    >>> op.type, [each.name for each in op.inputs], op.get_attr("transpose_a")
    ('MatMul', ['Const:0', 'Const_1:0'], False)
    """

    __slots__ = ("graph", "name")

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    @property
    def node(self) -> Node:
        """The node as it stands now (closing a loop replaces a Merge's)."""
        return self.graph[self.name]

    @property
    def type(self) -> str:
        """The op's name, such as `MatMul`."""
        return self.node.op

    @property
    def device(self) -> str:
        return self.node.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(self.graph, port.node, port.slot) for port in self.node.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(self.graph, self.name, slot) for slot in range(len(self.node.output_types)))

    @property
    def control_inputs(self) -> tuple[Operation, ...]:
        return tuple(Operation(self.graph, name) for name in self.node.control_inputs)

    def get_attr(self, name: str) -> Any:
        """Return the value of an attribute (see `ir.attrs`); KeyError if it has none of this name."""
        return self.node.attrs[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.graph is other.graph and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def _repr_html_(self) -> str:
        from flowengine.core import html

        shown = [("inputs", self.inputs), ("outputs", self.outputs)]
        rows = [(name, ", ".join(each.name for each in tensors)) for name, tensors in shown if tensors]
        return f"{html.code(self.name)} {html.text(self.type)}{html.table(rows)}"

    def __repr__(self) -> str:
        return f"<Operation '{self.name}' type={self.type}>"
