"""Products of matrices.

Of Z = X Y, X gets G Y^H and Y gets X^H G, where G is the gradient of Z. Each product of a transposed or
adjoint matrix has its own way of writing that without a transposition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.gradients.matrices import sum_batches
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
