"""Diagonals and bands of matrices: what was moved out is moved back, what was overwritten gets zeros."""

from __future__ import annotations

from typing import Any

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("MatrixBandPart", "BatchMatrixBandPart")
def band_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, lower, upper = op.inputs
    return [b.ops.MatrixBandPart(grad, lower, upper), None, None]


@gradient("MatrixDiag", "BatchMatrixDiag")
def matrix_diag(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.MatrixDiagPart(grad)]


@gradient("MatrixDiagPart", "BatchMatrixDiagPart")
def matrix_diag_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    (matrix,) = op.inputs
    shape = matrix.shape
    if shape.dims is not None and shape.dims[-1] is not None and shape.dims[-1] == shape.dims[-2]:
        return [b.ops.MatrixDiag(grad)]
    return [b.ops.MatrixSetDiag(b.zeros_like(matrix), grad)]


@gradient("MatrixSetDiag", "BatchMatrixSetDiag")
def set_diag(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, diagonal = op.inputs
    return [b.ops.MatrixSetDiag(grad, b.zeros_like(diagonal)), b.ops.MatrixDiagPart(grad)]


# Of V2 and V3: a range of diagonals `k`, and in V3 on which side shorter ones stand. The padding value has no
# gradient, as in TensorFlow.


def _alignment(op: Operation) -> dict[str, Any]:
    return {"align": op.get_attr("align")} if op.type.endswith("V3") else {}


def _version(b: Backward, name: str, op: Operation) -> Any:
    return getattr(b.ops, name + op.type[-2:])


@gradient("MatrixDiagV2", "MatrixDiagV3")
def diagonals(b: Backward, op: Operation, grad: Tensor) -> Results:
    zero = _zero(b, grad)
    found = _version(b, "MatrixDiagPart", op)(grad, op.inputs[1], zero, **_alignment(op))
    return [found, None, None, None, None]


@gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def diagonals_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Set the gradient into the diagonals of zeros; padding beside shorter diagonals is dropped."""
    matrix, k, _ = op.inputs
    return [
        _version(b, "MatrixSetDiag", op)(b.zeros_like(matrix), grad, k, **_alignment(op)),
        None,
        None,
    ]


@gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def set_diagonals(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, diagonal, k = op.inputs
    return [
        _version(b, "MatrixSetDiag", op)(grad, b.zeros_like(diagonal), k, **_alignment(op)),
        _version(b, "MatrixDiagPart", op)(grad, k, _zero(b, grad), **_alignment(op)),
        None,
    ]


def _zero(b: Backward, like: Tensor) -> Tensor:
    return b.constant(0, like.dtype.base)


@gradient("Diag")
def diag(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.DiagPart(grad)]


@gradient("DiagPart")
def diag_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.Diag(grad)]
