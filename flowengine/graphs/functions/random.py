"""Random tensors.

`seed` and the graph's own seed say whether a session draws the same again: see `graphs.seeds`.

The result has the requested `shape` and the type `dtype`, a float of any width or an integer. `mean`,
`stddev`, `alpha`, `beta` and `logits` are numbers or tensors of floats; `num_samples` is an integer. `graph`
is needed where no argument is a tensor.

>>> graph = fe.Graph()
>>> graph.seed = 1
>>> drawn = [fe.random_uniform([2], graph=graph), fe.random_normal([2], mean=5.0, graph=graph)]
>>> drawn += [fe.truncated_normal([2], graph=graph), fe.random_shuffle(graph.constant([1, 2, 3]))]
>>> drawn += [fe.random_gamma([2], 3.0, graph=graph), fe.random_poisson(graph.constant(3.0), [2])]
>>> drawn.append(fe.multinomial(graph.constant([[0.0, 9.0]]), 2))
>>> with fe.blocking.Session(graph) as session:
...     [value.shape for value in session.run(drawn)]
[(2,), (2,), (2,), (3,), (2,), (2,), (1, 2)]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.support import one, tensor_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.seeds import seeds_for
from flowengine.graphs.tensor import Tensor


def random_uniform(
    shape: Any,
    minval: TensorLike = 0,
    maxval: TensorLike = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Draw uniformly from [minval, maxval): floating point (maxval 1 by default), int32 or int64.

    Raises ValueError (as InvalidArgumentError) for integers without maxval.
    """
    owner, kind = graph_of(shape, minval, maxval, graph=graph), as_dtype(dtype)
    with owner.name_scope(name or "random_uniform") as scope:
        dims = _dims(owner, shape)
        if kind.is_integer:
            if maxval is None:
                raise ConstructionValueError("random integers need a maxval")
            low, high = convert(owner, minval, kind, "min"), convert(owner, maxval, kind, "max")
            first, second = seeds_for(owner, seed)
            return one("RandomUniformInt", dims, low, high, seed=first, seed2=second, name=scope)
        low = convert(owner, minval, kind, "min")
        high = convert(owner, 1 if maxval is None else maxval, kind, "max")
        first, second = seeds_for(owner, seed)
        drawn = owner.ops.RandomUniform(dims, dtype=kind, seed=first, seed2=second)
        found: Tensor = owner.ops.Add(owner.ops.Mul(drawn, high - low, name="mul"), low, name=scope)
        return found


def random_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Return numbers of a normal distribution. Floating point."""
    return _normal("RandomStandardNormal", shape, mean, stddev, dtype, seed, name or "random_normal", graph)


def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Return numbers of a normal distribution, none further from the mean than two standard deviations."""
    return _normal("TruncatedNormal", shape, mean, stddev, dtype, seed, name or "truncated_normal", graph)


def random_gamma(
    shape: Any,
    alpha: TensorLike,
    beta: TensorLike = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Draw from gamma distributions, `shape` of each: shape + the shape of alpha and beta (the rate, 1)."""
    owner, kind = graph_of(shape, alpha, beta, graph=graph), as_dtype(dtype)
    with owner.name_scope(name or "random_gamma"):
        ops, dims = owner.ops, _dims(owner, shape)
        form = convert(owner, alpha, kind, "alpha")
        rate = convert(owner, 1 if beta is None else beta, kind, "beta")
        together = ops.Add(form, ops.ZerosLike(rate, name="zeros_like"), name="add")
        first, second = seeds_for(owner, seed)
        drawn = ops.RandomGamma(dims, together, seed=first, seed2=second)
        # The smallest number instead of 0 after an underflow, because the logarithm of 0 is infinite.
        least = np.finfo(kind.as_numpy_dtype).tiny
        return ops.Maximum(least, ops.RealDiv(drawn, rate, name="truediv"), name="Maximum")


def random_poisson(
    lam: TensorLike,
    shape: Any,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Return numbers of Poisson distributions of mean lam, `shape` of each: shape + the shape of lam."""
    owner = graph_of(lam, shape, graph=graph)
    with owner.name_scope(name or "random_poisson"):
        dims = _dims(owner, shape)
        first, second = seeds_for(owner, seed)
        return owner.ops.RandomPoissonV2(dims, lam, dtype=as_dtype(dtype), seed=first, seed2=second)


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return the rows of a tensor in a random order."""
    x = tensor_of(value)
    first, second = seeds_for(x.graph, seed)
    return one("RandomShuffle", x, seed=first, seed2=second, name=name)


def multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = dtypes.int64,
) -> Tensor:
    """Draw classes with probabilities softmax(logits): (n, classes) -> (n, num_samples) int64 or int32.

    `output_dtype` is the type of the classes.
    """
    x = tensor_of(logits, num_samples)
    kind = as_dtype(output_dtype)
    with x.graph.name_scope(name or "multinomial"):
        first, second = seeds_for(x.graph, seed)
        return x.graph.ops.Multinomial(x, num_samples, seed=first, seed2=second, output_dtype=kind)


def _dims(graph: Graph, shape: Any) -> Tensor:
    if isinstance(shape, TensorShape):
        shape = list(shape)
    if isinstance(shape, list | tuple) and not shape:
        return graph.constant([], dtypes.int32, name="shape")
    return convert(graph, shape, name="shape")


def _normal(
    op: str,
    shape: Any,
    mean: TensorLike,
    stddev: TensorLike,
    dtype: Any,
    seed: int | None,
    name: str,
    graph: Graph | None,
) -> Tensor:
    owner, kind = graph_of(shape, mean, stddev, graph=graph), as_dtype(dtype)
    with owner.name_scope(name) as scope:
        dims = _dims(owner, shape)
        middle, width = convert(owner, mean, kind, "mean"), convert(owner, stddev, kind, "stddev")
        first, second = seeds_for(owner, seed)
        drawn = getattr(owner.ops, op)(dims, dtype=kind, seed=first, seed2=second)
        found: Tensor = owner.ops.Add(owner.ops.Mul(drawn, width, name="mul"), middle, name=scope)
        return found


__all__ = [
    "multinomial",
    "random_gamma",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "truncated_normal",
]
