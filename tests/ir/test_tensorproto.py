"""Tensors in every written form, and what a file may not claim."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir import tensorproto
from flowengine.ir.proto import TensorProto, TensorShapeProto
from flowengine.ir.tensorproto import ResourceHandle, VariantData, decode_tensor, encode_tensor, tensor_attr

NUMERIC = [d for d in dtypes.ALL if d.size]
#: Those of which an element has a byte and does not fill it.
BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def read(text: str) -> Any:
    return decode_tensor(text_format.Parse(text, TensorProto()))


def same(got: Any, want: Any) -> None:
    assert np.asarray(got).dtype == want.dtype
    assert np.asarray(got).shape == want.shape
    assert np.asarray(got).tobytes() == want.tobytes()


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], DType]:
    dtype = draw(st.sampled_from(NUMERIC))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    count = int(np.prod(shape)) * dtype.size
    if dtype is dtypes.bool_:
        content = bytes(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    else:
        content = draw(st.binary(min_size=count, max_size=count))
    if dtype.name in BITS:
        # What is above them in the byte of an element means nothing, and is zero.
        content = bytes(byte & ((1 << BITS[dtype.name]) - 1) for byte in content)
    return np.frombuffer(content, dtype.as_numpy_dtype).reshape(shape), dtype


@given(arrays())
def test_what_is_written_is_read_bit_for_bit(pair: tuple[np.ndarray[Any, Any], DType]) -> None:
    array, dtype = pair
    proto = encode_tensor(array, dtype)
    back = decode_tensor(TensorProto.FromString(proto.SerializeToString()))
    same(back, array)


@given(
    st.lists(st.binary(max_size=12) | st.sampled_from([b"a\0", b"\0", b"", b"\xff\0\0"]), max_size=12),
    st.booleans(),
)
def test_strings_keep_every_byte(items: list[bytes], as_content: bool) -> None:
    array = np.empty(len(items), object)
    array[:] = items
    proto = encode_tensor(array, dtypes.string)
    if as_content:
        lengths = b"".join(_varint(len(item)) for item in items)
        proto = TensorProto(tensor_shape=proto.tensor_shape, tensor_content=lengths + b"".join(items))
        tensorproto.set_type(proto, dtypes.string)
    assert decode_tensor(proto).tolist() == items


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def test_a_long_string_has_a_length_of_several_bytes() -> None:
    proto = TensorProto(tensor_content=_varint(300) + _varint(1) + b"x" * 300 + b"y")
    proto.tensor_shape.dim.add(size=2)
    tensorproto.set_type(proto, dtypes.string)
    assert decode_tensor(proto).tolist() == [b"x" * 300, b"y"]


def test_a_scalar_string_is_bytes() -> None:
    assert read('dtype: DT_STRING tensor_shape {} string_val: "ab\\000"') == b"ab\0"
    assert read("dtype: DT_STRING tensor_shape {}") == b""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "dtype: DT_FLOAT tensor_shape {dim {size: 3}} float_val: 1 float_val: 2",
            np.array([1, 2, 2], np.float32),
        ),
        ("dtype: DT_FLOAT tensor_shape {dim {size: 3}}", np.array([0, 0, 0], np.float32)),
        ("dtype: DT_FLOAT float_val: 7", np.array(7, np.float32)),
        ("dtype: DT_FLOAT tensor_shape {unknown_rank: true} float_val: 7", np.array(7, np.float32)),
        ("dtype: DT_FLOAT tensor_shape {dim {size: 0}} float_val: 7", np.array([], np.float32)),
        (
            "dtype: DT_FLOAT tensor_shape {dim {size: 2}} float_val: 1 float_val: 2 float_val: 3",
            np.array([1, 2], np.float32),
        ),
        (
            "dtype: DT_INT8 tensor_shape {dim {size: 2}} int_val: 300 int_val: -129",
            np.array([44, 127], np.int8),
        ),
        ("dtype: DT_UINT16 tensor_shape {dim {size: 2}} int_val: -1", np.array([65535, 65535], np.uint16)),
        (
            "dtype: DT_UINT32 tensor_shape {dim {size: 1}} uint32_val: 4000000000",
            np.array([4000000000], np.uint32),
        ),
        ("dtype: DT_UINT64 tensor_shape {dim {size: 1}} uint64_val: 1", np.array([1], np.uint64)),
        ("dtype: DT_QUINT8 tensor_shape {dim {size: 2}} int_val: 3", np.array([3, 3], np.uint8)),
        ("dtype: DT_HALF tensor_shape {dim {size: 2}} half_val: 15360", np.array([1, 1], np.float16)),
        (
            "dtype: DT_BFLOAT16 tensor_shape {dim {size: 2}} half_val: 16256",
            np.array([1, 1], ml_dtypes.bfloat16),
        ),
        ("dtype: DT_BOOL tensor_shape {dim {size: 2}} bool_val: true", np.array([True, True])),
        (
            'dtype: DT_BOOL tensor_shape {dim {size: 2}} tensor_content: "\\002\\000"',
            np.array([True, False]),
        ),
        (
            "dtype: DT_COMPLEX64 tensor_shape {dim {size: 2}} scomplex_val: 1 scomplex_val: 2",
            np.array([1 + 2j, 1 + 2j], np.complex64),
        ),
        (
            "dtype: DT_COMPLEX128 tensor_shape {dim {size: 2}} "
            "dcomplex_val: 1 dcomplex_val: 2 dcomplex_val: 3",
            np.array([1 + 2j, 1 + 2j], np.complex128),
        ),
        # The contents win where both are there, and integers of another list do not count.
        (
            "dtype: DT_FLOAT tensor_shape {dim {size: 1}} float_val: 9 "
            'tensor_content: "\\000\\000\\200\\077"',
            np.array([1], np.float32),
        ),
        ("dtype: DT_INT32 tensor_shape {dim {size: 2}} int64_val: 5", np.array([0, 0], np.int32)),
    ],
)
def test_typed_lists(text: str, want: Any) -> None:
    same(read(text), want)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dtype: DT_FLOAT tensor_shape {dim {size: -1}} float_val: 1", "-1 is negative"),
        ('dtype: DT_FLOAT tensor_shape {dim {size: 2}} tensor_content: "abcd"', "takes 8 bytes"),
        ('dtype: DT_STRING tensor_shape {dim {size: 2}} tensor_content: "\\001\\002aa"', "take 3 bytes"),
        ('dtype: DT_STRING tensor_shape {dim {size: 2}} tensor_content: "\\200\\200"', "cut off"),
        ('dtype: DT_STRING tensor_shape {dim {size: 9}} tensor_content: "aa"', "9 strings"),
        ('dtype: DT_RESOURCE tensor_shape {} tensor_content: "aa"', "cannot stand in tensor_content"),
        ("dtype: DT_INVALID tensor_shape {}", "0 is not the number"),
        ("dtype: DT_FLOAT_REF tensor_shape {}", "reference type"),
        ("dtype: DT_FLOAT " + "tensor_shape {" + "dim {size: 1} " * 65 + "}", "rank 65"),
        ("dtype: DT_FLOAT tensor_shape {dim {size: 4611686018427387904}}", "too large"),
        (
            "dtype: DT_INT8 tensor_shape {dim {size: 4611686018427387904} dim {size: 4611686018427387904}}",
            "too large",
        ),
        ("dtype: DT_INT8 tensor_shape {dim {size: 0} dim {size: 9223372036854775807}}", "too large"),
        (
            "dtype: DT_DOUBLE tensor_shape {dim {size: 1000000000}} double_val: 1 double_val: 2",
            "at most 2147483648",
        ),
        ('dtype: DT_FLOAT tensor_shape {dim {size: 1000000000000}} tensor_content: "abcd"', "has 4"),
    ],
)
def test_what_cannot_be_is_refused_at_once(text: str, words: str) -> None:
    proto = text_format.Parse(text, TensorProto())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError, match=words):
            decode_tensor(proto)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_splat_of_any_size_takes_no_memory() -> None:
    text = "dtype: DT_FLOAT tensor_shape {dim {size: 100000} dim {size: 100000}} float_val: 2"
    value = read(text)
    assert value.shape == (100000, 100000)
    assert value[5, 99999] == 2
    assert not value.flags.writeable
    strings = read('dtype: DT_STRING tensor_shape {dim {size: 1000000000}} string_val: "ab"')
    assert strings.shape == (1000000000,)
    assert strings[123456789] == b"ab"


def test_a_small_splat_is_contiguous() -> None:
    value = read("dtype: DT_FLOAT tensor_shape {dim {size: 100} dim {size: 10}} float_val: 2")
    assert value.flags.c_contiguous
    assert not value.flags.writeable


def test_the_value_is_decoded_once_and_late() -> None:
    proto = encode_tensor(np.arange(6, dtype=np.int32).reshape(2, 3), dtypes.int32)
    attr = tensor_attr(proto)
    assert (attr.dtype, attr.shape, attr.source) == (dtypes.int32, TensorShape([2, 3]), proto)
    assert attr.value() is attr.value()
    with pytest.raises(ValueError, match="read-only"):
        attr.value()[0, 0] = 1


def test_handles_and_variants_are_kept_whole() -> None:
    text = 'dtype: DT_RESOURCE tensor_shape {} resource_handle_val {name: "v" container: "c" hash_code: 7}'
    proto = text_format.Parse(text, TensorProto())
    value = decode_tensor(proto)
    handle = value[()]
    assert isinstance(handle, ResourceHandle)
    assert (handle.container, handle.name) == ("c", "v")
    assert encode_tensor(value, dtypes.resource) == proto

    text = (
        'dtype: DT_VARIANT tensor_shape {} variant_val {type_name: "t" metadata: "m" '
        "tensors {dtype: DT_INT32 tensor_shape {} int_val: 5}}"
    )
    proto = text_format.Parse(text, TensorProto())
    value = decode_tensor(proto)
    variant = value[()]
    assert isinstance(variant, VariantData)
    assert (variant.type_name, variant.metadata) == ("t", b"m")
    assert variant.tensors[0].value() == 5
    assert encode_tensor(value, dtypes.variant) == proto


def test_writing_refuses_what_has_no_form() -> None:
    with pytest.raises(InvalidArgumentError, match="float32"):
        encode_tensor(np.zeros(3), dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        encode_tensor(np.array([object()]), dtypes.resource)
    with pytest.raises(InvalidArgumentError, match="reference"):
        encode_tensor(np.zeros(3, np.float32), dtypes.float32.ref)


@given(st.none() | st.lists(st.none() | st.integers(0, 2**20), max_size=3))
def test_shapes_come_back(dims: list[int | None] | None) -> None:
    shape = TensorShape(dims)
    proto = TensorShapeProto.FromString(tensorproto.shape_to_proto(shape).SerializeToString())
    assert tensorproto.shape_from_proto(proto) == shape


def test_shapes_that_no_tensor_has() -> None:
    for text, words in [
        ("dim {size: -2}", "-2"),
        ("unknown_rank: true dim {size: 1}", "unknown rank"),
        ("dim {size: 4611686018427387904} dim {size: 4}", "too large"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            tensorproto.shape_from_proto(text_format.Parse(text, TensorShapeProto()))


def test_what_stands_for_more_than_is_stored_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element may stand for any number, and as many as are stored may be written out."""
    monkeypatch.setattr(tensorproto, "EXPANDED_BYTES_MAX", 11)
    shape = "tensor_shape { dim { size: 3 } }"
    assert read(f"dtype: DT_INT32 {shape} int_val: [1, 2, 3]").tolist() == [1, 2, 3]
    assert read(f"dtype: DT_INT32 {shape} int_val: 1").tolist() == [1, 1, 1]
    with pytest.raises(InvalidArgumentError, match="2 stored elements would take 12 bytes; at most 11"):
        read(f"dtype: DT_INT32 {shape} int_val: [1, 2]")
    monkeypatch.setattr(tensorproto, "EXPANDED_BYTES_MAX", 12)
    assert read(f"dtype: DT_INT32 {shape} int_val: [1, 2]").tolist() == [1, 2, 2]


@pytest.mark.parametrize("sizes", [[2**40, 2**40], [0, 2**40, 2**40], [2**40, 0, 2**40], [2**40, 2**40, 0]])
def test_dimensions_are_too_many_beside_a_zero_as_well(sizes: list[int]) -> None:
    proto = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    with pytest.raises(InvalidArgumentError, match="more than 2\\*\\*63 - 1 elements"):
        tensorproto.shape_from_proto(proto)


def test_a_tensor_of_nearly_as_many_bytes_as_can_be_counted_is_no_mistake() -> None:
    """One stored element may stand for them all, as long as nobody asks for them."""
    largest = "dtype: DT_INT8 tensor_shape { dim { size: %d } } int_val: 1"
    _, shape = tensorproto.check_tensor(text_format.Parse(largest % (2**60 - 1), TensorProto()))
    assert shape == TensorShape([2**60 - 1])
    with pytest.raises(InvalidArgumentError, match="too large"):
        tensorproto.check_tensor(text_format.Parse(largest % 2**60, TensorProto()))
