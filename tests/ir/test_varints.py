"""Varints and fields: one home writes and reads them, one by one and many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.ir.proto.example_pb2 import Example
from flowengine.ir.wire import (
    BYTES,
    VARINT,
    bytes_field,
    decode_varints,
    encode_varints,
    field,
    fields,
    read_varint,
    signed,
    varint,
)

NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(0, 300))


@given(st.lists(NUMBERS, max_size=20), st.binary(max_size=3))
def test_what_is_written_is_read(numbers: list[int], behind: bytes) -> None:
    data = b"".join(map(varint, numbers))
    found, position = [], 0
    for _ in numbers:
        number, position = read_varint(data + behind, position)
        found.append(number)
    assert found == [number % 2**64 for number in numbers]
    assert position == len(data)
    many = np.array(found, np.uint64)
    assert encode_varints(many) == data
    values, used = decode_varints(data + behind, len(numbers))
    assert values.tolist() == found
    assert used == len(data)


@given(st.binary(max_size=12))
def test_any_bytes_are_a_number_or_no_number(data: bytes) -> None:
    """One by one and many at once say the same of them."""
    try:
        number, end = read_varint(data, 0)
    except ValueError:
        with pytest.raises(ValueError, match="does not end"):
            decode_varints(data, 1)
        assert all(byte >= 0x80 for byte in data[:10])
        return
    assert end <= min(len(data), 10)
    assert 0 <= number < 2**64
    assert decode_varints(data, 1)[0].tolist() == [number]


@given(st.lists(st.tuples(st.integers(1, 99), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=3)))))
def test_fields_of_all_kinds_come_in_their_order(written: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(
        field(number, value) if isinstance(value, int) else bytes_field(number, value)
        for number, value in written
    )
    found = [(number, value if kind == VARINT else bytes(value)) for number, kind, value in fields(data)]
    assert found == written


@pytest.mark.parametrize("before", [b"", b"\x01", b"\xff\x01"])
@pytest.mark.parametrize("behind", [b"", b"\x02"])
def test_one_of_many_that_is_too_long_is_none(before: bytes, behind: bytes) -> None:
    for count in (None, 1 + bool(before) + bool(behind)):
        decode_varints(before + b"\x80" * 9 + b"\x01" + behind, count)
        with pytest.raises(ValueError, match="does not end"):
            decode_varints(before + b"\x80" * 10 + b"\x01" + behind, count)


@given(
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=3)
)
def test_fields_are_those_of_protocol_buffers(lists: dict[str, list[int]]) -> None:
    """A message that protobuf writes is read, and one written here is read by protobuf."""
    ours = b""
    for name, numbers in lists.items():
        listed = bytes_field(3, b"".join(field(1, number) for number in numbers))
        ours += bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, listed))
    example = Example.FromString(bytes_field(1, ours))
    features = example.features.feature
    assert {name: list(features[name].int64_list.value) for name in features} == lists
    found = {}
    for _, _, whole in fields(example.SerializeToString()):
        for _, _, entry in fields(whole):
            told = {number: value for number, _, value in fields(entry)}
            ((_, _, content),) = list(fields(told[2])) or [(3, BYTES, b"")]
            packed = [value for _, kind, value in fields(content) if kind == BYTES]
            numbers = [signed(value) for _, kind, value in fields(content) if kind == VARINT]
            if packed:
                numbers = [signed(value) for value in decode_varints(packed[0])[0].tolist()]
            found[bytes(told.get(1, b"")).decode()] = numbers
    assert found == lists
