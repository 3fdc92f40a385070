"""The gradient functions, by the op that they differentiate.

    @gradient("MatMul")
    def mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
        ...

A function gets the gradients of the op's outputs, one argument each, and returns one for each of its inputs,
lists flattened; None is an absent one. `index.py`, which `make generate` writes from the tree, says which
module has which functions: a module is imported when the first of its ops is differentiated. Ops of a user's
own are registered in the same way, and so are the names that `Graph.gradient_override` and the node attribute
`_gradient_op_type` give.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, TypeVar

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.index import GRADIENTS
from flowengine.gradients.values import Results

GradientFunction: TypeAlias = Callable[..., Results]
Function = TypeVar("Function", bound=GradientFunction)


class GradientRule(NamedTuple):
    """How an op is differentiated.

    takes_slices   whether `IndexedSlices` may be given to the function; else it gets them as dense tensors
    is_lazy        whether None may be given for an output that has no gradient; else zeros are made
    """

    function: GradientFunction
    takes_slices: bool = False
    is_lazy: bool = False


_rules: Final[dict[str, GradientRule]] = {}
_modules: Final[dict[str, str]] = {op: module for module, ops in GRADIENTS.items() for op in ops.split()}


def gradient(*ops: str, slices: bool = False, lazy: bool = False) -> Callable[[Function], Function]:
    """Register a function as the gradient of these ops, or under names of one's own.

    Raises InvalidArgumentError if one of them has a gradient function already.
    """

    def register(function: Function) -> Function:
        rule = GradientRule(function, slices, lazy)
        for op in ops:
            other = _rules.get(op) or rule
            owner = _modules.get(op)
            if other is not rule or (owner is not None and function.__module__ != _full(owner)):
                raise InvalidArgumentError(f"'{op}' has a gradient function already")
            _rules[op] = rule
        return function

    return register


def find(op: str) -> GradientRule | None:
    """The rule of an op, or of a name that an override gives; None if there is none."""
    found = _rules.get(op)
    if found is None and op in _modules:
        importlib.import_module(_full(_modules[op]))
        found = _rules.get(op)
    return found


def _full(module: str) -> str:
    return f"flowengine.gradients.{module}"
