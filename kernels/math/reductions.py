"""Sums, products, extremes, means and logic along axes; positions of extremes; running sums.

Axes come as a tensor and may be negative or repeated. The result keeps the type of the input: integers
wrap, half and bfloat16 are accumulated in float32 and rounded once. NaN never wins an extreme.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import COMPLEX, float_kernel, shape_text
from flowengine.kernels.registry import kernel

_BFLOAT16: Final = dtypes.bfloat16.as_numpy_dtype


#: {(rank, axes as given): axes}: what graphs ask for again and again.
_known_axes: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
_KNOWN_AXES_MAX: Final = 4096


def reduced_axes(x: Array, axes: Any) -> tuple[int, ...]:
    """The axes as a tuple without repetition; InvalidArgumentError for one out of range."""
    rank = axes.ndim
    wanted = (axes.item(),) if not rank else tuple((axes if rank == 1 else axes.reshape(-1)).tolist())
    key = (x.ndim, wanted)
    known = _known_axes.get(key)
    return _resolved_axes(key) if known is None else known


def _resolved_axes(key: tuple[int, tuple[int, ...]]) -> tuple[int, ...]:
    rank, wanted = key
    result: list[int] = []
    for axis in wanted:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension ({axis} for input with {rank} dimension(s)"
            )
        if axis % rank not in result:
            result.append(axis % rank)
    if len(_known_axes) < _KNOWN_AXES_MAX:
        _known_axes[key] = tuple(result)
    return tuple(result)


#: {narrow type: what it is added up in}
_WIDE: Final = {np.dtype(np.float16): np.dtype(np.float32), _BFLOAT16: np.dtype(np.float32)}


def _accumulator(dtype: Any) -> Any:
    return _WIDE.get(dtype, dtype)


@kernel("Sum", host=("reduction_indices",))
def sum_(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The sum over the given axes; 0 over none."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    wide = _accumulator(x.dtype)
    total = xp.add.reduce(x, axes, wide, None, keep_dims)
    return total if wide is x.dtype else total.astype(x.dtype)


#: Elements of a row from which a product is folded.
_FOLD_MIN: Final = 512
_FOLD: Final = 64


def _folded_product(xp: Any, x: Array, dtype: Any) -> Any:
    """The product along the last axis, 64 partial ones at a time: each has to wait for its last factor."""
    whole = x.shape[-1] // _FOLD * _FOLD
    parts = x[..., :whole].reshape(*x.shape[:-1], -1, _FOLD)
    product = xp.multiply.reduce(xp.multiply.reduce(parts, -2, dtype), -1)
    return (
        xp.multiply(product, xp.multiply.reduce(x[..., whole:], -1, dtype))
        if whole < x.shape[-1]
        else product
    )


@kernel("Prod", host=("reduction_indices",))
def prod(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The product over the given axes; 1 over none."""
    wide = _accumulator(x.dtype)
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    if len(axes) == x.ndim and x.size >= _FOLD_MIN and x.flags.c_contiguous:
        product = _folded_product(xp, x.reshape(-1), wide)
        if keep_dims:
            product = xp.reshape(product, (1,) * x.ndim)
    elif axes == (x.ndim - 1,) and x.shape[-1] >= _FOLD_MIN and x.flags.c_contiguous:
        product = _folded_product(xp, x, wide)
        if keep_dims:
            product = product[..., None]
    else:
        product = xp.multiply.reduce(x, axes, wide, None, keep_dims)
    return product if wide is x.dtype else product.astype(x.dtype)


@kernel("Mean", host=("reduction_indices",))
def mean(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The mean over the given axes: NaN over none, for integers cut towards zero (0 over none)."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    if x.dtype.kind in "iub":
        total = xp.add.reduce(x, axis=axes, dtype=x.dtype, keepdims=keep_dims)
        # The wrapped sum is divided in 64 bits, where the count always fits.
        wide = total.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
        quotient = (
            wide // max(count, 1)
            if x.dtype.kind == "u"
            else (wide - xp.fmod(wide, max(count, 1))) // max(count, 1)
        )
        return quotient.astype(x.dtype)
    wide_type = _accumulator(x.dtype)
    total = xp.add.reduce(x, axes, wide_type, None, keep_dims)
    result = xp.divide(total, total.dtype.type(count))
    return result if wide_type is x.dtype else result.astype(x.dtype)


def lowest(dtype: Any) -> Any:
    return dtype.type(-np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    return dtype.type(np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).max


@kernel("Max", host=("reduction_indices",))
def max_(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The greatest over the given axes, NaN passed over; the type's lowest over none."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    return _extreme(xp, x, axes, keep_dims, True)


def _extreme(xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, greatest: bool) -> Any:
    neutral = lowest(x.dtype) if greatest else highest(x.dtype)
    if not x.size:
        kept = (d for i, d in enumerate(x.shape) if i not in axes)
        shape = (1 if i in axes else d for i, d in enumerate(x.shape)) if keep_dims else kept
        return xp.full(tuple(shape), neutral, x.dtype)
    if x.dtype.kind not in "iu":
        x = xp.where(xp.isnan(x), neutral, x)
    return (x.max if greatest else x.min)(axis=axes, keepdims=keep_dims)


@kernel("Min", host=("reduction_indices",))
def min_(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The least over the given axes, NaN passed over; the type's highest over none."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    return _extreme(xp, x, axes, keep_dims, False)


@kernel("All", host=("reduction_indices",))
def all_(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    return x.all(axis=reduced_axes(x, reduction_indices), keepdims=keep_dims)


@kernel("Any", host=("reduction_indices",))
def any_(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    return x.any(axis=reduced_axes(x, reduction_indices), keepdims=keep_dims)


@kernel("EuclideanNorm", types={"T": COMPLEX}, host=("reduction_indices",))
def euclidean_norm_complex(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The square root of the sum of x conj(x)."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    squares = xp.square(x.real) + xp.square(x.imag)
    return xp.sqrt(xp.add.reduce(squares, axis=axes, keepdims=keep_dims)).astype(x.dtype)


@float_kernel("EuclideanNorm", host=("reduction_indices",))
def euclidean_norm(xp: Any, x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The square root of the sum of squares; for integers cut to an integer."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    total = xp.add.reduce(xp.square(x), axis=axes, dtype=x.dtype, keepdims=keep_dims)
    return xp.sqrt(total).astype(x.dtype)


def one_axis(x: Array, axis: Any) -> int:
    """The axis, not negative; InvalidArgumentError where it is no scalar or out of range."""
    if getattr(axis, "ndim", 0):
        raise InvalidArgumentError(f"dim must be a scalar, but received tensor of shape: {shape_text(axis)}")
    number = int(axis)
    if not -x.ndim <= number < x.ndim:
        raise InvalidArgumentError(f"Expected dimension in the range [{-x.ndim}, {x.ndim}), but got {number}")
    return number % x.ndim


def check_position(x: Array, dimension: Any) -> int:
    """The axis along which to look for an extreme; InvalidArgumentError where it has no elements."""
    axis = one_axis(x, dimension)
    if x.shape[axis] == 0:
        raise InvalidArgumentError(f"Reduction axis {axis} is empty in shape {shape_text(x)}")
    return axis


def _position(xp: Any, x: Array, dimension: Any, output_type: DType, greatest: bool) -> Any:
    axis = check_position(x, dimension)
    if x.dtype.kind not in "iub":
        x = xp.where(xp.isnan(x), x.dtype.type(-np.inf if greatest else np.inf), x)
    place = x.argmax(axis) if greatest else x.argmin(axis)
    return place.astype(output_type.as_numpy_dtype, copy=False)


@kernel("ArgMax", host=("dimension",))
def arg_max(xp: Any, x: Array, dimension: Any, *, output_type: DType) -> Any:
    """The first position of the greatest element along an axis.

    InvalidArgumentError where the axis is out of range or has no elements.
    """
    return _position(xp, x, dimension, output_type, True)


@kernel("ArgMin", host=("dimension",))
def arg_min(xp: Any, x: Array, dimension: Any, *, output_type: DType) -> Any:
    """The first position of the least element along an axis; errors as `ArgMax`."""
    return _position(xp, x, dimension, output_type, False)


def scan_axis(x: Array, axis: Any) -> int:
    """The axis of a running reduction; InvalidArgumentError where it is no scalar or out of range."""
    if getattr(axis, "ndim", 0):
        raise InvalidArgumentError(f"ScanOp: axis must be a scalar, not {shape_text(axis)}")
    number = int(axis)
    if not -x.ndim <= number < x.ndim:
        raise InvalidArgumentError(
            f"ScanOp: Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {number}"
        )
    return number % x.ndim


def scanned(
    xp: Any,
    accumulate: Callable[[Array], Array],
    identity: float,
    x: Array,
    axis: int,
    exclusive: bool,
    reverse: bool,
) -> Any:
    """A running reduction along an axis, of which `accumulate` makes one along the first."""
    if x.size == 0:
        return x
    along = xp.moveaxis(x, axis, 0)
    if reverse:
        along = along[::-1]
    result = xp.empty(along.shape, x.dtype)
    if exclusive:
        result[0] = x.dtype.type(identity)
        result[1:] = accumulate(along[:-1])
    else:
        result[...] = accumulate(along)
    if reverse:
        result = result[::-1]
    return xp.moveaxis(result, 0, axis)


@kernel("Cumsum", host=("axis",))
def cumsum(xp: Any, x: Array, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Running sums along an axis, from the end with `reverse`, without the own element with `exclusive`."""

    def accumulate(along: Array) -> Any:
        return xp.add.accumulate(along, axis=0, dtype=_accumulator(x.dtype))

    return scanned(xp, accumulate, 0, x, scan_axis(x, axis), exclusive, reverse)


@kernel("Cumprod", host=("axis",))
def cumprod(xp: Any, x: Array, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Running products; see `cumsum`."""

    def accumulate(along: Array) -> Any:
        return xp.multiply.accumulate(along, axis=0, dtype=_accumulator(x.dtype))

    return scanned(xp, accumulate, 1, x, scan_axis(x, axis), exclusive, reverse)


@float_kernel("CumulativeLogsumexp", host=("axis",))
def cumulative_logsumexp(xp: Any, x: Array, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Running log of sums of exponentials; the empty sum of `exclusive` is the lowest finite number."""

    def accumulate(along: Array) -> Array:
        # Each element with the one so far before it, twice as far each time.
        total, distance = along, 1
        while distance < len(along):
            more = xp.logaddexp(total[distance:], total[:-distance])
            total = xp.concatenate([total[:distance], more])
            distance *= 2
        return total

    return scanned(xp, accumulate, float(np.finfo(x.dtype).min), x, scan_axis(x, axis), exclusive, reverse)
