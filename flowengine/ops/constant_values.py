"""The tensor values that the graph alone determines, for shape functions that ask.

A shape often comes from a Const, or from a Shape that is packed, sliced and multiplied before it reaches a
Reshape. `value` computes such small values from constants and known shapes; `as_shape` reads an integer
vector as a shape of which some dimensions may be unknown. Only what is small is computed, when asked.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.shapes import RANK_MAX, SCALAR, UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ops.value_functions import (
    ELEMENTS_MAX,
    EVALUATE,
    FROM_SHAPE,
    LOOKED_THROUGH,
    NO_VALUE_ERRORS,
    OF_OPEN_LENGTH,
    SEVERAL_OUTPUTS,
    UnknownValue,
)

#: Nodes in a row that are looked through: deeper chains do not spell shapes.
_DEPTH_MAX: Final = 100


class InferredShapes(Protocol):
    """The shapes of a graph's tensors, which spell some of its values."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...

    def shape(self, port: OutputPort) -> TensorShape: ...


class ConstantValues:
    """Values of a graph's tensors, remembered once computed."""

    def __init__(self, inference: InferredShapes) -> None:
        # It knows these values: the two would live on until the collector comes.
        self._whose = weakref.ref(inference)
        #: {node: {slot: value, or None where the graph does not tell}}
        self._known: dict[str, dict[int, Any]] = {}
        self._shapes: dict[str, dict[int, TensorShape]] = {}

    @property
    def _inference(self) -> InferredShapes:
        inference = self._whose()
        assert inference is not None, "these values were asked of what had inferred them"
        return inference

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
        return self._inference.nodes[node].op in LOOKED_THROUGH

    def _value(self, port: OutputPort, depth: int) -> Any | None:
        known = self._known.get(port.node)
        if known is not None and port.slot in known:
            return known[port.slot]
        node = self._inference.nodes.get(port.node)
        if node is None or depth == 0:
            return None
        try:
            with np.errstate(all="ignore"):
                result = self._compute(node, port.slot, depth - 1)
        except NO_VALUE_ERRORS:
            result = None
        self._known.setdefault(port.node, {})[port.slot] = result
        return result

    def _compute(self, node: Node, slot: int, depth: int) -> Any | None:
        op = node.op
        if op == "Const":
            return _stored(node.attrs["value"])
        from_shape = FROM_SHAPE.get(op)
        if from_shape is not None:
            shape = self._inference.shape(node.inputs[slot])
            return from_shape(shape, node.attrs.get("out_type"))
        evaluate = EVALUATE.get(op)
        if evaluate is None or not node.inputs:
            return None
        if any(t.is_ref for t in node.output_types):
            return None
        # The shape is known before: nothing large is ever computed.
        count = self._inference.shape(OutputPort(node.name, slot)).num_elements()
        if (count is None or count > ELEMENTS_MAX) and op not in OF_OPEN_LENGTH:
            return None
        inputs = []
        for input_port in node.inputs:
            value = self._value(input_port, depth)
            if value is None:
                return None
            inputs.append(value)
        result = evaluate(node.attrs, inputs)
        if op in SEVERAL_OUTPUTS:
            result = result[slot]
        return to_array(result)

    def _as_shape(self, port: OutputPort, depth: int) -> TensorShape:
        known = self._shapes.get(port.node)
        if known is not None and port.slot in known:
            return known[port.slot]
        result = UNKNOWN_SHAPE
        if depth:
            try:
                result = self._spell(port, depth - 1)
            except NO_VALUE_ERRORS:
                result = UNKNOWN_SHAPE
            if result.dims is None:
                length = self._inference.shape(port)
                if length.rank == 1 and length[0] is not None and length[0] <= RANK_MAX:
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
                raise UnknownValue
            if array.ndim > 1:
                raise UnknownValue
            return TensorShape([None if d < 0 else int(d) for d in array])
        node = self._inference.nodes[port.node]
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
        elif (
            op == "Reshape" and self._inference.shape(port).rank == self._inference.shape(inputs[0]).rank == 1
        ):
            # What was no vector before, such as rows beside each other, would spell another shape.
            return self._as_shape(inputs[0], depth)
        raise UnknownValue

    def _dimension(self, port: OutputPort, depth: int) -> int | None:
        """One dimension that a scalar spells."""
        value = self._value(port, depth)
        if value is not None:
            number = int(to_array(value))
            return None if number < 0 else number
        # A scalar cut out of a partly known vector.
        node = self._inference.nodes.get(port.node)
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
            raise UnknownValue
        bounds = [self._value(port, depth) for port in node.inputs[1:4]]
        whole = self._as_shape(node.inputs[0], depth)
        if any(bound is None for bound in bounds) or whole.dims is None:
            raise UnknownValue
        begin, end, stride = (int(to_array(bound)[0]) for bound in bounds)
        start = None if attrs["begin_mask"] & 1 else begin
        stop = None if attrs["end_mask"] & 1 else end
        return TensorShape(whole.dims[start:stop:stride])


def _stored(tensor: TensorAttr) -> Any | None:
    count = tensor.shape.num_elements()
    return None if count is None or count > ELEMENTS_MAX else tensor.value()
