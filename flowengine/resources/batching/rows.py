"""Rows of several steps as one batch: what may stand in one, how it is filled up, and how it is joined."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError


def allowed_sizes(sizes: Sequence[int], max_batch_size: int, *, splits: bool = False) -> tuple[int, ...]:
    """The sizes that batches may have, none for any.

    splits   whether requests are split: the last size may then be smaller than `max_batch_size`

    Raises InvalidArgumentError unless they rise from 1 on and end with `max_batch_size`.
    """
    allowed = tuple(sizes)
    if not allowed:
        return allowed
    ends = allowed[-1] <= max_batch_size if splits else allowed[-1] == max_batch_size
    if allowed[0] < 1 or not ends or any(b <= a for a, b in itertools.pairwise(allowed)):
        raise InvalidArgumentError(
            f"allowed_batch_sizes must rise and end with max_batch_size {max_batch_size}, not {list(allowed)}"
        )
    return allowed


def padded_size(allowed: Sequence[int], rows: int) -> int:
    """The size that a batch of so many rows is filled up to; a batch without rows stays as it is."""
    return next((size for size in allowed if size >= rows), rows) if rows else 0


def rows_of(tensors: Sequence[Array], max_batch_size: int) -> int:
    """How many rows a request has; InvalidArgumentError where its tensors disagree, or for too many."""
    for tensor in tensors:
        if getattr(tensor, "ndim", 0) == 0:
            raise InvalidArgumentError("Batching input tensors must have at least one dimension")
        if len(tensor) != len(tensors[0]):
            raise InvalidArgumentError(
                "Batching input tensors supplied in a given op invocation must have equal "
                f"0th-dimension size, not {[len(each) for each in tensors]}"
            )
    rows = len(tensors[0])
    if rows > max_batch_size:
        raise InvalidArgumentError(f"Task size {rows} is larger than maximum batch size {max_batch_size}")
    return rows


def check_same_rows(
    present: Sequence[Array], tensors: Sequence[Array], *, of_rank_only: bool = False
) -> None:
    """InvalidArgumentError where rows have other shapes, or ranks, than those that are in the batch."""
    for ours, theirs in zip(present, tensors, strict=True):
        fits = ours.ndim == theirs.ndim if of_rank_only else ours.shape[1:] == theirs.shape[1:]
        if not fits:
            raise InvalidArgumentError(
                "tensors of one batch must agree but for their rows, but have shapes "
                f"{list(ours.shape)} and {list(theirs.shape)}"
            )


def filled_up(parts: Sequence[Array], value: Any) -> list[Array]:
    """Return parts of one rank as arrays whose rows have one shape, the largest in each dimension.

    value   fills what is added; None for the first element of each part, as TensorFlow Serving does. A part
            without elements is filled with zeros, or empty strings
    """
    sizes = [max(each) for each in zip(*[part.shape[1:] for part in parts], strict=True)]
    filled = []
    for part in parts:
        if list(part.shape[1:]) != sizes:
            filler = (part.flat[0] if part.size else 0) if value is None else value
            if part.dtype == object and not isinstance(filler, bytes):
                filler = b""
            larger = np.full([len(part), *sizes], filler, part.dtype)
            larger[tuple(slice(size) for size in part.shape)] = part
            part = larger
        filled.append(part)
    return filled


def joined_rows(parts: Sequence[Array], padding: int) -> Array:
    """Rows of all parts, then so many copies of the first row that there is."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if padding:
        parts = [*parts, np.repeat(parts[0][:1], padding, axis=0)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


__all__ = ["allowed_sizes", "check_same_rows", "filled_up", "joined_rows", "padded_size", "rows_of"]
