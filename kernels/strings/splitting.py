"""Strings into parts, as rows of a sparse matrix, and parts into strings along axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for, is_asked, text_bytes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import lengths_of
from flowengine.kernels.strings.formatting import strings_like

_SPACE: Final = b" \t\n\v\f\r"


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 1 an element."""
    return float(getattr(strings, "size", 1))


def _vector(strings: Value) -> list[bytes]:
    array = to_array(strings)
    if array.ndim != 1:
        raise InvalidArgumentError(f"input must be a vector, got shape: {list(array.shape)}")
    listed: list[bytes] = array.tolist()
    return listed


def _scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape: {list(array.shape)}")
    text: bytes = array.item()
    return text


def _sparse(rows: Sequence[Sequence[bytes]]) -> tuple[Array, Value, Array]:
    """Indices (int64 [n, 2]), values (string [n]) and dense shape (int64 [2])."""
    lengths = lengths_of(rows)
    total = int(lengths.sum())
    indices = np.empty((total, 2), np.int64)
    indices[:, 0] = np.arange(len(rows)).repeat(lengths)
    indices[:, 1] = np.arange(total) - (lengths.cumsum() - lengths).repeat(lengths)
    widest = int(lengths.max()) if len(rows) else 0
    values = strings_like(list(chain.from_iterable(rows)), (total,))
    return indices, values, np.array([len(rows), widest], np.int64)


@kernel("StringSplit", fresh=True, heavy=_cost)
def string_split(strings: Value, delimiter: Value, *, skip_empty: bool) -> tuple[Array, Value, Array]:
    """Parts between any of the delimiter's bytes; without delimiter every byte is a part.

    Gives indices (int64 [n, 2]), values (string [n]) and dense shape (int64 [2]).
    """
    texts, between = _vector(strings), _scalar(delimiter, "delimiter")
    if not between:
        return _sparse([[text[i : i + 1] for i in range(len(text))] for text in texts])
    border = between[:1]
    if len(between) > 1:
        # All of them are borders: as the first one they are as good.
        same = bytes.maketrans(between, border * len(between))
        texts = [text.translate(same) for text in texts]
    rows = [text.split(border) for text in texts]
    return _sparse([list(filter(None, row)) for row in rows] if skip_empty else rows)


@kernel("StringSplitV2", fresh=True, heavy=_cost)
def string_split_v2(strings: Value, sep: Value, *, maxsplit: int) -> tuple[Array, Value, Array]:
    """Parts between separators, like Python's `split`; an empty `sep` means runs of white space.

    Gives indices (int64 [n, 2]), values (string [n]) and dense shape (int64 [2]).
    """
    texts, between = _vector(strings), _scalar(sep, "sep")
    if maxsplit == 0:
        return _sparse([[text] for text in texts])
    if between:
        return _sparse([text.split(between, maxsplit) for text in texts])
    return _sparse([text.lstrip(_SPACE).split(None, maxsplit) for text in texts])


@kernel("ReduceJoin", heavy=_cost)
def reduce_join(inputs: Value, reduction_indices: Any, *, keep_dims: bool, separator: bytes) -> Value:
    """Strings joined along axes, the first axis given varying fastest.

    Raises InvalidArgumentError for an axis outside of the rank, or given twice.
    """
    array = to_array(inputs)
    given = np.asarray(reduction_indices).reshape(-1).tolist()
    axes: list[int] = []
    for axis in given:
        if not -array.ndim <= axis < array.ndim:
            raise InvalidArgumentError(
                f"Invalid reduction dimension {axis} for input with {array.ndim} dimension(s)"
            )
        if axis % array.ndim in axes:
            raise InvalidArgumentError(f"Duplicate reduction dimension {axis}")
        axes.append(axis % array.ndim)
    if not axes:
        return inputs
    kept = [i for i in range(array.ndim) if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape) if keep_dims or i in kept)
    count = int(np.prod([array.shape[i] for i in kept], dtype=np.int64))
    width = int(np.prod([array.shape[i] for i in axes], dtype=np.int64))
    if is_asked():
        between = len(separator) * max(width - 1, 0)
        ask_for(sum(map(len, array.reshape(-1).tolist())) + count * (text_bytes(b"") + between))
    rows = array.transpose([*kept, *reversed(axes)]).reshape(count, width).tolist()
    return strings_like([separator.join(row) for row in rows], shape)
