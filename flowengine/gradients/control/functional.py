"""Gradients of calls that stay calls: of a function from within itself, whose code would have no end."""

from __future__ import annotations

from flowengine.gradients.errors import MissingGradientError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.attrs import FuncAttr


@gradient("PartitionedCall", lazy=True)
def call(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """The function's gradient, which computes the forward part again."""
    return of_function(b, op, op.get_attr("f"), grads)


@gradient(
    "StatefulPartitionedCall",
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "While",
    "StatelessWhile",
    lazy=True,
)
def recursive_call(b: Backward, op: Operation, *grads: Gradient | None) -> Results:
    raise MissingGradientError(
        f"{op.type} '{op.name}' calls a function that it is a part of: its gradient would have to compute "
        "the forward part again, which only a PartitionedCall without state allows; call the function by one"
    )


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
