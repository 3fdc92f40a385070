"""Conversions between element types: Cast, Bitcast, and the check for NaN and infinity.

Floats become integers as on x86, which is what TensorFlow's users see: towards zero, and the smallest
integer of 32 or 64 bits for NaN and for what does not fit, of which narrower types keep the low bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

#: Among these NumPy converts as TensorFlow does.
_PLAIN: Final = frozenset({dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64})
#: {what a tensor is held as in one of the types that nothing computes in: what its values are seen as}
_SEEN_AS: Final = {
    d.as_numpy_dtype: np.dtype(np.float32 if d.is_floating else np.int8) for d in dtypes.STORAGE
}
_OBJECTS = (dtypes.string, dtypes.resource, dtypes.variant)


def convert(xp: Any, x: Any, target: DType, *, truncate: bool = False) -> Any:
    """The values of a numeric tensor in another type; a new array unless it has that type already.

    truncate   drop the low bits instead of rounding, on the way to half and bfloat16
    """
    dtype = target.as_numpy_dtype
    if x.dtype == dtype:
        return x
    if x.dtype in _SEEN_AS:
        return convert(xp, x.astype(_SEEN_AS[x.dtype]), target, truncate=truncate)
    if dtype in _SEEN_AS:
        between = dtypes.as_dtype(_SEEN_AS[dtype])
        return convert(xp, x, between).astype(dtype)
    kind = x.dtype.kind
    if kind == "c" and dtype.kind != "c":
        x = x.real
        kind = "f"
        if x.dtype == dtype:
            return x.copy()
    if target in (dtypes.float16, dtypes.bfloat16):
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        return _cut(xp, x, target) if truncate else x.astype(dtype)
    if x.dtype == np.float16 or x.dtype == dtypes.bfloat16.as_numpy_dtype:
        x = x.astype(np.float32)
        if dtype == np.float32:
            return x
        kind = "f"
    if kind == "f" and dtype.kind in "iu" and dtype != np.int32 and dtype != np.int64:
        if dtype == np.uint64:
            return _to_uint64(xp, x)
        wide: Any = np.int64 if dtype.itemsize == 4 else np.int32
        return x.astype(wide).astype(dtype)
    return x.astype(dtype)


def _to_uint64(xp: Any, x: Any) -> Any:
    """As the machine does: numbers from 2^63 up are shifted into the range of a signed conversion."""
    half = x.dtype.type(2.0**63)
    large = x >= half
    low = xp.where(large, x - half, x).astype(np.int64).astype(np.uint64)
    return xp.where(large, low ^ np.uint64(1 << 63), low)


def _cut(xp: Any, x: Any, target: DType) -> Any:
    """float32 with the low bits dropped, as half or bfloat16; what is too large becomes infinite."""
    bits = xp.asarray(x).view(np.uint32)
    if target is dtypes.bfloat16:
        cut = (bits >> np.uint32(16)).astype(np.uint16)
        # A NaN whose payload lies in the low bits only must not become an infinity.
        cut = xp.where(xp.isnan(x), np.uint16(0x7FC0), cut)
        return cut.view(target.as_numpy_dtype)
    # Ten of the 23 bits of the fraction remain; then the conversion is exact in the normal range.
    cleared = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return xp.where(xp.isnan(x), xp.asarray(x), cleared).astype(np.float16)


@kernel("Cast")
def cast(xp: Any, x: Any, *, SrcT: DType, DstT: DType, Truncate: bool) -> Any:
    """Convert element by element; UnimplementedError to or from strings and handles."""
    if SrcT in _PLAIN and DstT in _PLAIN:
        return x if SrcT is DstT else x.astype(DstT.as_numpy_dtype)
    if SrcT.base is DstT.base:
        return x
    if SrcT.base in _OBJECTS or DstT.base in _OBJECTS:
        raise UnimplementedError(f"Cast {SrcT.base} to {DstT.base} is not supported")
    return convert(xp, x, DstT.base, truncate=Truncate)


@kernel("Bitcast", heavy=False)
def bitcast(xp: Any, x: Array, *, node: Node) -> Any:
    """The same bytes seen as another type.

    A narrower type adds an axis at the end; a wider one takes the last axis, which must have just the
    elements that make one of the wider: InvalidArgumentError otherwise.
    """
    dtype = node.attrs["type"].base.as_numpy_dtype
    source, target = x.dtype.itemsize, dtype.itemsize
    x = xp.asarray(x)
    if source == target:
        return x.view(dtype)
    if source > target:
        ratio = source // target
        if not x.flags.c_contiguous:
            x = x.copy()
        return x.reshape((*x.shape, 1)).view(dtype).reshape((*x.shape, ratio))
    ratio = target // source
    if x.ndim == 0 or x.shape[-1] != ratio:
        raise InvalidArgumentError(
            f"Cannot bitcast from {node.attrs['T']} to {node.attrs['type']}: "
            f"the last dimension of shape {shape_text(x)} must be {ratio}"
        )
    if not x.flags.c_contiguous:
        x = x.copy()
    if x.size == 0:
        return xp.empty(x.shape[:-1], dtype)
    return x.view(dtype).reshape(x.shape[:-1])


@kernel("CheckNumerics")
def check_numerics(xp: Any, tensor: Array, *, message: bytes) -> Any:
    """The tensor itself; InvalidArgumentError with the message if it has a NaN or an infinity."""
    finite = xp.isfinite(tensor)
    holds = finite.all()
    if not in_host_memory(holds) or not holds:
        refuse(xp.logical_not(holds), lambda: _not_finite(xp, tensor, message))
    return tensor


def _not_finite(xp: Any, tensor: Array, message: bytes) -> InvalidArgumentError:
    has_nan, has_inf = bool(xp.isnan(tensor).any()), bool(xp.isinf(tensor).any())
    what = "NaN and Inf" if has_nan and has_inf else "NaN" if has_nan else "Inf"
    return InvalidArgumentError(f"{message.decode(errors='replace')} : Tensor had {what} values")


@kernel("CheckNumericsV2")
def check_numerics_v2(xp: Any, tensor: Array, *, message: bytes) -> Any:
    """As CheckNumerics, whose error tells the two infinities apart."""
    finite = xp.isfinite(tensor)
    holds = finite.all()
    if not in_host_memory(holds) or not holds:
        refuse(xp.logical_not(holds), lambda: _not_finite_v2(xp, tensor, message))
    return tensor


def _not_finite_v2(xp: Any, tensor: Array, message: bytes) -> InvalidArgumentError:
    endless = xp.isinf(tensor)
    found = [
        ("-Inf", bool((endless & (tensor < 0)).any())),
        ("+Inf", bool((endless & (tensor > 0)).any())),
        ("NaN", bool(xp.isnan(tensor).any())),
    ]
    names = [name for name, there in found if there]
    listed = (
        names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else "-Inf, +Inf, and NaN"
    )
    return InvalidArgumentError(f"{message.decode(errors='replace')} : Tensor had {listed} values")
