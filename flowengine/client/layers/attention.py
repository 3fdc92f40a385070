"""Attention: each position of a query takes a mean of values, weighted by how its query fits their keys."""

from __future__ import annotations

import math
from typing import Any, Unpack

from flowengine.client.layers.base import LayerWeights, known_size, layer_scope
from flowengine.client.layers.core import dense, dropout
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions import array
from flowengine.graphs.functions.activations import softmax
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import Reuse


def attention(
    query: Any,
    keys: Any,
    values: Any,
    *,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    training: Any = False,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute `softmax(query @ keys^T * scale) @ values` (Vaswani et al. 2017, section 3.2.1).

    query         (..., T, D); keys (..., S, D); values (..., S, V), of one type of floats
    mask          bool, of a shape that broadcasts to (..., T, S): False hides a key from a position
    causal        whether a position sees only the keys up to its own
    scale         1/sqrt(D) unless it is given
    dropout_rate  of the weights, while `training`
    returns       (..., T, V)

    Raises InvalidArgumentError where D is not known, or types and shapes do not fit.
    """
    graph = graph_of(query, keys, values)
    with graph.name_scope(name or "attention"):
        q, k, v = (convert(graph, each) for each in (query, keys, values))
        ops = graph.ops
        factor = 1 / math.sqrt(known_size("attention", q, -1)) if scale is None else scale
        fits = ops.Mul(ops.BatchMatMulV2(q, k, adj_y=True), factor)
        seen = _seen(graph, fits, mask, causal)
        if seen is not None:
            # Low enough that exp gives 0 in every type, and no infinity less itself where nothing is seen.
            low = -6e4 if fits.dtype.base is dtypes.float16 else -1e9
            fits = ops.SelectV2(seen, fits, graph.constant(low, fits.dtype.base))
        weights = softmax(fits)
        if dropout_rate:
            weights = dropout(weights, dropout_rate, training=training, seed=seed)
        result: Tensor = ops.BatchMatMulV2(weights, v)
        return result


def _seen(graph: Graph, fits: Tensor, mask: Any, causal: bool) -> Tensor | None:
    """Return which keys a position attends to, bool; None for all."""
    ops = graph.ops
    seen = None if mask is None else convert(graph, mask)
    if seen is not None and seen.dtype.base is not dtypes.bool_:
        seen = ops.NotEqual(seen, 0)
    if causal:
        whole = ops.Fill(array.shape(fits)[-2:], True)
        before = ops.MatrixBandPart(whole, -1, 0)
        seen = before if seen is None else ops.LogicalAnd(before, seen)
    return seen


def multi_head_attention(
    query: Any,
    source: Any = None,
    *,
    heads: int,
    units: int | None = None,
    output_units: int | None = None,
    mask: Any = None,
    causal: bool = False,
    use_bias: bool = True,
    dropout_rate: float = 0.0,
    training: Any = False,
    seed: int | None = None,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """Compute attention with several heads, each with its own projections (Vaswani et al. 2017, 3.2.2).

    query          (N, T, D)
    source         (N, S, E), from which keys and values are computed; None for the query itself
    heads          H, which divides `units` (by default D)
    output_units   of the projection at the end, by default D
    mask           bool, (N, 1, T, S) or broadcast to (N, H, T, S), as for `attention`
    weights        initializers and regularizers of each projection, as for `dense`
    returns        (N, T, output_units)

    Variables: `query/kernel`, `key/kernel`, `value/kernel` (D or E, units), `output/kernel` and their biases.

    All of one type of floats. Raises InvalidArgumentError if D or E is not known, or heads do not divide the
    units.
    """
    graph = graph_of(query, source)
    with layer_scope(graph, name, "multi_head_attention", reuse):
        q = convert(graph, query)
        s = q if source is None else convert(graph, source)
        width = known_size("multi_head_attention", q, -1)
        size = width if units is None else units
        if heads < 1 or size % heads:
            raise InvalidArgumentError(
                f"layers.multi_head_attention: {heads} heads do not divide {size} units"
            )
        parts = [
            _by_head(
                graph, dense(each, size, use_bias=use_bias, name=part, reuse=reuse, **weights), heads, size
            )
            for part, each in (("query", q), ("key", s), ("value", s))
        ]
        found = attention(
            *parts, mask=mask, causal=causal, dropout_rate=dropout_rate, training=training, seed=seed
        )
        joined = _joined(graph, found, q, size)
        return dense(joined, output_units or width, use_bias=use_bias, name="output", reuse=reuse, **weights)


def _by_head(graph: Graph, x: Tensor, heads: int, size: int) -> Tensor:
    """Split into heads: (N, T, H * d) -> (N, H, T, d)."""
    split = graph.ops.Reshape(x, _lead(graph, x, [heads, size // heads]))
    result: Tensor = graph.ops.Transpose(split, [0, 2, 1, 3])
    return result


def _joined(graph: Graph, x: Tensor, like: Tensor, size: int) -> Tensor:
    """Join the heads: (N, H, T, d) -> (N, T, H * d)."""
    result: Tensor = graph.ops.Reshape(graph.ops.Transpose(x, [0, 2, 1, 3]), _lead(graph, like, [size]))
    return result


def _lead(graph: Graph, x: Tensor, sizes: list[int]) -> list[int] | Tensor:
    """Return a shape that begins with the batch and time axes of x."""
    outer = x.shape.as_list()[:2]
    if outer.count(None) <= 1:
        return [-1 if each is None else each for each in outer] + sizes
    result: Tensor = graph.ops.ConcatV2([graph.ops.Slice(array.shape(x), [0], [2]), sizes], 0)
    return result
