"""What the graph alone tells of a tensor's value, for shape functions that ask.

A shape often comes from a Const, or from a Shape that is packed, sliced and multiplied before it reaches a
Reshape. `value` computes such small values from constants and known shapes; `as_shape` reads an integer
vector as a shape of which some dimensions may be unknown. Only what is small is computed, when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.graph import Node, OutputPort

if TYPE_CHECKING:
    from flowengine.ops.shape_inference import ShapeInference

#: Elements above which a value is not computed: no shape is that long.
_ELEMENTS_MAX: Final = 4096
#: Nodes in a row that are looked through: deeper chains do not spell shapes.
_DEPTH_MAX: Final = 100

_Attrs = Mapping[str, AttrValue]
_Evaluate = Callable[[_Attrs, Sequence[Any]], Any]


class _Unknown(Exception):
    """The value cannot be told from the graph."""


class ConstantValues:
    """Values of a graph's tensors, remembered once computed."""

    def __init__(self, inference: ShapeInference) -> None:
        self._inference = inference
        #: {node: {slot: value, or None where the graph does not tell}}
        self._known: dict[str, dict[int, Any]] = {}
        self._shapes: dict[str, dict[int, TensorShape]] = {}

    def value(self, port: OutputPort) -> Any | None:
        """The value of a small tensor that is the same in every run, else None."""
        return self._value(port, _DEPTH_MAX)

    def as_shape(self, port: OutputPort) -> TensorShape:
        """The shape that an integer vector spells; -1 in it is an unknown dimension."""
        return self._as_shape(port, _DEPTH_MAX)

    def forget(self, node: str) -> bool:
        """Drop what is known of a node's outputs; whether its value may differ when asked again."""
        self._known.pop(node, None)
        self._shapes.pop(node, None)
        return self._inference.graph.nodes[node].op in LOOKED_THROUGH

    def _value(self, port: OutputPort, depth: int) -> Any | None:
        known = self._known.get(port.node)
        if known is not None and port.slot in known:
            return known[port.slot]
        node = self._inference.graph.nodes.get(port.node)
        if node is None or depth == 0:
            return None
        try:
            with np.errstate(all="ignore"):
                result = self._compute(node, port.slot, depth - 1)
        except (_Unknown, OpError, ArithmeticError, ValueError, TypeError, IndexError):
            result = None
        self._known.setdefault(port.node, {})[port.slot] = result
        return result

    def _compute(self, node: Node, slot: int, depth: int) -> Any | None:
        op = node.op
        if op == "Const":
            return _stored(node.attrs["value"])
        from_shape = _FROM_SHAPE.get(op)
        if from_shape is not None:
            shape = self._inference.shape(node.inputs[slot])
            return from_shape(shape, node.attrs.get("out_type"))
        evaluate = _EVALUATE.get(op)
        if evaluate is None or not node.inputs:
            return None
        if any(t.is_ref for t in node.output_types):
            return None
        inputs = []
        for input_port in node.inputs:
            value = self._value(input_port, depth)
            if value is None:
                return None
            inputs.append(value)
        result = evaluate(node.attrs, inputs)
        if op in _SEVERAL_OUTPUTS:
            result = result[slot]
        array = to_array(result)
        if array.size > _ELEMENTS_MAX:
            return None
        return array

    def _as_shape(self, port: OutputPort, depth: int) -> TensorShape:
        known = self._shapes.get(port.node)
        if known is not None and port.slot in known:
            return known[port.slot]
        result = UNKNOWN_SHAPE
        if depth:
            try:
                result = self._spell(port, depth - 1)
            except (_Unknown, OpError, ArithmeticError, ValueError, TypeError, IndexError):
                result = UNKNOWN_SHAPE
            if result.dims is None:
                length = self._inference.shape(port)
                if length.rank == 1 and length[0] is not None and length[0] <= _ELEMENTS_MAX:
                    result = unknown_of_rank(length[0])
        self._shapes.setdefault(port.node, {})[port.slot] = result
        return result

    def _spell(self, port: OutputPort, depth: int) -> TensorShape:
        value = self._value(port, depth)
        if value is not None:
            array = to_array(value)
            if array.ndim == 0:
                # -1 alone spells a shape of which nothing is known.
                if int(array) == -1:
                    return UNKNOWN_SHAPE
                raise _Unknown
            return TensorShape([None if d < 0 else int(d) for d in array.reshape(-1)])
        node = self._inference.graph.nodes[port.node]
        op, inputs = node.op, node.inputs
        if op in ("Shape", "ShapeN"):
            return self._inference.shape(inputs[port.slot])
        if op in ("Identity", "StopGradient", "PreventGradient", "Snapshot"):
            return self._as_shape(inputs[0], depth)
        if op == "Cast":
            if node.attrs["DstT"].is_integer and node.attrs["SrcT"].is_integer:
                return self._as_shape(inputs[0], depth)
        elif op == "Pack":
            return TensorShape([self._dimension(each, depth) for each in inputs])
        elif op in ("ConcatV2", "Concat"):
            parts = inputs[:-1] if op == "ConcatV2" else inputs[1:]
            total = SCALAR
            for part in parts:
                total = total.concatenate(self._as_shape(part, depth))
            return total
        elif op == "StridedSlice":
            return self._strided_slice(node, depth)
        elif op == "Slice":
            begin, size = self._value(inputs[1], depth), self._value(inputs[2], depth)
            whole = self._as_shape(inputs[0], depth)
            if begin is not None and size is not None and whole.dims is not None:
                first, count = int(to_array(begin)[0]), int(to_array(size)[0])
                return TensorShape(whole.dims[first : None if count < 0 else first + count])
        elif op == "Reshape":
            target = self._inference.shape(port)
            if target.rank == 1:
                return self._as_shape(inputs[0], depth)
        raise _Unknown

    def _dimension(self, port: OutputPort, depth: int) -> int | None:
        """One dimension that a scalar spells."""
        value = self._value(port, depth)
        if value is not None:
            number = int(to_array(value))
            return None if number < 0 else number
        # A scalar cut out of a partly known vector.
        node = self._inference.graph.nodes.get(port.node)
        if node is None or not depth:
            return None
        if node.op in ("Identity", "StopGradient", "Cast"):
            return self._dimension(node.inputs[0], depth - 1)
        if node.op == "StridedSlice":
            begin = self._value(node.inputs[1], depth - 1)
            whole = self._as_shape(node.inputs[0], depth - 1)
            if begin is not None and whole.dims is not None and node.attrs["shrink_axis_mask"] == 1:
                index = int(to_array(begin)[0])
                if -len(whole.dims) <= index < len(whole.dims):
                    return whole.dims[index]
        return None

    def _strided_slice(self, node: Node, depth: int) -> TensorShape:
        attrs = node.attrs
        if attrs["ellipsis_mask"] or attrs["new_axis_mask"] or attrs["shrink_axis_mask"]:
            raise _Unknown
        bounds = [self._value(port, depth) for port in node.inputs[1:4]]
        whole = self._as_shape(node.inputs[0], depth)
        if any(bound is None for bound in bounds) or whole.dims is None:
            raise _Unknown
        begin, end, stride = (int(to_array(bound)[0]) for bound in bounds)
        start = None if attrs["begin_mask"] & 1 else begin
        stop = None if attrs["end_mask"] & 1 else end
        return TensorShape(whole.dims[start:stop:stride])


def _stored(tensor: TensorAttr) -> Any | None:
    count = tensor.shape.num_elements()
    return None if count is None or count > _ELEMENTS_MAX else tensor.value()


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
_FROM_SHAPE: Final[Mapping[str, Callable[[TensorShape, DType | None], Any | None]]] = {
    "Shape": _shape_vector,
    "ShapeN": _shape_vector,
    "Rank": _rank,
    "Size": _size,
}


def _floor_div(_: _Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise _Unknown
    return x[0] // x[1]


def _truncate_div(_: _Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise _Unknown
    if np.asarray(x[0]).dtype.kind not in "iu":
        return x[0] / x[1]
    quotient = np.abs(x[0]) // np.abs(x[1])
    return np.where((np.asarray(x[0]) < 0) != (np.asarray(x[1]) < 0), -quotient, quotient)


def _floor_mod(_: _Attrs, x: Sequence[Any]) -> Any:
    if not np.all(x[1]):
        raise _Unknown
    return x[0] % x[1]


def _fill(_: _Attrs, x: Sequence[Any]) -> Any:
    dims = [int(d) for d in x[0]]
    if int(np.prod(dims, dtype=object)) > _ELEMENTS_MAX:
        raise _Unknown
    return np.full(dims, x[1])


def _range(_: _Attrs, x: Sequence[Any]) -> Any:
    start, limit, delta = (to_array(v).item() for v in x)
    if delta == 0 or abs((limit - start) / delta) > _ELEMENTS_MAX:
        raise _Unknown
    return np.arange(start, limit, delta, dtype=to_array(x[0]).dtype)


def _reduce(function: Callable[..., Any]) -> _Evaluate:
    def evaluate(attrs: _Attrs, x: Sequence[Any]) -> Any:
        array = to_array(x[0])
        axes = tuple(int(a) for a in to_array(x[1]).reshape(-1))
        return function(array, axis=axes, keepdims=bool(attrs["keep_dims"])).astype(array.dtype)

    return evaluate


def _strided(attrs: _Attrs, x: Sequence[Any]) -> Any:
    if attrs["ellipsis_mask"] or attrs["new_axis_mask"]:
        raise _Unknown
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


def _slice(_: _Attrs, x: Sequence[Any]) -> Any:
    index = tuple(
        slice(begin, None if size == -1 else begin + size)
        for begin, size in zip(to_array(x[1]).tolist(), to_array(x[2]).tolist(), strict=True)
    )
    return to_array(x[0])[index]


def _gather(attrs: _Attrs, x: Sequence[Any]) -> Any:
    if attrs.get("batch_dims"):
        raise _Unknown
    axis = int(to_array(x[2])) if len(x) > 2 else 0
    indices = to_array(x[1])
    if (indices < 0).any():
        raise _Unknown
    return np.take(to_array(x[0]), indices, axis=axis)


def _squeeze(attrs: _Attrs, x: Sequence[Any]) -> Any:
    axes = tuple(attrs["squeeze_dims"])
    return np.squeeze(to_array(x[0]), axes or None)


def _cast(attrs: _Attrs, x: Sequence[Any]) -> Any:
    if not (attrs["DstT"].is_integer and attrs["SrcT"].is_integer):
        raise _Unknown
    return to_array(x[0]).astype(attrs["DstT"].as_numpy_dtype)


def _split(attrs: _Attrs, x: Sequence[Any]) -> Any:
    return np.split(to_array(x[1]), int(attrs["num_split"]), axis=int(to_array(x[0])))


def _unpack(attrs: _Attrs, x: Sequence[Any]) -> Any:
    return list(np.moveaxis(to_array(x[0]), int(attrs["axis"]), 0))


def _concat_offset(_: _Attrs, x: Sequence[Any]) -> Any:
    axis = int(to_array(x[0]))
    offsets, total = [], 0
    for shape in x[1:]:
        offset = np.zeros_like(to_array(shape))
        offset[axis] = total
        total += int(to_array(shape)[axis])
        offsets.append(offset)
    return offsets


_SEVERAL_OUTPUTS: Final = frozenset({"Split", "Unpack", "ConcatOffset"})

#: {op: its value from those of all its inputs}. Reads as NumPy; whatever fails is unknown.
_EVALUATE: Final[Mapping[str, _Evaluate]] = {
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
LOOKED_THROUGH: Final = frozenset(_EVALUATE) | frozenset(_FROM_SHAPE)
