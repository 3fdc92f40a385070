"""Gradients of reductions of rows that carry the same id: those of rows in any order, for ids in order."""

from __future__ import annotations

from flowengine.gradients.math.segments import unsorted_extreme, unsorted_product, unsorted_sum
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
