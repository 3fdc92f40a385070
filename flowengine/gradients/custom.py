"""Gradients of one's own: of an op, by name, and of what a function builds.

@fe.custom_gradient
def clipped(x):
    def backward(grad):
        return x.graph.ops.Minimum(grad, 1.0)
    return x.graph.ops.Square(x), backward
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientTypeError, GradientValueError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor

_numbers: Final = itertools.count(1)


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that builds nodes say what their gradient is.

    function   takes Tensors, and returns what it builds (a Tensor or several) and a function from the
               gradients of these, one argument each, to the gradients of what it took (None: absent)

    What the gradient function uses of the forward code may be anywhere, in a loop too. The gradient is known
    to this process only: a graph that is written and read again computes the same, but has ops in these
    places that cannot be differentiated. Raises GradientTypeError where an argument is no Tensor.

    >>> graph = fe.Graph()
    >>> @fe.custom_gradient
    ... def squared(x):
    ...     return fe.square(x), lambda grad: fe.minimum(grad * 2.0 * x, 1.0)
    >>> x = graph.constant(3.0)
    >>> dx, = fe.gradients(squared(x), x)
    >>> fe.testing.evaluate(graph, [dx.name])[0].tolist()
    1.0
    """

    @functools.wraps(function)
    def built(*arguments: Tensor) -> Any:
        if not arguments or not all(isinstance(each, Tensor) for each in arguments):
            raise GradientTypeError(f"{function.__name__} takes Tensors, one at least, not {arguments!r}")
        graph = arguments[0].graph
        # The gradient ends at these; what goes on from here to the arguments is what `backward` says.
        made, backward = function(*arguments)
        results = list(made) if isinstance(made, list | tuple) else [made]
        name = f"{function.__name__}_gradient_{next(_numbers)}"
        gradient(name, slices=True)(_ResultGradient(backward, len(results), len(arguments)))
        named = {"_gradient_op_type": name.encode()}
        handed_on = graph.create_op("IdentityN", [[*results, *arguments]], named)
        outputs = handed_on.outputs[: len(results)]
        return outputs if isinstance(made, list | tuple) else outputs[0]

    return built


class _ResultGradient:
    """The gradient of the node that hands on results and arguments: all goes to the arguments."""

    def __init__(self, backward: Callable[..., Any], results: int, arguments: int) -> None:
        self.__module__ = getattr(backward, "__module__", __name__)
        self._backward = backward
        self._results = results
        self._arguments = arguments

    def __call__(self, b: Backward, op: Operation, *grads: Gradient) -> Results:
        with b.graph.scopes.bringing(b.here):
            found = self._backward(*grads[: self._results])
        given: Sequence[Gradient | None] = found if isinstance(found, list | tuple) else [found]
        if len(given) != self._arguments:
            raise GradientValueError(
                f"the gradient function of '{op.name}' gives {len(given)} gradients for "
                f"{self._arguments} arguments"
            )
        return [*[None] * self._results, *given]
