"""Snappy blocks in Python, for the indexes of checkpoints.

A block is its length as a varint, then elements, whose first byte says what each is:

    ......00    bytes that follow; ...... is their number less one, or how many bytes hold that
    ......01    a copy of 4 to 11 bytes; eleven bits say how far back
    ......10    a copy of 1 to 64 bytes; two bytes say how far back
    ......11    the same with four

An index has some ten kilobytes for each thousand variables, which take 13 ms. Data in bulk (snapshots of
datasets) has a library of its own: see `flowengine.resources.data.saved.snappy`.
"""

from __future__ import annotations

from typing import Final

#: Bytes after the tag that hold a copy's offset.
_OFFSET_BYTES: Final = (0, 1, 2, 4)


def decompress_block(data: bytes | memoryview, bytes_max: int) -> bytes:
    """Return the content of a block.

    Raises ValueError for a block that is damaged, or whose content has more than `bytes_max` bytes.

    >>> decompress_block(bytes([6, 4, 97, 98, 14, 2, 0]), 100)
    b'ababab'
    """
    length, at = _varint(data)
    if length > bytes_max:
        raise ValueError(f"{length} bytes when it is written out")
    found = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind, count = tag & 3, tag >> 2
        extra = max(0, count - 59) if kind == 0 else _OFFSET_BYTES[kind]
        following = data[at : at + extra]
        if len(following) < extra:
            raise ValueError("it ends within an element")
        at += extra
        number = int.from_bytes(following, "little")
        if kind == 0:
            size = (number if extra else count) + 1
            if at + size > len(data):
                raise ValueError("it ends within an element")
            found += data[at : at + size]
            at += size
        elif kind == 1:
            _copy(found, (tag >> 5) << 8 | number, (count & 7) + 4)
        else:
            _copy(found, number, count + 1)
        if len(found) > length:
            break
    if len(found) != length:
        raise ValueError(f"it does not hold the {length} bytes that it says")
    return bytes(found)


def _copy(found: bytearray, offset: int, size: int) -> None:
    """Append bytes that are there already; those that are appended may be among them."""
    if not 0 < offset <= len(found):
        raise ValueError(f"a copy from {offset} bytes before, where there are {len(found)}")
    repeated = bytes(found[-offset:][:size])
    found += (repeated * -(-size // len(repeated)))[:size]


def _varint(data: bytes | memoryview) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(bytes(data[:5])):
        value |= (byte & 127) << (7 * at)
        if byte < 128:
            return value, at + 1
    raise ValueError("it has no length")


__all__ = ["decompress_block"]
