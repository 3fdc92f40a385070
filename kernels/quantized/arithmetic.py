"""Sums, products and concatenations of quantised tensors. Ranges are kept in host memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, shape_of
from flowengine.kernels.quantized import codes
from flowengine.kernels.registry import kernel

#: A sum's range is that many times as wide as those of what is added, so that many can be added.
_ROOM: Final = np.float32(1 << 14)


def given_range(low: Any, high: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    """Two scalars in order; InvalidArgumentError otherwise."""
    for name, value in zip(names, (low, high), strict=True):
        if getattr(value, "size", 1) != 1:
            raise InvalidArgumentError(f"{name} must be a scalar, but got shape {brackets(shape_of(value))}")
    least, most = np.float32(low.item()), np.float32(high.item())
    if not least < most:
        raise InvalidArgumentError(f"{names[1]} must be larger than {names[0]}: {most} and {least}")
    return least, most


def _broadcast(x: Array, y: Array) -> None:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise InvalidArgumentError(f"Incompatible shapes: {brackets(x.shape)} vs. {brackets(y.shape)}")


_RANGES: Final = ("min_x", "max_x", "min_y", "max_y", "min_z", "max_z")


def _in_steps(x: Array, given: tuple[Any, Any], wanted: tuple[Any, Any], types: tuple[DType, DType]) -> Any:
    """Codes of 8 bits in a wider range of 32: a step there for each step here; one alone by what it tells."""
    if not x.ndim:
        return np.int64(codes.code(codes.number(int(x), *given, types[0]), *wanted, types[1]))
    zero, one = (codes.unclamped(codes.number(v, *given, types[0]), *wanted, types[1]) for v in (0, 1))
    return x.astype(np.int64) * np.int64(one - zero) + np.int64(zero)


@kernel("QuantizedAdd", fresh=True, host=_RANGES, looks=True)
def quantized_add(
    xp: Any,
    x: Array,
    y: Array,
    min_x: Any,
    max_x: Any,
    min_y: Any,
    max_y: Any,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
) -> Any:
    """Sums of codes, in a range that both are brought to first."""
    first = given_range(min_x, max_x, ("min_x", "max_x"))
    second = given_range(min_y, max_y, ("min_y", "max_y"))
    _broadcast(x, y)
    end = max(*map(abs, first), *map(abs, second)) * _ROOM
    total = _in_steps(x, first, (-end, end), (T1.base, Toutput.base)) + _in_steps(
        y, second, (-end, end), (T2.base, Toutput.base)
    )
    return xp.asarray(total).astype(np.int32), -end, end


@kernel("QuantizedMul", fresh=True, host=_RANGES)
def quantized_mul(
    xp: Any,
    x: Array,
    y: Array,
    min_x: Any,
    max_x: Any,
    min_y: Any,
    max_y: Any,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
) -> Any:
    """Products of codes, each less the code of zero."""
    first = given_range(min_x, max_x, ("min_x", "max_x"))
    second = given_range(min_y, max_y, ("min_y", "max_y"))
    _broadcast(x, y)
    if not x.size or not y.size:
        raise InvalidArgumentError("x and y must have at least one element each")
    zeros = (codes.unclamped(0.0, *first, T1.base), codes.unclamped(0.0, *second, T2.base))
    found = (x.astype(np.int64) - np.int64(zeros[0])) * (y.astype(np.int64) - np.int64(zeros[1]))
    ends = codes.range_of_products(first, second, (T1.base, T2.base), Toutput.base)
    return xp.asarray(found).astype(np.int32), *ends


def _product_cost(a: Array, b: Array, *ranges: Any) -> float:
    return a.size * (b.shape[-1] if b.ndim else 1) / 20_000.0


@kernel(
    "QuantizedMatMul",
    fresh=True,
    host=("min_a", "max_a", "min_b", "max_b", "min_out", "max_out"),
    heavy=_product_cost,
)
def quantized_mat_mul(
    xp: Any,
    a: Array,
    b: Array,
    min_a: Any,
    max_a: Any,
    min_b: Any,
    max_b: Any,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
    transpose_a: bool,
    transpose_b: bool,
) -> Any:
    """The product of two matrices of codes, each less the code of zero."""
    first = given_range(min_a, max_a, ("min_a", "max_a"))
    second = given_range(min_b, max_b, ("min_b", "max_b"))
    for i, matrix in enumerate((a, b)):
        if matrix.ndim != 2:
            raise InvalidArgumentError(f"In[{i}] is not a matrix: {brackets(matrix.shape)}")
    left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
    if left.shape[1] != right.shape[0]:
        raise InvalidArgumentError(
            f"Matrix size-incompatible: In[0]: {brackets(a.shape)}, In[1]: {brackets(b.shape)}"
        )
    zeros = (codes.unclamped(0.0, *first, T1.base), codes.unclamped(0.0, *second, T2.base))
    bound = codes.largest_sum(zeros, left.shape[1])
    found = codes.product(xp, codes.centred(left, zeros[0], bound), codes.centred(right, zeros[1], bound))
    ends = codes.range_of_products(first, second, (T1.base, T2.base), Toutput.base)
    return found, *ends


@kernel(
    "QuantizedConcat",
    fresh=True,
    host=("concat_dim", "input_mins", "input_maxes", "output_min", "output_max"),
)
def quantized_concat(
    xp: Any, concat_dim: Any, values: tuple[Array, ...], mins: Any, maxes: Any, *, T: DType
) -> Any:
    """Tensors of codes along an axis, brought to the range that has all of theirs in it."""
    return _joined(xp, int(concat_dim), values, mins, maxes, T)


@kernel(
    "QuantizedConcatV2",
    fresh=True,
    host=("axis", "input_mins", "input_maxes", "output_min", "output_max"),
)
def quantized_concat_v2(
    xp: Any, values: tuple[Array, ...], axis: Any, mins: Any, maxes: Any, *, T: DType
) -> Any:
    """`QuantizedConcat` with the axis behind the tensors, counted from the end where it is negative."""
    place = int(axis)
    return _joined(xp, place + values[0].ndim if place < 0 else place, values, mins, maxes, T)


def _joined(xp: Any, axis: int, values: tuple[Array, ...], mins: Any, maxes: Any, T: DType) -> Any:
    shape = values[0].shape
    if not 0 <= axis < len(shape):
        raise InvalidArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [0, {len(shape)}), but got {axis}"
        )
    for i, value in enumerate(values):
        others = [(*v.shape[:axis], *v.shape[axis + 1 :]) for v in (values[0], value)]
        if value.ndim != len(shape) or others[0] != others[1]:
            raise InvalidArgumentError(
                f"ConcatOp : Dimensions of inputs should match: shape[0] = {brackets(shape)} vs. "
                f"shape[{i}] = {brackets(value.shape)}"
            )
    ranges = [
        (np.float32(low.item()), np.float32(high.item())) for low, high in zip(mins, maxes, strict=True)
    ]
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    if int(T.base.min):
        high = max(abs(low), abs(high))
        low = -high
    parts = [
        value
        if given == (low, high)
        else codes.quantized(xp, codes.dequantized(value, *given, T.base), low, high, T.base)
        for value, given in zip(values, ranges, strict=True)
    ]
    return xp.concatenate(parts, axis=axis), low, high
