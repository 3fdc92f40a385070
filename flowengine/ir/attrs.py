"""Attribute values of nodes, as Python objects that keep everything a GraphDef can say.

| attr type in an OpDef | Python value |
|---|---|
| int, float, bool | `int`, `float`, `bool` |
| string | `bytes` |
| type | `DType` |
| shape | `TensorShape` |
| tensor | `TensorAttr` |
| func | `FuncAttr` |
| list(X) | a tuple of them |
| a placeholder in a function's body | `PlaceholderAttr` |
| an AttrValue with nothing set | `None` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape


class TensorAttr:
    """A constant tensor: dtype and shape at once, the value decoded when first asked for.

    `decode` returns the value (see `core.arrays`) and is called once at most; the array is read-only.
    `source` is whatever the reader of the graph wants back to write it unchanged (a TensorProto).
    """

    __slots__ = ("__weakref__", "_decode", "_value", "dtype", "shape", "source")

    def __init__(
        self, dtype: DType, shape: TensorShape, decode: Callable[[], Value], source: object = None
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.source = source
        self._decode: Callable[[], Value] | None = decode
        self._value: Value = None

    @classmethod
    def of(cls, value: Value, dtype: DType) -> TensorAttr:
        """Wrap an array whose elements are of this type (see `core.dtypes` for how each is held)."""
        shape = TensorShape(getattr(value, "shape", ()))
        return cls(dtype, shape, lambda: value)

    def value(self) -> Value:
        """The tensor; InvalidArgumentError where the stored one is damaged."""
        if self._decode is not None:
            self._value = self._decode()
            self._decode = None
        return self._value

    def __repr__(self) -> str:
        return f"TensorAttr({self.dtype}, {self.shape})"


@dataclass(frozen=True, slots=True)
class FuncAttr:
    """A function of the graph's library, with the attributes that instantiate it."""

    name: str
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlaceholderAttr:
    """An attribute of a function body that the caller's attribute of this name replaces."""

    name: str


AttrValue: TypeAlias = Any


def exported_shape(attrs: Mapping[str, AttrValue]) -> TensorShape:
    """The shape that an exporter noted of a node's output; unknown where it did not.

    Exports of before TensorFlow 1.4 say nothing of a placeholder's shape elsewhere.
    """
    noted = attrs.get("_output_shapes")
    first = noted[0] if isinstance(noted, tuple) and len(noted) == 1 else None
    return first if isinstance(first, TensorShape) else TensorShape(None)
