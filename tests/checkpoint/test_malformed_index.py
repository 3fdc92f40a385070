"""An index whose checksums are right and whose words are not: each is told, with file and tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.checkpoint import BundleReader, BundleWriter, V1Reader, V1Writer
from flowengine.checkpoint.entries import HEADER_KEY, VERSION, BundleEntry
from flowengine.checkpoint.slices import encode_shape, encode_slice, slice_key
from flowengine.checkpoint.table import TableReader, TableWriter
from flowengine.core import dtypes
from flowengine.core.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError
from flowengine.ir.wire import bytes_field, field

Table = dict[bytes, bytes]


def rewrite(path: Path, change: Callable[[Table], None]) -> None:
    """Change a table's entries; its checksums are made anew."""
    reader = TableReader(str(path))
    entries = dict(reader)
    reader.close()
    change(entries)
    written = bytearray()
    writer = TableWriter(written.extend)
    for key in sorted(entries):
        writer.add(key, entries[key])
    writer.finish()
    path.write_bytes(written)


FIRST: Any = ((0, 1), None)
SECOND: Any = ((1, 1), None)


def add_all(writer: BundleWriter | V1Writer) -> None:
    writer.add(b"a", np.arange(6, dtype=np.float32).reshape(2, 3), dtypes.float32)
    words = np.empty(2, object)
    words[:] = [b"one", b"three"]
    writer.add(b"s", words, dtypes.string)
    writer.add_slice(b"p", (2, 2), FIRST, np.array([[1, 2]], np.int16), dtypes.int16)
    writer.add_slice(b"p", (2, 2), SECOND, np.array([[3, 4]], np.int16), dtypes.int16)


def _header(content: bytes) -> Callable[[Table], None]:
    return lambda table: table.update({HEADER_KEY: content})


def _without(key: bytes) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        del table[key]

    return change


def _entry(key: bytes, **changes: Any) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        known = BundleEntry.decode(table[key])
        assert BundleEntry.decode(known.encode()) == known
        assert hash(known) == hash(BundleEntry.decode(table[key])), "an entry is a value"
        values = {name: getattr(known, name) for name in BundleEntry.__slots__}
        table[key] = BundleEntry(**(values | changes)).encode()

    return change


def _raw(key: bytes, content: bytes) -> Callable[[Table], None]:
    return lambda table: table.update({key: content})


HEADERS: list[tuple[Callable[[Table], None], type[Exception], str]] = [
    (_without(HEADER_KEY), DataLossError, "the header is missing"),
    (_header(b"\x0a\x05a"), DataLossError, "bad header: a field is longer"),
    (_header(b"\x1a\x01\xff"), DataLossError, "bad header: an integer does not end"),
    (_header(b"\x0f"), DataLossError, "bad header: wire type 7"),
    (_header(b"\x18\x01"), DataLossError, "bad header"),
    (_header(field(1, 1) + field(2, 1)), UnimplementedError, "big-endian"),
    (
        _header(field(1, 1) + bytes_field(3, field(1, 9) + field(2, VERSION + 1))),
        InvalidArgumentError,
        rf"format version {VERSION + 1}; this one knows {VERSION}",
    ),
]


@pytest.mark.parametrize("number", range(len(HEADERS)))
def test_headers(number: int, tmp_path: Path) -> None:
    change, kind, says = HEADERS[number]
    with BundleWriter(str(tmp_path / "m"), sync=False) as writer:
        add_all(writer)
    rewrite(tmp_path / "m.index", change)
    with pytest.raises(kind, match=says):
        BundleReader(str(tmp_path / "m"))


def test_a_header_that_asks_for_what_is_known(tmp_path: Path) -> None:
    with BundleWriter(str(tmp_path / "m"), sync=False) as writer:
        add_all(writer)
    rewrite(tmp_path / "m.index", _header(field(1, 1) + bytes_field(3, field(1, 9) + field(2, VERSION))))
    with BundleReader(str(tmp_path / "m")) as reader:
        assert reader.read(b"a").shape == (2, 3)


_KEY = slice_key(b"p", FIRST)
ENTRIES: list[tuple[bytes, Callable[[Table], None], type[Exception], str]] = [
    (b"a", _raw(b"a", b"\xff" * 12), DataLossError, "bad entry of 'a'"),
    (b"a", _raw(b"a", field(2, 7)), DataLossError, "bad entry of 'a'"),
    (b"a", _raw(b"a", field(1, 1) + field(4, -1)), DataLossError, "a number is negative"),
    (b"a", _raw(b"a", field(1, 1) + field(5, -1)), DataLossError, "a number is negative"),
    (
        b"a",
        _raw(b"a", field(1, 1) + bytes_field(2, bytes_field(2, field(1, -2)))),
        DataLossError,
        "a dimension is negative",
    ),
    (b"a", _raw(b"a", field(1, 1) + bytes_field(2, field(3, 1))), DataLossError, "the rank is unknown"),
    (b"a", _entry(b"a", dtype=77), UnimplementedError, "element type number 77"),
    (b"a", _entry(b"a", dtype=dtypes.resource.number), UnimplementedError, "of type resource"),
    (b"a", _entry(b"a", shape=(2, 4)), DataLossError, r"24 bytes for float32 of shape \[2, 4\]"),
    (b"a", _entry(b"a", shard=5), NotFoundError, "tensor 'a' should be in it"),
    (b"a", _entry(b"a", offset=1 << 40), DataLossError, "the file ends before the 24 bytes"),
    (b"a", _entry(b"a", offset=1), DataLossError, "the checksum does not match"),
    (b"s", _entry(b"s", shape=(50,)), DataLossError, "bytes for 50 strings"),
    (b"s", _entry(b"s", shape=(3,)), DataLossError, "tensor 's': "),
    (b"s", _entry(b"s", crc=1), DataLossError, "the checksum does not match"),
    (b"p", _without(_KEY), DataLossError, "the slice '0,1:-' is missing"),
    (b"p", _entry(_KEY, shape=(2, 1)), DataLossError, "the slice '0,1:-' is of another kind"),
    (b"p", _entry(_KEY, dtype=dtypes.uint16.number), DataLossError, "the slice '0,1:-' is of another kind"),
    (b"p", _entry(b"p", slices=(((0, 3), None), SECOND)), DataLossError, r"reaches beyond"),
    (b"p", _entry(b"p", slices=(((0, 1),),)), DataLossError, "has 1 dimensions"),
    (b"p", _entry(b"p", slices=(FIRST,)), InvalidArgumentError, "do not cover the slice"),
    (
        b"p",
        _raw(b"p", field(1, 5) + bytes_field(7, bytes_field(1, field(1, -1) + field(2, 1)))),
        DataLossError,
        "a slice is negative",
    ),
]


@pytest.mark.parametrize("number", range(len(ENTRIES)))
def test_entries(number: int, tmp_path: Path) -> None:
    name, change, kind, says = ENTRIES[number]
    with BundleWriter(str(tmp_path / "m"), sync=False) as writer:
        add_all(writer)
    rewrite(tmp_path / "m.index", change)
    with BundleReader(str(tmp_path / "m")) as reader:
        with pytest.raises(kind, match=says):
            reader.read(name)
        # The others are as they were.
        for other in {b"a", b"s", b"p"} - {name}:
            assert reader.read(other).size


def _tensor(name: bytes, shape: tuple[int, ...], dtype: int, *parts: Any) -> bytes:
    content = bytes_field(1, name) + bytes_field(2, encode_shape(shape)) + field(3, dtype)
    return bytes_field(1, content + b"".join(bytes_field(4, encode_slice(part)) for part in parts))


def _meta(*tensors: bytes) -> Callable[[Table], None]:
    return _raw(b"", bytes_field(1, b"".join(tensors)))


WHOLE = (None, None)
OLD: list[tuple[Callable[[Table], None], type[Exception], str]] = [
    (_without(b""), DataLossError, "at the start of the table"),
    (_raw(b"", b"\x0a\x7f"), DataLossError, "bad list of tensors"),
    (_raw(b"", field(1, 3)), DataLossError, "bad list of tensors"),
    (
        _meta(_tensor(b"a", (2, 3), 1, WHOLE), _tensor(b"a", (2, 4), 1, WHOLE)),
        DataLossError,
        "another type or shape in another file",
    ),
    (
        _meta(_tensor(b"a", (2, 3), 1, WHOLE), _tensor(b"a", (2, 3), 2, WHOLE)),
        DataLossError,
        "another type or shape in another file",
    ),
    (_meta(_tensor(b"a", (2, 3), 77, WHOLE)), UnimplementedError, "element type number 77"),
    (_meta(_tensor(b"a", (2, 3), dtypes.variant.number, WHOLE)), UnimplementedError, "cannot be read"),
    (_meta(_tensor(b"a", (2, 3), 1, ((0, 3), None))), DataLossError, "reaches beyond"),
    (_meta(_tensor(b"a", (2, 3), 1, FIRST)), InvalidArgumentError, "do not cover"),
    (_meta(_tensor(b"a", (2, 3), 1, FIRST, SECOND)), DataLossError, "the slice '0,1:-' is missing"),
    (_meta(_tensor(b"a", (2, 4), 1, WHOLE)), DataLossError, "6 elements are stored, not 8"),
    (_raw(slice_key(b"a", WHOLE), b"\xff"), DataLossError, "tensor 'a': an integer does not end"),
    (_raw(slice_key(b"a", WHOLE), field(2, 1)), DataLossError, "tensor 'a': "),
    (
        _raw(slice_key(b"a", WHOLE), bytes_field(2, bytes_field(3, bytes_field(5, b"123")))),
        DataLossError,
        "half an element is stored",
    ),
    (_raw(slice_key(b"a", WHOLE), b""), DataLossError, "0 elements are stored, not 6"),
]


@pytest.mark.parametrize("number", range(len(OLD)))
def test_the_first_format(number: int, tmp_path: Path) -> None:
    change, kind, says = OLD[number]
    with V1Writer(str(tmp_path / "m"), sync=False) as writer:
        add_all(writer)
    rewrite(tmp_path / "m", change)
    with pytest.raises(kind, match=says), V1Reader(str(tmp_path / "m")) as reader:
        reader.read(b"a")


@pytest.mark.parametrize(("dtype", "number"), [(dtypes.int32, 7), (dtypes.int64, 10), (dtypes.bool_, 11)])
def test_integers_one_by_one_and_one_for_all(dtype: dtypes.DType, number: int, tmp_path: Path) -> None:
    """As older programs write them: a field for each number; or one number that stands for all."""
    with V1Writer(str(tmp_path / "m"), sync=False) as writer:
        writer.add(b"x", np.zeros(3, dtype.as_numpy_dtype), dtype)
    for stored, expected in (
        (field(number, 1) + field(number, 0) + field(number, 1), [1, 0, 1]),
        (field(number, 1), [1, 1, 1]),
        (bytes_field(number, b"\x01\x00") + field(number, 1), [1, 0, 1]),
    ):
        content = bytes_field(2, bytes_field(3, stored))
        rewrite(tmp_path / "m", _raw(slice_key(b"x", (None,)), content))
        with V1Reader(str(tmp_path / "m")) as reader:
            assert reader.read(b"x").tolist() == expected
