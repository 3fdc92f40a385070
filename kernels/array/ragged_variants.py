"""Ragged tensors as variants, whole or one for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, describe, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.ragged import checked_splits
from flowengine.kernels.common.array_args import brackets, integers, outputs
from flowengine.kernels.registry import kernel


@dataclass(frozen=True, slots=True, eq=False)
class RaggedVariant:
    """A ragged tensor that flows along an edge as one variant.

    splits  the outermost first; none for a dense tensor
    """

    splits: tuple[Array, ...]
    values: Array

    def held_values(self) -> tuple[Array, ...]:
        """Its arrays: `accounting.Composite`."""
        return (*self.splits, self.values)

    def zeros_like(self) -> RaggedVariant:
        """The same rows of zeros, for ZerosLike."""
        return RaggedVariant(self.splits, np.zeros_like(self.values))

    def __add__(self, other: object) -> RaggedVariant:
        """Value by value, for AddN; InvalidArgumentError where rows differ."""
        if not isinstance(other, RaggedVariant):
            return NotImplemented
        if self.values.shape != other.values.shape or len(self.splits) != len(other.splits):
            raise InvalidArgumentError("Cannot add ragged tensors of different rows")
        return RaggedVariant(self.splits, self.values + other.values)


def _objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


@kernel("RaggedTensorToVariant")
def ragged_tensor_to_variant(nested_splits: tuple[Value, ...], values: Value, *, batched_input: bool) -> Any:
    """The ragged tensor as a variant, or each of its rows as one."""
    elements = to_array(values)
    if not batched_input:
        return RaggedVariant(tuple(checked_splits(nested_splits, elements)), elements)
    if not nested_splits:
        if not elements.ndim:
            raise InvalidArgumentError("a scalar has no rows to be taken apart by")
        return _objects([RaggedVariant((), row) for row in elements], elements.shape[:1])
    splits = checked_splits(nested_splits, elements)
    starts, ends = splits[0][:-1], splits[0][1:]
    rows: list[list[Array]] = [[] for _ in starts]
    for each in splits[1:]:
        for row, start, end in zip(rows, starts.tolist(), ends.tolist(), strict=True):
            own = each[start : end + 1]
            row.append(own - own[0])
        starts, ends = each[starts], each[ends]
    parts = [elements[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return _objects(
        [RaggedVariant(tuple(row), part) for row, part in zip(rows, parts, strict=True)], (len(rows),)
    )


def _variants(encoded: Value) -> tuple[list[RaggedVariant], tuple[int, ...]]:
    array = encoded if isinstance(encoded, np.ndarray) else None
    flat = [encoded] if array is None else array.reshape(-1).tolist()
    for each in flat:
        if not isinstance(each, RaggedVariant):
            raise InvalidArgumentError(f"Input Variant element is no ragged tensor but {describe(each)}")
    return flat, () if array is None else array.shape


@kernel("RaggedTensorFromVariant")
def ragged_tensor_from_variant(
    encoded: Value, *, input_ragged_rank: int, output_ragged_rank: int, Tvalues: DType, Tsplits: DType
) -> Any:
    """The ragged tensor of all variants: splits, the outermost first, and values."""
    parts, dims = _variants(encoded)
    rank = input_ragged_rank
    if rank == -1:
        rank = output_ragged_rank - len(dims)
        if rank < 0:
            raise InvalidArgumentError(
                "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, "
                f"found output_ragged_rank: {output_ragged_rank}, encoded_variant.dims(): {len(dims)}"
            )
    if output_ragged_rank != rank + len(dims):
        raise InvalidArgumentError(
            "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(), found "
            f"output_ragged_rank: {output_ragged_rank}, input_ragged_rank: {rank}, encoded_ragged.dims(): "
            f"{len(dims)}"
        )
    for part in parts:
        if len(part.splits) != rank:
            raise InvalidArgumentError(
                f"Encoded input RaggedTensorVariant has ragged_rank={len(part.splits)}. Expected "
                f"ragged_rank={rank}."
            )
        if part.values.dtype != Tvalues.as_numpy_dtype:
            raise InvalidArgumentError(f"Expected values Tensor dtype: {Tvalues}, found: {part.values.dtype}")
        if any(each.dtype != Tsplits.as_numpy_dtype for each in part.splits):
            raise InvalidArgumentError(
                f"Expected row_splits Tensor dtype: {Tsplits}, found: {part.splits[0].dtype}"
            )
    if not dims:
        return outputs([*parts[0].splits, parts[0].values])
    return _stacked(parts, dims, rank, Tvalues, Tsplits.as_numpy_dtype)


def _stacked(
    parts: Sequence[RaggedVariant], dims: Sequence[int], rank: int, Tvalues: DType, dtype: Any
) -> tuple[Array, ...]:
    """All parts as one ragged tensor: what they lie in is split first."""
    found = [
        np.arange(int(np.prod(dims[:axis])) + 1, dtype=dtype) * dims[axis] for axis in range(1, len(dims))
    ]
    found.append(_joined([np.array([0, _length(part)], dtype) for part in parts], dtype))
    found += [_joined([part.splits[level] for part in parts], dtype) for level in range(rank)]
    if not parts:
        return (*found, np.zeros(0, Tvalues.as_numpy_dtype))
    inner = {part.values.shape[1:] for part in parts}
    if len(inner) > 1 or any(not part.values.ndim for part in parts):
        shapes = ", ".join(brackets(part.values.shape) for part in parts)
        raise InvalidArgumentError(f"All flat_values must have compatible shapes: {shapes}")
    return (*found, np.concatenate([part.values for part in parts]))


def _length(part: RaggedVariant) -> int:
    if part.splits:
        return len(part.splits[0]) - 1
    return len(part.values) if part.values.ndim else 0


def _joined(splits: Sequence[Array], dtype: Any) -> Array:
    """Splits of what lies one after another."""
    lengths = [np.diff(each) for each in splits]
    out = np.zeros(sum(map(len, lengths)) + 1, dtype)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=out[1:])
    return out


@kernel("RaggedTensorToVariantGradient")
def ragged_tensor_to_variant_gradient(
    encoded_grad: Value, row_splits: Value, dense_values_shape: Value, *, Tvalues: DType
) -> Any:
    """The gradient of the values that were encoded: those of all variants, one after another."""
    parts, _ = _variants(encoded_grad)
    shape = integers(to_array(dense_values_shape), "dense_values_shape")
    flat = [part.values.reshape(-1) for part in parts]
    joined = np.concatenate(flat) if flat else np.zeros(0, Tvalues.as_numpy_dtype)
    if joined.size != int(np.prod(shape)):
        raise InvalidArgumentError(
            f"the gradients have {joined.size} values, which do not fill the shape {brackets(shape)}"
        )
    return joined.reshape(shape)
