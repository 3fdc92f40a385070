"""MatMul and BatchMatMul of nodes by cuBLAS: `kernels/cuda/cublas.py`.

A device's handle is made with its first product, with a workspace of the device's pool. Narrow floats are
summed in float32 and rounded once, as on the CPU.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import complex64, complex128, float16, float32, float64
from flowengine.devices.cuda_device import CudaDevice
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import cublas
from flowengine.kernels.cuda.cublas import CublasHandle, MatrixOperand, PreparedProduct
from flowengine.kernels.cuda.serving import serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher, address_of

_TYPES: Final = {"T": (float16, float32, float64, complex64, complex128)}
#: What a device keeps them as.
_KEPT: Final = "products"
#: Shapes of factors of one kind whose products are kept; one more, and all are prepared anew.
_SHAPES_MAX: Final = 512


class _ArrayProduct(NamedTuple):
    """The shape of what arrays of certain shapes give, and what multiplies them; None where all is 0."""

    shape: tuple[int, ...]
    product: PreparedProduct | None


#: {shapes of both factors: the product}
_ByShapes = dict[tuple[tuple[int, ...], tuple[int, ...]], _ArrayProduct]


class _DeviceProducts:
    """The handle of one device, on its stream of work, and the products that were prepared for it."""

    def __init__(self, device: CudaDevice) -> None:
        cupy = device.xp
        #: Nobody else's as long as the handle lives.
        self._workspace = cupy.empty((cublas.WORKSPACE_BYTES,), np.uint8)
        self._handle = CublasHandle(
            cublas.cublas(),
            cupy.cuda.get_current_stream().ptr,
            address_of(self._workspace),
            cublas.WORKSPACE_BYTES,
            tensor_float_32=device.settings.tensor_float_32,
        )
        weakref.finalize(self, self._handle.close).atexit = False

    def prepared(
        self, a: Array, b: Array, transposed: tuple[bool, bool], is_conjugate: bool
    ) -> _ArrayProduct:
        """The product of arrays like these, whose leading axes, if any, are those of either."""
        left = MatrixOperand(0, _as_stack(a), transposed[0], is_conjugate)
        right = MatrixOperand(0, _as_stack(b), transposed[1], is_conjugate)
        batch = a.shape[:-2] if a.ndim >= b.ndim else b.shape[:-2]
        shape = (*batch, left.taken[0], right.taken[1])
        if not left.taken[1]:
            return _ArrayProduct(shape, None)
        return _ArrayProduct(shape, self._handle.prepared(left, right, a.dtype.name))


class _Multiplier:
    """Products of one kind on one device; all of its nodes share what was prepared for shapes."""

    def __init__(self, launcher: SessionLauncher, transposed: tuple[bool, bool], is_conjugate: bool) -> None:
        self._launcher = launcher
        self._transposed = transposed
        self._is_conjugate = is_conjugate
        #: {type: the products of it}
        self._known: dict[Any, _ByShapes] = {}

    def known(self, dtype: Any) -> _ByShapes:
        """The products that were prepared for a type."""
        return self._known.setdefault(dtype, {})

    def new(self, a: Array, b: Array, known: _ByShapes) -> _ArrayProduct:
        """The product of arrays like these, to be kept."""
        kept = self._launcher.device.kept
        products = kept.get(_KEPT)
        if products is None:
            products = kept.setdefault(_KEPT, _DeviceProducts(self._launcher.device))
        assert isinstance(products, _DeviceProducts)
        if len(known) >= _SHAPES_MAX:
            known.clear()
        made = known[a.shape, b.shape] = products.prepared(a, b, self._transposed, self._is_conjugate)
        return made

    def multiply(self, found: _ArrayProduct, a: Any, b: Any) -> Any:
        """The product of two arrays by what was prepared for their shapes."""
        xp = self._launcher.xp
        if not a.flags.c_contiguous:
            a = xp.ascontiguousarray(a)
        if not b.flags.c_contiguous:
            b = xp.ascontiguousarray(b)
        shape, product = found
        if product is None:
            return xp.zeros(shape, a.dtype)
        out = xp.empty(shape, a.dtype)
        product.run(a.data.ptr, b.data.ptr, out.data.ptr)
        return out


def _multiplier(launcher: SessionLauncher, transposed: tuple[bool, bool], is_conjugate: bool) -> _Multiplier:
    """The device's, for factors that are taken so."""
    kept, name = launcher.device.kept, f"{_KEPT} {transposed} {is_conjugate}"
    found = kept.setdefault(name, _Multiplier(launcher, transposed, is_conjugate))
    assert isinstance(found, _Multiplier)
    return found


def _as_stack(matrices: Array) -> tuple[int, int, int]:
    """(matrices, rows, columns)."""
    rows, columns = matrices.shape[-2:]
    return (math.prod(matrices.shape[:-2]), rows, columns)


@serves("MatMul", family="bias", types=_TYPES, needs="cublas")
def mat_mul_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    transposed = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])
    multiplier = _multiplier(launcher, transposed, False)
    known = multiplier.known(node.attrs["T"])

    def compute(a: Array, b: Array) -> Any:
        found = known.get((a.shape, b.shape))
        if found is None:
            if a.ndim != 2 or b.ndim != 2 or a.shape[not transposed[0]] != b.shape[transposed[1]]:
                return otherwise(a, b)
            found = multiplier.new(a, b, known)
        return multiplier.multiply(found, a, b)

    return compute


@serves("BatchMatMul", "BatchMatMulV2", family="bias", types=_TYPES, needs="cublas")
def batch_mat_mul_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    transposed = bool(node.attrs["adj_x"]), bool(node.attrs["adj_y"])
    broadcasts = node.op != "BatchMatMul"
    multiplier = _multiplier(launcher, transposed, True)
    known = multiplier.known((node.attrs["T"], broadcasts))

    def compute(x: Array, y: Array) -> Any:
        found = known.get((x.shape, y.shape))
        if found is not None:
            return multiplier.multiply(found, x, y)
        if x.ndim < 2 or y.ndim < 2 or x.shape[-1 - transposed[0]] != y.shape[-2 + transposed[1]]:
            return otherwise(x, y)
        same = x.shape[:-2] == y.shape[:-2]
        # One matrix for all of a batch is a stride of 0; other ways to broadcast are for CuPy.
        alone = broadcasts and (x.ndim == 2 or y.ndim == 2)
        if not (same or alone):
            return otherwise(x, y)
        return multiplier.multiply(multiplier.new(x, y, known), x, y)

    return compute


__all__ = ["batch_mat_mul_kernel", "mat_mul_kernel"]
