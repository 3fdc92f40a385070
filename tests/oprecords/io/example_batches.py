"""Batches of serialised examples and sequences parsed into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto import example_pb2
from tests.oprecords.record import OpRecord, Sample, bad, strings

_Features = Mapping[str, Sequence[Any]]


def _put(feature: Any, values: Sequence[Any]) -> None:
    first = values[0] if values else 0
    kinds = {bytes: feature.bytes_list, float: feature.float_list, int: feature.int64_list}
    kinds[type(first)].value.extend(values)


def _example(features: _Features) -> bytes:
    message = example_pb2.Example()
    for key, values in features.items():
        _put(message.features.feature[key], values)
    return message.SerializeToString(deterministic=True)


def _sequence(context: _Features, lists: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    message = example_pb2.SequenceExample()
    for key, values in context.items():
        _put(message.context.feature[key], values)
    for key, rows in lists.items():
        for row in rows:
            _put(message.feature_lists.feature_list[key].feature.add(), row)
    return message.SerializeToString(deterministic=True)


def _types(*names: str) -> list[Any]:
    return [as_dtype(name) for name in names]


def _floats(*values: Any) -> Any:
    return np.array(values, np.float32)


_FULL: Final = _example({"s": [1, 2], "d": [1.0, 2.0], "r": [b"x", b"y"]})
_BARE: Final = _example({"d": [3.0, 4.0], "r": [b"z"]})
_LAST: Final = _example({"s": [7], "d": [5.0, 6.0]})
_NO_DEFAULT: Final = np.zeros(0, np.float32)
_KEYS: Final = (strings(b"s"), strings(b"d"), strings(b"r"), [_NO_DEFAULT])
_FORM: Final = {
    "num_sparse": 1,
    "sparse_types": _types("int64"),
    "ragged_value_types": _types("string"),
    "ragged_split_types": _types("int32"),
    "Tdense": _types("float32"),
    "dense_shapes": [TensorShape([2])],
}
_BATCH: Final = [
    np.array([[0, 0], [0, 1], [2, 0]]),
    np.array([1, 2, 7]),
    np.array([3, 2]),
    _floats([1, 2], [3, 4], [5, 6]),
    strings(b"x", b"y", b"z"),
    np.array([0, 2, 3, 3], np.int32),
]

_LONG: Final = _sequence(
    {"c": [1, 2], "d": [1.0]}, {"l": [[1.0, 2.0], [3.0, 4.0]], "p": [[b"a"], [b"b", b"c"]]}
)
_SHORT: Final = _sequence({"d": [2.0]}, {"l": [[5.0, 6.0]], "p": [[b"q"]]})
_NONE: Final = _sequence({"c": [9], "d": [3.0]}, {})
_LISTS: Final = {
    "feature_list_dense_missing_assumed_empty": ["l"],
    "context_sparse_keys": ["c"],
    "context_dense_keys": ["d"],
    "feature_list_sparse_keys": ["p"],
    "feature_list_dense_keys": ["l"],
    "Ncontext_sparse": 1,
    "Ncontext_dense": 1,
    "Nfeature_list_sparse": 1,
    "Nfeature_list_dense": 1,
    "context_sparse_types": _types("int64"),
    "Tcontext_dense": _types("float32"),
    "feature_list_dense_types": _types("float32"),
    "context_dense_shapes": [TensorShape([1])],
    "feature_list_sparse_types": _types("string"),
    "feature_list_dense_shapes": [TensorShape([2])],
}
_SEQUENCES: Final = [
    np.array([[0, 0], [0, 1], [2, 0]]),
    np.array([1, 2, 9]),
    np.array([3, 2]),
    _floats([1], [2], [3]),
    np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]]),
    strings(b"a", b"b", b"c", b"q"),
    np.array([3, 2, 2]),
    _floats([[1, 2], [3, 4]], [[5, 6], [0, 0]], [[0, 0], [0, 0]]),
    np.array([2, 1, 0]),
]
_RAGGED_LONG: Final = _sequence(
    {"c": [1, 2], "d": [1.0], "r": [b"x", b"y"]},
    {"l": [[1.0, 2.0], [3.0, 4.0]], "p": [[b"a"], [b"b", b"c"]], "q": [[5], [], [6, 7]]},
)
_RAGGED_LAST: Final = _sequence({"c": [9], "d": [3.0], "r": [b"z"]}, {"q": [[8]]})
_SEQUENCE_KEYS: Final = tuple(strings(key) for key in (b"c", b"d", b"r", b"p", b"l", b"q"))
_MAY_MISS: Final = (np.array([True]), [_NO_DEFAULT])
_RAGGED_LISTS: Final = {
    **{k: v for k, v in _LISTS.items() if not k.endswith(("keys", "empty")) and k != "Ncontext_dense"},
    "context_ragged_value_types": _types("string"),
    "context_ragged_split_types": _types("int32"),
    "feature_list_ragged_value_types": _types("int64"),
    "feature_list_ragged_split_types": _types("int64"),
}
#: What TensorFlow 2.21 gave, of a batch and of one; what it leaves unset for one is 0 here.
_RAGGED_BATCH: Final = [
    *_SEQUENCES[:4],
    strings(b"x", b"y", b"z"),
    np.array([0, 2, 2, 3], np.int32),
    *_SEQUENCES[4:],
    np.array([5, 6, 7, 8]),
    np.array([0, 3, 3, 4]),
    np.array([0, 1, 1, 3, 4]),
]
_RAGGED_ONE: Final = [
    np.array([[0], [1]]),
    np.array([1, 2]),
    np.array([2]),
    _floats(1),
    strings(b"x", b"y"),
    np.int32(0),
    np.array([[0, 0], [1, 0], [1, 1]]),
    strings(b"a", b"b", b"c"),
    np.array([2, 2]),
    _floats([1, 2], [3, 4]),
    np.int64(2),
    np.array([5, 6, 7]),
    np.int64(0),
    np.array([0, 1, 1, 3]),
]
_INVALID: Final = "InvalidArgumentError"

RECORDS: Final = [
    OpRecord(
        "ParseExampleV2",
        [
            Sample((strings(_FULL, _BARE, _LAST), strings(), *_KEYS), _FORM, _BATCH),
            Sample((strings(_FULL, _BARE, _LAST), strings(b"1", b"2", b"3"), *_KEYS), _FORM, _BATCH),
            # A single key may be a scalar.
            Sample((strings(_FULL, _BARE, _LAST), strings(), b"s", b"d", b"r", [_NO_DEFAULT]), _FORM, _BATCH),
            Sample(
                (_FULL, strings(), *_KEYS),
                _FORM,
                [
                    np.array([[0], [1]]),
                    np.array([1, 2]),
                    np.array([2]),
                    _floats(1, 2),
                    strings(b"x", b"y"),
                    np.zeros(0, np.int32),
                ],
            ),
        ],
        bad=[
            bad(_INVALID, "required but not found", strings(_example({})), strings(), *_KEYS, **_FORM),
            bad(_INVALID, "expected type", strings(_example({"d": [1, 2]})), strings(), *_KEYS, **_FORM),
            bad(_INVALID, "1 vs. 2", strings(_FULL, _BARE), strings(b"n"), *_KEYS, **_FORM),
            bad(
                _INVALID,
                "ragged_keys",
                strings(_FULL),
                strings(),
                *_KEYS[:2],
                strings(),
                [_NO_DEFAULT],
                **_FORM,
            ),
        ],
        partial=True,
    ),
    OpRecord(
        "ParseSequenceExample",
        [
            Sample((strings(_LONG, _SHORT, _NONE), strings(), [_NO_DEFAULT]), _LISTS, _SEQUENCES),
            Sample(
                (strings(_LONG, _SHORT, _NONE), strings(b"1", b"2", b"3"), [_NO_DEFAULT]), _LISTS, _SEQUENCES
            ),
        ],
        bad=[
            bad(_INVALID, "a batch of none", strings(), strings(), [_NO_DEFAULT], **_LISTS),
            bad(
                _INVALID,
                "required but could not be found",
                strings(_NONE),
                strings(),
                [_NO_DEFAULT],
                **{**_LISTS, "feature_list_dense_missing_assumed_empty": []},
            ),
            bad(
                _INVALID,
                "do not fill",
                strings(_LONG),
                strings(),
                [_NO_DEFAULT],
                **{**_LISTS, "feature_list_dense_shapes": [TensorShape([3])]},
            ),
            bad(_INVALID, "Could not parse", strings(b"\xff"), strings(), [_NO_DEFAULT], **_LISTS),
            bad(_INVALID, "vector", to_array(_LONG), strings(), [_NO_DEFAULT], **_LISTS),
        ],
        partial=True,
    ),
    OpRecord(
        "ParseSequenceExampleV2",
        [
            Sample(
                (strings(_RAGGED_LONG, _SHORT, _RAGGED_LAST), strings(), *_SEQUENCE_KEYS, *_MAY_MISS),
                _RAGGED_LISTS,
                _RAGGED_BATCH,
            ),
            Sample((_RAGGED_LONG, strings(), *_SEQUENCE_KEYS, *_MAY_MISS), _RAGGED_LISTS, _RAGGED_ONE),
            Sample((_RAGGED_LONG, b"name", *_SEQUENCE_KEYS, *_MAY_MISS), _RAGGED_LISTS, _RAGGED_ONE),
        ],
        bad=[
            bad(
                _INVALID,
                "required but could not be found",
                *(strings(_NONE), strings(), *_SEQUENCE_KEYS),
                *(np.array([False]), [_NO_DEFAULT]),
                **_RAGGED_LISTS,
            ),
            bad(
                _INVALID,
                "assumed_empty to be a vector of 1",
                *(strings(_NONE), strings()),
                *(*_SEQUENCE_KEYS, np.zeros(0, bool), [_NO_DEFAULT]),
                **_RAGGED_LISTS,
            ),
            bad(
                _INVALID,
                "feature_list_ragged_keys",
                *(strings(_NONE), strings()),
                *(*_SEQUENCE_KEYS[:5], strings(), *_MAY_MISS),
                **_RAGGED_LISTS,
            ),
            bad(
                _INVALID,
                "Could not parse",
                *(strings(b"\xff"), strings(), *_SEQUENCE_KEYS, *_MAY_MISS),
                **_RAGGED_LISTS,
            ),
        ],
        partial=True,
    ),
]
