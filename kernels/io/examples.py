"""Parsing serialised examples into tensors: batches, single ones, and single sequences."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, scalar_element, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.io import example_walk
from flowengine.kernels.io.example_alike import AlikeExamples
from flowengine.kernels.io.example_features import (
    Dense,
    batch_of_sparse,
    decoded_key,
    empty,
    key_of,
    parsed,
    to_values,
    values_of,
)
from flowengine.kernels.io.example_lists import Column, ExampleLists, Irregular, require
from flowengine.kernels.io.example_scan import Scan
from flowengine.kernels.io.turns import parsing_turn
from flowengine.kernels.registry import kernel


@functools.cache
def messages() -> Any:
    """The module of generated messages, imported when it is first wanted."""
    from flowengine.ir.proto import example_pb2

    return example_pb2


#: From so many examples on, looking at all of them together is quicker than at one after another.
_TOGETHER: Final = 8


def parsing_cost(serialized: Any, *_: Any, **__: Any) -> float:
    """Microseconds: about 20 for one example, 1 to 2 for one of many."""
    count = float(getattr(serialized, "size", 1))
    return 20.0 * count if count < _TOGETHER else 150.0 + 1.5 * count


def dense_features(
    keys: Sequence[str], types: Sequence[DType], shapes: Sequence[TensorShape], defaults: Sequence[Value]
) -> list[Dense]:
    """Dense features with their defaults; InvalidArgumentError for a default of another shape."""
    return [
        Dense(key, dtype, shape, to_array(default)).check()
        for key, dtype, shape, default in zip(keys, types, shapes, defaults, strict=True)
    ]


def transposed(triples: Sequence[tuple[Array, Array, Array]]) -> list[Array]:
    """All indices, then all values, then all shapes."""
    return [triple[part] for part in range(3) for triple in triples]


def outputs_of(outputs: Sequence[Any]) -> Any:
    """As a kernel returns them: one by itself."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None


@kernel("ParseExample", fresh=True, heavy=parsing_cost)
def parse_example(
    serialized: Value,
    names: Value,
    sparse_keys: tuple[Value, ...],
    dense_keys: tuple[Value, ...],
    dense_defaults: tuple[Value, ...],
    *,
    sparse_types: tuple[DType, ...],
    Tdense: tuple[DType, ...],
    dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """A batch of examples as tensors: sparse features (indices [n, 2], values [n], shape [2]), then dense.

    serialized   string [batch]
    names        string [batch], for messages, or empty
    A dense feature gives [batch, *its shape], filled up to the longest where its first dimension varies.
    Raises InvalidArgumentError for bytes that are no example, and for a feature that is required and
    missing, has another type, or another number of values than its shape.
    """
    sparse = [key_of(key, "sparse_keys") for key in sparse_keys]
    dense = [key_of(key, "dense_keys") for key in dense_keys]
    specs = dense_features(dense, Tdense, dense_shapes, dense_defaults)
    return outputs_of(batch_of_examples(serialized, names, sparse, sparse_types, specs))


def labelled(serialized: Value, names: Value, called: str) -> tuple[Array, list[str]]:
    """A vector of texts and a name for each; `called` is what the op calls the names."""
    texts, labels = to_array(serialized), to_array(names)
    if texts.ndim != 1:
        raise InvalidArgumentError(f"Expected serialized to be a vector, got shape: {list(texts.shape)}")
    if labels.ndim != 1:
        raise InvalidArgumentError(f"Expected {called} to be a vector, got shape: {list(labels.shape)}")
    if labels.size and labels.shape != texts.shape:
        raise InvalidArgumentError(
            f"Expected len({called}) == len(serialized), but got: {labels.size} vs. {texts.size}"
        )
    shown = [label.decode("utf-8", "replace") for label in labels.tolist()]
    return texts, shown or ["<unknown>"] * texts.size


def batch_of_examples(
    serialized: Value,
    names: Value,
    sparse: Sequence[str],
    sparse_types: Sequence[DType],
    dense: Sequence[Dense],
) -> list[Array]:
    """Parse as ParseExample does: indices, values and shapes of sparse features, then dense ones."""
    texts, shown = labelled(serialized, names, "names")
    if texts.size >= _TOGETHER:
        together = _parsed_together(texts.tolist(), sparse, sparse_types, dense)
        if together is not None:
            return together
    make = messages().Example
    sparse_rows: list[list[Any]] = [[] for _ in sparse]
    dense_rows: list[list[Array | None]] = [[] for _ in dense]
    for index, data in enumerate(texts.tolist()):
        features = parsed(make(), data, f"Name: {shown[index]}, Index: {index}. ").features.feature

        def where(key: str, index: int = index) -> str:
            return f"Name: {shown[index]}, Key: {key}, Index: {index}.  "

        for rows, key, dtype in zip(sparse_rows, sparse, sparse_types, strict=True):
            rows.append(values_of(features[key], dtype, where(key)) if key in features else None)
        for arrays, spec in zip(dense_rows, dense, strict=True):
            arrays.append(spec.read(features.get(spec.key), where(spec.key)))
    triples = [batch_of_sparse(rows, dtype) for rows, dtype in zip(sparse_rows, sparse_types, strict=True)]
    stacked = [_stacked(arrays, spec) for arrays, spec in zip(dense_rows, dense, strict=True)]
    return transposed(triples) + stacked


def _parsed_together(
    texts: list[bytes], sparse: Sequence[str], sparse_types: Sequence[DType], dense: Sequence[Dense]
) -> list[Array] | None:
    """Parse as ParseExample does, or return None if the examples have to be looked at one by one.

    That is so for those of an unusual form, and for whatever is an error.
    """
    try:
        wanted = [(key.encode(), dtype) for key, dtype in zip(sparse, sparse_types, strict=True)]
        wanted += [(spec.key.encode(), spec.dtype) for spec in dense]
        with parsing_turn():
            found = _columns(texts, wanted)
            triples = [_sparse_column(*column[:2]) for column in found[: len(sparse)]]
            columns = _dense_columns(dense, found[len(sparse) :])
    except Irregular:
        return None
    return transposed(triples) + columns


def _columns(texts: list[bytes], wanted: Sequence[tuple[bytes, DType]]) -> list[Column]:
    """The values of each (key, type) in all examples. Raises Irregular."""
    lists = ExampleLists(texts)
    try:
        return AlikeExamples(lists, texts).columns(wanted)
    except Irregular:
        return Scan(lists).columns(wanted)


def _sparse_column(values: Array, counts: Array) -> tuple[Array, Array, Array]:
    indices = np.empty((values.size, 2), np.int64)
    indices[:, 0] = np.arange(len(counts)).repeat(counts)
    indices[:, 1] = np.arange(values.size) - (counts.cumsum() - counts).repeat(counts)
    return indices, values, np.array([len(counts), int(counts.max())], np.int64)


def _dense_columns(specs: Sequence[Dense], found: Sequence[Column]) -> list[Array]:
    """The values of features that every example has or has a default for; Irregular for an error."""
    columns = []
    #: Counts that were looked at, and what they have: many columns share theirs.
    seen: set[tuple[int, int]] = set()
    for spec, (values, counts, present) in zip(specs, found, strict=True):
        if spec.varies or present is not None:
            columns.append(_dense_column(spec, values, counts, present))
            continue
        stride, sizes = spec.stride, spec.sizes
        if (id(counts), stride) not in seen:
            require(counts == stride)
            seen.add((id(counts), stride))
        # A view would not be the caller's own array, and be copied where it is handed on.
        columns.append(values.reshape(len(counts), *sizes) if sizes else values)
    return columns


def _dense_column(spec: Dense, values: Array, counts: Array, present: Array | None) -> Array:
    """As `_dense_columns`, for a feature whose length varies, or that some examples may lack."""
    rows = len(counts)
    if not spec.varies:
        assert present is not None
        right = counts == spec.stride
        if not (right | ~present).all() or (not spec.default.size and spec.stride):
            raise Irregular
        out = np.empty((rows, spec.stride), spec.dtype.as_numpy_dtype)
        out[~present] = spec.default.reshape(-1)
        out[present] = values.reshape(-1, spec.stride)
        return out.reshape(rows, *spec.sizes)
    if (counts % spec.stride).any():
        raise Irregular
    longest = int(counts.max())
    out = spec.filled((rows, longest))
    out[np.arange(longest) < counts[:, None]] = values
    return out.reshape(rows, longest // spec.stride, *spec.sizes)


def _stacked(rows: Sequence[Array | None], spec: Dense) -> Array:
    """The rows of a batch, defaults and padding in place."""
    dtype = spec.dtype.as_numpy_dtype
    if not spec.varies:
        default = spec.default.reshape(-1)
        out = np.empty((len(rows), spec.stride), dtype)
        for index, row in enumerate(rows):
            out[index] = default if row is None else row
        return out.reshape(len(rows), *spec.sizes)
    longest = max((0 if row is None else row.size for row in rows), default=0)
    out = spec.filled((len(rows), longest))
    for index, row in enumerate(rows):
        if row is not None:
            out[index, : row.size] = row
    return out.reshape(len(rows), longest // spec.stride, *spec.sizes)


@kernel("ParseSingleExample", fresh=True, heavy=parsing_cost)
def parse_single_example(
    serialized: Value,
    dense_defaults: tuple[Value, ...],
    *,
    sparse_keys: tuple[bytes, ...],
    dense_keys: tuple[bytes, ...],
    sparse_types: tuple[DType, ...],
    Tdense: tuple[DType, ...],
    dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """One example as tensors: sparse features (indices [n, 1], values [n], shape [1]), then dense ones.

    Raises InvalidArgumentError as ParseExample does.
    """
    found = one_example(
        serialized, dense_defaults, sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes
    )
    return outputs_of(found)


def one_example(
    serialized: Value,
    dense_defaults: Sequence[Value],
    sparse_keys: tuple[bytes, ...],
    dense_keys: tuple[bytes, ...],
    sparse_types: tuple[DType, ...],
    Tdense: tuple[DType, ...],
    dense_shapes: tuple[TensorShape, ...],
) -> list[Any]:
    """Parse as ParseSingleExample does, in the order of `batch_of_examples`."""
    data = _scalar(serialized)
    walked = _walked(
        data, dense_defaults, sparse_keys, sparse_types, _static(dense_keys, Tdense, dense_shapes)
    )
    if walked is not None:
        return walked
    dense = dense_features([decoded_key(key) for key in dense_keys], Tdense, dense_shapes, dense_defaults)
    features = parsed(messages().Example(), data, "").features.feature
    keys = [decoded_key(key) for key in sparse_keys]
    triples = [_single_sparse(features, key, t) for key, t in zip(keys, sparse_types, strict=True)]
    return transposed(triples) + [_singledense_features(features, spec) for spec in dense]


@functools.lru_cache(maxsize=256)
def _static(
    keys: tuple[bytes, ...], types: tuple[DType, ...], shapes: tuple[TensorShape, ...]
) -> list[tuple[bytes, DType, tuple[int, ...], int]] | None:
    """Key, type, shape and number of values of dense features; None where some length varies."""
    if not all(shape.is_fully_defined for shape in shapes):
        return None
    sizes = [tuple(size or 0 for size in shape.as_list()) for shape in shapes]
    return [(k, t, s, math.prod(s)) for k, t, s in zip(keys, types, sizes, strict=True)]


def _walked(
    data: bytes,
    defaults: Sequence[Value],
    sparse_keys: Sequence[bytes],
    sparse_types: Sequence[DType],
    dense: list[tuple[bytes, DType, tuple[int, ...], int]] | None,
) -> list[Any] | None:
    """Parse the usual example as ParseSingleExample does; None for others and for whatever is an error."""
    if dense is None:
        return None
    outputs: list[Any] = []
    try:
        found = example_walk.places(data)
        rows = []
        for key, dtype in zip(sparse_keys, sparse_types, strict=True):
            place = found.get(key)
            values = None if place is None else example_walk.values(data, place, dtype)
            rows.append(example_walk.array(() if values is None else values, dtype))
        outputs += [np.arange(len(row)).reshape(-1, 1) for row in rows]
        outputs += rows
        outputs += [np.array([len(row)], np.int64) for row in rows]
        for (key, dtype, shape, count), default in zip(dense, defaults, strict=True):
            place = found.get(key)
            values = None if place is None else example_walk.values(data, place, dtype)
            missing = getattr(default, "size", 1) == 0
            if not missing and getattr(default, "shape", ()) != shape:
                return None
            if values is None:
                if missing:
                    return None
                outputs.append(default if isinstance(default, bytes) else scalar_element(default.copy()))
            elif len(values) != count:
                return None
            elif shape:
                outputs.append(example_walk.array(values, dtype).reshape(shape))
            else:
                outputs.append(values[0] if dtype is dtypes.string else dtype.as_numpy_dtype.type(values[0]))
    except Irregular:
        return None
    return outputs


def _scalar(serialized: Value) -> bytes:
    array = to_array(serialized)
    if array.ndim:
        raise InvalidArgumentError(f"Expected serialized to be a scalar, got shape: {list(array.shape)}")
    data: bytes = array.item()
    return data


def _single_sparse(features: Any, key: str, dtype: DType, name: str = "") -> tuple[Array, Array, Array]:
    where = f"{name}Key: {key}.  "
    found = values_of(features[key], dtype, where) if key in features else None
    values = empty(dtype) if found is None else to_values(found, dtype)
    return np.arange(values.size).reshape(-1, 1), values, np.array([values.size], np.int64)


def _singledense_features(features: Any, spec: Dense, name: str = "") -> Array:
    row = spec.read(features.get(spec.key), f"{name}Key: {spec.key}.  ")
    if not spec.varies:
        return (spec.default.copy() if row is None else row).reshape(spec.sizes)
    return (empty(spec.dtype) if row is None else row).reshape(-1, *spec.sizes)


@kernel("ParseSingleSequenceExample", fresh=True, heavy=parsing_cost)
def parse_single_sequence_example(
    serialized: Value,
    missing_assumed_empty: Value,
    context_sparse_keys: tuple[Value, ...],
    context_dense_keys: tuple[Value, ...],
    list_sparse_keys: tuple[Value, ...],
    list_dense_keys: tuple[Value, ...],
    context_dense_defaults: tuple[Value, ...],
    debug_name: Value,
    *,
    context_sparse_types: tuple[DType, ...],
    Tcontext_dense: tuple[DType, ...],
    feature_list_dense_types: tuple[DType, ...],
    context_dense_shapes: tuple[TensorShape, ...],
    feature_list_sparse_types: tuple[DType, ...],
    feature_list_dense_shapes: tuple[TensorShape, ...],
) -> Any:
    """One sequence as tensors: its context as ParseSingleExample gives it, then its lists.

    A sparse list gives indices [n, 2], values [n], shape (rows, longest row); a dense one [rows, *shape].
    Raises InvalidArgumentError as ParseExample does, and for a dense list that is missing and not among
    those assumed to be empty.
    """
    name = f"Name: {key_of(debug_name, 'debug_name') or '<unknown>'}, "
    may_miss = {decoded_key(key) for key in to_array(missing_assumed_empty).reshape(-1).tolist()}
    keys = [key_of(key, "context_dense_keys") for key in context_dense_keys]
    dense = dense_features(keys, Tcontext_dense, context_dense_shapes, context_dense_defaults)
    sequence = parsed(messages().SequenceExample(), _scalar(serialized), name)
    context, lists = sequence.context.feature, sequence.feature_lists.feature_list
    context_triples = [
        _single_sparse(context, key_of(key, "context_sparse_keys"), dtype, name)
        for key, dtype in zip(context_sparse_keys, context_sparse_types, strict=True)
    ]
    list_triples = []
    for key_value, dtype in zip(list_sparse_keys, feature_list_sparse_types, strict=True):
        key = key_of(key_value, "feature_list_sparse_keys")
        rows = lists[key].feature if key in lists else ()
        where = f"{name}Feature list: {key}.  "
        list_triples.append(batch_of_sparse([values_of(row, dtype, where) for row in rows], dtype))
    list_dense = []
    for key_value, dtype, shape in zip(
        list_dense_keys, feature_list_dense_types, feature_list_dense_shapes, strict=True
    ):
        spec = Dense(key_of(key_value, "feature_list_dense_keys"), dtype, shape, empty(dtype))
        list_dense.append(_dense_list(lists, spec, name, may_miss))
    outputs: list[Any] = transposed(context_triples)
    outputs += [_singledense_features(context, spec, name) for spec in dense]
    outputs += transposed(list_triples)
    return outputs_of(outputs + list_dense)


def _dense_list(lists: Any, spec: Dense, name: str, may_miss: set[str]) -> Array:
    """The rows of a list, each of the same shape."""
    where = f"{name}Feature list '{spec.key}'.  "
    if not spec.shape.is_fully_defined:
        raise InvalidArgumentError(
            f"{where}feature_list_dense_shapes must be fully defined, not {spec.shape}"
        )
    if spec.key not in lists and spec.key not in may_miss:
        raise InvalidArgumentError(
            f"{where}It is required but could not be found. Did you mean to include it in "
            "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
        )
    rows = lists[spec.key].feature if spec.key in lists else ()
    out = np.empty((len(rows), spec.stride), spec.dtype.as_numpy_dtype)
    for index, row in enumerate(rows):
        values = values_of(row, spec.dtype, f"{where}Index: {index}.  ")
        if values is None or len(values) != spec.stride:
            raise InvalidArgumentError(
                f"{where}Index: {index}.  Number of {spec.dtype} values != expected. Values size: "
                f"{0 if values is None else len(values)} but output shape: {spec.shape}"
            )
        out[index] = to_values(values, spec.dtype)
    return out.reshape(len(rows), *spec.sizes)
