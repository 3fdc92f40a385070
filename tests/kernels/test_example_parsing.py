"""The quick ways of parsing examples give what the thorough one gives, or leave the work to it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto.example_pb2 import Example
from flowengine.kernels.io import example_walk, examples
from flowengine.kernels.io.example_features import Dense
from flowengine.kernels.io.example_lists import ExampleLists, Irregular
from flowengine.kernels.io.example_scan import Scan

TYPES = (dtypes.int64, dtypes.float32, dtypes.string)
KEYS = ("a", "key of eleven", "é", "12345678")

INTEGERS = st.one_of(st.integers(0, 127), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(width=32, allow_nan=False)
STRINGS = st.one_of(st.binary(max_size=9), st.binary(min_size=120, max_size=200))
LISTS: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.just("int64_list"), st.lists(INTEGERS, max_size=4)),
    st.tuples(st.just("float_list"), st.lists(FLOATS, max_size=4)),
    st.tuples(st.just("bytes_list"), st.lists(STRINGS, max_size=4)),
    st.just(("", [])),
)
EXAMPLES = st.dictionaries(st.sampled_from(KEYS), LISTS, max_size=4)

#: Features of one type each, as the examples of a file have them.
USUAL = st.fixed_dictionaries(
    {
        "a": st.tuples(st.just("int64_list"), st.lists(INTEGERS, min_size=1, max_size=1)),
        "12345678": st.tuples(st.just("float_list"), st.lists(FLOATS, min_size=2, max_size=2)),
    },
    optional={
        "key of eleven": st.tuples(st.just("int64_list"), st.lists(INTEGERS, max_size=4)),
        "é": st.tuples(st.just("bytes_list"), st.lists(STRINGS, max_size=3)),
    },
)


def serialized(features: dict[str, tuple[str, list[Any]]]) -> bytes:
    example = Example()
    for key, (kind, values) in features.items():
        feature = example.features.feature[key]
        if kind:
            getattr(feature, kind).SetInParent()
            getattr(feature, kind).value.extend(values)
    return example.SerializeToString(deterministic=True)


def strings(values: list[bytes]) -> Any:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def outcome(call: Any) -> Any:
    try:
        return call()
    except InvalidArgumentError as error:
        return str(error)


def batch(texts: list[bytes], sparse: list[Any], dense: list[Any]) -> Any:
    """ParseExample; `sparse` has pairs of key and type, `dense` (key, type, shape, default)."""
    return outcome(
        lambda: examples.parse_example(
            strings(texts),
            strings([]),
            tuple(key.encode() for key, _ in sparse),
            tuple(key.encode() for key, *_ in dense),
            tuple(default for *_, default in dense),
            sparse_types=tuple(dtype for _, dtype in sparse),
            Tdense=tuple(dtype for _, dtype, *_ in dense),
            dense_shapes=tuple(TensorShape(shape) for _, _, shape, _ in dense),
        )
    )


def single(text: bytes, sparse: list[Any], dense: list[Any]) -> Any:
    return outcome(
        lambda: examples.parse_single_example(
            text,
            tuple(default for *_, default in dense),
            sparse_keys=tuple(key.encode() for key, _ in sparse),
            dense_keys=tuple(key.encode() for key, *_ in dense),
            sparse_types=tuple(dtype for _, dtype in sparse),
            Tdense=tuple(dtype for _, dtype, *_ in dense),
            dense_shapes=tuple(TensorShape(shape) for _, _, shape, _ in dense),
        )
    )


def same(one: Any, other: Any) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for a, b in zip(*(each if isinstance(each, tuple) else (each,) for each in (one, other)), strict=True):
        assert type(a) is type(b) or {type(a), type(b)} <= {np.ndarray, np.int64, np.float32, bytes}
        assert np.shape(a) == np.shape(b)
        assert np.array_equal(np.asarray(a, object), np.asarray(b, object))
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None) or isinstance(a, bytes)


def empty(dtype: dtypes.DType) -> Any:
    return np.empty(0, dtype.as_numpy_dtype)


def defaults(dtype: dtypes.DType, shape: list[int]) -> Any:
    return np.full(shape, b"none" if dtype is dtypes.string else 7, dtype.as_numpy_dtype)


DENSE = st.builds(
    lambda key, dtype, shape, required: (
        key,
        dtype,
        shape,
        empty(dtype) if required or None in shape else defaults(dtype, shape),
    ),
    st.sampled_from([*KEYS, "absent"]),
    st.sampled_from(TYPES),
    st.sampled_from([[], [1], [2], [2, 1], [None], [None, 2]]),
    st.booleans(),
)
SPARSE = st.tuples(st.sampled_from([*KEYS, "absent"]), st.sampled_from(TYPES))
USUAL_DENSE: list[Any] = [
    ("a", dtypes.int64, [], empty(dtypes.int64)),
    ("12345678", dtypes.float32, [2], empty(dtypes.float32)),
    ("é", dtypes.string, [None], empty(dtypes.string)),
    ("key of eleven", dtypes.int64, [None], np.array(-1)),
]
USUAL_SPARSE: list[Any] = [("key of eleven", dtypes.int64), ("é", dtypes.string), ("absent", dtypes.float32)]


def thoroughly(function: Any, *args: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "_TOGETHER", 10**9)
        patch.setattr(examples, "_walked", lambda *_: None)
        return function(*args)


@given(st.lists(EXAMPLES, min_size=8, max_size=12), st.lists(SPARSE, max_size=3), st.lists(DENSE, max_size=3))
def test_any_examples_together(found: list[Any], sparse: list[Any], dense: list[Any]) -> None:
    texts = [serialized(each) for each in found]
    same(batch(texts, sparse, dense), thoroughly(batch, texts, sparse, dense))


@given(st.lists(USUAL, min_size=8, max_size=20))
def test_usual_examples_are_parsed_together(found: list[Any]) -> None:
    texts = [serialized(each) for each in found]
    types = tuple(dtype for _, dtype in USUAL_SPARSE)
    specs = [Dense(key, dtype, TensorShape(shape), default) for key, dtype, shape, default in USUAL_DENSE]
    together = examples._parsed_together(texts, [key for key, _ in USUAL_SPARSE], types, specs)
    assert together is not None
    same(tuple(together), thoroughly(batch, texts, USUAL_SPARSE, USUAL_DENSE))


@given(EXAMPLES, st.lists(SPARSE, max_size=3), st.lists(DENSE, max_size=3))
def test_any_example_by_itself(found: Any, sparse: list[Any], dense: list[Any]) -> None:
    text = serialized(found)
    same(single(text, sparse, dense), thoroughly(single, text, sparse, dense))


@given(USUAL)
def test_a_usual_example_is_walked_through(found: Any) -> None:
    text = serialized(found)
    places = example_walk.places(text)
    assert {key.decode() for key in places} == found.keys()
    for key, (kind, values) in found.items():
        dtype = {"int64_list": dtypes.int64, "float_list": dtypes.float32, "bytes_list": dtypes.string}[kind]
        got = example_walk.values(text, places[key.encode()], dtype)
        assert list(() if got is None else got) == values


@given(USUAL, st.data())
def test_damaged_examples_are_never_guessed_at(found: Any, data: st.DataObject) -> None:
    """An answer of the quick parsers is the thorough one's, unless that one meets a key that is not UTF-8."""
    text = bytearray(serialized(found))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    bad = bytes(text[: data.draw(st.integers(0, len(text)))])
    good = serialized({"a": ("int64_list", [1]), "12345678": ("float_list", [1.0, 2.0])})
    calls: list[Any] = [(single, bad), (batch, [good] * 9 + [bad])]
    for function, args in calls:
        quick = function(args, USUAL_SPARSE, USUAL_DENSE)
        slow = thoroughly(function, args, USUAL_SPARSE, USUAL_DENSE)
        if isinstance(slow, str) and "Could not parse" in slow and not isinstance(quick, str):
            with pytest.raises(UnicodeDecodeError):
                [key.decode() for key in example_walk.places(bad)]
        else:
            same(quick, slow)


def entry(key: bytes, feature: bytes) -> bytes:
    inside = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(feature)]) + feature
    return b"\x0a" + bytes([len(inside)]) + inside


def message(*entries: bytes) -> bytes:
    return b"\x0a" + bytes([sum(map(len, entries))]) + b"".join(entries)


@pytest.mark.parametrize(
    "text",
    [
        message(entry(b"a", b"\x1a\x02\x08\x05")),  # a number by itself, not packed
        message(entry(b"a", b"\x12\x05\x0d" + struct.pack("<f", 1))),  # a float by itself
        message(entry(b"a", b"\x1a\x06\x0a\x01\x01\x0a\x01\x02")),  # packed in two pieces
        message(entry(b"a", b"\x1a\x03\x0a\x01\x01"), entry(b"a", b"\x1a\x03\x0a\x01\x02")),  # twice
        message(entry(b"a", b"\x1a\x03\x0a\x01\x01")) + b"\x12\x00",  # a field that nobody knows
        message(entry(b"a", b"\x1a\x03\x0a\x01\x80")),  # a number that does not end
    ],
)
def test_the_unusual_is_left_to_others(text: bytes) -> None:
    with pytest.raises(Irregular):
        Scan(ExampleLists([text] * 9)).column(b"a", dtypes.int64)
    with pytest.raises(Irregular):
        example_walk.values(text, example_walk.places(text)[b"a"], dtypes.int64)
