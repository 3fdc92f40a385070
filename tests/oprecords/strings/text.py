"""Text: encodings of characters, and values written as text."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import as_dtype
from tests.oprecords.record import OpRecord, Sample, bad, sample, strings

# Unicode: scripts, encodings, code points.

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

_OF_UNICODE: Final = [
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


# Strings from numbers, and from other strings.


def _formatted(text: bytes, *values: Any, t: str = "%", summarize: int = 3) -> Sample:
    arrays = [to_array(value) for value in values]
    types = [as_dtype("string" if a.dtype.kind == "O" else a.dtype) for a in arrays]
    attrs = {"template": t, "placeholder": "%", "summarize": summarize, "T": types}
    return Sample((arrays,), attrs, [to_array(text)])


_OF_FORMATTING: Final = [
    OpRecord(
        "AsString",
        [
            Sample(([[1, -2]],), {"T": "int32"}, [np.array([[b"1", b"-2"]], object)]),
            Sample(([True, False],), {"T": "bool"}, [np.array([b"true", b"false"], object)]),
            Sample(([1.5],), {"T": "float32", "precision": 2}, [np.array([b"1.50"], object)]),
        ],
    ),
    OpRecord(
        "StringJoin",
        [Sample(([strings(b"a", b"b"), strings(b"x", b"")],), {"separator": "-"}, [strings(b"a-x", b"b-")])],
        bad=[bad("InvalidArgumentError", "", [strings(b"a", b"b"), strings(b"x")])],
    ),
    OpRecord(
        "StringFormat",
        [
            _formatted(
                b"abc 1 and [1.5 0.1 1e+10]",
                np.int32(1),
                np.array([1.5, 0.1, 1e10], np.float32),
                t="abc % and %",
            ),
            _formatted(b"[0 1 2 ... 7 8 9]", np.arange(10)),
            _formatted(b"[[0 ... 2]\n ...\n [9 ... 11]]", np.arange(12).reshape(4, 3), summarize=1),
            _formatted(b"[[[1]\n  [2]]\n\n [[3]\n  [4]]]", np.arange(1, 5).reshape(2, 2, 1), summarize=-1),
            _formatted(b'["a" "\\"\\n\\377"] 1', strings(b"a", b'"\n\xff'), np.bool_(True), t="% %"),
            _formatted(
                b"0.33333333333333331 0.0999755859 ?", np.float64(1 / 3), np.float16(0.1), 1j, t="% % %"
            ),
            _formatted(b"[] [\n ...]", np.zeros((0, 3)), np.zeros((3, 0)), t="% %"),
        ],
        bad=[
            bad("InvalidArgumentError", "2 vs. 1", [np.int32(1)], template="%%", placeholder="%", T=["int32"])
        ],
    ),
]


RECORDS: Final = [*_OF_UNICODE, *_OF_FORMATTING]
