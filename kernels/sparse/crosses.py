"""Crosses of features: every combination of one value from each column of a row, hashed or joined to a "
"text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.checksums.hashing import fingerprint64, siphash24
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import check_rank, checked_parts, vector_of

#: What two fingerprints are mixed with.
_MIX: Final = np.uint64(0xC6A4A7935BD1E995)
_SHIFT: Final = np.uint64(47)
_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumn:
    """The values of one column, row after row.

    starts, counts  (rows,) where the values of a row begin, and how many there are
    """

    values: Array
    starts: Array
    counts: Array


def _of_sparse(indices: Value, values: Value, shape: Value, number: int) -> FeatureColumn:
    places, elements, dims = checked_parts(indices, values, shape, f"input {number}: ")
    if len(dims) != 2:
        raise InvalidArgumentError(
            f"shape of input {number} should imply a 2D tensor, but got {brackets(dims)}"
        )
    rows = places[:, 0]
    # Rows are read in order and once: what lies outside or behind the row before ends the reading.
    stops = (rows < 0) | (rows >= dims[0])
    stops[1:] |= rows[1:] < rows[:-1]
    if stops.any():
        rows = rows[: int(stops.argmax())]
        elements = elements[: len(rows)]
    counts = np.bincount(rows, minlength=dims[0])
    return FeatureColumn(elements, np.cumsum(counts) - counts, counts)


def _of_dense(tensor: Value, number: int) -> FeatureColumn:
    array = to_array(tensor)
    check_rank(array, 2, f"dense input {number}", "a matrix")
    rows, width = array.shape
    return FeatureColumn(array.reshape(-1), np.arange(rows) * width, np.full(rows, width, np.int64))


def _columns(
    indices: Sequence[Value], values: Sequence[Value], shapes: Sequence[Value], dense: Sequence[Value]
) -> list[FeatureColumn]:
    if not len(indices) == len(values) == len(shapes):
        raise InvalidArgumentError(
            f"Expected as many indices, values and shapes: {len(indices)}, {len(values)}, {len(shapes)}"
        )
    found = [_of_sparse(*three, i) for i, three in enumerate(zip(indices, values, shapes, strict=True))]
    return found + [_of_dense(tensor, i) for i, tensor in enumerate(dense)]


def _picked(columns: Sequence[FeatureColumn]) -> tuple[list[Array], Array]:
    """(for each column which value a combination takes, number of combinations of each row)."""
    if not columns:
        raise InvalidArgumentError("there are no columns to cross")
    sizes = {len(column.counts) for column in columns}
    if len(sizes) > 1:
        raise InvalidArgumentError(f"Expected one batch size, but columns have {sorted(sizes)} rows")
    totals = np.ones(len(columns[0].counts), np.int64)
    for column in columns:
        totals = totals * column.counts
    ends = np.cumsum(totals)
    left = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - totals, totals)
    taken = []
    for column in reversed(columns):
        left, own = np.divmod(left, np.repeat(column.counts, totals))
        taken.append(own + np.repeat(column.starts, totals))
    return taken[::-1], totals


def _mixed(first: Array, second: Array) -> Array:
    """TensorFlow's fingerprint of two fingerprints, uint64."""

    def shift_mix(x: Array) -> Array:
        shifted: Array = x ^ (x >> _SHIFT)
        return shifted

    result = (first ^ _MIX ^ (shift_mix(second * _MIX) * _MIX)) * _MIX
    mixed: Array = shift_mix(shift_mix(result) * _MIX)
    return mixed


def _fingerprints(values: Array, key: tuple[int, int] | None = None) -> Array:
    """Integers as they are, strings by FarmHash, or by SipHash under a key."""
    if not values.dtype.hasobject:
        return values.astype(np.uint64)
    known = {
        text: fingerprint64(text) if key is None else siphash24(key, text) for text in set(values.tolist())
    }
    return np.array([known[text] for text in values.tolist()], np.uint64)


def _hashed(
    columns: Sequence[FeatureColumn], picked: Sequence[Array], buckets: int, seed: int | None, key: Any = None
) -> Array:
    each = [_fingerprints(c.values, key).take(at) for c, at in zip(columns, picked, strict=True)]
    result = each[0] if seed is None else _mixed(np.full(len(each[0]), seed % 2**64, np.uint64), each[0])
    for fingerprints in each[1:]:
        result = _mixed(result, fingerprints)
    return (result % np.uint64(buckets if buckets > 0 else _INT64_MAX)).astype(np.int64)


def _joined(columns: Sequence[FeatureColumn], picked: Sequence[Array], separator: bytes) -> Array:
    texts = []
    for column, at in zip(columns, picked, strict=True):
        values = column.values.tolist()
        own = values if column.values.dtype.hasobject else [str(value).encode() for value in values]
        texts.append([own[i] for i in at.tolist()])
    out = np.empty(len(picked[0]), object)
    out[:] = [separator.join(row) for row in zip(*texts, strict=True)]
    return out


def _sparse(values: Array, totals: Array) -> tuple[Array, Array, Array]:
    rows = np.repeat(np.arange(len(totals)), totals)
    at = np.arange(len(rows)) - np.repeat(np.cumsum(totals) - totals, totals)
    return np.stack([rows, at], 1), values, vector_of([len(totals), int(totals.max(initial=0))])


@kernel("SparseCross", fresh=True)
def sparse_cross(
    indices: tuple[Value, ...],
    values: tuple[Value, ...],
    shapes: tuple[Value, ...],
    dense: tuple[Value, ...],
    *,
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
    internal_type: DType,
) -> Any:
    """Crosses of sparse and dense columns: fingerprints from `hash_key` on, or texts joined by `_X_`."""
    given = [*values, *dense]
    if internal_type is dtypes.string and not all(to_array(each).dtype.hasobject for each in given):
        raise InvalidArgumentError("inputs of int64 cannot be crossed as strings: internal_type is string")
    columns = _columns(indices, values, shapes, dense)
    picked, totals = _picked(columns)
    if hashed_output:
        return _sparse(_hashed(columns, picked, num_buckets, hash_key), totals)
    return _sparse(_joined(columns, picked, b"_X_"), totals)


@kernel("SparseCrossV2", fresh=True)
def sparse_cross_v2(
    indices: tuple[Value, ...],
    values: tuple[Value, ...],
    shapes: tuple[Value, ...],
    dense: tuple[Value, ...],
    sep: Value,
) -> Any:
    """Crosses of sparse and dense columns as texts joined by `sep`."""
    separator = to_array(sep)
    check_rank(separator, 0, "sep", "a scalar")
    columns = _columns(indices, values, shapes, dense)
    picked, totals = _picked(columns)
    return _sparse(_joined(columns, picked, separator.item()), totals)


def _number(value: Value, what: str) -> int:
    """The one element of a tensor of whatever rank."""
    if to_array(value).size != 1:
        raise InvalidArgumentError(
            f"{what} must be one element, but has shape {brackets(to_array(value).shape)}"
        )
    return int(to_array(value).item())


@kernel("SparseCrossHashed", fresh=True)
def sparse_cross_hashed(
    indices: tuple[Value, ...],
    values: tuple[Value, ...],
    shapes: tuple[Value, ...],
    dense: tuple[Value, ...],
    num_buckets: Value,
    strong_hash: Value,
    salt: Value,
) -> Any:
    """Fingerprints of crosses of sparse and dense columns; strings by SipHash under `salt` on demand."""
    buckets, strong = _number(num_buckets, "num_buckets"), _number(strong_hash, "strong_hash")
    words = to_array(salt).reshape(-1).tolist()
    if len(words) != 2:
        raise InvalidArgumentError(f"salt must have two elements, but has {len(words)}")
    key = (words[0] % 2**64, words[1] % 2**64) if strong else None
    columns = _columns(indices, values, shapes, dense)
    picked, totals = _picked(columns)
    return _sparse(_hashed(columns, picked, buckets, None, key), totals)


def _of_ragged(values: Value, splits: Value, number: int) -> FeatureColumn:
    elements, ends = to_array(values), to_array(splits)
    check_rank(elements, 1, f"ragged input {number}", "a vector")
    check_rank(ends, 1, f"row splits of ragged input {number}", "a vector")
    if not len(ends) or ends[0] != 0 or (ends[1:] < ends[:-1]).any() or ends[-1] != len(elements):
        raise InvalidArgumentError(
            f"Invalid RaggedTensor: row splits of ragged input {number} do not fit {len(elements)} values"
        )
    return FeatureColumn(elements, ends[:-1].astype(np.int64), np.diff(ends).astype(np.int64))


@kernel("RaggedCross", fresh=True)
def ragged_cross(
    ragged_values: tuple[Value, ...],
    ragged_splits: tuple[Value, ...],
    indices: tuple[Value, ...],
    values: tuple[Value, ...],
    shapes: tuple[Value, ...],
    dense: tuple[Value, ...],
    *,
    input_order: bytes,
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
    out_row_splits_type: DType,
) -> Any:
    """Crosses of columns of all kinds, in the order that `input_order` tells by R, S and D, as a ragged "
    "tensor."""
    kinds = {
        "R": [_of_ragged(*two, i) for i, two in enumerate(zip(ragged_values, ragged_splits, strict=True))],
        "S": _columns(indices, values, shapes, ()),
        "D": [_of_dense(tensor, i) for i, tensor in enumerate(dense)],
    }
    order = input_order.decode(errors="replace")
    if sorted(order) != sorted(kind for kind, found in kinds.items() for _ in found):
        raise InvalidArgumentError(
            f"Invalid input_order {order!r} for { ({k: len(v) for k, v in kinds.items()}) }"
        )
    columns = [kinds[kind].pop(0) for kind in order]
    picked, totals = _picked(columns)
    if hashed_output:
        crossed = _hashed(columns, picked, num_buckets, hash_key)
    else:
        crossed = _joined(columns, picked, b"_X_")
    splits = np.zeros(len(totals) + 1, out_row_splits_type.as_numpy_dtype)
    np.cumsum(totals, out=splits[1:])
    return crossed, splits
