"""How shape inference computes small values: NumPy's way for each op that spells shapes.

These are not kernels. They see a few integers, and whatever they cannot tell is left unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import AttrValue

#: Elements above which a value is not computed: no shape is that long.
ELEMENTS_MAX: Final = 4096

Attrs = Mapping[str, AttrValue]
Evaluate = Callable[[Attrs, Sequence[Any]], Any]


class UnknownValue(Exception):
    """The value cannot be told from the graph."""


#: What computing a value, or a shape, may raise where a graph contradicts itself.
CONTRADICTIONS: Final = (
    *(OpError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError),
    *(MemoryError, RecursionError),
)
NO_VALUE_ERRORS: Final = (UnknownValue, *CONTRADICTIONS)


def _numpy(dtype: DType | None) -> Any:
    return np.int32 if dtype is None else dtype.as_numpy_dtype


def _shape_vector(shape: TensorShape, out_type: DType | None) -> Any | None:
    return np.array(shape.as_list(), _numpy(out_type)) if shape.is_fully_defined else None


def _rank(shape: TensorShape, out_type: DType | None) -> Any | None:
    return None if shape.rank is None else np.int32(shape.rank)


def _size(shape: TensorShape, out_type: DType | None) -> Any | None:
    count = shape.num_elements()
    return None if count is None else np.array(count, _numpy(out_type))[()]


#: {op: its value from the shape of its input alone}
FROM_SHAPE: Final[Mapping[str, Callable[[TensorShape, DType | None], Any | None]]] = {
    "Shape": _shape_vector,
    "ShapeN": _shape_vector,
    "Rank": _rank,
    "Size": _size,
}


def _floor_div(_: Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise UnknownValue
    return x[0] // x[1]


def _truncate_div(_: Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise UnknownValue
    if np.asarray(x[0]).dtype.kind not in "iu":
        return x[0] / x[1]
    quotient = np.abs(x[0]) // np.abs(x[1])
    return np.where((np.asarray(x[0]) < 0) != (np.asarray(x[1]) < 0), -quotient, quotient)


def _floor_mod(_: Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise UnknownValue
    return x[0] % x[1]


def _fill(_: Attrs, x: Sequence[Any]) -> Any:
    return np.full([int(d) for d in x[0]], x[1])


def _range(_: Attrs, x: Sequence[Any]) -> Any:
    start, limit, delta = (to_array(v).item() for v in x)
    if delta == 0:
        raise UnknownValue
    return np.arange(start, limit, delta, dtype=to_array(x[0]).dtype)


def _reduce(function: Callable[..., Any]) -> Evaluate:
    def evaluate(attrs: Attrs, x: Sequence[Any]) -> Any:
        array = to_array(x[0])
        axes = tuple(int(a) for a in to_array(x[1]).reshape(-1))
        return function(array, axis=axes, keepdims=bool(attrs["keep_dims"])).astype(array.dtype)

    return evaluate


def _strided(attrs: Attrs, x: Sequence[Any]) -> Any:
    if attrs["ellipsis_mask"] or attrs["new_axis_mask"]:
        raise UnknownValue
    array = to_array(x[0])
    index: list[Any] = []
    for axis, (begin, end, stride) in enumerate(zip(*(to_array(v).tolist() for v in x[1:4]), strict=True)):
        bit = 1 << axis
        if attrs["shrink_axis_mask"] & bit:
            index.append(begin)
        else:
            index.append(
                slice(
                    None if attrs["begin_mask"] & bit else begin,
                    None if attrs["end_mask"] & bit else end,
                    stride,
                )
            )
    return array[tuple(index)]


def _slice(_: Attrs, x: Sequence[Any]) -> Any:
    index = tuple(
        slice(begin, None if size == -1 else begin + size)
        for begin, size in zip(to_array(x[1]).tolist(), to_array(x[2]).tolist(), strict=True)
    )
    return to_array(x[0])[index]


def _gather(attrs: Attrs, x: Sequence[Any]) -> Any:
    if attrs.get("batch_dims"):
        raise UnknownValue
    axis = int(to_array(x[2])) if len(x) > 2 else 0
    indices = to_array(x[1])
    if (indices < 0).any():
        raise UnknownValue
    return np.take(to_array(x[0]), indices, axis=axis)


def _squeeze(attrs: Attrs, x: Sequence[Any]) -> Any:
    axes = tuple(attrs["squeeze_dims"])
    return np.squeeze(to_array(x[0]), axes or None)


def _cast(attrs: Attrs, x: Sequence[Any]) -> Any:
    source, target = attrs["SrcT"], attrs["DstT"]
    if not (target.is_integer or target.is_bool) or not (source.is_integer or source.is_bool):
        raise UnknownValue
    return to_array(x[0]).astype(attrs["DstT"].as_numpy_dtype)


def _split(attrs: Attrs, x: Sequence[Any]) -> Any:
    return np.split(to_array(x[1]), int(attrs["num_split"]), axis=int(to_array(x[0])))


def _unpack(attrs: Attrs, x: Sequence[Any]) -> Any:
    return list(np.moveaxis(to_array(x[0]), int(attrs["axis"]), 0))


def _concat_offset(_: Attrs, x: Sequence[Any]) -> Any:
    axis = int(to_array(x[0]))
    offsets, total = [], 0
    for shape in x[1:]:
        offset = np.zeros_like(to_array(shape))
        offset[axis] = total
        total += int(to_array(shape)[axis])
        offsets.append(offset)
    return offsets


def _select(_: Attrs, x: Sequence[Any]) -> Any:
    condition, chosen = to_array(x[0]), to_array(x[1])
    if condition.ndim and condition.shape != chosen.shape:
        raise UnknownValue
    return np.where(condition, chosen, to_array(x[2]))


def _broadcast_gradient_args(_: Attrs, x: Sequence[Any]) -> Any:
    """The axes to sum over in the gradient of each operand: where it is 1, if the shapes differ at all."""
    a, b = (to_array(v).tolist() for v in x)
    dtype = to_array(x[0]).dtype
    if a == b:
        return [np.array([], dtype)] * 2
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    if any(p != q and 1 not in (p, q) for p, q in zip(a, b, strict=True)):
        raise UnknownValue
    return [np.array([i for i in range(rank) if own[i] == 1], dtype) for own in (a, b)]


#: Ops whose function gives one value for each output.
SEVERAL_OUTPUTS: Final = frozenset({"Split", "Unpack", "ConcatOffset", "BroadcastGradientArgs"})

#: Ops of which no more than a few elements come out, though the shape does not tell.
OF_OPEN_LENGTH: Final = frozenset({"BroadcastGradientArgs"})

#: {op: its value from those of all its inputs}. Reads as NumPy; whatever fails is unknown.
EVALUATE: Final[Mapping[str, Evaluate]] = {
    "Identity": lambda a, x: x[0],
    "StopGradient": lambda a, x: x[0],
    "PreventGradient": lambda a, x: x[0],
    "Snapshot": lambda a, x: x[0],
    "Add": lambda a, x: x[0] + x[1],
    "AddV2": lambda a, x: x[0] + x[1],
    "Sub": lambda a, x: x[0] - x[1],
    "Mul": lambda a, x: x[0] * x[1],
    "Neg": lambda a, x: -x[0],
    "FloorDiv": _floor_div,
    "Div": _truncate_div,
    "RealDiv": _truncate_div,
    "TruncateDiv": _truncate_div,
    "FloorMod": _floor_mod,
    "Maximum": lambda a, x: np.maximum(x[0], x[1]),
    "Minimum": lambda a, x: np.minimum(x[0], x[1]),
    "Equal": lambda a, x: np.equal(x[0], x[1]),
    "NotEqual": lambda a, x: np.not_equal(x[0], x[1]),
    "Less": lambda a, x: np.less(x[0], x[1]),
    "LessEqual": lambda a, x: np.less_equal(x[0], x[1]),
    "Greater": lambda a, x: np.greater(x[0], x[1]),
    "GreaterEqual": lambda a, x: np.greater_equal(x[0], x[1]),
    "LogicalNot": lambda a, x: np.logical_not(x[0]),
    "LogicalAnd": lambda a, x: np.logical_and(x[0], x[1]),
    "LogicalOr": lambda a, x: np.logical_or(x[0], x[1]),
    "BroadcastGradientArgs": _broadcast_gradient_args,
    "Select": _select,
    "SelectV2": lambda a, x: np.where(x[0], x[1], x[2]),
    "Sum": _reduce(np.sum),
    "Prod": _reduce(np.prod),
    "Max": _reduce(np.max),
    "Min": _reduce(np.min),
    "Cast": _cast,
    "Range": _range,
    "Fill": _fill,
    "ZerosLike": lambda a, x: np.zeros_like(to_array(x[0])),
    "OnesLike": lambda a, x: np.ones_like(to_array(x[0])),
    "Pack": lambda a, x: np.stack([to_array(v) for v in x], int(a["axis"])),
    "Unpack": _unpack,
    "ConcatV2": lambda a, x: np.concatenate([to_array(v) for v in x[:-1]], int(to_array(x[-1]))),
    "Concat": lambda a, x: np.concatenate([to_array(v) for v in x[1:]], int(to_array(x[0]))),
    "ConcatOffset": _concat_offset,
    "Split": _split,
    "ExpandDims": lambda a, x: np.expand_dims(to_array(x[0]), int(to_array(x[1]).reshape(()))),
    "Squeeze": _squeeze,
    "Reshape": lambda a, x: to_array(x[0]).reshape([int(d) for d in to_array(x[1])]),
    "Transpose": lambda a, x: np.transpose(to_array(x[0]), to_array(x[1])),
    "Tile": lambda a, x: np.tile(to_array(x[0]), to_array(x[1])),
    "InvertPermutation": lambda a, x: np.argsort(to_array(x[0])).astype(to_array(x[0]).dtype),
    "Slice": _slice,
    "StridedSlice": _strided,
    "Gather": _gather,
    "GatherV2": _gather,
}

#: Ops whose value depends on shapes or values before them.
LOOKED_THROUGH: Final = frozenset(EVALUATE) | frozenset(FROM_SHAPE)
