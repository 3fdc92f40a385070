"""Keeping gradients within bounds: each by its norm, and all together by one norm.

A gradient, `value`, `t` or each of `values`, is a Tensor or an IndexedSlices. Of slices the rows count as
they are listed: a row that is listed twice counts twice, as in TensorFlow, although an optimizer adds its
parts up. The result is of the same kind, except that of `clip_by_average_norm`, which is dense.

Values are floats of any width and shape; a norm, and `clip_norm`, is a () tensor of their type. Raises
InvalidArgumentError for other types.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(np.round(value.astype(float), 2).tolist())
>>> gradient = graph.constant([3.0, 4.0])
>>> show(fe.clip_by_norm(gradient, 1.0), fe.clip_by_value(gradient, 0.0, 3.5), fe.global_norm([gradient]))
[0.6, 0.8]
[3.0, 3.5]
5.0
>>> clipped, norm = fe.clip_by_global_norm([gradient, gradient], 5.0)
>>> show(*clipped, norm, fe.clip_by_average_norm(gradient, 1.0))
[2.12, 2.83]
[2.12, 2.83]
7.07
[1.2, 1.6]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, overload

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor

_NAN: Final = float("nan")


def clip_by_norm(
    value: Gradient, clip_norm: Any, axes: Sequence[int] | None = None, name: str = "clip_by_norm"
) -> Gradient:
    """Scale down so that the L2 norm is at most `clip_norm`: of the whole, or along `axes` only.

    The value is of floats of any shape, or `IndexedSlices`, whose rows count; the result is of the same kind.
    Raises InvalidArgumentError for a value that is not a tensor.
    """

    def clipped(graph: Graph, x: Tensor, scope: str) -> Tensor:
        ops = graph.ops
        along = _axes(graph, x) if axes is None else list(axes)
        squares = ops.Sum(ops.Mul(x, x), along, keep_dims=True)
        # The root has no gradient at zero.
        is_positive = ops.Greater(squares, 0)
        norm = ops.Select(
            is_positive, ops.Sqrt(ops.Select(is_positive, squares, ops.OnesLike(squares))), squares
        )
        found: Tensor = ops.RealDiv(ops.Mul(x, clip_norm), ops.Maximum(norm, clip_norm), name=scope)
        return found

    return _within(value, name, clipped)


def clip_by_average_norm(value: Gradient, clip_norm: Any, name: str = "clip_by_average_norm") -> Tensor:
    """Scale a gradient down so that its L2 norm divided by the number of its elements is at most `clip_norm`.

    value     floats of any shape; `IndexedSlices` become dense, because rows without a gradient are elements
    returns   a Tensor of the same type and shape

    Raises InvalidArgumentError for slices whose dense shape is not known.
    """
    x = value if isinstance(value, Tensor) else _dense(value)
    graph, ops = x.graph, x.graph.ops
    with graph.name_scope(name) as scope:
        count = ops.Cast(ops.Size(x), DstT=x.dtype.base)
        average = ops.RealDiv(ops.Sqrt(ops.Sum(ops.Mul(x, x), _axes(graph, x))), count)
        limit = graph.constant(clip_norm, x.dtype.base) if not isinstance(clip_norm, Tensor) else clip_norm
        found: Tensor = ops.Mul(x, ops.RealDiv(limit, ops.Maximum(average, limit)), name=scope)
    return found


@overload
def clip_by_value(
    t: IndexedSlices, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> IndexedSlices: ...


@overload
def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Tensor: ...


def clip_by_value(
    t: Any, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Gradient:
    """Clip the elements of t to the range from `clip_value_min` to `clip_value_max`.

    t         numbers of any shape, or `IndexedSlices`, of which the values are clipped
    returns   the same kind, type and shape

    Raises InvalidArgumentError for bounds of another type than t's.
    """

    def clipped(graph: Graph, x: Tensor, scope: str) -> Tensor:
        found: Tensor = graph.ops.Maximum(graph.ops.Minimum(x, clip_value_max), clip_value_min, name=scope)
        return found

    given = t if isinstance(t, IndexedSlices) else convert(graph_of(t, clip_value_min, clip_value_max), t)
    return _within(given, name or "clip_by_value", clipped)


def global_norm(values: Sequence[Gradient | None], name: str = "global_norm") -> Tensor:
    """Return the L2 norm of all elements, () of their type; a gradient of None counts as zero.

    Gradients of floats of one type. Raises InvalidArgumentError if all are None.
    """
    given = [_values(each) for each in values if each is not None]
    if not given:
        raise InvalidArgumentError(
            "all gradients are None, so they have no global norm: does the loss depend on the variables?"
        )
    graph = given[0].graph
    with graph.name_scope(name):
        halves = graph.ops.AddN([graph.ops.L2Loss(each) for each in given])
        found: Tensor = graph.ops.Sqrt(graph.ops.Mul(halves, 2.0), name="global_norm")
    return found


def clip_by_global_norm(
    values: Sequence[Gradient | None],
    clip_norm: Any,
    *,
    use_norm: Tensor | None = None,
    name: str = "clip_by_global_norm",
) -> tuple[list[Gradient | None], Tensor]:
    """Return all gradients scaled down by one factor to a global norm of at most `clip_norm`, and their norm.

    use_norm   the global norm, if it is known already

    If the norm is infinite or not a number, all become NaN. Pascanu, Mikolov, Bengio 2012.

    Gradients of floats of one type, of any shapes, `IndexedSlices` among them; None stays None. Raises
    InvalidArgumentError if all are None.
    """
    norm = global_norm(values) if use_norm is None else use_norm
    graph = norm.graph
    ops = graph.ops
    with graph.name_scope(name):
        limit = clip_norm if isinstance(clip_norm, Tensor) else graph.constant(clip_norm, norm.dtype.base)
        one = graph.constant(1, norm.dtype.base)
        finite = ops.Mul(limit, ops.Minimum(ops.RealDiv(one, norm), ops.RealDiv(one, limit)))
        scale = ops.Select(ops.IsFinite(norm), finite, graph.constant(_NAN, norm.dtype.base))
    clipped: list[Gradient | None] = []
    for index, each in enumerate(values):
        if each is None:
            clipped.append(None)
            continue

        def scaled(graph: Graph, x: Tensor, scope: str) -> Tensor:
            factor = scale if x.dtype.base is scale.dtype.base else graph.ops.Cast(scale, DstT=x.dtype.base)
            found: Tensor = graph.ops.Mul(x, factor, name=scope)
            return found

        clipped.append(_within(each, f"{name}/{name}_{index}", scaled))
    return clipped, norm


def _values(value: Gradient) -> Tensor:
    return value.values if isinstance(value, IndexedSlices) else value


def _dense(value: Any) -> Tensor:
    """Convert a gradient, or another object of a tensor, to one tensor."""
    found: Tensor = value.__flowengine_tensor__(value.graph, None, None)
    return found


def _axes(graph: Graph, x: Tensor) -> Any:
    rank = x.shape.rank
    if rank is not None:
        return np.arange(rank, dtype=np.int32)
    return graph.ops.Range(0, graph.ops.Rank(x), 1)


def _within(value: Gradient, name: str, change: Callable[[Graph, Tensor, str], Tensor]) -> Gradient:
    """A gradient whose values are changed, in a scope of this name."""
    if not isinstance(value, IndexedSlices) and hasattr(value, "__flowengine_tensor__"):
        value = _dense(value)
    x = _values(value)
    with x.graph.name_scope(name) as scope:
        changed = change(x.graph, x, scope)
    if isinstance(value, IndexedSlices):
        return IndexedSlices(changed, value.indices, value.dense_shape)
    return changed


__all__ = ["clip_by_average_norm", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]
