"""Gradients of inputs passed on: identities, checks, copies and watches of a debugger."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import MissingGradientError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of what hands a tensor on.


@gradient(
    "Identity",
    "RefIdentity",
    "Snapshot",
    "DeepCopy",
    "DebugGradientIdentity",
    "DebugGradientRefIdentity",
    "GuaranteeConst",
    slices=True,
)
def identity(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g"""
    return [grad]


@gradient("IdentityN", slices=True)
def identities(b: Backward, op: Operation, *grads: Gradient | None) -> Results:
    """The gradient of each"""
    return grads


@gradient("EnsureShape")
def ensure_shape(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g"""
    return [grad]


@gradient("PreventGradient", slices=True, lazy=True)
def prevent_gradient(b: Backward, op: Operation, grad: Gradient | None) -> Results:
    """Raises MissingGradientError: whoever put the op there wants no gradient to be taken through it."""
    if grad is None:
        return [None]
    message = op.get_attr("message").decode(errors="replace")
    raise MissingGradientError(f"no gradient may be taken through '{op.name}' (PreventGradient): {message}")


# Gradients of copies that a debugger looks at.


@gradient("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", slices=True)
def debug_identity(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g"""
    return [grad]
