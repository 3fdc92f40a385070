"""Gradients of reductions of rows, or of gathered rows, that carry the same id."""

from __future__ import annotations

from flowengine.core import dtypes
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, joined, per_row, rank, rows
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of reductions of rows that carry the same id.
#
# Ids in order reach from zero to the last one; ids in any order may be negative, and such rows count
# nowhere.


@gradient("SegmentSum")
def segment_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its sum has"""
    return [_at(b, grad, op.inputs[1]), None]


@gradient("SegmentMean")
def segment_mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its mean has, over the number of rows of that id"""
    data, ids = op.inputs
    counts = b.ops.SegmentSum(_ones_along(b, data, ids), ids)
    counts = b.ops.Cast(b.ops.Maximum(counts, integer(b, 1)), DstT=grad.dtype.base)
    return [_at(b, b.ops.RealDiv(grad, counts), ids), None]


def _ones_along(b: Backward, data: Tensor, ids: Tensor) -> Tensor:
    """(N, 1, ...): ones, as many as there are ids, of the rank of the data."""
    count = data.shape.rank
    if count is None:
        behind = b.ops.Fill(b.ops.Pack([b.ops.Sub(rank(b, data), 1)]), integer(b, 1))
    else:
        behind = integers(b, *[1] * (count - 1))
    result: Tensor = b.ops.Fill(joined(b, [b.shape(ids), behind]), integer(b, 1))
    return result


@gradient("SegmentMax", "SegmentMin")
def segment_extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To the extreme rows of each id, element by element, in equal shares where there are several"""
    data, ids = op.inputs
    is_extreme = b.ops.Equal(data, b.ops.GatherV2(op.outputs[0], ids, 0))
    counts = b.ops.SegmentSum(b.ops.Cast(is_extreme, DstT=grad.dtype.base), ids)
    shares = _at(b, _shared(b, grad, counts), ids)
    return [b.ops.SelectV2(is_extreme, shares, b.constant(0, grad.dtype)), None]


def _shared(b: Backward, grad: Tensor, counts: Tensor) -> Tensor:
    """g over how many share it; over one for an id without rows, so that no NaN waits there."""
    result: Tensor = b.ops.RealDiv(grad, b.ops.Maximum(counts, b.constant(1, counts.dtype)))
    return result


@gradient("SegmentProd")
def segment_product(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its product has, times the other rows of that id"""
    data, ids = op.inputs
    is_zero, filled = _zeros_filled(b, data)
    zeros = b.ops.SegmentSum(b.ops.Cast(is_zero, DstT=dtypes.int32), ids)
    without = b.ops.SegmentProd(filled, ids)
    others = _others(b, is_zero, filled, _at(b, op.outputs[0], ids), _at(b, zeros, ids), _at(b, without, ids))
    return [b.ops.Mul(_at(b, grad, ids), b.real_or_conj(others)), None]


def _zeros_filled(b: Backward, data: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mask of zeros, and the data with ones in their places."""
    is_zero = b.ops.Equal(data, b.constant(0, data.dtype))
    return is_zero, b.ops.SelectV2(is_zero, b.constant(1, data.dtype), data)


def _others(
    b: Backward, is_zero: Tensor, filled: Tensor, product: Tensor, zeros: Tensor, without: Tensor
) -> Tensor:
    """For each element the product of the others of its id, all arguments being of the data's shape.

    product / x where x is not zero; where it is the only zero of its id, the product of those that are not
    zero; else zero.
    """
    is_only = b.ops.LogicalAnd(is_zero, b.ops.Equal(zeros, 1))
    of_zero = b.ops.SelectV2(is_only, without, b.constant(0, filled.dtype))
    result: Tensor = b.ops.SelectV2(is_zero, of_zero, b.ops.RealDiv(product, filled))
    return result


@gradient("UnsortedSegmentSum")
def unsorted_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its sum has; zero for rows that count nowhere"""
    data, ids, _ = op.inputs
    return [_counted(b, _at(b, grad, _usable(b, ids)), data, ids), None, None]


@gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To the extreme rows of each id, element by element, in equal shares where there are several"""
    data, ids, segments = op.inputs
    usable = _usable(b, ids)
    is_extreme = b.ops.Equal(data, _at(b, op.outputs[0], usable))
    counts = b.ops.UnsortedSegmentSum(b.ops.Cast(is_extreme, DstT=grad.dtype.base), ids, segments)
    shares = _at(b, _shared(b, grad, counts), usable)
    shares = b.ops.SelectV2(is_extreme, shares, b.constant(0, grad.dtype))
    return [_counted(b, shares, data, ids), None, None]


@gradient("UnsortedSegmentProd")
def unsorted_product(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its product has, times the other rows of that id"""
    data, ids, segments = op.inputs
    usable = _usable(b, ids)
    is_zero, filled = _zeros_filled(b, data)
    zeros = b.ops.UnsortedSegmentSum(b.ops.Cast(is_zero, DstT=dtypes.int32), ids, segments)
    without = b.ops.UnsortedSegmentProd(filled, ids, segments)
    others = _others(
        b, is_zero, filled, _at(b, op.outputs[0], usable), _at(b, zeros, usable), _at(b, without, usable)
    )
    found = b.ops.Mul(_at(b, grad, usable), b.real_or_conj(others))
    return [_counted(b, found, data, ids), None, None]


def _at(b: Backward, values: Tensor, ids: Tensor) -> Tensor:
    """The row of each id"""
    result: Tensor = b.ops.GatherV2(values, ids, integer(b, 0))
    return result


def _usable(b: Backward, ids: Tensor) -> Tensor:
    """Ids with zero for negative ones, of which nothing is taken."""
    result: Tensor = b.ops.Maximum(ids, b.constant(0, ids.dtype))
    return result


def _counted(b: Backward, values: Tensor, data: Tensor, ids: Tensor) -> Tensor:
    """Values (ids..., rest...) with zeros where the id is negative."""
    counts = per_row(b, b.ops.GreaterEqual(ids, b.constant(0, ids.dtype)), ids, data)
    result: Tensor = b.ops.SelectV2(counts, values, b.constant(0, values.dtype))
    return result


# Gradients of reductions of rows that carry the same id: those of rows in any order, for ids in order.


@gradient("SegmentSumV2")
def counted_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its sum has"""
    return unsorted_sum(b, op, grad)


@gradient("SegmentProdV2")
def counted_product(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its product has, times the other rows of that id"""
    return unsorted_product(b, op, grad)


@gradient("SegmentMinV2", "SegmentMaxV2")
def counted_extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To the extreme rows of each id, element by element, in equal shares where there are several"""
    return unsorted_extreme(b, op, grad)


# Gradients of reductions of gathered rows that carry the same id, and the gradients of those.


def _absent(op: Operation, result: Tensor) -> Results:
    """A gradient of the first input alone."""
    return [result, *[None] * (len(op.inputs) - 1)]


@gradient("SparseSegmentSum", "SparseSegmentSumWithNumSegments")
def gathered_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Add the gradient of each sum to the rows that were gathered for it."""
    data, indices, ids = op.inputs[:3]
    picked = b.ops.GatherV2(grad, ids, integer(b, 0))
    return _absent(op, b.ops.UnsortedSegmentSum(picked, indices, rows(b, data)))


@gradient("SparseSegmentMean", "SparseSegmentMeanWithNumSegments")
def gathered_mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The same over the number of rows, an op of its own"""
    data, indices, ids = op.inputs[:3]
    return _absent(op, b.ops.SparseSegmentMeanGrad(grad, indices, ids, rows(b, data)))


@gradient("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")
def gathered_root_mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The same over the root of the number of rows, an op of its own"""
    data, indices, ids = op.inputs[:3]
    return _absent(op, b.ops.SparseSegmentSqrtNGrad(grad, indices, ids, rows(b, data)))


@gradient("SparseSegmentSumGrad")
def gathered_sum_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sums again: the op is linear, and this is what it is the adjoint of."""
    before, indices, ids, _ = op.inputs
    narrow = ids if ids.dtype.base is dtypes.int32 else b.ops.Cast(ids, DstT=dtypes.int32)
    return _absent(op, b.ops.SparseSegmentSumWithNumSegments(grad, indices, narrow, rows(b, before)))


@gradient("SparseSegmentMeanGrad")
def gathered_mean_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The means again"""
    before, indices, ids, _ = op.inputs
    return _absent(op, b.ops.SparseSegmentMeanWithNumSegments(grad, indices, ids, rows(b, before)))


@gradient("SparseSegmentSqrtNGrad")
def gathered_root_mean_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sums over roots again"""
    before, indices, ids, _ = op.inputs
    return _absent(op, b.ops.SparseSegmentSqrtNWithNumSegments(grad, indices, ids, rows(b, before)))
