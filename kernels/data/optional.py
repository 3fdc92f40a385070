"""Optional values, and values of several components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, describe
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.array.constants import zeros_like
from flowengine.kernels.io.summary_fields import is_message
from flowengine.kernels.registry import kernel

# Optionals: values, or the note that there are none, carried by one variant.
#
# The gradients of functional conditionals use them for what only one branch has computed.


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """Values, or None for nothing."""

    values: tuple[Value, ...] | None

    def held_values(self) -> tuple[Value, ...]:
        """The values: `accounting.Composite`."""
        return self.values or ()

    def zeros_like(self) -> Optional:
        """An optional with as many zeros of the same shapes, or without values, for ZerosLike."""
        return self if self.values is None else Optional(tuple(zeros_like(np, v) for v in self.values))

    def __add__(self, other: object) -> Optional:
        """Value by value, for AddN; InvalidArgumentError where only one has values, or another number."""
        if not isinstance(other, Optional):
            return NotImplemented
        if self.values is None and other.values is None:
            return self
        if self.values is None or other.values is None:
            raise InvalidArgumentError("Cannot add optionals because one has a value and the other doesn't.")
        if len(self.values) != len(other.values):
            raise InvalidArgumentError(
                "Cannot add optionals because they have different numbers of components: "
                f"{len(self.values)} and {len(other.values)}"
            )
        return Optional(tuple(a + b for a, b in zip(self.values, other.values, strict=True)))


@kernel("OptionalFromValue", heavy=False)
def optional_from_value(components: tuple[Value, ...]) -> Optional:
    """An optional (variant, rank 0) that holds these values."""
    return Optional(tuple(components))


@kernel("OptionalNone", heavy=False)
def optional_none() -> Optional:
    """An optional (variant, rank 0) without values."""
    return Optional(None)


def _checked(optional: Any) -> Optional:
    if isinstance(optional, np.ndarray) and optional.shape == () and optional.dtype.hasobject:
        optional = optional.item()
    if isinstance(optional, Optional):
        return optional
    raise InvalidArgumentError(
        f"the input must be a scalar variant that holds an optional, not {describe(optional)}"
    )


@kernel("OptionalHasValue", heavy=False)
def optional_has_value(optional: Any) -> Any:
    """Whether there are values (bool, rank 0)."""
    return np.bool_(_checked(optional).values is not None)


@kernel("OptionalGetValue", heavy=False)
def optional_get_value(
    optional: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Any:
    """The values. InvalidArgumentError where there are none, or others than the node declares."""
    values = _checked(optional).values
    if values is None:
        raise InvalidArgumentError("The given optional does not have a value.")
    if len(values) != len(output_types):
        raise InvalidArgumentError(
            f"The given optional has {len(values)} components, expected {len(output_types)}."
        )
    for index, (value, dtype, shape) in enumerate(zip(values, output_types, output_shapes, strict=True)):
        has = getattr(value, "dtype", None)
        if has is not None and dtype.as_numpy_dtype != has and not dtype.as_numpy_dtype.hasobject:
            raise InvalidArgumentError(
                f"The given optional does not match the expected type for component {index}. "
                f"Expected: {dtype.name}. Actual: {has}."
            )
        if not shape.is_compatible_with(TensorShape(getattr(value, "shape", ()))):
            raise InvalidArgumentError(
                f"The given optional does not match the expected shape for component {index}. "
                f"Expected: {shape}. Actual: {list(getattr(value, 'shape', ()))}."
            )
    return values[0] if len(values) == 1 else values


# Several tensors of one value, as one variant; its metadata describes the value.


class CompositeValue:
    """Tensors and their types, in the order of the metadata's fields; never changed."""

    __slots__ = ("components", "metadata", "types")

    def __init__(self, components: Sequence[Value], types: Sequence[DType], metadata: bytes) -> None:
        self.components = tuple(components)
        self.types = tuple(types)
        self.metadata = metadata


@kernel("CompositeTensorVariantFromComponents", heavy=False)
def from_components(
    components: tuple[Value, ...], *, metadata: bytes, Tcomponents: tuple[DType, ...]
) -> CompositeValue:
    """The value that the tensors make; InvalidArgumentError where the metadata is no message."""
    if not is_message(metadata):
        raise InvalidArgumentError(f"Error parsing metadata: {len(metadata)} bytes that are no message")
    return CompositeValue(components, Tcomponents, metadata)


@kernel("CompositeTensorVariantToComponents", heavy=False)
def to_components(encoded: Value, *, metadata: bytes, Tcomponents: tuple[DType, ...]) -> Any:
    """The tensors again; InvalidArgumentError where they are not as many, or not of these types."""
    value = encoded
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.hasobject:
        value = value.item()
    if not isinstance(value, CompositeValue):
        raise InvalidArgumentError(
            f"The input `encoded` is not a valid CompositeTensorVariant tensor, got {describe(encoded)}"
        )
    if not is_message(metadata):
        raise InvalidArgumentError(f"Error parsing metadata: {len(metadata)} bytes that are no message")
    if len(value.types) != len(Tcomponents):
        raise InvalidArgumentError(
            f"Encoded value has {len(value.types)} tensor components; expected {len(Tcomponents)}"
        )
    for place, (given, wanted) in enumerate(zip(value.types, Tcomponents, strict=True)):
        if given.base is not wanted.base:
            raise InvalidArgumentError(f"Tensor component {place} had dtype {given}; expected dtype {wanted}")
    found = value.components
    return found[0] if len(found) == 1 else found or None
