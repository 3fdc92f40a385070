"""Activations, initializers and optimizers by name: `activation="relu"`, `fe.optimizers.get("adam")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowengine.core.public_names.suggest import did_you_mean
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.functions import nn
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers

#: {name: function of a tensor; None for the function that changes nothing}
_ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor] | None]] = {
    "elu": nn.elu,
    "gelu": nn.gelu,
    "leaky_relu": nn.leaky_relu,
    "linear": None,
    "log_softmax": nn.log_softmax,
    "relu": nn.relu,
    "relu6": nn.relu6,
    "selu": nn.selu,
    "sigmoid": nn.sigmoid,
    "silu": nn.swish,
    "softmax": nn.softmax,
    "softplus": nn.softplus,
    "softsign": nn.softsign,
    "swish": nn.swish,
    "tanh": nn.tanh,
}


def activation_of(given: Any) -> Callable[[Tensor], Tensor] | None:
    """Return the function of an activation: a name such as "relu", a function of a tensor, or None.

    Raises ConstructionValueError for an unknown name, listing those that there are, and
    ConstructionTypeError for anything else that cannot be called.
    """
    if isinstance(given, str):
        if given not in _ACTIVATIONS:
            raise ConstructionValueError(unknown_name("activation", given, _ACTIVATIONS))
        return _ACTIVATIONS[given]
    if given is not None and not callable(given):
        raise ConstructionTypeError(
            f"{given!r} is no activation: give a name such as 'relu', or a function such as fe.nn.relu"
        )
    found: Callable[[Tensor], Tensor] | None = given
    return found


def check_functions(options: Mapping[str, Any]) -> None:
    """Check the options of a layer that are functions, before anything of the layer is built.

    Raises ConstructionValueError for unknown names, ConstructionTypeError for values that cannot be called.
    """
    for name, value in options.items():
        if name == "activation":
            activation_of(value)
        elif name.endswith("_initializer") and isinstance(value, str):
            initializers.get(value)
        elif name.endswith(("_regularizer", "_constraint")) and value is not None and not callable(value):
            example = "fe.regularizers.l2(0.01)" if name.endswith("_regularizer") else "fe.nn.relu"
            raise ConstructionTypeError(
                f"{name} is {value!r}: give a function of a tensor, such as {example}"
            )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no activation, or other kind, of a name, and list those that there are."""
    names = sorted(known)
    return f"there is no {kind} {name!r}{did_you_mean(name, names)} (there are: {', '.join(names)})"


__all__ = ["activation_of", "check_functions", "unknown_name"]
