"""Changes to nodes of a graph: closing a loop by its back edge, and replacing a node.

A node may be replaced until a step of any session has needed it, because sessions keep their plans, and other
tasks the parts of the graph that they were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName
from flowengine.graphs.attrs import free_attr, to_attr
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError, builds
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir import graph as ir
from flowengine.ir.attrs import AttrValue
from flowengine.ir.graph import Node, OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.ops.shape_inference import ShapeInference


class GraphNodes(ir.NodeGraph):
    """The methods of `Graph` that replace nodes."""

    _shapes: ShapeInference | None

    @builds
    def set_back_edge(self, merge: Any, slot: int, source: Any) -> Node:
        """Close a loop: input `slot` of a Merge comes from a NextIteration that was built after it.

        Give the Merge its Enter twice at first: `ops.Merge([enter, enter])`. `merge` is a Tensor, an
        Operation or a name, `source` a Tensor or a port. Raises InvalidArgumentError if types differ or a
        node is of another op. A constant made inside of the body runs in the loop's frame only if it waits
        for something there: build bodies under `control_dependencies([switch.output_true])`.

        >>> graph = fe.Graph()
        >>> enter = graph.ops.Enter(graph.constant(0), frame_name="loop")
        >>> count = graph.ops.Merge([enter, enter]).output
        >>> limit = graph.ops.Enter(graph.constant(5), frame_name="loop", is_constant=True)
        >>> switch = graph.ops.Switch(count, graph.ops.LoopCond(count < limit))
        >>> with graph.control_dependencies([switch.output_true]):
        ...     following = graph.ops.NextIteration(switch.output_true + 1)
        >>> closed = graph.set_back_edge(count, 1, following)
        >>> fe.testing.evaluate(graph, [graph.ops.Exit(switch.output_false).name])[0].tolist()
        5
        """
        name = merge if isinstance(merge, str) else next(iter(cast("Graph", self).node_names([merge])))
        port = source.port if isinstance(source, Tensor) else source
        origin = self[port.node]
        node = self[name]
        if origin.op not in ("NextIteration", "RefNextIteration"):
            raise InvalidArgumentError(
                f"a back edge comes from a NextIteration; '{port}' is of a {origin.op}"
            )
        if node.output_types and origin.output_types[port.slot].base is not node.output_types[0].base:
            raise InvalidArgumentError(
                f"Merge '{name}' is {node.output_types[0].base}, "
                f"its back edge '{port}' {origin.output_types[port.slot].base}"
            )
        node = super().set_back_edge(name, slot, port)
        if self._shapes is not None:
            self._shapes.update()
            self._shapes.replaced(name)
        return node

    def widen(self, node: Node) -> Node:
        """Replace the node that has the name of this one, and give it more outputs.

        This is the only change to a node that may have run; sessions then make new plans. Raises
        NotFoundError if there is no node of this name, InvalidArgumentError if the types of the present
        outputs differ.

        >>> graph = fe.Graph()
        >>> x = graph.constant(1.0, name="x")
        >>> graph.widen(graph["x"]).op
        'Const'
        """
        present = self[node.name]
        count = len(present.output_types)
        if [t.base for t in node.output_types[:count]] != [t.base for t in present.output_types]:
            raise InvalidArgumentError(
                f"'{node.name}' has outputs {list(map(str, present.output_types))}; "
                f"its replacement has {list(map(str, node.output_types))}"
            )
        self._nodes[node.name] = node
        self.version += 1
        # The shapes of loop variables and of results of calls may be known better now.
        self._shapes = None
        return node

    @builds
    def replace_node(
        self,
        operation: Operation | str,
        *,
        inputs: Sequence[Tensor] | None = None,
        attrs: Mapping[str, Any] | None = None,
        device: str | DeviceName | None = None,
        control_inputs: Iterable[Tensor | Operation | str] | None = None,
    ) -> Operation:
        """Replace a node by another of the same name and op, before any step has needed it.

        operation        the node to replace, or its name
        inputs           all of them, lists flattened, each of the type that was there
        attrs            those that change
        device           "" for any
        control_inputs   all of them

        Arguments that are left out change nothing. The shapes of the nodes behind it are inferred again.
        Raises FailedPreconditionError once a step has needed the node; InvalidArgumentError (a ValueError or
        TypeError) if types of outputs would change, its shapes contradict, or it would depend on itself.

        >>> graph = fe.Graph()
        >>> y = fe.exp(graph.constant(0.0))
        >>> graph.replace_node(y.op, inputs=[graph.constant(1.0)], device="/cpu:0").inputs
        (<Tensor 'Const_1:0' shape=[] dtype=float32>,)
        """
        graph = cast("Graph", self)
        present = self[operation if isinstance(operation, str) else operation.name]
        node = replace(
            present,
            inputs=present.inputs if inputs is None else _ports(graph, present, inputs),
            attrs=present.attrs if attrs is None else _attrs(present, attrs),
            device=present.device if device is None else str(DeviceName.parse(str(device))),
            control_inputs=(
                present.control_inputs if control_inputs is None else graph.node_names(control_inputs)
            ),
        )
        definition = node.op_def
        if definition is not None and definition.output_types(node.attrs) != present.output_types:
            raise ConstructionTypeError(
                f"'{node.name}' has outputs {list(map(str, present.output_types))}, and others may depend on "
                f"them: it cannot have {list(map(str, definition.output_types(node.attrs)))}"
            )
        if node.inputs != present.inputs or node.control_inputs != present.control_inputs:
            _refuse_cycle(graph, node)
        if (node.inputs, node.attrs) != (present.inputs, present.attrs):
            graph.check_shapes(node)
            self._shapes = None
        self.put(node)
        return Operation(graph, node.name)


def _ports(graph: Graph, node: Node, inputs: Sequence[Tensor]) -> tuple[OutputPort, ...]:
    if len(inputs) != len(node.inputs):
        raise ConstructionValueError(
            f"'{node.name}' ({node.op}) has {len(node.inputs)} inputs; {len(inputs)} are given"
        )
    for number, (tensor, port) in enumerate(zip(inputs, node.inputs, strict=True)):
        if tensor.graph is not graph:
            raise ConstructionValueError(f"'{tensor.name}' belongs to another graph")
        present = Tensor(graph, port.node, port.slot).dtype
        if tensor.dtype != present:
            raise ConstructionTypeError(
                f"input {number} of '{node.name}' ({node.op}) is {present}; '{tensor.name}' is {tensor.dtype}"
            )
    return tuple([each.port for each in inputs])


def _attrs(node: Node, changes: Mapping[str, Any]) -> dict[str, AttrValue]:
    attrs = dict(node.attrs)
    for key, value in changes.items():
        known = None if node.op_def is None else node.op_def.attr(key)
        attrs[key] = free_attr(key, value) if known is None else to_attr(node.op, known, value)
    return attrs


def _refuse_cycle(graph: Graph, node: Node) -> None:
    """Raise ConstructionValueError if a node would wait for itself, except by a loop's back edge."""
    waiting = [*(port.node for port in node.inputs), *node.control_inputs]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        if name == node.name:
            raise ConstructionValueError(f"these inputs make a cycle: '{node.name}' would wait for itself")
        before = graph[name]
        if before.op in ("NextIteration", "RefNextIteration"):
            continue
        for each in (*(port.node for port in before.inputs), *before.control_inputs):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
