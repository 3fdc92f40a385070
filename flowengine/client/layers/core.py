"""Layers without a window: dense, dropout, flatten, embedding.

Inputs are floats of any width, of `flatten` anything; results have their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from flowengine.client import embedding as embeddings
from flowengine.client.arguments import training_flag
from flowengine.client.layers.base import (
    Activation,
    LayerOptions,
    ended,
    known_size,
    layer_scope,
    scope_of,
    weight,
)
from flowengine.client.named import activation_of
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.activations import dropout as plain_dropout
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers
from flowengine.graphs.variables.scopes import Reuse


def dense(inputs: Any, units: int, activation: Activation = None, **options: Unpack[LayerOptions]) -> Tensor:
    """Compute `activation(inputs @ kernel + bias)` along the last axis.

    inputs       (D_1, ..., D_r, I) of floats, r at least 1, I known
    activation   a function of a tensor or its name, such as "relu"; see `Activation`
    kernel       (I, units), `dense/kernel`; bias (units,), `dense/bias`
    options      see `LayerOptions`
    returns      (D_1, ..., D_r, units) of the type of inputs

    Raises InvalidArgumentError if I is not known, the inputs have no axis before it, or a name is unknown.

        hidden = fe.layers.dense(images, 128, "relu", kernel_initializer="he_normal")
    """
    graph, activation = graph_of(inputs), activation_of(activation)
    with scope_of(graph, "dense", options, LayerOptions):
        x = convert(graph, inputs)
        kernel = weight(graph, "kernel", [known_size("dense", x, -1), units], x.dtype.base, options)
        rank = x.shape.rank
        if rank == 1:
            raise InvalidArgumentError(
                f"layers.dense: '{x.name}' has one axis: it needs a batch axis before it"
            )
        result = graph.ops.MatMul(x, kernel) if rank == 2 else _along_last(graph, x, kernel, units)
        return ended(result, units, options, activation)


def _along_last(graph: Graph, x: Tensor, kernel: Tensor, units: int) -> Tensor:
    """x @ kernel for x of any rank: as rows, and back."""
    ops = graph.ops
    with graph.name_scope("Tensordot"):
        rows = ops.MatMul(ops.Reshape(x, [-1, known_size("dense", kernel, 0)]), kernel)
        outer = x.shape.as_list()[:-1]
        if outer.count(None) <= 1:
            return _reshaped(graph, rows, [*(-1 if size is None else size for size in outer), units])
        sizes = ops.StridedSlice(ops.Shape(x), [0], [-1], [1], begin_mask=1)
        return _reshaped(graph, rows, ops.ConcatV2([sizes, [units]], 0))


def _reshaped(graph: Graph, tensor: Tensor, shape: Any) -> Tensor:
    result: Tensor = graph.ops.Reshape(tensor, shape)
    return result


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    *,
    training: Any = False,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Set elements to 0 with probability `rate` while training, and scale the others by 1/(1-rate).

    inputs        (D_1, ..., D_r) of floats
    rate          a number below 1, or a scalar Tensor of the type of inputs
    training      whether to: a bool, or a bool scalar Tensor
    noise_shape   the shape of the random mask, each 1 or None (that of inputs); elements along a 1 share one
                  number
    seed          of the random mask; see `Graph.seed`

    Returns the shape and type of inputs. Raises InvalidArgumentError for a rate that is not from 0 to below
    1, and a `noise_shape` of another rank. Srivastava, Hinton and others 2014.
    """
    graph = graph_of(inputs)
    if isinstance(rate, int | float) and not 0 <= rate < 1:
        raise InvalidArgumentError(f"layers.dropout: rate is {rate}; it is at least 0 and less than 1")
    with graph.name_scope(name or "dropout"):
        x = convert(graph, inputs)
        training = training_flag(graph, "layers.dropout", training)
        if isinstance(training, Tensor):
            chosen: Tensor = graph.ops.SelectV2(training, dropped(x, rate, noise_shape, seed), x)
            return chosen
        if not training or rate == 0:
            result: Tensor = graph.ops.Identity(x)
            return result
        return dropped(x, rate, noise_shape, seed)


def dropped(x: Tensor, rate: Any, noise_shape: Sequence[int | None] | None, seed: int | None) -> Tensor:
    """As `fe.nn.dropout`, with None in `noise_shape` where it is as x."""
    return plain_dropout(x, rate=rate, noise_shape=_noise_shape(x, noise_shape), seed=seed)


def _noise_shape(x: Tensor, noise_shape: Sequence[int | None] | None) -> Any:
    if noise_shape is None:
        return None
    ops, own = x.graph.ops, x.shape
    if own.rank is not None and own.rank != len(noise_shape):
        raise InvalidArgumentError(
            f"layers.dropout: noise_shape {list(noise_shape)} has {len(noise_shape)} axes, the input {own}"
        )
    if None not in noise_shape:
        return list(noise_shape)
    sizes = ops.Shape(x)
    parts = [ops.GatherV2(sizes, axis, 0) if size is None else size for axis, size in enumerate(noise_shape)]
    return ops.Pack(parts)


def flatten(inputs: Any, *, name: str | None = None) -> Tensor:
    """Return all axes but the first made one: (N, D_1, ..., D_r) -> (N, D_1 * ... * D_r).

    Of any type. Raises InvalidArgumentError where the rank is not known, or 0.
    """
    graph = graph_of(inputs)
    with graph.name_scope(name or "flatten"):
        x = convert(graph, inputs)
        if x.shape.rank is None or x.shape.rank < 1:
            raise InvalidArgumentError(
                f"layers.flatten: '{x.name}' of shape {x.shape} must have a known rank: use set_shape"
            )
        inner = x.shape.as_list()[1:]
        if None not in inner:
            width = 1
            for size in inner:
                width *= size or 0
            return _reshaped(graph, x, [-1, width])
        if x.shape[0] is not None:
            return _reshaped(graph, x, [x.shape[0], -1])
        rows = graph.ops.StridedSlice(graph.ops.Shape(x), [0], [1], [1])
        return _reshaped(graph, x, graph.ops.ConcatV2([rows, [-1]], 0))


def embedding(
    ids: Any,
    vocabulary: int,
    units: int,
    *,
    dtype: DType | str = "float32",
    embeddings_initializer: Any = None,
    embeddings_regularizer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Look up rows of a table of weights, which is a variable of the layer.

    ids       (D_1, ..., D_r) int32 or int64 in 0 ... vocabulary-1
    table     (vocabulary, units), `embedding/embeddings`, whose gradient is IndexedSlices
    embeddings_initializer   of the table; by default uniform from -0.05 to 0.05
    embeddings_regularizer   of the table; by default none
    returns   (D_1, ..., D_r, units)

    Raises InvalidArgumentError for ids of another type; an id outside of the table fails the step with it.
    """
    graph = graph_of(ids)
    with layer_scope(graph, name, "embedding", reuse):
        table = graph.get_variable(
            "embeddings",
            [vocabulary, units],
            dtype=dtype,
            initializer=embeddings_initializer or initializers.uniform(-0.05, 0.05),
            regularizer=embeddings_regularizer,
            trainable=trainable,
        )
        return embeddings.lookup(table, ids)
