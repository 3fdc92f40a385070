"""Which dimensions of a convolution are which: the attribute `dimension_numbers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension
from flowengine.ir.proto import UniformQuantizedConvolutionDimensionNumbersAttr
from flowengine.ir.proto.reading import parsed


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of a convolution tensor's dimensions: two of them, then the spatial ones in order.

    first      the batch; of a kernel the output features
    features   the features; of a kernel the input features
    """

    first: int
    features: int
    spatial: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        return self.first, self.features, *self.spatial

    def picked(self, dims: Sequence[Dimension]) -> tuple[Dimension, ...]:
        """Dimensions in the order: first, features, spatial."""
        return tuple(dims[place] for place in self.order)

    def laid_out(self, dims: Sequence[Dimension]) -> tuple[Dimension, ...]:
        """The other way: dimensions in that order, each at its place."""
        found: list[Dimension] = [None] * len(self.order)
        for place, dim in zip(self.order, dims, strict=True):
            found[place] = dim
        return tuple(found)


@dataclass(frozen=True, slots=True)
class DimensionNumbers:
    """The places of the dimensions of input, kernel and output."""

    input: Places
    kernel: Places
    output: Places

    @classmethod
    def of(cls, text: bytes, rank: int) -> DimensionNumbers:
        """Read an attribute `dimension_numbers` for tensors of a rank; if empty, features come second.

        Raises InvalidArgumentError for bytes that are no such message, for places outside of the rank and
        for a place that is named twice.
        """
        if not text:
            plain = Places(0, 1, tuple(range(2, rank)))
            return cls(plain, plain, plain)
        said = parsed(text, UniformQuantizedConvolutionDimensionNumbersAttr())
        found = cls(
            Places(
                said.input_batch_dimension,
                said.input_feature_dimension,
                tuple(said.input_spatial_dimensions),
            ),
            Places(
                said.kernel_output_feature_dimension,
                said.kernel_input_feature_dimension,
                tuple(said.kernel_spatial_dimensions),
            ),
            Places(
                said.output_batch_dimension,
                said.output_feature_dimension,
                tuple(said.output_spatial_dimensions),
            ),
        )
        for name, places in (("input", found.input), ("kernel", found.kernel), ("output", found.output)):
            if sorted(places.order) != list(range(rank)):
                raise InvalidArgumentError(
                    f"dimension_numbers must give each of the {rank} dimensions of the {name} one meaning, "
                    f"but gives {list(places.order)}"
                )
        return found


__all__ = ["DimensionNumbers", "Places"]
