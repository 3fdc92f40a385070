"""What layers have in common: a scope, variables with options of their own, an activation at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypedDict

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import Reuse, VariableScope

#: A function of a tensor, such as `fe.nn.relu`; None leaves it as it is.
Activation: TypeAlias = Callable[[Tensor], Tensor] | None
#: One number for all axes of a window, or one each.
Window: TypeAlias = int | Sequence[int]


class LayerWeights(TypedDict, total=False):
    """Options of a layer's variables, each None unless it is given.

    ..._initializer   what makes the first value: see `fe.initializers`. Of a kernel the scope's, else
                      glorot_uniform; of a bias zeros
    ..._regularizer   a function of the variable; what it gives is listed under "regularization_losses"
    ..._constraint    a function that optimizers apply to a new value
    trainable         whether optimizers change them; True unless it is given
    """

    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any
    trainable: bool


def layer_scope(
    graph: Graph, name: str | None, default: str, reuse: Reuse | None
) -> AbstractContextManager[VariableScope]:
    """The scope of a layer's variables and nodes: a name's, or the default's made unique.

    With `reuse` the variables of the name are found, not made; with "auto" they are made if there are none.
    """
    if reuse and name is None:
        raise InvalidArgumentError(f"layers.{default}: to reuse variables the layer needs its name")
    return graph.variable_scope(name, default_name=default, reuse=reuse)


def weight(
    graph: Graph, name: str, shape: Sequence[int], dtype: DType, options: LayerWeights, kind: str = "kernel"
) -> Tensor:
    """A kernel of the present scope, as the options say."""
    given: dict[str, Any] = {**options}
    made = graph.get_variable(
        name,
        shape,
        dtype=dtype,
        initializer=given.get(f"{kind}_initializer"),
        regularizer=given.get(f"{kind}_regularizer"),
        constraint=given.get(f"{kind}_constraint"),
        trainable=given.get("trainable", True),
    )
    return convert(graph, made)


def bias(graph: Graph, units: int, dtype: DType, options: LayerWeights) -> Tensor:
    """The bias of the present scope, zeros at first."""
    from flowengine.graphs.variables import initializers

    filled: LayerWeights = {**options}
    filled.setdefault("bias_initializer", initializers.zeros())
    return weight(graph, "bias", [units], dtype, filled, "bias")


def finished(result: Tensor, activation: Activation) -> Tensor:
    """The result with the activation applied."""
    return result if activation is None else activation(result)


def known_size(what: str, tensor: Tensor, axis: int) -> int:
    """The size of an axis on which the shape of a variable depends; InvalidArgumentError if it is unknown."""
    shape = tensor.shape
    size = shape[axis] if shape.dims is not None and -len(shape) <= axis < len(shape) else None
    if size is None:
        raise InvalidArgumentError(
            f"layers.{what}: axis {axis} of '{tensor.name}' must be known, its shape is {shape}; "
            "give the placeholder its shape, or set_shape"
        )
    return size


def need_rank(what: str, tensor: Tensor, rank: int) -> None:
    """InvalidArgumentError unless the tensor has this rank."""
    if tensor.shape.rank != rank:
        raise InvalidArgumentError(
            f"layers.{what}: '{tensor.name}' of shape {tensor.shape} must have {rank} axes"
        )


def window(what: str, name: str, value: Window, rank: int) -> list[int]:
    """One number for each axis of a window; InvalidArgumentError for another count or none positive."""
    sizes = [value] * rank if isinstance(value, int) else list(value)
    if len(sizes) != rank or any(size < 1 for size in sizes):
        raise InvalidArgumentError(
            f"layers.{what}: {name} is {value}; it is {rank} positive integers, or one"
        )
    return sizes


def channels_first(what: str, data_format: str) -> bool:
    """Whether channels come before the window's axes; InvalidArgumentError for another word."""
    if data_format not in ("channels_first", "channels_last"):
        raise InvalidArgumentError(
            f'layers.{what}: data_format is "channels_first" or "channels_last", not {data_format!r}'
        )
    return data_format == "channels_first"


def padding_of(what: str, padding: str) -> str:
    """SAME or VALID; InvalidArgumentError for another word."""
    if padding.upper() not in ("SAME", "VALID"):
        raise InvalidArgumentError(f'layers.{what}: padding is "same" or "valid", not {padding!r}')
    return padding.upper()


def layout(rank: int, first: bool) -> str:
    """The `data_format` of ops for a window of 2 or 3 axes."""
    spatial = "DHW"[3 - rank :]
    return f"NC{spatial}" if first else f"N{spatial}C"


def spread(sizes: Sequence[int], first: bool) -> list[int]:
    """Numbers of the window's axes among those of the batch and the channels, which are 1."""
    return [1, 1, *sizes] if first else [1, *sizes, 1]
