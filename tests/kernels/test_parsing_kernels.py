"""Bytes, CSV and examples into tensors, and tensors into bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto.example_pb2 import Example, SequenceExample
from flowengine.kernels.io import decoding, examples


def _strings(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@given(st.lists(st.integers(-(2**15), 2**15 - 1), max_size=6), st.booleans())
def test_raw_numbers(numbers: list[int], little: bool) -> None:
    data = np.array(numbers, "<i2" if little else ">i2").tobytes()
    out = decoding.decode_raw(_strings(data, data), out_type=dtypes.int16, little_endian=little)
    assert out.dtype == np.int16
    assert out.tolist() == [numbers, numbers]


def test_raw_of_bad_lengths() -> None:
    def decode(*texts: bytes) -> Any:
        return decoding.decode_raw(_strings(*texts), out_type=dtypes.int32, little_endian=True)

    assert decode(b"", b"").shape == (2, 0)
    assert decoding.decode_raw(b"\0\2", out_type=dtypes.bool_, little_endian=True).tolist() == [False, True]
    with pytest.raises(InvalidArgumentError, match="same size, but element 1 has size 8 != 4"):
        decode(b"abcd", b"abcdefgh")
    with pytest.raises(InvalidArgumentError, match="length 3 that is not a multiple of 4"):
        decode(b"abc")
    padded = decoding.decode_padded_raw(
        _strings(b"\1", b"\1\2\3"), np.int32(2), out_type=dtypes.uint8, little_endian=True
    )
    assert padded.tolist() == [[1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.arange(6, dtype=np.float32).reshape(2, 3), dtypes.float32),
        (np.int64(-3), dtypes.int64),
        (b"text", dtypes.string),
        (_strings(b"a", b""), dtypes.string),
    ],
)
def test_a_tensor_comes_back(value: Any, dtype: dtypes.DType) -> None:
    out = decoding.parse_tensor(decoding.serialize_tensor(value, T=dtype), out_type=dtype)
    assert np.array_equal(out, value)
    with pytest.raises(InvalidArgumentError, match="Type mismatch"):
        decoding.parse_tensor(decoding.serialize_tensor(value, T=dtype), out_type=dtypes.float64)
    with pytest.raises(InvalidArgumentError, match="Could not parse"):
        decoding.parse_tensor(b"\xff\xff", out_type=dtype)


@given(st.binary())
def test_compressed_data(data: bytes) -> None:
    packed = zlib.compress(data)
    assert decoding.decode_compressed(packed, compression_type=b"ZLIB") == data
    with pytest.raises(DataLossError):
        decoding.decode_compressed(packed[:-1], compression_type=b"ZLIB")


def _csv(*texts: bytes, quotes: bool = True, select: tuple[int, ...] = ()) -> Any:
    columns = decoding.decode_csv(
        _strings(*texts),
        (_strings(b"x"), _strings(b"y"), _strings(b"z")),
        OUT_TYPE=(dtypes.string,) * 3,
        field_delim=b",",
        use_quote_delim=quotes,
        na_value=b"NA",
        select_cols=select,
    )
    return [c.tolist() for c in columns]


def test_csv_fields() -> None:
    assert _csv(b'a,"b,""c",d', b",NA,", b'"","a\nb",c') == [
        [b"a", b"x", b"x"],
        [b'b,"c', b"y", b"a\nb"],
        [b"d", b"z", b"c"],
    ]
    assert _csv(b'a, "b",c', quotes=False) == [[b"a"], [b' "b"'], [b"c"]]
    assert _csv(b"0,1,2,3,4", select=(0, 2, 4)) == [[b"0"], [b"2"], [b"4"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a,b\n,c", "Unquoted fields cannot"),
        (b'a, "b",c', "Unquoted fields cannot"),
        (b'"a"x,b,c', "has to be escaped"),
        (b'"a,b,c', "has to end with quote"),
        (b"a,b", "Expect 3 fields but have 2 in record 0"),
        (b"a,b,c,d", "Expect 3 fields but have 4 in record 0"),
        (b"", "Expect 3 fields but have 0 in record 0"),
    ],
)
def test_csv_that_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=complaint):
        _csv(text)


def test_csv_numbers() -> None:
    def decode(*texts: bytes) -> Any:
        return decoding.decode_csv(
            _strings(*texts),
            (np.zeros(0, np.float32), np.array([7], np.int32)),
            OUT_TYPE=(dtypes.float32, dtypes.int32),
            field_delim=b",",
            use_quote_delim=True,
            na_value=b"",
            select_cols=(),
        )

    one, two = decode(b" 1.5 , 2 ", b"2,")
    assert (one.tolist(), two.tolist()) == ([1.5, 2.0], [2, 7])
    with pytest.raises(InvalidArgumentError, match="Field 0 is required but missing in record 1"):
        decode(b"1,2", b",2")
    with pytest.raises(InvalidArgumentError, match="Field 1 in record 0 is not a valid int32"):
        decode(b"1,2.5")


def _example(**features: Any) -> bytes:
    example = Example()
    for key, values in features.items():
        feature = example.features.feature[key]
        if not values:
            feature.SetInParent()
        elif isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def _parse(*data: bytes, shape: Any = (2,), default: Any = None) -> Any:
    return examples.parse_example(
        _strings(*data),
        _strings(),
        (b"s",),
        (b"d",),
        (np.zeros(0, np.float32) if default is None else np.array(default, np.float32),),
        sparse_types=(dtypes.int64,),
        Tdense=(dtypes.float32,),
        dense_shapes=(TensorShape(shape),),
    )


def test_a_batch_of_examples() -> None:
    indices, values, shape, dense = _parse(
        _example(s=[5, 6], d=[1.0, 2.0]), _example(d=[3.0, 4.0]), _example(s=[7], d=[5.0, 6.0])
    )
    assert indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert values.tolist() == [5, 6, 7]
    assert shape.tolist() == [3, 2]
    assert dense.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_defaults_and_padding() -> None:
    *_, dense = _parse(_example(), _example(d=[3.0, 4.0]), _example(d=[]), default=[8, 9])
    assert dense.tolist() == [[8, 9], [3, 4], [8, 9]]
    *_, dense = _parse(_example(), _example(d=[1.0, 2.0, 3.0, 4.0]), _example(d=[5.0, 6.0]), shape=(None, 2))
    assert dense.tolist() == [[[0, 0], [0, 0]], [[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    *_, dense = _parse(_example(d=[1.0]), _example(d=[5.0, 6.0]), shape=(None,), default=-1)
    assert dense.tolist() == [[1, -1], [5, 6]]
    indices, values, shape, dense = _parse(default=[1, 2])
    assert (indices.shape, values.shape, shape.tolist(), dense.shape) == ((0, 2), (0,), [0, 0], (0, 2))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (_example(s=[1]), "Index: 0.*Feature: d .data type: float32. is required"),
        (_example(d=[1]), "Data types don't match"),
        (_example(d=[1.0]), "Values size: 1 but output shape"),
        (_example(s=[1.0], d=[1.0, 2.0]), "Key: s.*Data types don't match"),
        (b"\xff", "Could not parse Example input"),
    ],
)
def test_examples_that_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=complaint.replace("float32", "float[0-9]*")):
        _parse(data)


def test_one_example(run_op: Callable[..., Any]) -> None:
    indices, values, shape, dense = run_op(
        "ParseSingleExample",
        _example(s=[b"a", b"b"], d=[1, 2, 3]),
        (np.zeros(0, np.int64),),
        num_sparse=1,
        sparse_keys=(b"s",),
        dense_keys=(b"d",),
        sparse_types=(dtypes.string,),
        dense_shapes=(TensorShape([None]),),
    )
    assert (indices.tolist(), values.tolist(), shape.tolist()) == ([[0], [1]], [b"a", b"b"], [2])
    assert dense.tolist() == [1, 2, 3]


def _sequence(data: bytes, *, may_miss: bool = False) -> Any:
    return examples.parse_single_sequence_example(
        data,
        _strings(b"steps") if may_miss else _strings(),
        (),
        (b"label",),
        (b"words",),
        (b"steps",),
        (np.int64(-1),),
        b"it",
        context_sparse_types=(),
        Tcontext_dense=(dtypes.int64,),
        feature_list_dense_types=(dtypes.float32,),
        context_dense_shapes=(TensorShape([]),),
        feature_list_sparse_types=(dtypes.string,),
        feature_list_dense_shapes=(TensorShape([2]),),
    )


def test_one_sequence() -> None:
    sequence = SequenceExample()
    sequence.context.feature["label"].int64_list.value.append(4)
    lists = sequence.feature_lists.feature_list
    lists["words"].feature.add().bytes_list.value.extend([b"a"])
    lists["words"].feature.add().bytes_list.value.extend([b"b", b"c"])
    lists["steps"].feature.add().float_list.value.extend([1, 2])
    label, indices, values, shape, steps = _sequence(sequence.SerializeToString())
    assert label == 4
    assert indices.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert (values.tolist(), shape.tolist()) == ([b"a", b"b", b"c"], [2, 2])
    assert steps.tolist() == [[1, 2]]
    lists["steps"].feature.add().float_list.value.append(1)
    with pytest.raises(InvalidArgumentError, match=r"Index: 1.*Values size: 1"):
        _sequence(sequence.SerializeToString())


def test_a_sequence_without_a_list() -> None:
    label, *_, steps = _sequence(b"", may_miss=True)
    assert label == -1
    assert steps.shape == (0, 2)
    with pytest.raises(InvalidArgumentError, match=r"Name: it, Feature list 'steps'.*required"):
        _sequence(b"")


@given(
    st.dictionaries(st.sampled_from("sdx"), st.lists(st.integers(-9, 9)), max_size=3), st.binary(max_size=5)
)
def test_any_bytes_are_parsed_or_refused(features: dict[str, list[int]], tail: bytes) -> None:
    try:
        indices, values, _, _ = _parse(_example(**features) + tail, default=[1, 2])
    except InvalidArgumentError:
        return
    assert len(indices) == len(values)


def test_json() -> None:
    text = b'{"features": {"feature": {"a": {"int64List": {"value": ["1", 2]}}}}}'
    assert Example.FromString(decoding.decode_json_example(text)) == Example.FromString(_example(a=[1, 2]))
    expected = b"\n\r\n\x0b\n\x01a\x12\x06\x1a\x04\x08\x01\x08\x02"
    assert decoding.decode_json_example(text) == expected
    assert decoding.decode_json_example(b"{}") == b""
    for bad in (b'{"x": 1}', b"{", b"\xff", b"[" * 5000):
        with pytest.raises(InvalidArgumentError, match="Error while parsing JSON"):
            decoding.decode_json_example(bad)
