"""TFRecord files: length, its checksum, the record, its checksum, and so on to the end.

A file is read in pieces, and the checksums of all records of a piece are compared at once:
with a message's first four bytes inverted and its checksum as it is before masking, each length and each
record is a multiple of the checksum's polynomial, and so is the whole piece, just where nothing is damaged.
Only in a piece that is damaged are the records looked at one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import recycled
from flowengine.core.checksums.crc32c import crc32c, is_multiple, mask
from flowengine.core.errors import DataLossError, OpError, ResourceExhaustedError
from flowengine.resources.records import Block, RecordSource, exactly, shown

#: Bytes of one record.
RECORD_MAX: Final = 2**31
#: Large enough for checking to go at the speed of memory although something of it is done once a piece; small
#: enough for the next to be ready in time.
PIECE: Final = 1024 * 1024

_LENGTH: Final = struct.Struct("<Q")
_HEADER: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")
_MASK_DELTA: Final = np.uint32(0xA282EAD8)

#: Where a piece of the file begins, where in it records begin, and the records.
_Piece: TypeAlias = tuple[int, list[int], list[bytes]]


def tf_records(source: RecordSource, name: bytes, piece: int = PIECE) -> Iterator[Block]:
    """The records of a file; the key of each is `name:offset`.

    Raises DataLossError with file and offset for a checksum that does not fit and for a record cut off,
    and ResourceExhaustedError for one longer than `RECORD_MAX`, each after the records before it.
    """
    prefix = name + b":"
    for offset, starts, records in _pieces(source, name, piece):
        # All offsets are written at once: one by one it takes as long as everything else.
        offsets = str((np.array(starts) + offset).tolist())[1:-1].encode().split(b", ")
        yield [(prefix + number, record) for number, record in zip(offsets, records, strict=True)]


def tf_records_alone(source: RecordSource, name: bytes, piece: int = PIECE) -> Iterator[list[bytes]]:
    """As `tf_records`, without keys."""
    for _, _, records in _pieces(source, name, piece):
        yield records


def _pieces(source: RecordSource, name: bytes, piece: int) -> Iterator[_Piece]:
    """Yield each piece: its position, the positions of its records within it, and the records."""
    held = b""
    offset = 0  # of what is held
    wanted = piece
    while True:
        more = exactly(source, wanted)
        held = held + more if held else more
        starts, end = _frames(held)
        if starts:
            yield from _checked(held, starts, end, name, offset)
            held = held[end:]
            offset += end
        if len(more) < wanted:
            break
        wanted = max(piece, _missing(held, name, offset))
    if held:
        missing = _missing(held, name, offset)
        what = f"{len(held)} of 12 bytes of its header" if len(held) < 12 else f"{missing} bytes too few"
        raise DataLossError(f"{_where(name, offset)}truncated record: {what} are there")


def _where(name: bytes, offset: int) -> str:
    return f"{shown(name)}, record at offset {offset}: "


def _frames(data: bytes) -> tuple[list[int], int]:
    """Return the start of each complete record, by its unchecked length, and the end of the last."""
    starts = []
    position, limit = 0, len(data)
    unpack = _LENGTH.unpack_from
    while limit - position >= 16:
        following = position + unpack(data, position)[0] + 16
        if following > limit:
            break
        starts.append(position)
        position = following
    return starts, position


def _missing(held: bytes, name: bytes, offset: int) -> int:
    """Bytes that the record which begins here lacks, as far as can be told; its length must be right."""
    if len(held) < 12:
        return 12 - len(held)
    length, length_crc = _HEADER.unpack_from(held)
    if mask(crc32c(held[:8])) != length_crc:
        raise DataLossError(
            f"{_where(name, offset)}corrupted record: the checksum of its length does not fit"
        )
    if length > RECORD_MAX:
        raise ResourceExhaustedError(
            f"{_where(name, offset)}it claims {length} bytes; the limit is {RECORD_MAX}"
        )
    return max(0, int(length) + 16 - len(held))


def _checked(data: bytes, starts: list[int], end: int, name: bytes, offset: int) -> Iterator[_Piece]:
    """The records that begin at these places, those before a damaged one even then."""
    ends = [*starts[1:], end]
    places = np.array([*starts, end])
    if _intact(data, places[:-1], places[1:]):
        records = [data[start + 12 : following - 4] for start, following in zip(starts, ends, strict=True)]
        yield offset, starts, records
        return
    records = []
    failure: OpError | None = None
    for start, following in zip(starts, ends, strict=True):
        try:
            _missing(data[start : start + 12], name, offset + start)
        except OpError as error:
            failure = error
            break
        record = data[start + 12 : following - 4]
        if mask(crc32c(record)) != _CRC.unpack_from(data, following - 4)[0]:
            failure = DataLossError(
                f"{_where(name, offset + start)}corrupted record: the checksum of its data does not fit"
            )
            break
        records.append(record)
    if records:
        yield offset, starts[: len(records)], records
    if failure is not None:
        raise failure


def _intact(data: bytes, starts: Array, ends: Array) -> bool:
    """Whether all checksums of these records fit; `starts` and `ends` are int64 [records]."""
    size = int(ends[-1])
    message = recycled((-(-size // 8),), np.uint64)
    message[:1] = 0
    octets = message.view(np.uint8)[message.nbytes - size :]
    octets[:] = np.frombuffer(data, np.uint8, size)
    # The four bytes from any place on, whatever its alignment.
    words = np.ndarray((size - 3,), "<u4", octets.data, strides=(1,))
    for fields in (starts + 8, ends - 4):
        rotated = words[fields] - _MASK_DELTA
        words[fields] = ~((rotated >> np.uint32(17)) | (rotated << np.uint32(15)))
    for messages in (starts, starts + 12):
        words[messages] = ~words[messages]
    return is_multiple(message)
