"""Bytes in some encoding, decoded to code points with their widths, and code points encoded again.

Python's codecs do the work a whole text at a time. A malformed part becomes one surrogate, which no
valid text decodes to: it holds the number of bytes skipped, and counts as one code point.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.strings.user_characters import character_at, meant_instead

REPLACEMENT: Final = 0xFFFD

#: A malformed part of n bytes decodes to this surrogate plus n; none is longer than `_PART_MAX`.
_MALFORMED: Final = 0xDC00
_PART_MAX: Final = 255
_HANDLER: Final = "flowengine.malformed"

_CONTROLS_HANDLER: Final = "flowengine.malformed-or-control"

#: Names that Python does not know, or means something else by, without their signs.
_ALIASES: Final = {
    "big5": "cp950",
    "macintosh": "mac_roman",
    "shiftjis": "cp932",
    "sjis": "cp932",
    "ibm37": "cp037",
    "windows31j": "cp932",
}
#: Of these a byte from 0x80 to 0x9f that means nothing else is the control character of that number.
_WITH_CONTROLS: Final = re.compile(r"cp125[0-8]|iso8859.*|euc.*|gb2312")
#: Bytes that shift to a further set of characters, if the encoding has one: never control characters.
_SHIFTS: Final = (0x8E, 0x8F)
_SINGLE_BYTES: Final = re.compile(
    r"ascii|cp125[0-8]|iso8859-([1-9]|10|13|14|15)|koi8-[ru]|mac-(roman|cyrillic)|cp(037|1140|500)"
)
_EAST_ASIAN: Final = ("big5hkscs", "cp950", "cp932", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "hz")
#: Its escapes change what bytes mean from there on: a decoder that begins anew needs the state of the last.
_WITH_ESCAPES: Final = "iso2022_jp"
_SEVERAL_BYTES: Final = frozenset([*_EAST_ASIAN, _WITH_ESCAPES, "utf-7"])


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Code points of several strings, one behind the other.

    codes       (n,) int32; 0xFFFD for a part that is malformed
    widths      (n,) int64: the bytes of each
    malformed   (n,) bool
    splits      (strings + 1,) int64: where each string's code points begin, and the end
    """

    codes: Array
    widths: Array
    malformed: Array
    splits: Array


#: Bytes of EUC-JP that are one malformed part where they mean nothing.
_SHIFTED: Final = re.compile(rb"\x8f[\xa1-\xfe]{2}|\x8f(?=[\x80-\x9f])|\x8f[\xa0\xff]|\x8e[\xa0\xe3\xe4\xff]")

#: {codec of two bytes: (first bytes, second bytes)}. A pair of these that means nothing is one malformed part
#: for ICU, and so for TensorFlow; Python passes over its first byte only.
_PAIRS: Final = {
    "cp932": (
        frozenset({*range(0x81, 0xA0), *range(0xE0, 0xFD)}),
        frozenset({*range(0x40, 0x7F), *range(0x80, 0xFD)}),
    ),
    "cp950": (frozenset(range(0x81, 0xFF)), frozenset({*range(0x40, 0x7F), *range(0x80, 0xFF)})),
    "euc_kr": (frozenset(range(0xA1, 0xFF)), frozenset(range(0xA0, 0x100))),
    "gb18030": (frozenset(range(0x81, 0xFF)), frozenset([0xFF])),
    "gb2312": (frozenset(range(0xA1, 0xFF)), frozenset(range(0xA0, 0x100))),
    "gbk": (frozenset(range(0x81, 0xFF)), frozenset({*range(0x40, 0x7F), *range(0x80, 0xFF)})),
    "euc_jp": (frozenset(range(0xA1, 0xFF)), frozenset(range(0xA0, 0x100))),
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    end = error.end
    if found := character_at(error.encoding, error.object, error.start):
        return found[0], error.start + found[1]
    if error.encoding == "euc_jp" and (shifted := _SHIFTED.match(error.object, error.start)):
        return chr(_MALFORMED + len(shifted[0])), shifted.end()
    if error.encoding in _PAIRS and end > error.start + 1:
        if error.object[error.start + 1] < 0x80 and not _is_long(error):
            end = error.start + 1
    elif error.encoding in _PAIRS and end < len(error.object):
        first, second = _PAIRS[error.encoding]
        if error.object[error.start] in first and error.object[end] in second:
            end += 1
    return chr(_MALFORMED + min(end - error.start, _PART_MAX)), end


def _is_long(error: UnicodeDecodeError) -> bool:
    """Return whether a malformed part may begin one of four bytes, which has digits in it."""
    if error.encoding != "gb18030" or not 0x81 <= error.object[error.start] <= 0xFE:
        return False
    third = error.object[error.start + 2 : error.start + 3]
    return not third or 0x81 <= third[0] <= 0xFE


def _mark_unless_control(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    byte = error.object[error.start]
    is_control = 0x80 <= byte < 0xA0 and byte not in _SHIFTS
    return (chr(byte), error.start + 1) if is_control else _mark(error)


codecs.register_error(_HANDLER, _mark)
codecs.register_error(_CONTROLS_HANDLER, _mark_unless_control)


def points(text: str) -> Array:
    """(len(text),) int32: the code points, surrogates among them."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)


def splits_of(counts: Sequence[int]) -> Array:
    splits = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.array(counts, np.int64), out=splits[1:])
    return splits


def _decoded_units(texts: Sequence[str], width_of: Callable[[Array], Array]) -> DecodedText:
    """Texts that hold marks, put behind one another."""
    codes = points("".join(texts)).copy()
    malformed = (codes > _MALFORMED) & (codes <= _MALFORMED + _PART_MAX)
    widths = np.where(malformed, codes - _MALFORMED, width_of(codes)).astype(np.int64)
    codes[malformed] = REPLACEMENT
    return DecodedText(codes, widths, malformed, splits_of([len(text) for text in texts]))


def utf8_widths(codes: Array) -> Array:
    """The bytes that UTF-8 takes for each code point."""
    return 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)


def _utf16_widths(codes: Array) -> Array:
    return 2 + 2 * (codes >= 0x10000).astype(np.int64)


def _utf8(strings: Sequence[bytes]) -> DecodedText:
    """All strings at once where they are valid, as most are."""
    data = b"".join(strings)
    raw = np.frombuffer(data, np.uint8)
    begins = (raw & 0xC0) != 0x80
    ends = splits_of([len(s) for s in strings])
    firsts = ends[:-1][ends[:-1] < ends[1:]]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or not begins[firsts].all():
        return _decoded_units([s.decode("utf-8", _HANDLER) for s in strings], utf8_widths)
    codes = points(text)
    before = np.zeros(raw.size + 1, np.int64)
    np.cumsum(begins, out=before[1:])
    return DecodedText(codes, utf8_widths(codes), np.zeros(codes.shape, np.bool_), before[ends])


def _utf16(strings: Sequence[bytes], codec: str) -> DecodedText:
    return _decoded_units([s.decode(codec, _HANDLER) for s in strings], _utf16_widths)


def _utf32(strings: Sequence[bytes], codec: str) -> DecodedText:
    return _decoded_units([s.decode(codec, _HANDLER) for s in strings], lambda codes: np.full(codes.shape, 4))


def _marked(strings: Sequence[bytes], codec: str) -> DecodedText:
    """UTF-16 or UTF-32 whose byte order a mark at the beginning tells; big-endian where there is none.

    The mark is no code point: its bytes count for the first one behind it.
    """
    little, big = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    if codec == "utf-32":
        little, big = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
    orders = ["-le" if s.startswith(little) else "-be" for s in strings]
    bare = [s[len(big) :] if s.startswith((little, big)) else s for s in strings]
    texts = [s.decode(codec + order, _HANDLER) for s, order in zip(bare, orders, strict=True)]
    result = _decoded_units(texts, _utf16_widths if codec == "utf-16" else lambda c: np.full(c.shape, 4))
    for row, (s, rest) in enumerate(zip(strings, bare, strict=True)):
        if len(s) > len(rest) and result.splits[row] < result.splits[row + 1]:
            result.widths[result.splits[row]] += len(big)
    return result


@functools.lru_cache(maxsize=64)
def _single_bytes(codec: str) -> Array:
    """(256,) int32: what each byte stands for; -1 for nothing."""
    table = np.full(256, -1, np.int32)
    controls = _WITH_CONTROLS.fullmatch(codec) is not None
    for byte in range(256):
        text = bytes([byte]).decode(codec, "ignore")
        if text:
            table[byte] = ord(text)
        elif controls and (0x80 <= byte < 0xA0 or (codec, byte) == ("cp1253", 0xAA)):
            table[byte] = byte
    return table


def _by_table(strings: Sequence[bytes], codec: str) -> DecodedText:
    codes = _single_bytes(codec)[np.frombuffer(b"".join(strings), np.uint8)]
    malformed = codes < 0
    codes[malformed] = REPLACEMENT
    return DecodedText(codes, np.ones(codes.shape, np.int64), malformed, splits_of([len(s) for s in strings]))


def _steps(data: bytes, codec: str, handler: str, state: int | None = None) -> Iterator[tuple[str, int]]:
    """Yield each character, or the mark of a malformed part, and its bytes.

    state   of Python's decoder before the first byte, as `getstate` says; None at the beginning
    """
    instead = meant_instead(codec)
    decoder = codecs.getincrementaldecoder(codec)(handler)
    if state is not None:
        decoder.setstate((b"", state))
    behind = 0
    for at in range(len(data)):
        part = decoder.decode(data[at : at + 1], at + 1 == len(data))
        done = at + 1 - len(decoder.getstate()[0])  # what is left may begin a further character
        for index, character in enumerate(part):
            width = ord(character) - _MALFORMED
            is_mark = 0 < width <= _PART_MAX
            if is_mark and codec == _WITH_ESCAPES and at + 1 == len(data):
                width = done - behind - (width - 1)
            elif index == len(part) - 1 and not (is_mark and codec in _PAIRS):
                width = done - behind
            elif not is_mark:
                width = 1
            meant = instead.get(data[behind : behind + width], ord(character))
            yield chr(_MALFORMED + width if meant is None else meant), width
            behind += width
    if (codec in _PAIRS or codec == _WITH_ESCAPES) and behind < len(data):
        # At the end Python's decoders report one malformed part, and pass over what follows it.
        yield from _steps(data[behind:], codec, handler, decoder.getstate()[1])


def _by_steps(strings: Sequence[bytes], codec: str) -> DecodedText:
    """Encodings of several bytes, byte by byte: how wide a code point was is not to be seen in the text."""
    handler = _CONTROLS_HANDLER if _WITH_CONTROLS.fullmatch(codec) else _HANDLER
    texts: list[str] = []
    widths: list[int] = []
    for data in strings:
        text: list[str] = []
        for character, width in _steps(data, codec, handler):
            text.append(character)
            widths.append(width)
        texts.append("".join(text))
    decoded = _decoded_units(texts, lambda codes: np.ones(codes.shape, np.int64))
    return DecodedText(decoded.codes, np.array(widths, np.int64), decoded.malformed, decoded.splits)


def _codec(encoding: bytes) -> str | None:
    """Python's name of an encoding, whose signs and case do not matter."""
    plain = re.sub(r"[^a-z0-9]", "", encoding.decode("latin-1").lower())
    tried = [_ALIASES.get(plain), encoding.decode("latin-1"), plain]
    if plain.startswith("utf"):
        tried = [plain.replace("utf", "utf-").replace("be", "-be").replace("le", "-le")]
    for name in tried:
        try:
            if name and name.isascii():
                return codecs.lookup(name.replace(" ", "-")).name
        except (LookupError, ValueError):
            continue
    return None


@functools.lru_cache(maxsize=64)
def decoder(encoding: bytes) -> Callable[[Sequence[bytes]], DecodedText]:
    """Return the decoder of strings; InvalidArgumentError for an unknown encoding, or one not of text."""
    codec = _codec(encoding)
    if codec == "utf-8":
        return _utf8
    if codec in ("utf-16", "utf-32"):
        return functools.partial(_marked, codec=codec)
    if codec in ("utf-16-be", "utf-16-le"):
        return functools.partial(_utf16, codec=codec)
    if codec in ("utf-32-be", "utf-32-le"):
        return functools.partial(_utf32, codec=codec)
    if codec and _SINGLE_BYTES.fullmatch(codec):
        return functools.partial(_by_table, codec=codec)
    if codec in _SEVERAL_BYTES:
        return functools.partial(_by_steps, codec=codec)
    name = encoding.decode("utf-8", "backslashreplace")
    raise InvalidArgumentError(f"Could not create converter for input encoding: {name}")


def encode(codes: Array, splits: Array, encoding: bytes) -> list[bytes]:
    """One string between every two splits, in UTF-8, UTF-16-BE or UTF-32-BE.

    A surrogate passes, but for UTF-8, which has none: it gets U+FFFD.
    """
    if encoding == b"UTF-32-BE":
        data, widths = codes.astype(">i4").tobytes(), np.full(codes.shape, 4, np.int64)
    else:
        if encoding == b"UTF-8":
            codes = np.where((codes & ~0x7FF) == 0xD800, np.int32(REPLACEMENT), codes)
        text = codes.astype("<i4").tobytes().decode("utf-32-le", "surrogatepass")
        if encoding == b"UTF-8":
            data, widths = text.encode(), utf8_widths(codes)
        else:
            data, widths = text.encode("utf-16-be", "surrogatepass"), _utf16_widths(codes)
    ends = np.zeros(codes.size + 1, np.int64)
    np.cumsum(widths, out=ends[1:])
    bounds = ends[splits].tolist()
    return [data[begin:end] for begin, end in pairwise(bounds)]
