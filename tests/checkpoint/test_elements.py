"""The bytes of tensors: in pieces that are bounded, back from them, and as fields of a TensorProto."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import elements
from flowengine.checkpoint.elements import (
    numeric_pieces,
    read_strings,
    read_variants,
    string_pieces,
    variant_pieces,
)
from flowengine.checkpoint.values import decode_values, encode_values
from flowengine.core import dtypes
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.dtypes import DType, as_dtype
from flowengine.ir.proto.tensor_pb2 import TensorProto
from flowengine.ir.wire import decode_varints

PIECE = 64


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "PIECE_BYTES", PIECE)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", ["uint8", "float16", "bfloat16", "int32", "float64", "complex128"])
@pytest.mark.parametrize("layout", ["whole", "turned", "every other", "nothing"])
def test_pieces_of_numbers_are_bounded_and_make_up_the_whole(name: str, layout: str) -> None:
    array: Any = np.arange(24 * 18).reshape(24, 18).astype(as_dtype(name).as_numpy_dtype)
    views = {"whole": array, "turned": array.T, "every other": array[::2, 1::2], "nothing": array[:0].T}
    array = views[layout]
    pieces = [bytes(piece) for piece in numeric_pieces(array)]
    assert b"".join(pieces) == array.tobytes()
    assert all(len(piece) <= PIECE for piece in pieces)
    assert 2 * len(pieces) <= array.size, "an element at a time"


@pytest.mark.usefixtures("small_pieces")
@given(st.lists(st.binary(max_size=40), max_size=30))
def test_pieces_of_strings_are_bounded(strings: list[bytes]) -> None:
    pieces = [written for written, _ in string_pieces(strings, len(strings))]
    assert b"".join(pieces[2:]) == b"".join(strings)
    assert all(len(piece) < PIECE + 40 for piece in pieces[2:])
    assert all(len(piece) >= PIECE for piece in pieces[2:-1])


class Long(bytes):
    """A string that says that it is longer than memory is."""

    def __new__(cls, length: int) -> Long:
        made = super().__new__(cls)
        made.length = length
        return made

    length: int

    def __len__(self) -> int:
        return self.length


def test_lengths_that_need_more_than_32_bits_are_summed_as_64() -> None:
    strings = [Long(5), Long(2**32 - 1), Long(2**32), Long(2**33 + 7)]
    pieces = string_pieces(strings, len(strings))
    lengths, summed = next(pieces)
    assert decode_varints(lengths, len(strings))[0].tolist() == [len(each) for each in strings]
    assert summed == b"".join(len(each).to_bytes(4 if len(each) < 2**32 else 8, "little") for each in strings)
    length_sum, _ = next(pieces)
    with pytest.raises(ValueError, match="do not add up"):
        read_strings(lengths + length_sum, len(strings))
    with pytest.raises(ValueError, match="checksum of the strings' lengths"):
        read_strings(lengths + b"\x00\x00\x00\x00", len(strings))


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_variants_come_back_and_their_sum_is_of_lengths_of_64_bits(variants: list[bytes]) -> None:
    pieces = list(variant_pieces(variants))
    stored = b"".join(written for written, _ in pieces)
    total = 0
    for _, summed in pieces:
        total = crc32c(summed, total)
    assert read_variants(stored, len(variants)) == (variants, total)
    parts = [len(each).to_bytes(8, "little") + each for each in variants]
    expected = b""
    for part in parts:
        expected += part
        expected += mask(crc32c(expected)).to_bytes(4, "little")
    assert total == crc32c(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: stored[:-1], "longer than what is stored"),
        (lambda stored: stored[:-5] + b"x" + stored[-4:], "checksum of a variant"),
        (lambda stored: stored[:-1] + bytes([stored[-1] ^ 1]), "checksum of a variant"),
        (lambda stored: stored + b"\x00", "do not add up"),
    ],
)
def test_variants_that_are_damaged(change: Any, message: str) -> None:
    stored = b"".join(written for written, _ in variant_pieces([b"first", b"second"]))
    with pytest.raises(ValueError, match=message):
        read_variants(change(stored), 2)


#: {type: the field of TensorProto}
FIELDS = {
    dtypes.int8: "int_val",
    dtypes.int16: "int_val",
    dtypes.int32: "int_val",
    dtypes.uint8: "int_val",
    dtypes.uint16: "int_val",
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool_: "bool_val",
    dtypes.float16: "half_val",
    dtypes.bfloat16: "half_val",
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
}


@pytest.mark.parametrize("dtype", FIELDS, ids=str)
def test_values_are_fields_of_a_tensor_proto(dtype: DType) -> None:
    if dtype is dtypes.bool_:
        array: Any = np.array([True, False, True])
    elif dtype.as_numpy_dtype.kind in "iu":
        array = np.array([dtype.min, 0, 1, dtype.max], dtype.as_numpy_dtype)
    else:
        array = np.array([-1.5, 0, 2], np.float64).astype(dtype.as_numpy_dtype)
    encoded = encode_values(array, dtype)
    proto = TensorProto.FromString(encoded)
    as_stored = array.view(np.uint16) if FIELDS[dtype] == "half_val" else array
    assert list(getattr(proto, FIELDS[dtype])) == as_stored.tolist()
    back = decode_values(memoryview(encoded), dtype, len(array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_one_value_stands_for_many_but_not_for_none() -> None:
    one = memoryview(encode_values(np.array([7], np.int32), dtypes.int32))
    assert decode_values(one, dtypes.int32, 3).tolist() == [7, 7, 7]
    assert decode_values(one, dtypes.int32, 1).tolist() == [7]
    with pytest.raises(ValueError, match="elements are stored"):
        decode_values(one, dtypes.int32, 0)
    with pytest.raises(ValueError, match="elements are stored"):
        decode_values(memoryview(encode_values(np.array([7, 8], np.int32), dtypes.int32)), dtypes.int32, 3)
