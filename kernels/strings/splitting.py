"""Strings split and joined, runs of neighbours, regular expressions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted, each
from flowengine.core.accounting import REFERENCE_BYTES, ask_for, is_asked, text_bytes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError, ResourceExhaustedError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import lengths_of, mapped
from flowengine.kernels.strings.patterns import check_library, compiled, matches
from flowengine.kernels.strings.text import strings_like

# Strings into parts, as rows of a sparse matrix, and parts into strings along axes.

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
    # An empty text has no parts in TensorFlow, not even an empty one.
    rows = [text.split(border) if text else [] for text in texts]
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
    rows = [text.lstrip(_SPACE).split(None, maxsplit) for text in texts]
    for row in rows:
        # After `maxsplit` words TensorFlow appends the rest of the text, also where nothing is left.
        if len(row) == maxsplit:
            row.append(b"")
    return _sparse(rows)


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


# Runs of neighbouring strings, and strings of one segment, joined.

_INT32_MAX: Final = 2**31 - 1

#: Tokens that the n-grams of one call may consist of: 2 GB of strings at the least.
_TOKENS_MAX: Final = 2**28


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


# Regular expressions over strings; `patterns` compiles and matches them.

#: So many strings are long enough a batch whatever they hold.
_MANY: Final = 64
#: A text that grows under replacement is asked for each time it has grown by so much.
_BYTES_BETWEEN_LOOKS: Final = 1 << 16


def _pattern_scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, but received shape {list(array.shape)}")
    text: bytes = array.item()
    return text


def _regex_cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 2 a string, and 1 each 100 bytes."""
    if isinstance(strings, bytes):
        return 2.0 + 0.01 * len(strings)
    size = getattr(strings, "size", 1)
    held = sum(map(len, strings.reshape(-1).tolist())) if 0 < size <= _MANY else 0
    return 2.0 * float(size) + 0.01 * held


def _full_match(strings: Value, pattern: bytes) -> Any:
    match = compiled(pattern).fullmatch
    array = to_array(strings)
    found = each(lambda text: match(text) is not None, array.reshape(-1).tolist())
    return np.array(found, np.bool_).reshape(array.shape)


@kernel("RegexFullMatch", fresh=True, heavy=_regex_cost, needs=check_library)
def regex_full_match(strings: Value, pattern: Value) -> Any:
    """Whether the pattern matches the whole of each string (bool, of the input's shape)."""
    return _full_match(strings, _pattern_scalar(pattern, "pattern"))


@kernel("StaticRegexFullMatch", fresh=True, heavy=_regex_cost, needs=check_library)
def static_regex_full_match(strings: Value, *, pattern: bytes) -> Any:
    """As RegexFullMatch, with a pattern that is fixed."""
    return _full_match(strings, pattern)


@kernel("RegexReplace", fresh=True, heavy=_regex_cost, needs=check_library)
def regex_replace(strings: Value, pattern: Value, rewrite: Value, *, replace_global: bool) -> Value:
    """Each match replaced (or the first only); in `rewrite`, \\1 to \\9 are groups and \\0 is the match."""
    return replaced(
        strings, _pattern_scalar(pattern, "pattern"), _pattern_scalar(rewrite, "rewrite"), replace_global
    )


@kernel("StaticRegexReplace", fresh=True, heavy=_regex_cost, needs=check_library)
def static_regex_replace(strings: Value, *, pattern: bytes, rewrite: bytes, replace_global: bool) -> Value:
    """As RegexReplace, with a pattern and a text that are fixed."""
    return replaced(strings, pattern, rewrite, replace_global)


def replaced(strings: Value, pattern: bytes, rewrite: bytes, everywhere: bool) -> Value:
    """The strings with matches replaced.

    From an escape in `rewrite` that means nothing, the rest of it is dropped; where only the first match
    is to be replaced, nothing is. A group that the pattern lacks is empty. What the result takes is asked for
    while it is made.
    """
    program = compiled(pattern)
    pieces, is_sound = _rewrite_pieces(rewrite)
    usable = [p for p in pieces if isinstance(p, bytes) or p <= program.groups]
    if not everywhere and not is_sound:
        return mapped(strings, lambda text: text)

    made = 0

    def replace(text: bytes) -> bytes:
        nonlocal made
        out: list[bytes] = []
        copied = size = looked_at = 0
        for match in matches(program, text):
            begin, end = match.span()
            parts = [p if isinstance(p, bytes) else match.group(p) or b"" for p in usable]
            out += [text[copied:begin], *parts]
            size += begin - copied + sum(map(len, parts))
            copied = end
            if not everywhere:
                break
            if size + len(out) > looked_at:
                check_wanted()
                # The parts are there already, the text that they make comes beside them.
                ask_for(made + size + REFERENCE_BYTES * len(out))
                looked_at = size + len(out) + _BYTES_BETWEEN_LOOKS
        if not out:
            return text
        size += len(text) - copied
        ask_for(made + size + REFERENCE_BYTES * len(out))
        made += text_bytes(b"") + size
        return b"".join([*out, text[copied:]])

    return mapped(strings, replace)


@functools.lru_cache(maxsize=256)
def _rewrite_pieces(rewrite: bytes) -> tuple[list[bytes | int], bool]:
    """Text and numbers of groups, up to the first escape that means nothing; whether there is none."""
    text, *escapes = rewrite.split(b"\\")
    pieces: list[bytes | int] = [text]
    behind = iter(escapes)
    for part in behind:
        if part[:1].isdigit():
            pieces += [int(part[:1]), part[1:]]
            continue
        # Two backslashes in a row: an empty part between them.
        following = None if part else next(behind, None)
        if following is None:
            return pieces, False
        pieces.append(b"\\" + following)
    return pieces, True
