"""Several tensors that make one value, as one variant; what they make is told by metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, describe
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.io.summary_fields import is_message
from flowengine.kernels.registry import kernel


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
