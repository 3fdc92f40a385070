"""Runs of neighbouring strings, and strings of one segment, joined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import REFERENCE_BYTES, ask_for, is_asked, text_bytes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError, ResourceExhaustedError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.formatting import strings_like

_INT32_MAX: Final = 2**31 - 1

#: Tokens that the n-grams of one call may consist of: 2 GB of strings at the least.
_TOKENS_MAX: Final = 2**28


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 1 an element."""
    return float(getattr(strings, "size", 1))


@kernel("StringNGrams", fresh=True, heavy=_cost)
def string_ngrams(
    data: Value,
    splits: Array,
    *,
    separator: bytes,
    ngram_widths: tuple[int, ...],
    left_pad: bytes,
    right_pad: bytes,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Value, Array]:
    """Of each row of a ragged matrix (data, splits), the n-grams of each width; and the splits of the result.

    pad_width                   pads at both ends of a row, at most one less than the width; below 0: as many
    preserve_short_sequences    a row that is too short for an n-gram is one by itself
    """
    tokens: list[bytes] = to_array(data).reshape(-1).tolist()
    if any(abs(number) > _INT32_MAX for number in (pad_width, *ngram_widths)):
        raise InvalidArgumentError(f"pad_width {pad_width} or ngram_widths {list(ngram_widths)} is no int32")
    if any(width < 1 for width in ngram_widths):
        raise InvalidArgumentError(f"ngram_widths must contain values >= 1, got {list(ngram_widths)}")
    if not splits.size:
        return strings_like([b""] * len(tokens), to_array(data).shape), splits
    _check_splits(splits, len(tokens))
    if preserve_short_sequences and not ngram_widths and pad_width < 0:
        raise InvalidArgumentError(
            "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not "
            f"provided, got {pad_width}"
        )
    lengths = np.diff(splits).astype(np.int64)
    _check_counts(lengths, ngram_widths, pad_width)
    if is_asked():
        texts = sum(map(len, tokens))
        for width in ngram_widths:
            # A token is in as many n-grams as it has places there, and so is each pad.
            pads = _pads(width, pad_width)
            count = int(np.maximum(lengths + (2 * pads - width + 1), 0).sum())
            padding = pads * len(lengths) * (len(left_pad) + len(right_pad))
            ask_for(width * (texts + padding) + count * (text_bytes(b"") + (width - 1) * len(separator)))

    def of_row(row: Sequence[bytes]) -> Iterator[bytes]:
        found = False
        for width in ngram_widths:
            pads = _pads(width, pad_width)
            padded = [*[left_pad] * pads, *row, *[right_pad] * pads]
            for i in range(len(padded) - width + 1):
                found = True
                yield separator.join(padded[i : i + width])
        if preserve_short_sequences and row and not found:
            pads = max(pad_width, 0)
            yield separator.join([*[left_pad] * pads, *row, *[right_pad] * pads])

    bounds = splits.tolist()
    rows = [list(of_row(tokens[begin:end])) for begin, end in pairwise(bounds)]
    ends = np.zeros(splits.shape, splits.dtype)
    np.cumsum([len(row) for row in rows], out=ends[1:])
    joined = [ngram for row in rows for ngram in row]
    return strings_like(joined, (len(joined),)), ends


def _pads(width: int, pad_width: int) -> int:
    return width - 1 if pad_width < 0 else min(pad_width, width - 1)


def _check_splits(splits: Array, count: int) -> None:
    if splits[0] != 0:
        raise InvalidArgumentError(f"First split value must be 0, got {splits[0]}")
    if (splits[1:] < splits[:-1]).any() or (splits > count).any():
        raise InvalidArgumentError(
            f"Invalid split value: they must ascend to {count}, got {splits.tolist()[:8]}"
        )
    if splits[-1] != count:
        raise InvalidArgumentError(f"Last split value must be data size. Expected {count}, got {splits[-1]}")


def _check_counts(lengths: Array, widths: Sequence[int], pad_width: int) -> None:
    """Refuse what nobody can hold, before anything of it is made."""
    longest = int(lengths.max()) if lengths.size else 0
    tokens = 0
    for width in widths:
        pads = _pads(width, pad_width)
        if pads > _INT32_MAX // 2 - longest:
            raise InvalidArgumentError(f"Pad width could lead to integer overflow, got pad_width = {pads}")
        tokens += int(np.maximum(lengths + (2 * pads - width + 1), 0).sum()) * width
    if lengths.size and pad_width > 0:
        tokens += 2 * pad_width if not widths or longest + 2 * pad_width < min(widths) else 0
    if tokens > _TOKENS_MAX:
        raise ResourceExhaustedError(f"n-grams of {tokens} tokens in all: at most {_TOKENS_MAX} are made")


@kernel("UnsortedSegmentJoin", fresh=True, heavy=_cost)
def unsorted_segment_join(inputs: Value, segment_ids: Array, num_segments: Any, *, separator: bytes) -> Value:
    """Strings of one segment joined, in their order: (num_segments, *rest), of inputs (*ids, *rest)."""
    array, ids, count = to_array(inputs), np.asarray(segment_ids), np.asarray(num_segments)
    if count.ndim:
        raise InvalidArgumentError(f"Number of segments should be a scalar, got shape {list(count.shape)}")
    segments = int(count)
    if not ids.ndim:
        raise InvalidArgumentError("Segment ids cannot have rank 0")
    if ids.ndim > array.ndim:
        raise OutOfRangeError(f"Invalid segment_id rank {ids.ndim} for input with {array.ndim} dimension(s)")
    if array.shape[: ids.ndim] != ids.shape:
        raise InvalidArgumentError(
            f"Segment dimension mismatch: inputs {list(array.shape)}, segment_ids {list(ids.shape)}"
        )
    if segments <= 0 and ids.size:
        raise InvalidArgumentError(f"Number of segments must be positive, got {segments}")
    outside = (ids < 0) | (ids >= segments)
    if outside.any():
        raise InvalidArgumentError(
            f"segment_ids must be >= 0 and < {segments}, got {int(ids[outside].reshape(-1)[0])}"
        )
    return _joined_segments(array, ids, max(segments, 0), separator)


def _joined_segments(array: Array, ids: Array, segments: int, separator: bytes) -> Value:
    suffix = array.shape[ids.ndim :]
    width = math.prod(suffix)
    ask_for(segments * width * REFERENCE_BYTES)
    if is_asked():
        ask_for(sum(map(len, array.reshape(-1).tolist())) + array.size * (len(separator) + text_bytes(b"")))
    result = np.full((segments, width), b"", object)
    order = ids.reshape(-1).argsort(kind="stable")
    sorted_ids = ids.reshape(-1)[order]
    firsts = np.flatnonzero(np.diff(sorted_ids, prepend=-1))
    rows = array.reshape(ids.size, width)[order]
    for begin, end in zip(firsts, np.append(firsts, ids.size)[1:], strict=True):
        result[sorted_ids[begin]] = [separator.join(column) for column in rows[begin:end].T.tolist()]
    return result.reshape((segments, *suffix))
