"""Reductions: along some axes, or along all of them, to one element each.

`axis` is one axis, a list of them or None for all; negative ones count from the end. With `keepdims` a
reduced axis stays with length 1. `input_tensor`, `input` or `data` is a tensor, a variable, or a value that
becomes a constant; `output_type` is int64 or int32; rows with an id in `segment_ids` of `num_segments` or
more are an error of the step.

Numbers of any type unless a function says otherwise; the result has that of the input.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(np.round(value.astype(float), 3).tolist())
>>> x = graph.constant([[1.0, 2.0, 0.0], [4.0, 5.0, 6.0]])
>>> show(fe.reduce_sum(x), fe.reduce_sum(x, axis=0), fe.reduce_mean(x, axis=1, keepdims=True))
18.0
[5.0, 7.0, 6.0]
[[1.0], [5.0]]
>>> show(fe.reduce_prod(x, axis=1), fe.reduce_max(x, axis=0), fe.reduce_min(x), fe.count_nonzero(x))
[0.0, 120.0]
[4.0, 5.0, 6.0]
0.0
5.0
>>> show(fe.reduce_euclidean_norm(x), fe.reduce_logsumexp(x), fe.reduce_variance(x), fe.reduce_std(x))
9.055
6.426
4.667
2.16
>>> show(fe.argmax(x, axis=1), fe.argmin(x, axis=1))
[1.0, 2.0]
[2.0, 0.0]
>>> show(fe.where(fe.reduce_all(x > 0.0, axis=0)), fe.where(fe.reduce_any(x > 5.0, axis=1)))
[[0.0], [1.0]]
[[1.0]]
>>> ids = graph.constant([0, 0, 2])
>>> rows = graph.constant([1.0, 3.0, 5.0])
>>> show(fe.segment_sum(rows, ids), fe.segment_mean(rows, ids), fe.segment_max(rows, ids), fe.bincount(ids))
[4.0, 0.0, 5.0]
[2.0, 0.0, 5.0]
[3.0, 0.0, 5.0]
[2.0, 0.0, 1.0]
>>> show(fe.unsorted_segment_sum(rows, ids, 3), fe.unsorted_segment_mean(rows, ids, 3))
[4.0, 0.0, 5.0]
[2.0, 0.0, 5.0]
>>> show(fe.unsorted_segment_max(rows, ids, 1 + fe.reduce_max(ids))[2])
5.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.graphs.conversion import TensorLike, graph_of
from flowengine.graphs.functions.support import axes_of, one, tensor_of
from flowengine.graphs.tensor import Tensor


def reduce_sum(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the sum; 0 where there is no element. Numbers, the result of the same type."""
    return _reduced("Sum", input_tensor, axis, keepdims, name)


def reduce_mean(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the mean; NaN where there is no element.

    Numbers, the result of the same type: whole ones are cut off.
    """
    return _reduced("Mean", input_tensor, axis, keepdims, name)


def reduce_prod(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the product; 1 where there is no element. Numbers, the result of the same type."""
    return _reduced("Prod", input_tensor, axis, keepdims, name)


def reduce_max(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the largest element; the type's smallest value where there is none. Real numbers."""
    return _reduced("Max", input_tensor, axis, keepdims, name)


def reduce_min(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the smallest element; the type's largest value where there is none. Real numbers."""
    return _reduced("Min", input_tensor, axis, keepdims, name)


def reduce_all(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Whether all elements are true; true where there is none. bool."""
    return _reduced("All", input_tensor, axis, keepdims, name)


def reduce_any(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Whether an element is true; false where there is none. bool."""
    return _reduced("Any", input_tensor, axis, keepdims, name)


def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the square root of the sum of squares. Numbers, the result of the same type."""
    return _reduced("EuclideanNorm", input_tensor, axis, keepdims, name)


def reduce_logsumexp(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Compute log(sum(exp(x))) without overflow for large x. Floating point."""
    x = tensor_of(input_tensor)
    graph = x.graph
    with graph.name_scope(name or "ReduceLogSumExp"):
        largest = reduce_max(x, axis, keepdims=True)
        finite = graph.ops.StopGradient(
            graph.ops.Select(graph.ops.IsFinite(largest), largest, graph.ops.ZerosLike(largest))
        )
        logarithm = graph.ops.Log(reduce_sum(graph.ops.Exp(x - finite), axis, keepdims))
        if not keepdims:
            finite = graph.ops.Reshape(finite, graph.ops.Shape(logarithm))
        found: Tensor = graph.ops.Add(logarithm, finite)
    return found


def reduce_variance(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the mean squared distance from the mean (divided by n). Floating point or complex; then real."""
    x = tensor_of(input_tensor)
    with x.graph.name_scope(name or "reduce_variance"):
        distance = x - reduce_mean(x, axis, keepdims=True)
        squared = one("Square", abs(distance) if x.dtype.is_complex else distance)
        return reduce_mean(squared, axis, keepdims)


def reduce_std(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return the square root of the variance (divided by n). Floating point or complex; then real."""
    x = tensor_of(input_tensor)
    with x.graph.name_scope(name or "reduce_std"):
        return one("Sqrt", reduce_variance(x, axis, keepdims))


def count_nonzero(
    input_tensor: TensorLike,
    axis: Any = None,
    keepdims: bool = False,
    dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Count the elements that are not 0, not false, not an empty string, in type `dtype`."""
    x = tensor_of(input_tensor)
    with x.graph.name_scope(name or "count_nonzero"):
        zero = b"" if x.dtype.base is dtypes.string else np.zeros((), x.dtype.base.as_numpy_dtype)
        differs = one("NotEqual", x, x.graph.constant(zero, x.dtype.base))
        return reduce_sum(one("Cast", differs, DstT=as_dtype(dtype)), axis, keepdims)


def argmax(
    input: TensorLike, axis: TensorLike = 0, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Return the first index of the largest element along an axis: int64 or int32, without that axis."""
    return one("ArgMax", input, axis, output_type=as_dtype(output_type), name=name)


def argmin(
    input: TensorLike, axis: TensorLike = 0, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Return the first index of the smallest element along an axis: int64 or int32, without that axis."""
    return one("ArgMin", input, axis, output_type=as_dtype(output_type), name=name)


def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return sums of rows of equal id.

    segment_ids (n,) integers, rising; data (n, ...) -> (last id + 1, ...).
    """
    return one("SegmentSum", data, segment_ids, name=name)


def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return means of rows of equal id.

    segment_ids (n,) integers, rising; data (n, ...) -> (last id + 1, ...).
    """
    return one("SegmentMean", data, segment_ids, name=name)


def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Return the largest of rows of equal id.

    segment_ids (n,), rising; data (n, ...) -> (last id + 1, ...).
    """
    return one("SegmentMax", data, segment_ids, name=name)


def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Return sums of parts of equal id, in any order; a negative id is left out. -> (num_segments, ...)."""
    return one("UnsortedSegmentSum", data, segment_ids, num_segments, name=name)


def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Return the largest of parts of equal id, in any order; a negative id is left out.

    -> (num_segments, ...).
    """
    return one("UnsortedSegmentMax", data, segment_ids, num_segments, name=name)


def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Tensor:
    """Return means of parts of equal id, in any order; 0 where there is none.

    Floating point. -> (num_segments, ...).
    """
    x = tensor_of(data)
    graph = graph_of(data, segment_ids, num_segments)
    with graph.name_scope(name or "UnsortedSegmentMean"):
        ids = tensor_of(segment_ids, x)
        total = unsorted_segment_sum(x, ids, num_segments)
        count = unsorted_segment_sum(one("OnesLike", x), ids, num_segments)
        return total / one("Maximum", count, 1)


def bincount(
    arr: TensorLike,
    weights: TensorLike = None,
    minlength: TensorLike = None,
    maxlength: TensorLike = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count how often each number from 0 on is in arr, or return the sum of its weights: (largest + 1,).

    arr        int32, not negative
    weights    of arr's shape; the result is of their type, else of `dtype`
    minlength, maxlength   bounds of the length; larger numbers are not counted
    """
    numbers = tensor_of(arr)
    graph = numbers.graph
    with graph.name_scope(name or "bincount"):
        is_filled = reduce_prod(graph.ops.Shape(numbers)) > 0
        size = graph.ops.Cast(is_filled, DstT=dtypes.int32) * (reduce_max(numbers) + 1)
        if minlength is not None:
            size = graph.ops.Maximum(minlength, size)
        if maxlength is not None:
            size = graph.ops.Minimum(maxlength, size)
        given = graph.constant([], as_dtype(dtype)) if weights is None else weights
        found: Tensor = graph.ops.Bincount(numbers, size, given)
    return found


def _reduced(op: str, value: TensorLike, axis: Any, keepdims: bool, name: str | None) -> Tensor:
    x = tensor_of(value)
    return one(op, x, axes_of(x, axis), keep_dims=keepdims, name=name)


__all__ = [
    "argmax",
    "argmin",
    "bincount",
    "count_nonzero",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
    "segment_max",
    "segment_mean",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_sum",
]
