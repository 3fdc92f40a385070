"""Complex numbers and their parts.

Elementwise: `input` is complex64 or complex128 of any shape; their parts, `real` and `imag`, are float32 or
float64.

>>> graph = fe.Graph()
>>> z = fe.complex(graph.constant([1.0, 0.0]), graph.constant([1.0, -2.0]))
>>> tensors = [fe.conj(z), fe.real(z), fe.imag(z), fe.angle(z)]
>>> for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...     print(np.round(value, 3))
[1.-1.j 0.+2.j]
[1. 0.]
[ 1. -2.]
[ 0.785 -1.571]
"""

from __future__ import annotations

from flowengine.core import dtypes
from flowengine.graphs.conversion import TensorLike
from flowengine.graphs.functions.support import alike, one, tensor_of
from flowengine.graphs.tensor import Tensor


def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the complex conjugate of complex numbers."""
    return one("Conj", x, name=name)


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """Return real + i imag: complex64 of float32, complex128 of float64. Shapes broadcast."""
    parts = alike(real, imag)
    wide = dtypes.complex128 if parts[0].dtype.base is dtypes.float64 else dtypes.complex64
    return one("Complex", *parts, Tout=wide, name=name)


def real(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the real part of each element; a real tensor itself."""
    return _part("Real", input, name)


def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the imaginary part of each element of a complex tensor; zeros for a real one."""
    tensor = tensor_of(input)
    return _part("Imag", tensor, name) if tensor.dtype.is_complex else one("ZerosLike", tensor, name=name)


def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the angle of each complex number from the real axis, -pi to pi; for real ones 0 or pi."""
    tensor = tensor_of(input)
    if tensor.dtype.is_complex:
        return _part("Angle", tensor, name)
    return one("Atan2", one("ZerosLike", tensor), tensor, name=name)


def _part(op: str, value: TensorLike, name: str | None) -> Tensor:
    tensor = tensor_of(value)
    if not tensor.dtype.is_complex:
        return tensor
    real_type = dtypes.float64 if tensor.dtype.base is dtypes.complex128 else dtypes.float32
    return one(op, tensor, Tout=real_type, name=name)


__all__ = ["angle", "complex", "conj", "imag", "real"]
