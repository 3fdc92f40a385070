"""A SymbolicGradient as code: the function that it names, and the gradient of that.

    da, db = SymbolicGradient(a, b, dy; f)     ->     y = f(a, b);  da, db = gradients(y, [a, b], dy)

So a graph can be differentiated that holds gradients of functions, to any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.functions.bodies import functions_in
from flowengine.functions.lowering import CallLowering, handing_on
from flowengine.gradients.values import dense
from flowengine.graphs.tensor import Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import SYMBOLIC_GRADIENT


class DifferentiableLowering(CallLowering):
    """Lowers calls that a gradient goes through, SymbolicGradients among them."""

    def functions_of(self, node: Node) -> list[FuncAttr]:
        if node.op == SYMBOLIC_GRADIENT and "_gradient_op_type" not in node.attrs:
            return functions_in(node)
        return super().functions_of(node)

    def lower(self, node: Node, is_anchored: bool) -> None:
        if node.op != SYMBOLIC_GRADIENT:
            super().lower(node, is_anchored)
            return
        graph, within = self.graph, self.within(node)
        before = len(graph)
        with graph.scopes.apart(None), graph.scopes.alone_on(node.device):
            results = self._gradient(node, within)
        inside = within | {each.name for each in self.functions_of(node)}
        self.put_within(list(graph.nodes)[before:], inside)
        graph.widen(handing_on(graph, node, results, node.control_inputs))

    def _gradient(self, node: Node, within: frozenset[str]) -> list[OutputPort]:
        """Add what a SymbolicGradient computes; its results."""
        from flowengine.gradients.differentiate import differentiate

        graph, ops = self.graph, self.graph.ops
        count = len(node.output_types)
        given = [Tensor(graph, *port) for port in node.inputs]
        prefix = graph.scopes.unique(node.name + "/called") + "/"
        with graph.name_scope(prefix), graph.scopes.apart(None, node.control_inputs):
            # Derivatives by these alone: one argument may have been made of another.
            arguments = [ops.Identity(each, name="argument") for each in given[:count]]
            ys = self._called(node.attrs["f"], arguments, given[count:])
            found = differentiate(ys, arguments, given[count:], own=within)
            results = []
            for argument, each in zip(arguments, found, strict=True):
                if each is None:
                    each = ops.ZerosLike(argument)
                results.append((each if isinstance(each, Tensor) else dense(graph, ops, each)).port)
        return results

    def _called(
        self, function: FuncAttr, arguments: Sequence[Tensor], seeds: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        """Call a function, or the op of that name, and return its outputs."""
        graph = self.graph
        if function.name in self.library:
            types = [each.dtype.base for each in seeds]
            results: Sequence[Tensor] = graph.ops.PartitionedCall(
                arguments, Tout=types, f=function, name="forward"
            )
            return results
        definition = graph.registry[function.name]
        name = graph.scopes.unique_name("forward")
        inputs = tuple(each.port for each in arguments)
        graph.append(definition, name, inputs, dict(definition.with_defaults(function.attrs)))
        return graph.operation(name).outputs
