"""Batches of examples as sparse, dense and ragged tensors, of sequences as sparse and padded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.io.example_features import (
    Dense,
    batch_of_sparse,
    decoded_key,
    empty,
    parsed,
    to_values,
    values_of,
)
from flowengine.kernels.io.examples import (
    batch_of_examples,
    dense_features,
    labelled,
    messages,
    one_example,
    outputs_of,
    parsing_cost,
    transposed,
)
from flowengine.kernels.registry import kernel


def _keys(keys: Value, count: int, what: str) -> tuple[bytes, ...]:
    listed = tuple(to_array(keys).reshape(-1).tolist())
    if len(listed) != count:
        raise InvalidArgumentError(f"expected {what} to be {count}, got shape {list(to_array(keys).shape)}")
    return listed


@kernel("ParseExampleV2", fresh=True, heavy=parsing_cost)
def parse_example_v2(
    serialized: Value,
    names: Value,
    sparse_keys: Value,
    dense_keys: Value,
    ragged_keys: Value,
    dense_defaults: tuple[Value, ...],
    *,
    num_sparse: int,
    sparse_types: tuple[DType, ...],
    ragged_value_types: tuple[DType, ...],
    ragged_split_types: tuple[DType, ...],
    Tdense: tuple[DType, ...],
    dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """As ParseExample, of a batch or of one example; and ragged features: values [n], splits [batch + 1].

    One example gives tensors without the dimension of the batch, and a ragged feature without splits.
    """
    texts = to_array(serialized)
    sparse = _keys(sparse_keys, num_sparse, "sparse_keys")
    dense = _keys(dense_keys, len(Tdense), "dense_keys")
    ragged = _keys(ragged_keys, len(ragged_value_types), "ragged_keys")
    if len(sparse_types) != num_sparse or len(ragged_split_types) != len(ragged):
        raise InvalidArgumentError(
            f"{num_sparse} sparse features have {len(sparse_types)} types, "
            f"{len(ragged)} ragged ones {len(ragged_split_types)} types of splits"
        )
    types = (*sparse_types, *ragged_value_types)
    keys = (*sparse, *ragged)
    if texts.ndim == 0:
        found = one_example(serialized, dense_defaults, keys, dense, types, Tdense, dense_shapes)
    else:
        specs = dense_features([decoded_key(key) for key in dense], Tdense, dense_shapes, dense_defaults)
        found = batch_of_examples(serialized, names, [decoded_key(key) for key in keys], types, specs)
    every = len(types)
    indices, values, shapes = found[:every], found[every : 2 * every], found[2 * every : 3 * every]
    splits = [
        empty(dtype) if texts.ndim == 0 else row_splits(rows[:, 0], texts.size, dtype)
        for rows, dtype in zip(indices[num_sparse:], ragged_split_types, strict=True)
    ]
    return outputs_of(
        (
            *indices[:num_sparse],
            *values[:num_sparse],
            *shapes[:num_sparse],
            *found[3 * every :],
            *values[num_sparse:],
            *splits,
        )
    )


def row_splits(rows: Array, count: int, dtype: DType) -> Array:
    """Return the start of each of `count` rows, and the end."""
    splits = np.zeros(count + 1, dtype.as_numpy_dtype)
    np.cumsum(np.bincount(rows, minlength=count), out=splits[1:])
    return splits


@kernel("ParseSequenceExample", fresh=True, heavy=parsing_cost)
def parse_sequence_example(
    serialized: Value,
    debug_name: Value,
    context_dense_defaults: tuple[Value, ...],
    *,
    feature_list_dense_missing_assumed_empty: tuple[bytes, ...],
    context_sparse_keys: tuple[bytes, ...],
    context_dense_keys: tuple[bytes, ...],
    feature_list_sparse_keys: tuple[bytes, ...],
    feature_list_dense_keys: tuple[bytes, ...],
    context_sparse_types: tuple[DType, ...],
    Tcontext_dense: tuple[DType, ...],
    feature_list_dense_types: tuple[DType, ...],
    context_dense_shapes: tuple[TensorShape, ...],
    feature_list_sparse_types: tuple[DType, ...],
    feature_list_dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """A batch of sequences: their contexts as ParseExample gives them, then their lists.

    A sparse list gives indices [n, 3], values [n], shape (batch, most rows, longest row); a dense one
    [batch, most rows, *shape], filled up with zeros, and how many rows each sequence has [batch].
    """
    texts, shown = labelled(serialized, debug_name, "debug_name")
    if not shown and any(shape.num_elements() for shape in context_dense_shapes):
        raise InvalidArgumentError(f"a batch of none has no values for {context_dense_keys}")
    make = messages().SequenceExample
    where = [f"Name: {name}, Index: {index}.  " for index, name in enumerate(shown)]
    sequences = [parsed(make(), data, w) for data, w in zip(texts.tolist(), where, strict=True)]
    contexts = [sequence.context.feature for sequence in sequences]
    lists = [sequence.feature_lists.feature_list for sequence in sequences]
    outputs = transposed(
        [
            _sparse_context(contexts, decoded_key(key), dtype, where)
            for key, dtype in zip(context_sparse_keys, context_sparse_types, strict=True)
        ]
    )
    dense = [decoded_key(key) for key in context_dense_keys]
    for spec in dense_features(dense, Tcontext_dense, context_dense_shapes, context_dense_defaults):
        outputs.append(_dense_context(contexts, spec, where))
    outputs += transposed(
        [
            _sparse_lists(lists, decoded_key(key), dtype, where)
            for key, dtype in zip(feature_list_sparse_keys, feature_list_sparse_types, strict=True)
        ]
    )
    padded = [
        _dense_lists(
            lists,
            Dense(decoded_key(key), dtype, shape, empty(dtype)),
            where,
            key in feature_list_dense_missing_assumed_empty,
        )
        for key, dtype, shape in zip(
            feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes, strict=True
        )
    ]
    outputs += [rows for rows, _ in padded] + [lengths for _, lengths in padded]
    return outputs_of(outputs)


def _sparse_context(
    contexts: Sequence[Any], key: str, dtype: DType, where: Sequence[str]
) -> tuple[Array, Array, Array]:
    rows = [
        values_of(context[key], dtype, f"{w}Key: {key}.  ") if key in context else None
        for context, w in zip(contexts, where, strict=True)
    ]
    return batch_of_sparse(rows, dtype)


def _dense_context(contexts: Sequence[Any], spec: Dense, where: Sequence[str]) -> Array:
    """[batch, *shape]"""
    if spec.varies:
        raise InvalidArgumentError(f"context_dense_shapes of '{spec.key}' must be known, not {spec.shape}")
    out = spec.filled((len(contexts), *spec.sizes))
    for index, (context, w) in enumerate(zip(contexts, where, strict=True)):
        values = spec.read(context.get(spec.key), f"{w}Key: {spec.key}.  ")
        out[index] = spec.default if values is None else values.reshape(spec.sizes)
    return out


def _sparse_lists(
    lists: Sequence[Any], key: str, dtype: DType, where: Sequence[str]
) -> tuple[Array, Array, Array]:
    """Indices [n, 3], values [n], shape [3]."""
    rows: list[Any | None] = []
    counts: list[int] = []
    for each, w in zip(lists, where, strict=True):
        features = each[key].feature if key in each else ()
        prefix = f"{w}Feature list: {key}.  "
        rows += [values_of(feature, dtype, prefix) for feature in features]
        counts.append(len(features))
    inner, values, shape = batch_of_sparse(rows, dtype)
    lengths = np.array(counts, np.int64)
    sequence = np.arange(len(counts)).repeat(lengths)
    step = np.arange(len(rows)) - (lengths.cumsum() - lengths).repeat(lengths)
    indices = np.stack([sequence[inner[:, 0]], step[inner[:, 0]], inner[:, 1]], axis=1)
    return indices, values, np.array([len(counts), max(counts, default=0), shape[1]], np.int64)


def _dense_lists(
    lists: Sequence[Any], spec: Dense, where: Sequence[str], may_miss: bool
) -> tuple[Array, Array]:
    """[batch, most rows, *shape], and how many rows there are [batch]."""
    if not spec.shape.is_fully_defined:
        raise InvalidArgumentError(
            f"feature_list_dense_shapes of '{spec.key}' must be fully defined, not {spec.shape}"
        )
    found = []
    for each, w in zip(lists, where, strict=True):
        if spec.key not in each and not may_miss:
            raise InvalidArgumentError(
                f"{w}Feature list '{spec.key}' is required but could not be found. Did you mean to include "
                "it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
            )
        features = each[spec.key].feature if spec.key in each else ()
        rows = [values_of(feature, spec.dtype, f"{w}Feature list: {spec.key}.  ") for feature in features]
        for index, row in enumerate(rows):
            if row is None or len(row) != spec.stride:
                raise InvalidArgumentError(
                    f"{w}Feature list '{spec.key}', row {index}: {0 if row is None else len(row)} values "
                    f"do not fill {spec.shape}"
                )
        found.append([value for row in rows for value in row or ()])
    counts = [
        len(values) // spec.stride if spec.stride else len(each[spec.key].feature) if spec.key in each else 0
        for values, each in zip(found, lists, strict=True)
    ]
    out = spec.filled((len(found), max(counts, default=0), *spec.sizes))
    for row, values, count in zip(out, found, counts, strict=True):
        row[:count] = to_values(values, spec.dtype).reshape(count, *spec.sizes)
    return out, np.array(counts, np.int64)


@kernel("ParseSequenceExampleV2", fresh=True, heavy=parsing_cost)
def parse_sequence_example_v2(
    serialized: Value,
    debug_name: Value,
    context_sparse_keys: Value,
    context_dense_keys: Value,
    context_ragged_keys: Value,
    feature_list_sparse_keys: Value,
    feature_list_dense_keys: Value,
    feature_list_ragged_keys: Value,
    feature_list_dense_missing_assumed_empty: Value,
    context_dense_defaults: tuple[Value, ...],
    *,
    context_sparse_types: tuple[DType, ...],
    Tcontext_dense: tuple[DType, ...],
    context_ragged_value_types: tuple[DType, ...],
    context_ragged_split_types: tuple[DType, ...],
    context_dense_shapes: tuple[TensorShape, ...],
    feature_list_dense_types: tuple[DType, ...],
    feature_list_sparse_types: tuple[DType, ...],
    feature_list_ragged_value_types: tuple[DType, ...],
    feature_list_ragged_split_types: tuple[DType, ...],
    feature_list_dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """As ParseSequenceExample, of a batch or of one sequence; and ragged features.

    A ragged feature of the context gives values [n] and splits [batch + 1]; a ragged list values [n], where
    each sequence's rows begin [batch + 1], and where each row's values begin [rows + 1]. One sequence gives
    tensors without the dimension of the batch, and a 0 for splits by sequences.
    """
    is_one = to_array(serialized).ndim == 0
    given = to_array(debug_name).reshape(-1) if is_one else debug_name
    texts, shown = labelled(to_array(serialized).reshape(-1) if is_one else serialized, given, "debug_name")
    where = [f"Name: {name}, Index: {index}.  " for index, name in enumerate(shown)]
    make = messages().SequenceExample
    sequences = [parsed(make(), data, w) for data, w in zip(texts.tolist(), where, strict=True)]
    contexts = [sequence.context.feature for sequence in sequences]
    lists = [sequence.feature_lists.feature_list for sequence in sequences]

    dense = [key for key, _ in _named(context_dense_keys, Tcontext_dense, "context_dense_keys")]
    outputs = _context_outputs(
        contexts,
        where,
        is_one,
        _named(context_sparse_keys, context_sparse_types, "context_sparse_keys"),
        dense_features(dense, Tcontext_dense, context_dense_shapes, context_dense_defaults),
        _named(context_ragged_keys, context_ragged_value_types, "context_ragged_keys"),
        context_ragged_split_types,
    )
    rows = _named(feature_list_dense_keys, feature_list_dense_types, "feature_list_dense_keys")
    return outputs_of(
        outputs
        + _list_outputs(
            lists,
            where,
            is_one,
            _named(feature_list_sparse_keys, feature_list_sparse_types, "feature_list_sparse_keys"),
            [
                Dense(key, dtype, shape, empty(dtype))
                for (key, dtype), shape in zip(rows, feature_list_dense_shapes, strict=True)
            ],
            to_array(feature_list_dense_missing_assumed_empty),
            _named(feature_list_ragged_keys, feature_list_ragged_value_types, "feature_list_ragged_keys"),
            feature_list_ragged_split_types,
        )
    )


_Named = list[tuple[str, DType]]


def _named(keys: Value, types: tuple[DType, ...], what: str) -> _Named:
    found = _keys(keys, len(types), what)
    return [(decoded_key(key), dtype) for key, dtype in zip(found, types, strict=True)]


def _context_outputs(
    contexts: Sequence[Any],
    where: Sequence[str],
    is_one: bool,
    sparse: _Named,
    dense: Sequence[Dense],
    ragged: _Named,
    splits: tuple[DType, ...],
) -> list[Any]:
    outputs: list[Any] = _unbatched([_sparse_context(contexts, *each, where) for each in sparse], is_one)
    for spec in dense:
        column = _dense_context(contexts, spec, where)
        outputs.append(column[0] if is_one else column)
    found = [_sparse_context(contexts, *each, where) for each in ragged]
    outputs += [values for _, values, _ in found]
    outputs += [
        dtype.as_numpy_dtype.type(0) if is_one else row_splits(indices[:, 0], len(contexts), dtype)
        for (indices, _, _), dtype in zip(found, splits, strict=True)
    ]
    return outputs


def _list_outputs(
    lists: Sequence[Any],
    where: Sequence[str],
    is_one: bool,
    sparse: _Named,
    dense: Sequence[Dense],
    may_miss: Array,
    ragged: _Named,
    splits: tuple[DType, ...],
) -> list[Any]:
    outputs: list[Any] = _unbatched([_sparse_lists(lists, *each, where) for each in sparse], is_one)
    if may_miss.shape != (len(dense),):
        raise InvalidArgumentError(
            f"expected feature_list_dense_missing_assumed_empty to be a vector of {len(dense)}, got shape "
            f"{list(may_miss.shape)}"
        )
    padded = [
        _dense_lists(lists, spec, where, may) for spec, may in zip(dense, may_miss.tolist(), strict=True)
    ]
    outputs += [rows[0] if is_one else rows for rows, _ in padded]
    outputs += [lengths[0] if is_one else lengths for _, lengths in padded]
    parts = [_ragged_lists(lists, *each, where, dtype) for each, dtype in zip(ragged, splits, strict=True)]
    outputs += [values for values, _, _ in parts]
    outputs += [outer.dtype.type(0) if is_one else outer for _, outer, _ in parts]
    return outputs + [inner for _, _, inner in parts]


def _unbatched(triples: Sequence[tuple[Array, Array, Array]], is_one: bool) -> list[Array]:
    """Indices, values and shapes of sparse features, for one sequence without the dimension of the batch."""
    first = 1 if is_one else 0
    return transposed([(indices[:, first:], values, shape[first:]) for indices, values, shape in triples])


def _ragged_lists(
    lists: Sequence[Any], key: str, dtype: DType, where: Sequence[str], splits: DType
) -> tuple[Array, Array, Array]:
    """Values [n], where each sequence's rows begin [batch + 1], where each row's values begin [rows + 1]."""
    rows: list[Any] = []
    outer = [0]
    for each, w in zip(lists, where, strict=True):
        features = each[key].feature if key in each else ()
        rows += [values_of(feature, dtype, f"{w}Feature list: {key}.  ") or () for feature in features]
        outer.append(len(rows))
    inner = np.zeros(len(rows) + 1, splits.as_numpy_dtype)
    np.cumsum([len(row) for row in rows], out=inner[1:])
    values = to_values([value for row in rows for value in row], dtype)
    return values, np.array(outer, splits.as_numpy_dtype), inner
