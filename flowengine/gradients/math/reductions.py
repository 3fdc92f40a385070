"""Gradients of reductions along axes and of running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, known, rank, real_only, size
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Sum")
def total(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, copied along the axes that were summed"""
    return [_spread(b, op, grad), None]


@gradient("Mean")
def mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g over the number of elements that each mean is of, copied along the axes"""
    return [_spread(b, op, b.ops.RealDiv(grad, _share(b, op))), None]


def _share(b: Backward, op: Operation) -> Tensor:
    """How many elements went into one of the output, in the type of the output."""
    x, y = op.inputs[0], op.outputs[0]
    whole, left = x.shape.num_elements(), y.shape.num_elements()
    if whole is not None and left is not None:
        return b.constant(max(whole, 1) // max(left, 1), y.dtype)
    sizes = _reduced_sizes(op)
    if sizes is not None:
        return b.constant(int(np.prod(sizes)), y.dtype)
    count = b.ops.FloorDiv(size(b, x), b.ops.Maximum(size(b, y), integer(b, 1)))
    result: Tensor = b.ops.Cast(count, DstT=y.dtype.base)
    return result


def _reduced_sizes(op: Operation) -> list[int] | None:
    """The sizes of the axes that are reduced, if the graph tells them."""
    shape, axes = op.inputs[0].shape, _axes(op)
    if axes is None:
        return None
    sizes = [shape.as_list()[axis] for axis in axes]
    return None if None in sizes else [size for size in sizes if size is not None]


@gradient("Max", "Min")
def extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to the extreme elements, in equal shares where there are several"""
    x, axes = op.inputs
    is_extreme = b.ops.Equal(x, _kept(b, op, op.outputs[0]))
    shares = b.ops.Cast(is_extreme, DstT=grad.dtype.base)
    count = b.ops.Sum(shares, axes, keep_dims=True)
    return [b.ops.Mul(b.ops.RealDiv(shares, count), _kept(b, op, grad)), None]


@gradient("EuclideanNorm")
def euclidean_norm(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g x / y, and zero at zero; of no axes g, since the norm is then the value itself, with its sign.

    The norm of complex numbers is real, so only the real part of g counts.
    """
    x, axes = op.inputs
    fixed = known(axes)
    if fixed is not None and not fixed.size:
        return [grad, None]
    # DivNoNan has no bfloat16.
    divide = b.ops.RealDiv if grad.dtype.base is dtypes.bfloat16 else b.ops.DivNoNan
    ratio = _kept(b, op, divide(real_only(b, grad), op.outputs[0]))
    result = b.ops.Mul(x, ratio)
    if fixed is None and grad.dtype.is_complex:
        # A result that is the value itself may differ from zero in its imaginary part, and so may g.
        is_value = b.ops.Equal(b.ops.Size(axes), integer(b, 0))
        result = b.ops.SelectV2(is_value, _kept(b, op, grad), result)
    return [result, None]


@gradient("Prod")
def product(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g times the product of all other elements: of those before and of those behind.

    Nothing is divided, so zeros among the factors do no harm. Several axes are gone through one by one: a
    product along two is the product along one of products along the other.
    """
    x = op.inputs[0]
    axes = known(op.inputs[1])
    chosen = None if axes is None else _distinct(axes, x.shape.rank)
    if chosen is None:
        return [_product_along_any(b, op, grad), None]
    factors = [x]
    for axis in chosen[:-1]:
        factors.append(b.ops.Prod(factors[-1], integers(b, axis), keep_dims=True))
    result = _kept(b, op, grad)
    for axis, each in zip(reversed(chosen), reversed(factors[: len(chosen)]), strict=True):
        result = b.ops.Mul(result, b.real_or_conj(_product_of_others(b, each, axis)))
    return [result, None]


def _distinct(axes: Array, count: int | None) -> list[int] | None:
    """Each axis once, as numbers from the front if the rank is known; None if that cannot be told."""
    flat = [int(axis) for axis in axes.reshape(-1)]
    if count is not None:
        return sorted({axis % count for axis in flat})
    is_of_one_sign = all(axis >= 0 for axis in flat) or all(axis < 0 for axis in flat)
    return sorted(set(flat)) if is_of_one_sign else None


def _product_of_others(b: Backward, x: Tensor, axis: int) -> Tensor:
    """For each element the product of the others along one axis."""
    along = integer(b, axis)
    before = b.ops.Cumprod(x, along, exclusive=True)
    behind = b.ops.Cumprod(x, along, exclusive=True, reverse=True)
    result: Tensor = b.ops.Mul(before, behind)
    return result


def _product_along_any(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """Axes that are known only when the step runs are brought to the front and become one."""
    x = op.inputs[0]
    axes = b.ops.Unique(_front_axes(b, op)).y
    every = b.ops.Range(0, rank(b, x), 1)
    order = b.ops.ConcatV2([axes, b.ops.ListDiff(every, axes).out], 0)
    moved = b.ops.Transpose(x, order)
    shape = b.shape(x)
    count = b.ops.Prod(b.ops.GatherV2(shape, axes, 0), 0)
    rest = b.ops.Prod(b.ops.GatherV2(shape, b.ops.ListDiff(every, axes).out, 0), 0)
    rows = b.ops.Reshape(moved, b.ops.Pack([count, rest]))
    others = b.ops.Reshape(_product_of_others(b, rows, 0), b.ops.Shape(moved))
    back = b.ops.Transpose(others, b.ops.InvertPermutation(order))
    result: Tensor = b.ops.Mul(_kept(b, op, grad), b.real_or_conj(back))
    return result


# ------------------------------------------------------------------ shapes


def _axes(op: Operation) -> list[int] | None:
    """The reduced axes, each once and counted from the front, if the graph tells them."""
    axes, count = known(op.inputs[1]), op.inputs[0].shape.rank
    return None if axes is None or count is None else _distinct(axes, count)


def _front_axes(b: Backward, op: Operation) -> Tensor:
    """The reduced axes as a vector of int32, counted from the front."""
    x, axes = op.inputs
    flat = b.ops.Reshape(b.ops.Cast(axes, DstT=dtypes.int32), integers(b, -1))
    result: Tensor = b.ops.FloorMod(flat, rank(b, x))
    return result


def _kept_dims(op: Operation) -> Sequence[int | None] | None:
    """The output's dimensions with ones where axes were reduced; None for an unknown rank."""
    axes = _axes(op)
    if axes is None:
        return None
    return [1 if axis in axes else d for axis, d in enumerate(op.inputs[0].shape.as_list())]


def _kept(b: Backward, op: Operation, value: Tensor) -> Tensor:
    """A value of the output's shape with dimensions of one where axes were reduced."""
    if op.get_attr("keep_dims"):
        return value
    dims = _kept_dims(op)
    result: Tensor
    if dims is None:
        ones = b.ops.OnesLike(_front_axes(b, op))
        every = b.ops.Range(0, rank(b, op.inputs[0]), 1)
        shape = b.ops.DynamicStitch([every, _front_axes(b, op)], [b.shape(op.inputs[0]), ones])
        result = b.ops.Reshape(value, shape)
    elif None not in dims or (dims.count(None) == 1 and 0 not in dims):
        result = b.ops.Reshape(value, integers(b, *[-1 if d is None else d for d in dims]))
    else:
        # Each of the reduced axes is put back in its place, the first one first.
        result = value
        for axis in _axes(op) or ():
            result = b.ops.ExpandDims(result, integer(b, axis))
    return result


def _spread(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """A value of the output's shape, copied along the axes that were reduced."""
    x, axes = op.inputs[0], _axes(op)
    if axes is not None and not axes:
        return grad
    is_leading = axes is not None and axes == list(range(len(axes)))
    # Broadcasting puts leading axes back by itself.
    kept = grad if is_leading else _kept(b, op, grad)
    result: Tensor = b.ops.BroadcastTo(kept, b.shape(x))
    return result


# ------------------------------------------------------------------ running


@gradient("Cumsum")
def running_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The running sum of g from the other end"""
    return [_from_the_other_end(b, op, grad), None]


def _from_the_other_end(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    result: Tensor = b.ops.Cumsum(
        grad, op.inputs[1], exclusive=op.get_attr("exclusive"), reverse=not op.get_attr("reverse")
    )
    return result


@gradient("Cumprod")
def running_product(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sum of g z from the other end, over x.

    That says nothing where x is zero. The products are zero from the first zero on; its own gradient is
    found from the products that there would be with a one in its place.
    """
    x, axis = op.inputs
    g, z = b.real_or_conj(grad), op.outputs[0]
    running = {"exclusive": op.get_attr("exclusive"), "reverse": op.get_attr("reverse")}
    is_zero = b.ops.Equal(x, b.constant(0, x.dtype))
    zeros = b.ops.Cumsum(b.ops.Cast(is_zero, DstT=dtypes.int32), axis, reverse=running["reverse"])
    is_first = b.ops.LogicalAnd(is_zero, b.ops.Equal(zeros, 1))
    one = b.constant(1, x.dtype)
    without = b.ops.Cumprod(b.ops.SelectV2(is_first, one, x), axis, **running)
    of_first = _from_the_other_end(b, op, b.ops.Mul(g, without))
    whole = _from_the_other_end(b, op, b.ops.Mul(g, z))
    of_others = b.ops.RealDiv(whole, b.ops.SelectV2(is_zero, one, x))
    return [b.real_or_conj(b.ops.SelectV2(is_first, of_first, of_others)), None]


@gradient("CumulativeLogsumexp")
def running_log_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """exp(x) times the sum of g exp(-y) from the other end, in logarithms, for g of each sign apart"""
    zero = b.constant(0, grad.dtype)
    above = b.ops.Maximum(grad, zero)
    below = b.ops.Neg(b.ops.Minimum(grad, zero))
    return [b.ops.Sub(_log_sum_part(b, op, above), _log_sum_part(b, op, below)), None]


def _log_sum_part(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    x, axis = op.inputs
    lowest = b.constant(grad.dtype.base.min, grad.dtype)
    zero, one = b.constant(0, grad.dtype), b.constant(1, grad.dtype)
    is_positive = b.ops.Greater(grad, zero)
    log = b.ops.SelectV2(is_positive, b.ops.Log(b.ops.SelectV2(is_positive, grad, one)), lowest)
    share = b.ops.CumulativeLogsumexp(
        b.ops.Sub(log, op.outputs[0]),
        axis,
        exclusive=op.get_attr("exclusive"),
        reverse=not op.get_attr("reverse"),
    )
    result: Tensor = b.ops.Exp(b.ops.AddV2(share, x))
    return result
