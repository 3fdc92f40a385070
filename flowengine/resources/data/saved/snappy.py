"""Streams that TensorFlow compresses with Snappy: blocks, each behind its length in four bytes."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Final

from flowengine.core.errors import DataLossError, FailedPreconditionError

#: Bytes of a block that is written; TensorFlow reads blocks of up to four times as many.
_BLOCK: Final = 64 << 10
#: Bytes of a block that is read, compressed or not: more is taken for damage.
_BLOCK_MAX: Final = 16 << 20


def _library() -> Any:
    try:
        from cramjam import snappy
    except ImportError:
        raise FailedPreconditionError(
            "compressing with Snappy needs cramjam: pip install 'cramjam>=2.8'"
        ) from None
    return snappy


class SnappySource:
    """The content of a file of such blocks, decompressed as far as it is read. May block."""

    def __init__(self, file: BinaryIO, name: bytes) -> None:
        """FailedPreconditionError where cramjam is not installed."""
        self._file = file
        self._name = name
        self._machine = _library()
        self._ready = memoryview(b"")

    def read(self, count: int, /) -> bytes:
        """So many bytes, fewer at the end; DataLossError where a block is damaged or cut off."""
        parts: list[memoryview] = []
        missing = count
        while missing > 0:
            if not self._ready:
                self._ready = memoryview(self._block())
                if not self._ready:
                    break
            parts.append(self._ready[:missing])
            self._ready = self._ready[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _block(self) -> bytes:
        """The next block, which is not empty; b"" at the end."""
        while head := self._file.read(4):
            if len(head) < 4:
                raise self._damaged("it is cut off in the length of a block")
            (size,) = struct.unpack(">I", head)
            if size > _BLOCK_MAX:
                raise self._damaged(f"a block of {size} bytes")
            data = self._file.read(size)
            if len(data) < size:
                raise self._damaged("it is cut off in a block")
            try:
                if self._machine.decompress_raw_len(data) > _BLOCK_MAX:
                    raise self._damaged("a block of too many bytes when it is written out")
                whole = bytes(self._machine.decompress_raw(data))
            except DataLossError:
                raise
            except Exception as error:  # cramjam's own, of several classes
                raise self._damaged(str(error)) from error
            if whole:
                return whole
        return b""

    def _damaged(self, why: str) -> DataLossError:
        name = self._name.decode("utf-8", "replace")
        return DataLossError(f"{name}: damaged before offset {self._file.tell()}: {why}")


class SnappyBlocks:
    """Compresses a stream, as the machines of zlib do."""

    def __init__(self) -> None:
        """FailedPreconditionError where cramjam is not installed."""
        self._machine = _library()

    def compress(self, data: bytes) -> bytes:
        """The blocks of this data."""
        out = []
        for start in range(0, len(data), _BLOCK):
            block = bytes(self._machine.compress_raw(data[start : start + _BLOCK]))
            out.append(struct.pack(">I", len(block)) + block)
        return b"".join(out)

    def flush(self) -> bytes:
        """Nothing: every block is whole."""
        return b""


__all__ = ["SnappyBlocks", "SnappySource"]
