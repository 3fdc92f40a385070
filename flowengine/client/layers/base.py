"""Shared parts of layers: a scope, options, variables, and the functions applied at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypedDict

from flowengine.client.arguments import check_options
from flowengine.client.named import activation_of, check_functions
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert
from flowengine.graphs.functions import array
from flowengine.graphs.functions.math import cast
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers, keys
from flowengine.graphs.variables.scopes import Reuse, VariableScope

#: A function of a tensor, such as `fe.nn.relu`, or its name, "relu"; None leaves the tensor as it is.
Activation: TypeAlias = Callable[[Tensor], Tensor] | str | None


class LayerWeights(TypedDict, total=False):
    """Options of a layer's variables, each None unless it is given.

    ..._initializer   makes the first value: a function of `fe.initializers` or its name, "he_normal". Of a
                      kernel the scope's, else glorot_uniform; of a bias zeros
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


class LayerEnd(TypedDict, total=False):
    """Options of how a layer ends, and of its scope.

    use_bias               whether a bias is added; True unless it is given
    activity_regularizer   a function of the result; the layer lists its value, divided by the size N of the
                           batch, under "regularization_losses"
    name, reuse            of the layer's variable scope: see `fe.layers`
    """

    use_bias: bool
    activity_regularizer: Any
    name: str | None
    reuse: Reuse | None


class LayerOptions(LayerWeights, LayerEnd, total=False):
    """Options of a layer with a kernel and a bias: `LayerWeights` and `LayerEnd`."""


def layer_scope(
    graph: Graph, name: str | None, default: str, reuse: Reuse | None
) -> AbstractContextManager[VariableScope]:
    """The scope of a layer's variables and nodes: a name's, or the default's made unique.

    With `reuse` the variables of the name are found, not made; with "auto" they are made if there are none.
    """
    if reuse and name is None:
        raise InvalidArgumentError(
            f"layers.{default}: reuse=True needs name=, that of the layer whose variables to use again"
        )
    return graph.variable_scope(name, default_name=default, reuse=reuse)


def scope_of(
    graph: Graph, what: str, options: Mapping[str, Any], known: type[Any]
) -> AbstractContextManager[VariableScope]:
    """As `layer_scope`, of a layer that is given options; ConstructionTypeError for unknown ones."""
    check_options(f"layers.{what}", options, known)
    check_functions(options)
    return layer_scope(graph, options.get("name"), what, options.get("reuse"))


def weight(
    graph: Graph,
    name: str,
    shape: Sequence[int],
    dtype: DType,
    options: Mapping[str, Any],
    kind: str = "kernel",
) -> Tensor:
    """A variable of the present scope, as the options of its kind say."""
    made = graph.get_variable(
        name,
        shape,
        dtype=dtype,
        initializer=options.get(f"{kind}_initializer"),
        regularizer=options.get(f"{kind}_regularizer"),
        constraint=options.get(f"{kind}_constraint"),
        trainable=options.get("trainable", True),
    )
    return convert(graph, made)


def ended(
    x: Tensor, units: int, options: Mapping[str, Any], activation: Activation, axis: int = -1
) -> Tensor:
    """The result of a layer: x with its bias along an axis, its activation, and its regulariser asked.

    axis   of the channels, -1 or 1
    """
    graph = x.graph
    result = x
    if options.get("use_bias", True):
        filled = {**options, "bias_initializer": options.get("bias_initializer") or initializers.zeros()}
        offset = weight(graph, "bias", [units], x.dtype.base, filled, "bias")
        result = graph.ops.BiasAdd(x, offset, data_format="NHWC" if axis == -1 else "NCHW")
    applied = activation_of(activation)
    if applied is not None:
        result = applied(result)
    regularizer = options.get("activity_regularizer")
    if regularizer is not None:
        with graph.name_scope("ActivityRegularizer"):
            rows = cast(array.shape(result)[0], result.dtype.base)
            graph.add_to_collection(keys.REGULARIZATION_LOSSES, graph.ops.RealDiv(regularizer(result), rows))
    return result


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
