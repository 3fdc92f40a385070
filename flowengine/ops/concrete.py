"""The context of shape functions if every input has its value: at run time, and while folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.shapes import RANK_MAX, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.attrs import AttrValue
from flowengine.ir.graph import Node


class ConcreteInputs:
    """A `ir.opdef.ShapeContext` over the values of a node's inputs.

    A value that is no tensor (a variable, a queue) has the shape that it says it has, else none.
    """

    def __init__(self, node: Node, values: Sequence[Value], producer: int) -> None:
        self.attrs: Mapping[str, AttrValue] = node.attrs
        self.num_inputs = len(values)
        self.num_outputs = len(node.output_types)
        self.output_types: Sequence[DType] = node.output_types
        self.producer = producer
        self._values = values

    def input(self, index: int) -> TensorShape:
        value = self._values[index]
        shape = getattr(value, "shape", None)
        if shape is None:
            return TensorShape(to_array(value).shape) if isinstance(value, bytes) else UNKNOWN_SHAPE
        return shape if isinstance(shape, TensorShape) else TensorShape(shape)

    def input_value(self, index: int) -> Value:
        return self._values[index]

    def input_as_shape(self, index: int) -> TensorShape:
        """As in `ShapeContext`; ValueError for what is no vector, or longer than any shape."""
        sizes = to_array(self._values[index])
        # Before the list is made: rows of nothing are a list as well, of as many as there are.
        if sizes.ndim != 1 or sizes.size > RANK_MAX:
            raise ValueError(f"a shape is a vector of at most {RANK_MAX} sizes, not of shape {sizes.shape}")
        return TensorShape(sizes.tolist())

    def handle_shape(self, index: int) -> TensorShape:
        shape = getattr(self._values[index], "shape", None)
        return shape if isinstance(shape, TensorShape) else UNKNOWN_SHAPE

    def handle_source(self, index: int) -> Node | None:
        return None
