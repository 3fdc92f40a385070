"""Readers: records of every format, counts, damage, and states put back."""

from __future__ import annotations

import gzip
import io
import itertools
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import (
    DataLossError,
    InvalidArgumentError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.resources import records
from flowengine.resources.queue_kinds import FIFOQueue
from flowengine.resources.reader import Reader
from flowengine.resources.tf_records import tf_records


def _tf_record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", mask(crc32c(length))) + data + struct.pack("<I", mask(crc32c(data)))


def _flat(blocks: Iterator[records.Block]) -> list[records.Record]:
    return [record for block in blocks for record in block]


def _plain(data: bytes) -> list[records.Record]:
    return _flat(tf_records(io.BytesIO(data), b"f"))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(["", "ZLIB", "GZIP"]))
def test_tf_records_come_back(contents: list[bytes], compression: str) -> None:
    data = b"".join(map(_tf_record, contents))
    packed = zlib.compress(data) if compression == "ZLIB" else gzip.compress(data) if compression else data
    source = records.source_of(io.BytesIO(packed), compression, b"f")
    found = _flat(tf_records(source, b"f"))
    assert [record for _, record in found] == contents
    offsets = [sum(16 + len(c) for c in contents[:i]) for i in range(len(contents))]
    assert [key for key, _ in found] == [b"f:%d" % offset for offset in offsets]


@settings(deadline=None)
@given(st.data())
def test_every_flipped_bit_is_seen(data: st.DataObject) -> None:
    good = _tf_record(b"first") + _tf_record(b"second one")
    at = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[at // 8] ^= 1 << at % 8
    with pytest.raises(DataLossError, match=f"f, record at offset {0 if at < 8 * 21 else 21}: corrupted"):
        _plain(bytes(bad))


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=9),
    st.integers(1, 90),
    st.data(),
)
def test_damage_hides_nothing_before_it_whatever_the_pieces(
    contents: list[bytes], piece: int, data: st.DataObject
) -> None:
    good = b"".join(map(_tf_record, contents))
    assert [r for _, r in _flat(tf_records(io.BytesIO(good), b"f", piece))] == contents
    at = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[at // 8] ^= 1 << at % 8
    ends = list(itertools.accumulate(16 + len(c) for c in contents))
    before = sum(end <= at // 8 for end in ends)
    found: list[records.Record] = []
    with pytest.raises(DataLossError, match=f"at offset {[0, *ends][before]}: corrupted"):
        found.extend(itertools.chain.from_iterable(tf_records(io.BytesIO(bytes(bad)), b"f", piece)))
    assert [record for _, record in found] == contents[:before]


def test_large_pieces_are_checked_too() -> None:
    contents = [bytes([i]) * (3000 * i) for i in range(40)]
    good = b"".join(map(_tf_record, contents))
    assert [r for _, r in _plain(good)] == contents
    for at in (0, 11, 12, 300_000, 700_001, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 4
        with pytest.raises(DataLossError, match="corrupted"):
            _plain(bytes(bad))


@pytest.mark.parametrize("length", [1, 11, 12, 20])
def test_a_record_cut_off(length: int) -> None:
    with pytest.raises(DataLossError, match="f, record at offset 21: truncated"):
        _plain(_tf_record(b"first") + _tf_record(b"other")[:length])


def test_claims_are_not_believed() -> None:
    header = struct.pack("<Q", 2**40)
    with pytest.raises(ResourceExhaustedError, match="claims 1099511627776 bytes"):
        _plain(header + struct.pack("<I", mask(crc32c(header))))
    header = struct.pack("<Q", 2**30)
    with pytest.raises(DataLossError, match="truncated"):
        _plain(header + struct.pack("<I", mask(crc32c(header))) + b"few")


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_damaged_compression(compression: str) -> None:
    data = _tf_record(b"x" * 50)
    packed = zlib.compress(data) if compression == "ZLIB" else gzip.compress(data)
    for bad in (packed[:-9], b"\1\2\3" + packed):
        with pytest.raises(DataLossError, match="f: damaged before offset"):
            _flat(tf_records(records.source_of(io.BytesIO(bad), compression, b"f"), b"f"))


@given(st.binary(max_size=60), st.integers(0, 3), st.integers(1, 5), st.integers(0, 3), st.integers(0, 7))
def test_fixed_lengths(data: bytes, header: int, size: int, footer: int, hop: int) -> None:
    pieces = records.fixed_length(io.BytesIO(data), b"f", header=header, record=size, footer=footer, hop=hop)
    if len(data) < header:
        with pytest.raises(DataLossError, match="header"):
            list(pieces)
        return
    starts = range(header, len(data) - footer - size + 1, hop or size)
    assert _flat(pieces) == [(b"f:%d" % i, data[s : s + size]) for i, s in enumerate(starts)]


def test_lines() -> None:
    found = _flat(records.lines(io.BytesIO(b"one\r\ntwo\n\nlast"), b"f", skip=1))
    assert found == [(b"f:2", b"two"), (b"f:3", b""), (b"f:4", b"last")]


def _files(tmp_path: Path, *contents: bytes) -> tuple[FIFOQueue, list[bytes]]:
    queue = FIFOQueue("q", (dtypes.string,), None)
    names = []
    for index, content in enumerate(contents):
        path = tmp_path / str(index)
        path.write_bytes(content)
        names.append(str(path).encode())
        queue.enqueue_nowait((names[-1],))
    queue.close_nowait(cancel_pending_enqueues=False)
    return queue, names


def _open(name: bytes) -> BinaryIO:
    return open(name.decode(), "rb")


async def test_reading_lines_of_several_files(tmp_path: Path) -> None:
    queue, names = _files(tmp_path, b"a\nb\n", b"", b"c\n")
    reader = Reader("TextLineReader", "r", "", records.lines, False)
    assert await reader.read(queue, _open) == (names[0] + b":1", b"a")
    assert (reader.produced, reader.finished) == (1, 0)
    assert reader.read_nowait() == (names[0] + b":2", b"b")
    assert await reader.read(queue, _open) == (names[2] + b":1", b"c")
    assert (reader.produced, reader.finished) == (3, 2)
    with pytest.raises(OutOfRangeError):
        await reader.read(queue, _open)
    assert reader.finished == 3
    reader.reset()
    assert (reader.produced, reader.finished) == (0, 0)


async def test_reading_many(tmp_path: Path) -> None:
    queue, _ = _files(tmp_path, b"x\n" * 1500)
    reader = Reader("TextLineReader", "r", "", records.lines, False)
    sizes = [len(await reader.read(queue, _open, 700)) for _ in range(3)]
    assert sizes == [700, 700, 100]
    assert reader.finished == 1


class _Late(io.BytesIO):
    """A file whose contents come when they are let go."""

    def __init__(self, contents: bytes) -> None:
        super().__init__(contents)
        self.begun, self.go, self.gone = threading.Event(), threading.Event(), threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.begun.set()
        self.go.wait()
        return super().read(size)

    def close(self) -> None:
        super().close()
        self.gone.set()


@pytest.mark.parametrize("end", ["destroy", "reset"])
async def test_a_file_that_nobody_reads_on_is_closed(end: str) -> None:
    """Also where the reading that was given up is still held, as by the error of who waited for it."""
    given_up, read_from = (_Late(_tf_record(b"x" * 100) * 20_000) for _ in range(2))
    left = [read_from, given_up]

    def opener(name: bytes) -> BinaryIO:
        return left.pop()

    def form(file: BinaryIO, name: bytes) -> Iterator[records.Block]:
        return tf_records(file, name)

    queue = FIFOQueue("q", (dtypes.string,), None)
    for _ in range(2):
        queue.enqueue_nowait((b"f",))
    reader = Reader("TFRecordReader", "r", "", form, False)
    kept: list[BaseException] = []

    async def read() -> None:
        try:
            await reader.read(queue, opener)
        except trio.Cancelled as error:
            kept.append(error)
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.to_thread.run_sync(given_up.begun.wait)
        nursery.cancel_scope.cancel()
    assert kept
    getattr(reader, end)()
    assert not given_up.closed
    given_up.go.set()
    assert await trio.to_thread.run_sync(given_up.gone.wait, 20)

    # And where no thread is at it.
    read_on = Reader("TFRecordReader", "r", "", form, False)
    read_from.go.set()
    await read_on.read(queue, opener)
    getattr(read_on, end)()
    assert await trio.to_thread.run_sync(read_from.gone.wait, 20)


async def test_a_whole_file_is_closed_when_it_is_read() -> None:
    file = _Late(b"all of it")
    file.go.set()
    queue = FIFOQueue("q", (dtypes.string,), None)
    queue.enqueue_nowait((b"f",))
    reader = Reader("WholeFileReader", "r", "", records.whole, True)
    assert await reader.read(queue, lambda name: file) == (b"f", b"all of it")
    assert file.closed


async def test_good_records_come_before_the_damage(tmp_path: Path) -> None:
    def form(file: BinaryIO, name: bytes) -> Iterator[records.Block]:
        return tf_records(file, name)

    queue, names = _files(tmp_path, _tf_record(b"good") + b"bad", _tf_record(b"next"))
    reader = Reader("TFRecordReader", "r", "", form, False)
    assert (await reader.read(queue, _open))[1] == b"good"
    for _ in range(2):
        with pytest.raises(DataLossError, match=names[0].decode() + ", record at offset 20"):
            await reader.read(queue, _open)
    reader.reset()
    assert (await reader.read(queue, _open))[1] == b"next"


async def test_a_batch_that_is_short_for_damage_tells_first_and_gives_its_records_next(
    tmp_path: Path,
) -> None:
    def form(file: BinaryIO, name: bytes) -> Iterator[records.Block]:
        return tf_records(file, name, 64)

    good = [b"%02d" % number for number in range(20)]
    data = b"".join(map(_tf_record, good))
    queue, _ = _files(tmp_path, data[: 10 * 18] + b"bad" + data[10 * 18 + 3 :])
    reader = Reader("TFRecordReader", "r", "", form, False)
    damaged = "record at offset 180: corrupted"
    assert len(await reader.read(queue, _open, 4)) == 4
    with pytest.raises(DataLossError, match=damaged):
        await reader.read(queue, _open, 30)
    assert reader.produced == 4
    assert [record for _, record in await reader.read(queue, _open, 30)] == good[4:10]
    for count in (30, None):
        with pytest.raises(DataLossError, match=damaged):
            await reader.read(queue, _open, count)
    assert reader.produced == 10


async def test_what_was_being_read_when_a_reader_was_reset_is_not_given() -> None:
    """Whoever waits for it goes on with the next file."""
    first, second = _Late(b"1"), _Late(b"2")
    left = [second, first]
    second.go.set()
    queue = FIFOQueue("q", (dtypes.string,), None)
    for name in (b"old", b"new"):
        queue.enqueue_nowait((name,))
    reader = Reader("WholeFileReader", "r", "", records.whole, True)
    got: list[Any] = []

    async def read() -> None:
        got.append(await reader.read(queue, lambda name: left.pop()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.to_thread.run_sync(first.begun.wait)
        reader.reset()
        first.go.set()
    assert got == [(b"new", b"2")]
    assert (reader.started, reader.finished, reader.produced) == (1, 1, 1)


async def test_a_failure_ends_with_a_state_that_is_put_back() -> None:
    def opener(name: bytes) -> BinaryIO:
        if name == b"bad":
            raise DataLossError("this file is lost")
        return io.BytesIO(name)

    queue = FIFOQueue("q", (dtypes.string,), None)
    for name in (b"one", b"bad", b"two"):
        queue.enqueue_nowait((name,))
    reader = Reader("WholeFileReader", "r", "", records.whole, True)
    assert await reader.read(queue, opener) == (b"one", b"one")
    state = reader.serialize()
    for _ in range(2):
        with pytest.raises(DataLossError, match="is lost"):
            await reader.read(queue, opener)
    reader.restore(state)
    assert await reader.read(queue, opener) == (b"two", b"two")


async def test_states() -> None:
    queue = FIFOQueue("q", (dtypes.string,), None)
    for name in (b"X", b"Y", b"Z"):
        queue.enqueue_nowait((name,))
    reader = Reader("IdentityReader", "r", "", None, True)
    assert await reader.read(queue, _open) == (b"X", b"X")
    state = reader.serialize()
    assert state == b"\x08\x01\x10\x01\x18\x01\x22\x01X"
    await reader.read(queue, _open)
    reader.restore(state)
    assert (reader.produced, reader.finished) == (1, 1)
    assert await reader.read(queue, _open) == (b"Z", b"Z")
    for bad in (state[1:], state[:-1], b"\x08\x05\x10\x01", b"\xff" * 30, b"\x18" + b"\xff" * 9 + b"\x01"):
        with pytest.raises(InvalidArgumentError, match="state"):
            reader.restore(bad)
    with pytest.raises(UnimplementedError):
        Reader("TextLineReader", "r", "", records.lines, False).serialize()


def test_compressions() -> None:
    found: list[Any] = [records.checked_compression(c) for c in (b"", b"NONE", b"ZLIB", b"GZIP")]
    assert found == ["", "", "ZLIB", "GZIP"]
    with pytest.raises(InvalidArgumentError, match="'LZ4'"):
        records.checked_compression(b"LZ4")
