"""Products of matrices by cuBLAS, called through ctypes: a handle of our own for each device.

    products = CublasHandle(cublas(), stream, workspace, WORKSPACE_BYTES)
    products.multiply(MatrixOperand(a, (m, k)), MatrixOperand(b, (k, n), is_transposed=True), out)

The handle enqueues on one stream and uses a workspace that the device owns: with both, cuBLAS gives the same
bits each time and may be called while a stream is captured, and memory is counted where it is taken. cuBLAS
thinks in columns, this package in rows: what lies row by row is the transpose of what cuBLAS sees, so it is
asked for b^T a^T.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.devices import cuda

#: What NVIDIA advises for cards of compute capability 9.0; older ones make do with less.
WORKSPACE_BYTES: Final = 32 << 20
_INT32_MAX: Final = (1 << 31) - 1

#: cublasOperation_t.
_AS_IT_LIES, _TRANSPOSED, _ADJOINT = 0, 1, 2
#: cublasGemmAlgo_t: its own choice, which is the same for the same shapes.
_DEFAULT_ALGORITHM: Final = -1
#: cublasMath_t: no sums in less than the type of the computation.
_FULL_SUMS: Final = 16
#: {element type: (cudaDataType, cublasComputeType_t)}: narrow types are summed in float32.
_TYPES: Final = {
    "float16": (2, 68),
    "bfloat16": (14, 68),
    "float32": (0, 68),
    "float64": (1, 70),
    "complex64": (4, 68),
    "complex128": (5, 70),
}
#: What products of float32 may be computed with where a session allows TensorFloat-32.
_COMPUTE_TF32: Final = 77
#: cublasStatus_t.
_ALLOC_FAILED, _NOT_SUPPORTED = 3, 15
_STATUSES: Final[dict[int, str]] = {
    1: "it was not initialized, or found no card",
    3: "it could not allocate memory",
    7: "an argument was invalid",
    8: "the card is too old for it",
    11: "memory could not be mapped",
    13: "a kernel failed on the card",
    14: "an operation inside it failed",
    15: "it does not do this",
    16: "a licence is missing",
}

_HANDLE: Final = ctypes.c_void_p
_ADDRESS: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int
_STRIDE: Final = ctypes.c_longlong
#: {function: the types of its arguments}; each returns a status.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cublasCreate_v2": (ctypes.POINTER(_HANDLE),),
    "cublasDestroy_v2": (_HANDLE,),
    "cublasGetVersion_v2": (_HANDLE, ctypes.POINTER(_INT)),
    "cublasSetStream_v2": (_HANDLE, ctypes.c_void_p),
    "cublasSetWorkspace_v2": (_HANDLE, _ADDRESS, ctypes.c_size_t),
    "cublasSetMathMode": (_HANDLE, _INT),
    "cublasGemmStridedBatchedEx": (
        *(_HANDLE, _INT, _INT, _INT, _INT, _INT, ctypes.c_void_p),
        *(_ADDRESS, _INT, _INT, _STRIDE),
        *(_ADDRESS, _INT, _INT, _STRIDE, ctypes.c_void_p),
        *(_ADDRESS, _INT, _INT, _STRIDE, _INT, _INT, _INT),
    ),
}


class Cublas:
    """The library, loaded, with its functions' signatures."""

    def __init__(self, path: str) -> None:
        """Raises FailedPreconditionError for a file that is no cuBLAS or lacks a function that is wanted."""
        try:
            self._library: Any = ctypes.CDLL(path)
            for name, arguments in SIGNATURES.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, ctypes.c_int
        except (OSError, AttributeError) as error:
            raise FailedPreconditionError(f"{path} cannot be used as cuBLAS: {error}") from None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `SIGNATURES`. A status that is not success becomes an error.

        Raises ResourceExhaustedError where memory was short, UnimplementedError for what cuBLAS does not do,
        InternalError for all else.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            raise _error(name, status)


def _error(name: str, status: int) -> OpError:
    kind = {_ALLOC_FAILED: ResourceExhaustedError, _NOT_SUPPORTED: UnimplementedError}.get(
        status, InternalError
    )
    return kind(f"cuBLAS: {name} gave {status}: {_STATUSES.get(status, 'a status that is not known')}")


@functools.lru_cache(maxsize=1)
def cublas() -> Cublas:
    """The cuBLAS of the Python environment; FailedPreconditionError, which says what to install, without."""
    return Cublas(cuda.library_path("cublas", "cuBLAS"))


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """Matrices in a device's memory, row by row without gaps.

    address         of the first element
    shape           (rows, columns), or (batch, rows, columns), as they lie; a batch of 1 is used for all
    is_transposed   whether what takes part are their transposes
    is_conjugate    whether, transposed, they are conjugates as well
    """

    address: int
    shape: Sequence[int]
    is_transposed: bool = False
    is_conjugate: bool = False

    @property
    def batch(self) -> int:
        """How many matrices there are."""
        return math.prod(self.shape[:-2])

    @property
    def taken(self) -> tuple[int, int]:
        """(rows, columns) of what takes part."""
        rows, columns = self.shape[-2:]
        return (columns, rows) if self.is_transposed else (rows, columns)

    @property
    def operation(self) -> int:
        """As cublasOperation_t: what cuBLAS sees is the transpose, and so is what it shall give."""
        if not self.is_transposed:
            return _AS_IT_LIES
        return _ADJOINT if self.is_conjugate else _TRANSPOSED


class CublasHandle:
    """A handle for one stream. Close it before the stream and the workspace go."""

    def __init__(
        self,
        library: Cublas,
        stream: int,
        workspace: int,
        workspace_bytes: int,
        *,
        tensor_float_32: bool = False,
    ) -> None:
        """
        stream            where products are enqueued
        workspace         the address of memory that nobody else uses on another stream
        tensor_float_32   whether products of float32 may round their factors to 10 bits

        Raises what `Cublas.call` does; nothing is left behind then.
        """
        self._library = library
        self._tensor_float_32 = tensor_float_32
        handle = _HANDLE()
        library.call("cublasCreate_v2", ctypes.byref(handle))
        self._handle: ctypes.c_void_p | None = handle
        try:
            library.call("cublasSetStream_v2", handle, stream)
            # Setting a stream takes back a workspace that was set before.
            library.call("cublasSetWorkspace_v2", handle, workspace, workspace_bytes)
            library.call("cublasSetMathMode", handle, _FULL_SUMS)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        """The library's, as 130000."""
        value = _INT()
        self._library.call("cublasGetVersion_v2", self._open(), ctypes.byref(value))
        return value.value

    def close(self) -> None:
        """Destroy the handle, which waits for what it has enqueued. Again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call("cublasDestroy_v2", handle)

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise FailedPreconditionError("this cuBLAS handle has been closed")
        return self._handle

    def multiply(self, a: MatrixOperand, b: MatrixOperand, out: int, dtype: str) -> None:
        """Enqueue out = a b, matrix by matrix.

        out     the address of (batch, m, n), which is written
        dtype   of all three: a float of 16 to 64 bits, or complex64 or complex128

        Raises InvalidArgumentError for shapes that do not fit, other types and sizes from 2^31 on; else what
        `Cublas.call` does.
        """
        self.prepared(a, b, dtype).run(a.address, b.address, out)

    def prepared(self, a: MatrixOperand, b: MatrixOperand, dtype: str) -> PreparedProduct:
        """Prepare the product of matrices laid out as these, at any address: for products that come again.

        Raises InvalidArgumentError as `multiply`.
        """
        handle = self._open()
        if dtype not in _TYPES:
            raise InvalidArgumentError(f"cuBLAS multiplies no matrices of {dtype}: {', '.join(_TYPES)}")
        (m, k), (depth, n) = a.taken, b.taken
        if k != depth or (a.batch != b.batch and 1 not in (a.batch, b.batch)):
            raise InvalidArgumentError(
                f"matrices of shapes {list(a.shape)} and {list(b.shape)} do not fit: {m} x {k} by "
                f"{depth} x {n}, {a.batch} by {b.batch} times"
            )
        batch = b.batch if a.batch == 1 else a.batch
        if max(m, n, k, batch) > _INT32_MAX:
            raise InvalidArgumentError(
                f"a product of {batch} times {m} x {k} by {k} x {n} is too large for cuBLAS"
            )
        kind, compute = _TYPES[dtype]
        if dtype == "float32" and self._tensor_float_32:
            compute = _COMPUTE_TF32
        if not batch * m * n:
            return PreparedProduct(self, None, (), (), (), (), ())
        one, zero = _factors(dtype)
        return PreparedProduct(
            self,
            self._library,
            (handle, *map(_INT, (b.operation, a.operation, n, m, k)), _ADDRESS(ctypes.addressof(one))),
            _lying(b, kind),
            (*_lying(a, kind), _ADDRESS(ctypes.addressof(zero))),
            (*map(_INT, (kind, n)), _STRIDE(m * n), *map(_INT, (batch, compute, _DEFAULT_ALGORITHM))),
            (one, zero),
        )


class PreparedProduct:
    """Products of matrices of certain shapes, of which all but the addresses is known. Made by a handle."""

    __slots__ = ("_handle", "_kept", "_library", "_parts")

    def __init__(
        self,
        handle: CublasHandle,
        library: Cublas | None,
        before: tuple[Any, ...],
        right: tuple[Any, ...],
        left: tuple[Any, ...],
        behind: tuple[Any, ...],
        kept: tuple[Any, ...],
    ) -> None:
        """The arguments around the addresses of b, a and out; a library of None multiplies nothing."""
        self._handle = handle
        self._library = library
        self._parts = before, right, left, behind
        #: The factors, whose addresses are among the arguments.
        self._kept = kept

    def run(self, a: int, b: int, out: int) -> None:
        """Enqueue out = a b, by the addresses of all three. Raises what `Cublas.call` does."""
        library = self._library
        if self._handle._handle is None:
            self._handle._open()  # which says so
        if library is None:
            return
        before, right, left, behind = self._parts
        library.call("cublasGemmStridedBatchedEx", *before, b, *right, a, *left, out, *behind)


def _lying(matrices: MatrixOperand, kind: int) -> tuple[Any, ...]:
    """Type, elements from a row to the next, and from a matrix to the next."""
    rows, columns = matrices.shape[-2:]
    return _INT(kind), _INT(max(1, columns)), _STRIDE(rows * columns if matrices.batch > 1 else 0)


def _factors(dtype: str) -> tuple[Any, Any]:
    """1 and 0 in the type of the computation; complex numbers as two."""
    number: Any = ctypes.c_double if dtype in ("float64", "complex128") else ctypes.c_float
    pair = number * 2
    return pair(1, 0), pair(0, 0)


__all__ = [
    "SIGNATURES",
    "WORKSPACE_BYTES",
    "Cublas",
    "CublasHandle",
    "MatrixOperand",
    "PreparedProduct",
    "cublas",
]
