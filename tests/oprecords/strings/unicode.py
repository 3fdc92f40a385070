"""Unicode: scripts, encodings, code points."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample, strings

_TEXTS: Final = strings(b"a\xc3\xa9", b"", b"\xe2\x82\xac\xf0\x9f\x98\x80\t")
_BROKEN: Final = strings(b"a\xffb", b"\xf0\x9f\x98", b"\xed\xa0\x80")
_WIDE: Final = strings(b"\0a\xd8\x3d\xde\0", b"\xdc\0\0b\0")
_UTF8: Final = {"input_encoding": "UTF-8"}
_INVALID: Final = "InvalidArgumentError"


def _splits(*values: int) -> Any:
    return np.array(values)


def _codes(*values: int) -> Any:
    return np.array(values, np.int32)


_NO_TEXT: Final = [
    bad(_INVALID, "Invalid formatting", _BROKEN, errors="strict", **_UTF8),
    bad(_INVALID, "nonsense", _TEXTS, input_encoding="nonsense"),
    bad(_INVALID, "base64", _TEXTS, input_encoding="base64"),
    bad(_INVALID, "1114112", _TEXTS, replacement_char=0x110000, **_UTF8),
]
_FACE: Final = 0x1F600
_BAD: Final = 0xFFFD

RECORDS: Final = [
    OpRecord(
        "UnicodeDecode",
        [
            Sample((_TEXTS,), _UTF8, [_splits(0, 2, 2, 5), _codes(97, 233, 0x20AC, _FACE, 9)]),
            Sample(
                (_TEXTS,),
                {**_UTF8, "replace_control_characters": True, "replacement_char": 33},
                [_splits(0, 2, 2, 5), _codes(97, 233, 0x20AC, _FACE, 33)],
            ),
            Sample((_BROKEN,), _UTF8, [_splits(0, 3, 4, 7), _codes(97, _BAD, 98, _BAD, _BAD, _BAD, _BAD)]),
            Sample((_BROKEN,), {**_UTF8, "errors": "ignore"}, [_splits(0, 2, 2, 2), _codes(97, 98)]),
            Sample(
                (_TEXTS,),
                {"input_encoding": "latin1"},
                [
                    _splits(0, 3, 3, 11),
                    np.frombuffer(b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\t", np.uint8).astype(np.int32),
                ],
            ),
            Sample((strings(),), _UTF8, [_splits(0), _codes()]),
        ],
        bad=_NO_TEXT,
        partial=True,
    ),
    OpRecord(
        "UnicodeDecodeWithOffsets",
        [
            Sample(
                (_TEXTS,),
                _UTF8,
                [_splits(0, 2, 2, 5), _codes(97, 233, 0x20AC, _FACE, 9), _splits(0, 1, 0, 3, 7)],
            ),
            Sample(
                (_BROKEN,),
                {**_UTF8, "errors": "ignore"},
                [_splits(0, 2, 2, 2), _codes(97, 98), _splits(0, 2)],
            ),
            Sample(
                (_WIDE,),
                {"input_encoding": "UTF-16-BE"},
                [_splits(0, 2, 5), _codes(97, _FACE, _BAD, 98, _BAD), _splits(0, 2, 0, 2, 4)],
            ),
            Sample(
                (strings(b"\xff\xfea\0", b"\0\xe9"),),
                {"input_encoding": "UTF-16"},
                [_splits(0, 1, 2), _codes(97, 233), _splits(0, 0)],
            ),
            Sample(
                (strings(b"\x83e\x83X\x83"),),
                {"input_encoding": "shift_jis"},
                [_splits(0, 3), _codes(0x30C6, 0x30B9, _BAD), _splits(0, 2, 4)],
            ),
        ],
        bad=_NO_TEXT,
        partial=True,
    ),
    OpRecord(
        "UnicodeTranscode",
        [
            Sample(
                (_TEXTS,),
                {**_UTF8, "output_encoding": "UTF-16-BE"},
                [strings(*[s.decode().encode("utf-16-be") for s in _TEXTS])],
            ),
            Sample(
                (_TEXTS,),
                {**_UTF8, "output_encoding": "UTF-32-BE"},
                [strings(*[s.decode().encode("utf-32-be") for s in _TEXTS])],
            ),
            Sample(
                (_WIDE,),
                {"input_encoding": "utf-16-be", "output_encoding": "UTF-8"},
                [strings("a\U0001f600".encode(), "\ufffdb\ufffd".encode())],
            ),
            Sample(
                (_BROKEN,),
                {**_UTF8, "output_encoding": "UTF-8", "replacement_char": 63},
                [strings(b"a?b", b"?", b"???")],
            ),
            Sample((strings(),), {**_UTF8, "output_encoding": "UTF-8"}, [strings()]),
        ],
        bad=[
            bad(_INVALID, "Invalid formatting", _BROKEN, output_encoding="UTF-8", errors="strict", **_UTF8),
            bad(_INVALID, "nonsense", _TEXTS, output_encoding="UTF-8", input_encoding="nonsense"),
        ],
    ),
    OpRecord(
        "UnicodeEncode",
        [
            Sample(
                ([72, 233, _FACE], [0, 2, 2, 3]),
                {"output_encoding": "UTF-8"},
                [strings("H\xe9".encode(), b"", "\U0001f600".encode())],
            ),
            Sample(([72, _FACE], [0, 2]), {"output_encoding": "UTF-16-BE"}, [strings(b"\0H\xd8\x3d\xde\0")]),
            Sample(
                ([72, -1, 0xD800, 0x110000], [0, 4]),
                {"output_encoding": "UTF-8", "replacement_char": 63},
                [strings(b"H???")],
            ),
            Sample(
                ([72, -1, 73], [0, 2, 3]),
                {"output_encoding": "UTF-32-BE", "errors": "ignore"},
                [strings(b"\0\0\0H", b"\0\0\0I")],
            ),
            Sample((_codes(), [0]), {"output_encoding": "UTF-8"}, [strings()]),
        ],
        bad=[
            bad(_INVALID, "-1", [72, -1], [0, 2], output_encoding="UTF-8", errors="strict"),
            bad(_INVALID, "got 1", [72, 73], [0, 1], output_encoding="UTF-8"),
            bad(_INVALID, "got 1", [72, 73], [1, 2], output_encoding="UTF-8"),
            bad(_INVALID, "ascending", [72, 73], [0, 2, 1, 2], output_encoding="UTF-8"),
            bad(_INVALID, "[0]", [72, 73], np.zeros(0), output_encoding="UTF-8"),
        ],
        partial=True,
    ),
    OpRecord(
        "UnicodeScript",
        [
            Sample(
                ([[65, 0x4E00, 0x3B1], [32, 0x300, 0x378]],),
                {},
                [np.array([[25, 17, 14], [0, 1, 103]], np.int32)],
            ),
            Sample(([-1, 0x110000, 0x10FFFF],), {}, [_codes(-1, -1, 103)]),
            sample(np.arange(0x400, 0x460)),
        ],
        lambda codes: np.array(
            [8 if "CYRILLIC" in unicodedata.name(chr(c)) else -1 for c in codes], np.int32
        ),
    ),
]
