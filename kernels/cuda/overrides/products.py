"""MatMul and BatchMatMul of nodes by cuBLAS: `kernels/cuda/cublas.py`.

A device's handle is made with its first product, with a workspace of the device's pool. Narrow floats are
summed in float32 and rounded once, as on the CPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import complex64, complex128, float16, float32, float64
from flowengine.devices.cuda_device import CudaDevice
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import cublas
from flowengine.kernels.cuda.cublas import CublasHandle, MatrixOperand
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher, address_of

_TYPES: Final = {"T": (float16, float32, float64, complex64, complex128)}


class _Products:
    """The handle of one device, on its stream of work."""

    def __init__(self, device: CudaDevice) -> None:
        cupy = device.xp
        #: Nobody else's as long as the handle lives.
        self._workspace = cupy.empty((cublas.WORKSPACE_BYTES,), np.uint8)
        self.handle: Final = CublasHandle(
            cublas.cublas(),
            cupy.cuda.get_current_stream().ptr,
            address_of(self._workspace),
            cublas.WORKSPACE_BYTES,
            tensor_float_32=device.settings.tensor_float_32,
        )
        weakref.finalize(self, self.handle.close).atexit = False


_PRODUCTS: Final[WeakKeyDictionary[CudaDevice, _Products]] = WeakKeyDictionary()


def _product(
    launcher: SessionLauncher, a: Array, b: Array, transposed: tuple[bool, bool], is_conjugate: bool
) -> Any:
    """The products of matrices whose leading axes, if any, are those of either."""
    products = _PRODUCTS.get(launcher.device)
    if products is None:
        products = _PRODUCTS[launcher.device] = _Products(launcher.device)
    a, b = dense(launcher, a), dense(launcher, b)
    left = MatrixOperand(address_of(a), _as_stack(a), transposed[0], is_conjugate)
    right = MatrixOperand(address_of(b), _as_stack(b), transposed[1], is_conjugate)
    batch = a.shape[:-2] if a.ndim >= b.ndim else b.shape[:-2]
    out = launcher.empty((*batch, left.taken[0], right.taken[1]), a.dtype)
    if not out.size:
        return out
    if not left.taken[1]:
        return launcher.xp.zeros(out.shape, out.dtype)
    products.handle.multiply(left, right, address_of(out), a.dtype.name)
    return out


def _as_stack(matrices: Array) -> tuple[int, int, int]:
    """(matrices, rows, columns)."""
    rows, columns = matrices.shape[-2:]
    return (int(np.prod(matrices.shape[:-2], dtype=np.int64)), rows, columns)


@serves("MatMul", family="bias", types=_TYPES, needs="cublas")
def mat_mul_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    transposed = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])

    def compute(a: Array, b: Array) -> Any:
        if a.ndim != 2 or b.ndim != 2 or a.shape[not transposed[0]] != b.shape[transposed[1]]:
            return otherwise(a, b)
        return _product(launcher, a, b, transposed, False)

    return compute


@serves("BatchMatMul", "BatchMatMulV2", family="bias", types=_TYPES, needs="cublas")
def batch_mat_mul_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    transposed = bool(node.attrs["adj_x"]), bool(node.attrs["adj_y"])
    broadcasts = node.op != "BatchMatMul"

    def compute(x: Array, y: Array) -> Any:
        if x.ndim < 2 or y.ndim < 2 or x.shape[-1 - transposed[0]] != y.shape[-2 + transposed[1]]:
            return otherwise(x, y)
        same = x.shape[:-2] == y.shape[:-2]
        # One matrix for all of a batch is a stride of 0; other ways to broadcast are for CuPy.
        alone = broadcasts and (x.ndim == 2 or y.ndim == 2)
        return _product(launcher, x, y, transposed, True) if same or alone else otherwise(x, y)

    return compute


__all__ = ["batch_mat_mul_kernel", "mat_mul_kernel"]
