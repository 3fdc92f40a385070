"""East Asian bytes that ICU decodes, and TensorFlow with it, and Python's codecs do not.

Most are characters of users, in areas of an encoding that vendors left to them: they stand for the private
use area of Unicode, row by row. A few bytes mean something else to ICU.
"""

from __future__ import annotations

import functools
from typing import Final

#: {codec: [(first row, last row, code point of the first character)]}
_AREAS: Final = {
    "cp950": [
        (0xFA, 0xFE, 0xE000),
        (0x8E, 0xA0, 0xE311),
        (0x81, 0x8D, 0xEEB8),
        (0xC6, 0xC8, 0xF672),
    ],
    "euc_kr": [(0xC9, 0xC9, 0xE000), (0xFE, 0xFE, 0xE05E)],
    "gb2312": [(0xAA, 0xAF, 0xE0A4), (0xF8, 0xFE, 0xE2DD)],
}
#: {codec: {a byte that stands for itself alone: its code point}}
_SINGLE: Final = {"gbk": {0x80: 0x20AC, 0xFF: 0xF8F5}, "cp950": {0x80: 0x80, 0xFF: 0xF8F8}}
#: Places in a row of Big5: two parts, with a gap between them.
_BIG5_GAP: Final = (0x7F, 0xA1)
_BIG5_ROW: Final = 157
_ROW: Final = 94
_PRIVATE: Final = range(0xE000, 0xF900)
#: The row of EUC-JP with NEC's signs, and what Shift_JIS has instead.
_NEC_ROW: Final = 0xAD
_NEC_IN_SHIFT_JIS: Final = 0x87


@functools.cache
def meant_instead(codec: str) -> dict[bytes, int | None]:
    """List bytes that ICU reads unlike Python's codec, with its code points; None for a malformed part."""
    if codec == "cp932":
        # IBM's table for Shift_JIS exchanges three control characters.
        controls: dict[bytes, int | None] = {b"\x1a": 0x1C, b"\x1c": 0x7F, b"\x7f": 0x1A}
        return controls | {bytes([byte]): None for byte in (0x80, 0xA0, 0xFD, 0xFE, 0xFF)}
    if codec == "cp950":
        seconds = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
        pairs = [(first, second) for first in (0xC6, 0xC7) for second in seconds]
        return {bytes(each): _of_pair(codec, *each) for each in pairs if each >= (0xC6, 0xA1)}
    if codec == "euc_kr":
        return {b"\xa2\xe6": None, b"\xa2\xe7": None}
    if codec == "iso2022_jp":
        return {b"\x0e": None, b"\x0f": None, b"\x1b": None}
    return {}


def character_at(codec: str, data: bytes, start: int) -> tuple[str, int] | None:
    """Return the character at a place that a codec cannot decode, and its bytes; None if there is none."""
    first = data[start]
    if (single := _SINGLE.get(codec, {}).get(first)) is not None:
        return chr(single), 1
    if start + 1 >= len(data):
        return None
    code = _of_pair(codec, first, data[start + 1])
    return None if code is None else (chr(code), 2)


def _of_pair(codec: str, first: int, second: int) -> int | None:
    if codec == "gbk":
        return _of_gbk(first, second)
    if codec == "euc_jp":
        if first != _NEC_ROW or not 0xA1 <= second <= 0xFE:
            return None
        text = bytes([_NEC_IN_SHIFT_JIS, second - (0x61 if second < 0xE0 else 0x60)]).decode(
            "cp932", "ignore"
        )
        return ord(text) if len(text) == 1 else None
    place = _place_in_big5(second) if codec == "cp950" else second - 0xA1 if 0xA1 <= second <= 0xFE else None
    if place is None:
        return None
    width = _BIG5_ROW if codec == "cp950" else _ROW
    for low, high, code in _AREAS.get(codec, ()):
        if low <= first <= high:
            return code + (first - low) * width + place
    return None


def _place_in_big5(second: int) -> int | None:
    low, high = _BIG5_GAP
    if 0x40 <= second < low:
        return second - 0x40
    return second - high + low - 0x40 if high <= second <= 0xFE else None


def _of_gbk(first: int, second: int) -> int | None:
    """GB 18030 has the same areas, but for a part of the last row, which it has filled."""
    if first == 0xFE and 0x50 <= second <= 0xA0 and second != 0x7F:
        return 0xE815 + second - 0x50 - (second > 0x7F)
    text = bytes([first, second]).decode("gb18030", "ignore")
    return ord(text) if len(text) == 1 and ord(text) in _PRIVATE else None


__all__ = ["character_at", "meant_instead"]
