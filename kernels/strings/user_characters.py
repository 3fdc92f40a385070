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
}
#: {codec: {a byte that stands for itself alone: its code point}}
_SINGLE: Final = {"gbk": {0x80: 0x20AC, 0xFF: 0xF8F5}, "cp950": {0x80: 0x80, 0xFF: 0xF8F8}}
#: Places in a row of Big5: two parts, with a gap between them.
_BIG5_GAP: Final = (0x7F, 0xA1)
_BIG5_ROW: Final = 157
_ROW: Final = 94
_PRIVATE: Final = range(0xE000, 0xF900)
_CELLS: Final = range(0xA1, 0xFF)
#: {row of EUC-JP with signs of NEC or IBM: the first byte and the half of a row that Shift_JIS has instead}
_VENDOR_ROWS: Final = {0xAD: (0x87, 0), 0xF9: (0xED, 0), 0xFA: (0xED, 1), 0xFB: (0xEE, 0), 0xFC: (0xEE, 1)}
#: The second byte of the first sign of each half, in Shift_JIS. A row has no sign at 0x7f.
_HALVES: Final = (0x40, 0x9F)
_SHIFT_JIS_GAP: Final = 0x7F
#: Pairs of bytes that have a code point of their own in IBM's tables.
_PAIRS: Final[dict[str, dict[bytes, int]]] = {
    "euc_jp": {b"\x8e\xe0": 0xA2, b"\x8e\xe1": 0xA3, b"\x8e\xe2": 0xAC},
    "euc_kr": {b"\xa4\xd4": 0x3164},
    "gbk": {b"\xa2\xe3": 0xE76C, b"\xa8\xbf": 0xE7C8}
    | {bytes((0xA9, 0x89 + place)): 0xE7E7 + place for place in range(13)},
}
#: Signs of IBM in EUC-JP, behind 0x8f and 0xf3: their first byte, and what follows one another from there.
_THREE_BYTES: Final = {
    bytes((0x8F, 0xF3, first + place)): character
    for first, run in ((0xA1, "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ"), (0xB7, "㈱"))
    for place, character in enumerate(run)
}
#: The end of the last row of GB2312, whose characters IBM took from elsewhere.
_END_OF_GB2312: Final = "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹ￢￤\uff07ー\uf83d゛゜ヽヾ\u2010\uf83e〆\u3007〒㈱℡‥ゝゞ▽▼"
_FIRST_OF_THE_END: Final = 0xE0


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
    if codec == "euc_jp":
        signs = {b"\xa1\xc1": 0xFF5E, b"\xa1\xc2": 0x2225, b"\xa1\xdd": 0xFF0D, b"\x8f\xa2\xb7": 0xFF5E}
        return {**signs, b"\xa1\xf1": 0xFFE0, b"\xa1\xf2": 0xFFE1, b"\xa2\xcc": 0xFFE2}
    if codec == "euc_kr":
        return {b"\xa2\xe6": None, b"\xa2\xe7": None}
    if codec == "gb18030":
        return {b"\xa8\xbc": 0x1E3F}
    if codec == "gb2312":
        return {b"\xa3\xa7": 0xB4}
    if codec == "iso2022_jp":
        # Behind an escape that it does not know, Python's codec passes on bytes as they are.
        shifts_and_high = (0x0E, 0x0F, 0x1B, *range(0x80, 0x100))
        return {bytes([byte]): None for byte in shifts_and_high}
    return {}


def character_at(codec: str, data: bytes, start: int) -> tuple[str, int] | None:
    """Return the character at a place that a codec cannot decode, and its bytes; None if there is none."""
    first = data[start]
    if (single := _SINGLE.get(codec, {}).get(first)) is not None:
        return chr(single), 1
    if codec == "euc_jp" and (character := _THREE_BYTES.get(data[start : start + 3])):
        return character, 3
    if start + 1 >= len(data):
        return None
    code = _of_pair(codec, first, data[start + 1])
    return None if code is None else (chr(code), 2)


def _of_pair(codec: str, first: int, second: int) -> int | None:
    if (own := _PAIRS.get(codec, {}).get(bytes((first, second)))) is not None:
        return own
    if codec == "gbk":
        return _of_gbk(first, second)
    if codec == "gb2312":
        return _empty_cells_of_gb2312().get((first, second))
    if codec == "euc_jp":
        return _of_vendors(first, second)
    place = _place_in_big5(second) if codec == "cp950" else second - 0xA1 if second in _CELLS else None
    if place is None:
        return None
    width = _BIG5_ROW if codec == "cp950" else _ROW
    for low, high, code in _AREAS.get(codec, ()):
        if low <= first <= high:
            return code + (first - low) * width + place
    return None


def _decoded(codec: str, *data: int) -> int | None:
    """Return the one code point that Python's codec has for bytes; None if there is none."""
    try:
        text = bytes(data).decode(codec)
    except UnicodeDecodeError:
        return None
    return ord(text) if len(text) == 1 else None


def _of_vendors(first: int, second: int) -> int | None:
    """The signs of NEC and IBM in EUC-JP: Shift_JIS has two of its rows in one."""
    if first not in _VENDOR_ROWS or second not in _CELLS:
        return None
    row, half = _VENDOR_ROWS[first]
    instead = second - _CELLS.start + _HALVES[half]
    return _decoded("cp932", row, instead + (not half and instead >= _SHIFT_JIS_GAP))


@functools.cache
def _empty_cells_of_gb2312() -> dict[tuple[int, int], int]:
    """{cell that GB2312 leaves empty: code point}, in order; the end of the last row is IBM's own."""
    cells = [(row, cell) for row in _CELLS for cell in _CELLS]
    empty = [each for each in cells if _decoded("gb2312", *each) is None]
    found = {each: _PRIVATE.start + place for place, each in enumerate(empty)}
    last = _CELLS[-1]
    return found | {(last, _FIRST_OF_THE_END + place): ord(each) for place, each in enumerate(_END_OF_GB2312)}


def _place_in_big5(second: int) -> int | None:
    low, high = _BIG5_GAP
    if 0x40 <= second < low:
        return second - 0x40
    return second - high + low - 0x40 if high <= second <= 0xFE else None


def _of_gbk(first: int, second: int) -> int | None:
    """GB 18030 has the same areas, but for a part of the last row, which it has filled."""
    if first == 0xFE and 0x50 <= second <= 0xA0 and second != 0x7F:
        return 0xE815 + second - 0x50 - (second > 0x7F)
    code = _decoded("gb18030", first, second)
    return code if code in _PRIVATE else None


__all__ = ["character_at", "meant_instead"]
