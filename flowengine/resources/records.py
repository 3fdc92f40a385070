"""Records of files: whole files, lines, blocks of one length, TFRecords. Generators of (key, value).

They read as they go and block while they do: whoever runs them does so on a thread. A damaged file is a
DataLossError that names the file and the offset.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any, Final, TypeAlias

from flowengine.core.crc32c import crc32c, mask
from flowengine.core.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError

Record: TypeAlias = tuple[bytes, bytes]

#: How much is asked of a file at a time.
_PIECE: Final = 1 << 20
#: The longest that a record may become by decompression, lest a small file exhaust the memory.
_DECOMPRESSED_MAX: Final = 1 << 31
_HEADER: Final = struct.Struct("<QI")
_TRAILER: Final = struct.Struct("<I")


class ZlibFile:
    """Bytes of a zlib stream, decompressed as they are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = zlib.decompressobj()
        self._ready = b""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        parts = []
        while size:
            if not self._ready:
                self._ready = self._more(size)
                if not self._ready:
                    break
            part, self._ready = self._ready[:size], self._ready[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _more(self, size: int) -> bytes:
        while not self._decoder.eof:
            compressed = self._decoder.unconsumed_tail or self._file.read(_PIECE)
            if not compressed:
                raise zlib.error("the compressed stream ends early")
            data = self._decoder.decompress(compressed, max(size, _PIECE))
            if data:
                return data
        return b""

    def close(self) -> None:
        self._file.close()


def open_stream(path: str, compression: str) -> Any:
    """A file to read from, decompressed; InvalidArgumentError for an unknown compression."""
    if compression == "":
        return open(path, "rb", buffering=_PIECE)
    if compression == "GZIP":
        return gzip.open(path, "rb")
    if compression == "ZLIB":
        return ZlibFile(open(path, "rb"))
    raise InvalidArgumentError(f"unknown compression {compression!r}: it must be empty, 'ZLIB' or 'GZIP'")


def whole_file(work: bytes) -> Iterator[Record]:
    """The file's name and all that it holds."""
    with open(os.fsdecode(work), "rb") as file:
        yield work, file.read()


def text_lines(work: bytes, skip_header_lines: int) -> Iterator[Record]:
    """`name:number` and a line without its end; numbers count from 1, skipped lines included."""
    with open(os.fsdecode(work), "rb", buffering=_PIECE) as file:
        for number, line in enumerate(file, 1):
            if number > skip_header_lines:
                yield b"%s:%d" % (work, number), line.rstrip(b"\n").replace(b"\r", b"")


def fixed_length(
    work: bytes, *, header: int, record: int, footer: int, hop: int, compression: str
) -> Iterator[Record]:
    """`name:number` and a block of `record` bytes, each `hop` after the one before, counted from 0."""
    path = os.fsdecode(work)
    with closing(open_stream(path, compression)) as file:
        if compression:
            data = _all_of(file, path)
            limit = len(data) - footer
        else:
            data = b""
            limit = os.fstat(file.fileno()).st_size - footer
        number, at = 0, header
        while at + record <= limit:
            if compression:
                block = data[at : at + record]
            else:
                file.seek(at)
                block = file.read(record)
            if len(block) < record:
                raise DataLossError(f"{path}: truncated record at {at}")
            yield b"%s:%d" % (work, number), block
            number += 1
            at += hop or record


def tf_records(work: bytes, compression: str) -> Iterator[Record]:
    """`name:offset` and a record of a TFRecord file; both checksums of each are verified."""
    path = os.fsdecode(work)
    with closing(open_stream(path, compression)) as file:
        size = None if compression else os.fstat(file.fileno()).st_size
        offset = 0
        while True:
            header = _read(file, _HEADER.size, path, offset)
            if not header:
                return
            if len(header) < _HEADER.size:
                raise DataLossError(f"{path}: truncated record at {offset}")
            length, checksum = _HEADER.unpack(header)
            if mask(crc32c(header[:8])) != checksum:
                raise DataLossError(f"{path}: corrupted record at {offset}: its length fails its checksum")
            left = None if size is None else size - offset - _HEADER.size - _TRAILER.size
            if left is not None and length > left:
                raise DataLossError(f"{path}: truncated record at {offset}")
            if length > _DECOMPRESSED_MAX and left is None:
                raise ResourceExhaustedError(
                    f"{path}: the record at {offset} would have {length} bytes; at most {_DECOMPRESSED_MAX} "
                    "are decompressed"
                )
            value = _read(file, length, path, offset)
            trailer = _read(file, _TRAILER.size, path, offset)
            if len(value) < length or len(trailer) < _TRAILER.size:
                raise DataLossError(f"{path}: truncated record at {offset}")
            if mask(crc32c(value)) != _TRAILER.unpack(trailer)[0]:
                raise DataLossError(f"{path}: corrupted record at {offset}: its data fail their checksum")
            yield b"%s:%d" % (work, offset), value
            offset += _HEADER.size + length + _TRAILER.size


def _read(file: Any, size: int, path: str, offset: int) -> bytes:
    """Up to `size` bytes, asked for in pieces, so that a length that lies costs no memory."""
    parts = []
    try:
        while size:
            part: bytes = file.read(min(size, _PIECE))
            if not part:
                break
            parts.append(part)
            size -= len(part)
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise DataLossError(f"{path}: damaged compression near record at {offset}: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _all_of(file: Any, path: str) -> bytes:
    data = _read(file, _DECOMPRESSED_MAX + 1, path, 0)
    if len(data) > _DECOMPRESSED_MAX:
        raise ResourceExhaustedError(f"{path} has more than {_DECOMPRESSED_MAX} bytes when decompressed")
    return data
