"""Gradients of products of matrices, and sums of products along named axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowengine.core.shapes import TensorShape
from flowengine.gradients.backward import Backward, repeated_axes
from flowengine.gradients.matrices import sum_batches
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Products of matrices.
#
# Of Z = X Y, X gets G Y^H and Y gets X^H G, where G is the gradient of Z. Each product of a transposed or
# adjoint matrix has its own way of writing that without a transposition.


def _both(
    multiply: Callable[[Tensor, Tensor, bool, bool], Tensor],
    x: Tensor,
    y: Tensor,
    grad: Tensor,
    turn_x: bool,
    turn_y: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients of both operands.

    multiply   of two matrices, each turned round if its flag says so
    """
    of_x = multiply(y, grad, turn_y, True) if turn_x else multiply(grad, y, False, not turn_y)
    of_y = multiply(grad, x, True, turn_x) if turn_y else multiply(x, grad, not turn_x, False)
    return of_x, of_y


@gradient("MatMul")
def mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The flags transpose and do not conjugate: so the operands are conjugated first."""

    def multiply(x: Tensor, y: Tensor, turn_x: bool, turn_y: bool) -> Tensor:
        result: Tensor = b.ops.MatMul(x, y, transpose_a=turn_x, transpose_b=turn_y)
        return result

    x, y = (b.real_or_conj(each) for each in op.inputs)
    return _both(multiply, x, y, grad, op.get_attr("transpose_a"), op.get_attr("transpose_b"))


@gradient("SparseMatMul")
def sparse_mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The product is float32 whatever the operands are, and a gradient is cast to its operand's type."""
    x, y = op.inputs
    is_sparse = {x: op.get_attr("a_is_sparse"), y: op.get_attr("b_is_sparse")}

    def multiply(left: Tensor, right: Tensor, turn_left: bool, turn_right: bool) -> Tensor:
        result: Tensor = b.ops.SparseMatMul(
            left,
            right,
            transpose_a=turn_left,
            transpose_b=turn_right,
            a_is_sparse=is_sparse.get(left, False),
            b_is_sparse=is_sparse.get(right, False),
        )
        return result

    both = _both(multiply, x, y, grad, op.get_attr("transpose_a"), op.get_attr("transpose_b"))
    return [_as_type_of(b, each, operand) for each, operand in zip(both, (x, y), strict=True)]


def _as_type_of(b: Backward, x: Tensor, like: Tensor) -> Tensor:
    if x.dtype.base == like.dtype.base:
        return x
    result: Tensor = b.ops.Cast(x, DstT=like.dtype.base)
    return result


@gradient("BatchMatMul")
def batch_mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    return _batches(b.ops.BatchMatMul, op, grad)


@gradient("BatchMatMulV2")
def batch_mat_mul_broadcast(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Batches that were repeated are summed."""
    x, y = op.inputs
    of_x, of_y = _batches(b.ops.BatchMatMulV2, op, grad)
    return [sum_batches(b, of_x, x, y), sum_batches(b, of_y, y, x)]


@gradient("BatchMatMulV3")
def batch_mat_mul_of_types(b: Backward, op: Operation, grad: Tensor) -> Results:
    """As of V2, each product of the type of the operand that it is the gradient of."""
    x, y = op.inputs
    adj_x, adj_y = op.get_attr("adj_x"), op.get_attr("adj_y")

    def multiply_as(like: Tensor) -> Callable[[Tensor, Tensor, bool, bool], Tensor]:
        def multiply(left: Tensor, right: Tensor, turn_left: bool, turn_right: bool) -> Tensor:
            result: Tensor = b.ops.BatchMatMulV3(
                left, right, adj_x=turn_left, adj_y=turn_right, Tout=like.dtype.base
            )
            return result

        return multiply

    of_x, _ = _both(multiply_as(x), x, y, grad, adj_x, adj_y)
    _, of_y = _both(multiply_as(y), x, y, grad, adj_x, adj_y)
    return [sum_batches(b, of_x, x, y), sum_batches(b, of_y, y, x)]


def _batches(product: Any, op: Operation, grad: Tensor) -> tuple[Tensor, Tensor]:
    def multiply(x: Tensor, y: Tensor, turn_x: bool, turn_y: bool) -> Tensor:
        result: Tensor = product(x, y, adj_x=turn_x, adj_y=turn_y)
        return result

    x, y = op.inputs
    return _both(multiply, x, y, grad, op.get_attr("adj_x"), op.get_attr("adj_y"))


@gradient("Cross")
def cross(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y = op.inputs
    return [b.ops.Cross(y, grad), b.ops.Cross(grad, x)]


# Sums of products along named axes.
#
# The gradient of an operand is again such a sum: of the output's gradient and the other operand, with the
# operand's labels as the output's. Two things need more: a label that no one else has was summed away,
# and is
# repeated; a label that stands twice picked a diagonal, and makes one.

_DOTS = "..."


@gradient("Einsum")
def einsum(b: Backward, op: Operation, grad: Tensor) -> Results:
    left, _, right = op.get_attr("equation").decode("latin-1").partition("->")
    terms = left.split(",")
    if len(terms) == 1:
        return [_of_operand(b, grad, right, op.inputs[0], terms[0], None, "")]
    x, y = op.inputs
    return [
        _of_operand(b, grad, right, x, terms[0], y, terms[1]),
        _of_operand(b, grad, right, y, terms[1], x, terms[0]),
    ]


def _of_operand(
    b: Backward, grad: Tensor, right: str, x: Tensor, term: str, other: Tensor | None, other_term: str
) -> Tensor:
    """The gradient of the operand `x` with the labels `term`."""
    right = _only(right, term + other_term)
    sources, labels = [grad], [right]
    if other is not None:
        sources.append(b.real_or_conj(other))
        labels.append(other_term)
    found = set("".join(labels).replace(_DOTS, ""))
    distinct = _distinct(term)
    has_dots = any(_DOTS in each for each in labels)
    kept = "".join(each for each in _pieces(distinct) if each in found or (each == _DOTS and has_dots))
    if has_dots and _DOTS not in kept:
        # The operand was repeated along axes that dots stand for: they are summed below.
        kept = _DOTS + kept
    result: Tensor = _sum_of_products(b, sources, labels, kept)
    if has_dots and other is not None:
        result, kept = _dots_summed(b, result, kept, x, term, other, other_term)
    if kept != distinct:
        # A product with ones has the sizes of the labels that were summed away.
        result = _sum_of_products(b, [result, b.ops.OnesLike(x)], [kept, term], distinct)
    if distinct != term:
        result = _sum_of_products(b, [result], [distinct], term)
    return result


def _only(right: str, known: str) -> str:
    """The output's labels without those that no operand has: these have no axis."""
    return "".join(each for each in _pieces(right) if each == _DOTS or each in known)


def _pieces(term: str) -> list[str]:
    """The labels of a term, the dots among them as one."""
    before, dots, after = term.partition(_DOTS)
    return [*before, *([dots] if dots else []), *after]


def _distinct(term: str) -> str:
    """Each label once, where it stands first."""
    return "".join(dict.fromkeys(_pieces(term)))


def _sum_of_products(b: Backward, operands: list[Tensor], labels: list[str], output: str) -> Tensor:
    equation = ",".join(labels) + "->" + output
    if len(operands) == 1 and labels[0] == output:
        return operands[0]
    result: Tensor = b.ops.Einsum(operands, equation=equation)
    return result


def _dots_summed(
    b: Backward, result: Tensor, kept: str, x: Tensor, term: str, other: Tensor, other_term: str
) -> tuple[Tensor, str]:
    """The sum along those axes of the dots along which `x` was repeated, and the labels that are left."""
    mine, others = _dotted(x, term), _dotted(other, other_term)
    axes = repeated_axes(mine, others)
    if axes is not None and not axes:
        return result, kept
    before, _, after = kept.partition(_DOTS)
    if axes is not None and all(axis < max(len(others) - len(mine), 0) for axis in axes):
        summed = b.ops.Sum(result, np.array(axes, np.int32) + np.int32(len(before)))
        return summed, kept if _DOTS in term else before + after
    here, there = _dotted_sizes(b, x, term), _dotted_sizes(b, other, other_term)
    repeated, _ = b.ops.BroadcastGradientArgs(here, there)
    summed = b.ops.Sum(result, b.ops.AddV2(repeated, np.int32(len(before))))
    # The sizes that `x` has along its dots stand between those of the labels, which are as they were.
    sizes = b.ops.Shape(result)
    shape = b.ops.ConcatV2(
        [
            b.ops.StridedSlice(sizes, [0], [len(before)], [1], begin_mask=1),
            here,
            b.ops.StridedSlice(sizes, [-len(after)], [0], [1], begin_mask=0, end_mask=1)
            if after
            else np.zeros(0, np.int32),
        ],
        0,
    )
    return b.ops.Reshape(summed, shape), kept if _DOTS in term else before + after


def _dotted(x: Tensor, term: str) -> TensorShape:
    """The shape of the axes that the dots of a term stand for."""
    if _DOTS not in term:
        return TensorShape(())
    if x.shape.dims is None:
        return TensorShape(None)
    before, _, after = term.partition(_DOTS)
    return TensorShape(x.shape.dims[len(before) : len(x.shape.dims) - len(after)])


def _dotted_sizes(b: Backward, x: Tensor, term: str) -> Tensor:
    """The same as a vector."""
    if _DOTS not in term:
        return b.constant(np.zeros(0, np.int32))
    before, _, after = term.partition(_DOTS)
    result: Tensor = b.ops.StridedSlice(
        b.shape(x), [len(before)], [-len(after)], [1], end_mask=0 if after else 1
    )
    return result
