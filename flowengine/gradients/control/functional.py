"""Gradients of calls that stay calls: of a function from within itself, whose code would have no end."""

from __future__ import annotations

from functools import partial

from flowengine.functions.bodies import body_of, functions_in
from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import MissingGradientError
from flowengine.gradients.registry import GradientRule, gradient
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Node
from flowengine.ir.names import ARGUMENT, CALL_OPS, FUNCTION_CALL_OPS


@gradient("PartitionedCall", "StatefulPartitionedCall", lazy=True)
def call(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """The function's gradient, which computes the forward part again.

    Raises MissingGradientError where something that the function comes to has an effect, reads what may
    change, or draws numbers.
    """
    if not _is_stateless(b.graph, op.get_attr("f")):
        raise _refused(op)
    return of_function(b, op, op.get_attr("f"), grads)


@gradient(
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "While",
    "StatelessWhile",
    lazy=True,
)
def recursive_call(b: Backward, op: Operation, *grads: Gradient | None) -> Results:
    raise _refused(op)


@gradient("SymbolicGradient", lazy=True)
def gradient_of_recursion(b: Backward, op: Operation, *grads: Gradient | None) -> Results:
    """Of those that are not written out: the gradient of a function from within itself."""
    raise MissingGradientError(
        f"{op.type} '{op.name}' is the gradient of '{op.get_attr('f').name}', a function that calls itself: "
        "there is no second derivative of it; write it as a loop"
    )


def _refused(op: Operation) -> MissingGradientError:
    return MissingGradientError(
        f"{op.type} '{op.name}' calls a function that it is a part of: its gradient would have to compute "
        "the forward part again, which only a PartitionedCall or StatefulPartitionedCall of functions "
        "without state allows; call the function by one, and keep variables and random numbers out of it"
    )


def _is_stateless(graph: Graph, function: FuncAttr) -> bool:
    """Whether a function, and all that it calls, can be computed again."""
    library = FunctionLibrary(graph.library, graph.registry, graph.producer)
    waiting, seen = [function], {function.name}
    while waiting:
        for node in body_of(library, waiting.pop()).graph:
            called = functions_in(node) if node.op in FUNCTION_CALL_OPS else []
            if node.is_stateful and not called and node.op != ARGUMENT:
                return False
            waiting += [each for each in called if each.name not in seen]
            seen.update(each.name for each in called)
    return True


def of_function(b: Backward, op: Operation, function: FuncAttr, grads: tuple[Tensor | None, ...]) -> Results:
    """The gradients of a function's arguments, of which some may be zeros of no use."""
    given = [
        b.ops.ZerosLike(output) if each is None else each
        for output, each in zip(op.outputs, grads, strict=True)
    ]
    results: Results = b.ops.SymbolicGradient(
        [*op.inputs, *given], Tout=[each.dtype.base for each in op.inputs], f=function
    )
    return results


class FunctionRules:
    """How calls of a graph's functions are differentiated that stay calls."""

    def __init__(self, graph: Graph) -> None:
        self._library = (
            None if graph.library is None else FunctionLibrary(graph.library, graph.registry, graph.producer)
        )

    def rule(self, node: Node) -> GradientRule | None:
        """The rule of a call whose function says its own gradient, or is used as an op; else None."""
        if self._library is None:
            return None
        function = node.attrs.get("f") if node.op in CALL_OPS else None
        if not isinstance(function, FuncAttr):
            function = FuncAttr(node.op, node.attrs) if node.op in self._library else None
        if function is None:
            return None
        given = self._library.gradient_of(function.name)
        if given is not None:
            return GradientRule(partial(_by_function, FuncAttr(given, function.attrs)), is_lazy=True)
        return GradientRule(partial(_of_op, function), is_lazy=True) if node.op in self._library else None


def _of_op(function: FuncAttr, b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    return of_function(b, op, function, grads)


def _by_function(function: FuncAttr, b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """A call of the function that the library says is the gradient."""
    given = [
        b.ops.ZerosLike(output) if each is None else each
        for output, each in zip(op.outputs, grads, strict=True)
    ]
    results: Results = b.ops.PartitionedCall(
        [*op.inputs, *given], Tout=[each.dtype.base for each in op.inputs], f=function
    )
    return results
