"""Sorted tables of keys and values in one file: the container of a checkpoint's index.

The format is LevelDB's: blocks of entries that share prefixes, each block with a checksum, an index block
over them and a footer. Keys are sorted as bytes. Blocks may be compressed with Snappy; none is written.
Damage is a DataLossError that names the file.
"""

from __future__ import annotations

import bisect
import io
import os
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from flowengine.core.checksums.crc32c import crc32c, mask, unmask
from flowengine.core.errors import DataLossError, NotFoundError, UnimplementedError
from flowengine.core.files.access import SYSTEM, Files
from flowengine.core.files.kinds import kind_of
from flowengine.core.files.snappy_block import decompress_block
from flowengine.ir.wire import read_varint, varint

_MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER: Final = 48
_TRAILER: Final = 5
_BLOCK_BYTES: Final = 262144
_RESTART_EVERY: Final = 16
_SNAPPY: Final = 1
_COMPRESSIONS: Final = {_SNAPPY: "Snappy", 2: "zstd"}
#: Bytes at a file's beginning that may say that it is something else, such as a Git LFS pointer.
_MAGIC_BYTES: Final = 64
#: A block that claims to be longer when it is written out is damaged.
_WRITTEN_OUT_BYTES_MAX: Final = 1 << 28


class TableReader:
    """A table file, open for reading. Blocks are read when they are asked for.

    Raises NotFoundError where there is no such file and DataLossError where it is no table.
    """

    def __init__(self, path: str, files: Files = SYSTEM) -> None:
        self.path = path
        try:
            # Closed by `close`: blocks are read on demand.
            self._file: io.FileIO = files.open_raw(path)
        except FileNotFoundError:
            raise NotFoundError(f"{path}: no such file") from None
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            footer = self._read(self._size - _FOOTER, _FOOTER) if self._size >= _FOOTER else b""
            if footer[-8:] != _MAGIC:
                if (kind := kind_of(self._read(0, min(self._size, _MAGIC_BYTES)))) is not None:
                    self._damaged(f"it is {kind}")
                self._damaged(
                    "not an sstable (bad magic number): the file is cut off or in a different file format"
                )
            try:
                _, position = _read_handle(footer, 0)
                handle, _ = _read_handle(footer, position)
                index = [(key, _read_handle(value, 0)[0]) for key, value in self._entries(*handle)]
            except ValueError as error:
                self._damaged(str(error))
            self._last_keys = [key for key, _ in index]
            self._handles = [handle for _, handle in index]
            self._block: tuple[int, dict[bytes, bytes]] | None = None
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for handle in self._handles:
            yield from self._entries(*handle)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        number = bisect.bisect_left(self._last_keys, key)
        if number == len(self._handles):
            return None
        if self._block is None or self._block[0] != number:
            self._block = None
            self._block = number, dict(self._entries(*self._handles[number]))
        return self._block[1].get(key)

    def _damaged(self, what: str) -> NoReturn:
        raise DataLossError(f"{self.path}: {what}")

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        parts = []
        while size:
            part = self._file.read(size)
            if not part:
                self._damaged("the file is shorter than it was")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _entries(self, offset: int, size: int) -> list[tuple[bytes, bytes]]:
        if offset + size + _TRAILER > self._size:
            self._damaged(f"a block at {offset} of {size} bytes reaches beyond the end of the file")
        stored = self._read(offset, size + _TRAILER)
        if unmask(int.from_bytes(stored[-4:], "little")) != crc32c(memoryview(stored)[:-4]):
            self._damaged(f"block checksum mismatch at {offset}")
        try:
            return _parse_block(self._written_out(memoryview(stored)[:size], stored[size], offset))
        except (ValueError, IndexError) as error:
            self._damaged(f"bad block at {offset}: {error}")

    def _written_out(self, content: memoryview, kind: int, offset: int) -> memoryview:
        """A block's bytes without compression; UnimplementedError for another compression than Snappy."""
        if not kind:
            return content
        if kind != _SNAPPY:
            raise UnimplementedError(
                f"{self.path}: the block at {offset} is compressed with {_COMPRESSIONS.get(kind, kind)}; "
                "only blocks without compression and with Snappy can be read"
            )
        return memoryview(decompress_block(content, _WRITTEN_OUT_BYTES_MAX))


def _read_handle(data: bytes | memoryview, position: int) -> tuple[tuple[int, int], int]:
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (offset, size), position


def _parse_block(data: memoryview) -> list[tuple[bytes, bytes]]:
    if len(data) < 4:
        raise ValueError("too short")
    restarts = int.from_bytes(data[-4:], "little")
    end = len(data) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("too many restarts")
    entries = []
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(data, position)
        own, position = read_varint(data, position)
        length, position = read_varint(data, position)
        if shared > len(key) or own + length > end - position:
            raise ValueError("an entry does not fit")
        key = key[:shared] + bytes(data[position : position + own])
        position += own
        entries.append((key, bytes(data[position : position + length])))
        position += length
    return entries


class TableWriter:
    """Writes a table through a function that appends bytes to a file; keys must come in order."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._offset = 0
        self._block = _BlockWriter(_RESTART_EVERY)
        self._index = _BlockWriter(1)
        self._last_key = b""
        #: The finished block's handle, until the next key says where to divide.
        self._pending: bytes | None = None

    def add(self, key: bytes, value: bytes) -> None:
        if self._pending is not None:
            self._index.add(_separator(self._last_key, key), self._pending)
            self._pending = None
        self._block.add(key, value)
        self._last_key = key
        if self._block.size >= _BLOCK_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        meta = self._put(_BlockWriter(1))
        if self._pending is not None:
            self._index.add(_successor(self._last_key), self._pending)
        index = self._put(self._index)
        self._write((meta + index).ljust(_FOOTER - len(_MAGIC), b"\x00") + _MAGIC)

    def _flush(self) -> None:
        if not self._block.is_empty:
            self._pending = self._put(self._block)
            self._block = _BlockWriter(_RESTART_EVERY)

    def _put(self, block: _BlockWriter) -> bytes:
        content = block.finish() + b"\x00"
        handle = varint(self._offset) + varint(len(content) - 1)
        self._write(content + mask(crc32c(content)).to_bytes(4, "little"))
        self._offset += len(content) + 4
        return handle


class _BlockWriter:
    def __init__(self, restart_every: int) -> None:
        self._content = bytearray()
        self._restarts = [0]
        self._restart_every = restart_every
        self._since_restart = 0
        self._last_key = b""
        self.is_empty = True

    @property
    def size(self) -> int:
        return len(self._content) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart < self._restart_every:
            shared = _shared(self._last_key, key)
        else:
            self._restarts.append(len(self._content))
            self._since_restart = 0
        self._content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        self._content += key[shared:]
        self._content += value
        self._last_key = key
        self._since_restart += 1
        self.is_empty = False

    def finish(self) -> bytes:
        for number in (*self._restarts, len(self._restarts)):
            self._content += number.to_bytes(4, "little")
        return bytes(self._content)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes two keys have in common at their start."""
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    return next(place for place in range(limit) if one[place] != other[place])


def _separator(before: bytes, after: bytes) -> bytes:
    """A short key from `before` up to below `after`."""
    same = _shared(before, after)
    if same < min(len(before), len(after)) and before[same] < 0xFF and before[same] + 1 < after[same]:
        return before[:same] + bytes([before[same] + 1])
    return before


def _successor(key: bytes) -> bytes:
    """A short key that is no smaller."""
    for place, byte in enumerate(key):
        if byte != 0xFF:
            return key[:place] + bytes([byte + 1])
    return key
