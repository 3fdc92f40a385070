"""Sorted tables and the integers in them: what is put in is found, what was not put in is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import table
from flowengine.checkpoint.table import TableReader, TableWriter
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import DataLossError, UnimplementedError
from flowengine.ir.wire import decode_varints, read_varint, signed, varint

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


@pytest.mark.parametrize(("every", "keys"), [(1, 5), (3, 2), (3, 3), (3, 4), (3, 9), (3, 10)])
def test_every_so_many_keys_one_is_written_whole(every: int, keys: int) -> None:
    """A block ends with the offsets of its whole keys and their number, so that lookups can start there."""
    block = table._BlockWriter(every)
    begins = []
    for number in range(keys):
        if number % every == 0:
            begins.append(len(block._content))
        block.add(b"name %03d" % number, b"")
    size = block.size
    content = block.finish()
    assert len(content) == size
    last = [int.from_bytes(content[place : place + 4], "little") for place in range(len(content))]
    assert last[-4] == len(begins)
    assert [last[-4 * (len(begins) + 1 - n)] for n in range(len(begins))] == begins
    assert all(content[begin] == 0 for begin in begins), "nothing is shared with the key before"


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


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"able", b"cold", b"b"),
        (b"able", b"bold", b"able"),
        (b"able", b"ably", b"ablf"),
        (b"a", b"able", b"a"),
        (b"a\xfe", b"b", b"a\xfe"),
        (b"\xfdx", b"\xff", b"\xfe"),
    ],
)
def test_separators_are_short_and_lie_between(before: bytes, after: bytes, expected: bytes) -> None:
    assert table._separator(before, after) == expected
    assert before <= expected < after


def test_a_table_without_keys(tmp_path: Path) -> None:
    written = bytearray()
    TableWriter(written.extend).finish()
    (tmp_path / "table").write_bytes(written)
    reader = TableReader(str(tmp_path / "table"))
    assert list(reader) == []
    assert reader.get(b"") is None
    reader.close()


def _put(out: bytearray, content: bytes, kind: int) -> bytes:
    """A block with its trailer; its handle."""
    handle = varint(len(out)) + varint(len(content))
    stored = content + bytes([kind])
    out += stored + mask(crc32c(stored)).to_bytes(4, "little")
    return handle


def _table(blocks: list[tuple[bytes, bytes]], kind: int) -> bytes:
    """A table file: (last key, content as it is stored) of each block, an empty meta block, the index."""
    out = bytearray()
    index = bytearray()
    for key, content in blocks:
        handle = _put(out, content, kind)
        index += varint(0) + varint(len(key)) + varint(len(handle)) + key + handle
    ends = (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    footer = _put(out, ends, 0) + _put(out, bytes(index) + ends, 0)
    return bytes(out) + footer.ljust(40, b"\x00") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _entries(pairs: list[tuple[bytes, bytes]]) -> bytes:
    body = b"".join(varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs)
    return body + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def test_blocks_that_are_compressed(tmp_path: Path) -> None:
    cramjam = pytest.importorskip("cramjam", reason="cramjam, the extra snappy, is not installed")
    first = [(b"a", b"1" * 1000), (b"b", b"2" * 500)]
    second = [(b"c%03d" % number, b"%d" % number) for number in range(100)]
    packed = [bytes(cramjam.snappy.compress_raw(_entries(pairs))) for pairs in (first, second)]
    blocks = [(b"b", packed[0]), (b"c099", packed[1])]
    path = tmp_path / "table"
    path.write_bytes(_table(blocks, 1))
    reader = TableReader(str(path))
    assert list(reader) == first + second
    assert reader.get(b"b") == b"2" * 500
    assert reader.get(b"c050") == b"50"
    reader.close()
    for content in (packed[0][:-3], b"\xff\xff\xff\xff\x0f" + packed[0][2:], b""):
        path.write_bytes(_table([(b"b", content)], 1))
        reader = TableReader(str(path))
        with pytest.raises(DataLossError, match="bad block at 0"):
            reader.get(b"a")
        reader.close()
    path.write_bytes(_table(blocks, 2))
    reader = TableReader(str(path))
    with pytest.raises(UnimplementedError, match="compressed with zstd"):
        reader.get(b"a")
    reader.close()
