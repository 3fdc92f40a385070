"""Fourier transforms: linear, so the gradient is the adjoint transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


def _axes(op: Operation) -> int:
    """Over how many axes the op goes."""
    return int(op.type[-2]) if op.type.endswith("D") else 1


def _elements(b: Backward, x: Tensor, axes: int, dtype: DType) -> Any:
    """How many elements are transformed at once, in the type: a constant where the graph tells."""
    dims = x.shape.dims
    if dims is not None and None not in dims[-axes:]:
        return b.constant(np.array(np.prod([d or 0 for d in dims[-axes:]]), dtype.as_numpy_dtype), dtype)
    last = b.ops.StridedSlice(b.shape(x), [-axes], [0], [1], end_mask=1)
    return b.ops.Cast(b.ops.Prod(last, np.int32(0)), DstT=dtype)


@gradient("FFT", "FFT2D", "FFT3D", "BatchFFT", "BatchFFT2D", "BatchFFT3D")
def forward(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The inverse transform, which divides by the number of elements, times that number."""
    back = getattr(b.ops, f"I{op.type.removeprefix('Batch')}")(grad)
    return [b.ops.Mul(back, _elements(b, op.inputs[0], _axes(op), grad.dtype.base))]


@gradient("IFFT", "IFFT2D", "IFFT3D", "BatchIFFT", "BatchIFFT2D", "BatchIFFT3D")
def inverse(b: Backward, op: Operation, grad: Tensor) -> Results:
    transformed = getattr(b.ops, op.type.removeprefix("Batch")[1:])(grad)
    return [b.ops.RealDiv(transformed, _elements(b, op.inputs[0], _axes(op), grad.dtype.base))]


# Of real numbers half of the transform is computed: frequency k of n stands for n - k as well, but for k = 0
# and, if n is even, k = n / 2. So it counts twice in the inverse transform, by which the two ways differ.


def _weights(b: Backward, lengths: Tensor, dtype: DType) -> Tensor:
    """How often each frequency counts, (n / 2 + 1,): 1 or 2."""
    known = b.graph.constant_value(lengths)
    if known is not None:
        n = int(np.asarray(known).reshape(-1)[-1])
        k = np.arange(n // 2 + 1 if n else 0)
        return b.constant((2 - (k == 0) - (2 * k == n)).astype(dtype.as_numpy_dtype), dtype)
    last = b.ops.StridedSlice(lengths, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    places = b.ops.Range(0, b.ops.AddV2(b.ops.FloorDiv(last, 2), 1), 1)
    doubled = b.ops.Mul(places, 2)
    once = b.ops.LogicalOr(b.ops.Equal(places, 0), b.ops.Equal(doubled, last))
    result: Tensor = b.ops.Sub(b.constant(2, dtype), b.ops.Cast(once, DstT=dtype))
    return result


def _count(b: Backward, lengths: Tensor, dtype: DType) -> Tensor:
    """The number of elements of a transform of these lengths."""
    result: Tensor = b.ops.Cast(b.ops.Prod(lengths, np.int32(0)), DstT=dtype)
    return result


@gradient("RFFT", "RFFT2D", "RFFT3D")
def forward_of_real(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths = op.inputs
    real, dtype = op.get_attr("Treal"), op.get_attr("Tcomplex")
    once = b.ops.Div(grad, _weights(b, lengths, dtype))
    back = getattr(b.ops, f"I{op.type}")(once, lengths, Treal=real, Tcomplex=dtype)
    found = b.ops.Mul(back, _count(b, lengths, real))
    return [_padded(b, found, x, _axes(op)), None]


@gradient("IRFFT", "IRFFT2D", "IRFFT3D")
def inverse_to_real(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths = op.inputs
    real, dtype = op.get_attr("Treal"), op.get_attr("Tcomplex")
    transformed = getattr(b.ops, op.type[1:])(grad, lengths, Treal=real, Tcomplex=dtype)
    weights = b.ops.Div(_weights(b, lengths, dtype), _count(b, lengths, dtype))
    return [_padded(b, b.ops.Mul(transformed, weights), x, _axes(op)), None]


# Where the axes are named each is cut, or filled up with zeros, to its length, so the gradient is cut back.


@gradient("FFTND")
def forward_over_axes(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths, axes = op.inputs
    back = b.ops.Mul(b.ops.IFFTND(grad, lengths, axes), _count(b, lengths, grad.dtype.base))
    return [_padded(b, back, x, _rank(x)), None, None]


@gradient("IFFTND")
def inverse_over_axes(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths, axes = op.inputs
    back = b.ops.RealDiv(b.ops.FFTND(grad, lengths, axes), _count(b, lengths, grad.dtype.base))
    return [_padded(b, back, x, _rank(x)), None, None]


@gradient("RFFTND")
def forward_of_real_over_axes(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths, axes = op.inputs
    real, dtype = op.get_attr("Treal"), op.get_attr("Tcomplex")
    once = b.ops.Div(grad, _along_last(b, _weights(b, lengths, dtype), axes, grad))
    back = b.ops.IRFFTND(once, lengths, axes, Treal=real, Tcomplex=dtype)
    found = b.ops.Mul(back, _count(b, lengths, real))
    return [_padded(b, found, x, _rank(x)), None, None]


@gradient("IRFFTND")
def inverse_to_real_over_axes(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, lengths, axes = op.inputs
    real, dtype = op.get_attr("Treal"), op.get_attr("Tcomplex")
    transformed = b.ops.RFFTND(grad, lengths, axes, Treal=real, Tcomplex=dtype)
    weights = b.ops.Div(_weights(b, lengths, dtype), _count(b, lengths, dtype))
    found = b.ops.Mul(transformed, _along_last(b, weights, axes, grad))
    return [_padded(b, found, x, _rank(x)), None, None]


def _rank(x: Tensor) -> int:
    """The rank of a tensor; 1 for an unknown one, of which no length is known either."""
    return x.shape.rank or 1


def _along_last(b: Backward, weights: Tensor, axes: Tensor, like: Tensor) -> Tensor:
    """Weights (n,) of the frequencies of the last named axis, in a shape that goes with `like`."""
    last = b.ops.StridedSlice(axes, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    rank = b.ops.Rank(like)
    dims = b.ops.OneHot(b.ops.FloorMod(last, rank), rank, np.int32(-1), np.int32(1))
    result: Tensor = b.ops.Reshape(weights, dims)
    return result


def _padded(b: Backward, grad: Tensor, x: Tensor, axes: int) -> Tensor:
    """The gradient of an input of which the op took the first elements alone: zeros for the others."""
    mine, wanted = grad.shape.dims, x.shape.dims
    if (
        mine is not None
        and wanted is not None
        and None not in mine[-axes:]
        and mine[-axes:] == wanted[-axes:]
    ):
        return grad
    sizes = b.shape(x)
    # Where an axis of the input is empty there is less of it than the op gave.
    grad = b.ops.Slice(grad, b.ops.ZerosLike(sizes), b.ops.Minimum(sizes, b.ops.Shape(grad)))
    missing = b.ops.Sub(sizes, b.ops.Shape(grad))
    behind: Tensor = b.ops.ExpandDims(missing, np.int32(1))
    result: Tensor = b.ops.Pad(grad, b.ops.ConcatV2([b.ops.ZerosLike(behind), behind], np.int32(1)))
    return result
