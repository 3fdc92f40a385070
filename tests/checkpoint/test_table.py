"""Sorted tables and the integers in them: what is put in is found, what was not put in is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import table
from flowengine.checkpoint.table import TableReader, TableWriter
from flowengine.checkpoint.wire import decode_varints, read_varint, signed, varint

#: Few different bytes, those at the ends of the range among them: neighbours share much and differ by one.
_KEYS = st.lists(st.sampled_from(b"\x00\x01ab\xfe\xff"), max_size=4).map(bytes)


@given(st.sets(_KEYS, max_size=40), st.sets(_KEYS, max_size=10), st.integers(1, 60))
def test_each_key_is_found_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, keys: set[bytes], others: set[bytes], block_bytes: int
) -> None:
    stored = {key: b"value of " + key for key in sorted(keys)}
    written = bytearray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_BLOCK_BYTES", block_bytes)
        writer = TableWriter(written.extend)
        for key, value in stored.items():
            writer.add(key, value)
        writer.finish()
    path = tmp_path_factory.getbasetemp() / "table"
    path.write_bytes(written)
    reader = TableReader(str(path))
    try:
        assert dict(reader) == stored
        assert list(dict(reader)) == sorted(stored)
        for key in (*stored, *others):
            assert reader.get(key) == stored.get(key)
    finally:
        reader.close()


@given(st.binary(max_size=24) | st.lists(st.sampled_from(b"\x00\x01\x7f\x80\xff"), max_size=24).map(bytes))
def test_integers_are_read_alike_one_by_one_and_at_once(data: bytes) -> None:
    """Both give the same numbers, or both refuse; ten bytes are the most that an integer has."""
    expected: list[int] | None = []
    position = 0
    while expected is not None and position < len(data):
        start = position
        try:
            value, position = read_varint(data, position)
        except ValueError:
            expected = None
        else:
            assert position - start <= 10
            expected.append(value)
    try:
        values, used = decode_varints(data)
    except ValueError:
        assert expected is None
    else:
        assert expected == values.tolist()
        assert used == len(data)


@given(st.integers(-(2**63), 2**64 - 1))
def test_an_integer_comes_back(value: int) -> None:
    encoded = varint(value)
    assert len(encoded) <= 10
    read, position = read_varint(encoded + b"\x05", 0)
    assert position == len(encoded)
    assert read == value % 2**64
    if value < 2**63:
        assert signed(read) == value


@pytest.mark.parametrize("length", [10, 11, 12, 200])
def test_an_integer_that_goes_on_is_refused(length: int) -> None:
    endless = b"\x80" * length + b"\x01"
    with pytest.raises(ValueError, match="does not end"):
        read_varint(endless, 0)
    with pytest.raises(ValueError, match="does not end"):
        decode_varints(endless)
    with pytest.raises(ValueError, match="does not end"):
        decode_varints(endless, 1)


def test_a_table_without_keys(tmp_path: Path) -> None:
    written = bytearray()
    TableWriter(written.extend).finish()
    (tmp_path / "table").write_bytes(written)
    reader = TableReader(str(tmp_path / "table"))
    assert list(reader) == []
    assert reader.get(b"") is None
    reader.close()
