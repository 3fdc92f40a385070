"""String kernels against values that TensorFlow 1.15 gave, and against what strings promise."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.strings import elements as strings
from flowengine.kernels.strings import patterns
from flowengine.kernels.strings import splitting as regex
from flowengine.kernels.strings import splitting as string_splitting


def _strings(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"0x10", 16.0), (b" 5 ", 5.0), (b"+5", 5.0), (b"1e400", np.inf), (b"1e39", np.inf), (b"5.", 5.0)],
)
def test_numbers_with_a_fraction(text: bytes, value: float) -> None:
    with np.errstate(over="ignore"):
        number = strings.string_to_number(text, out_type=dtypes.float32)
        wanted = np.float32(value)
    assert number == wanted
    assert number.dtype == np.float32


@pytest.mark.parametrize("text", [b".", b"infinity", b"1_0", b"", b"0x1p3", b"1e", b"1f", b"-"])
def test_what_is_no_number(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="could not correctly convert string"):
        strings.string_to_number(text, out_type=dtypes.float32)


@pytest.mark.parametrize("text", [b"0x10", b"+5", b"99999999999", b"--5", b"", b"-"])
def test_what_is_no_int32(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="could not correctly convert string"):
        strings.string_to_number(text, out_type=dtypes.int32)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_every_integer_comes_back(numbers: list[int]) -> None:
    texts = _strings(*(str(n).encode() for n in numbers))
    assert strings.string_to_number(texts, out_type=dtypes.int64).tolist() == numbers


@pytest.mark.parametrize(
    ("pos", "length", "part"),
    [
        (-1, 2, b"o"),
        (-2, 2, b"lo"),
        (-3, 2, b"ll"),
        (-5, 5, b"hello"),
        (-5, 0, b""),
        (5, 1, b""),
        (2, -1, b"llo"),
        (-5, 10, b"hello"),
        (1, 0, b""),
    ],
)
def test_substr_of_bytes(pos: int, length: int, part: bytes) -> None:
    assert strings.substr(b"hello", np.int32(pos), np.int32(length), unit=b"BYTE") == part


def test_substr_broadcasts_and_counts_characters() -> None:
    texts = _strings(b"h\xc3\xa9llo", b"w\xc3\xb6rld").reshape(2, 1)
    pos, length = np.array([0, 1, -2]), np.array([2, 1, -1])
    out = strings.substr(texts, pos, length, unit=b"UTF8_CHAR")
    assert out.tolist() == [[b"h\xc3\xa9", b"\xc3\xa9", b""], [b"w\xc3\xb6", b"\xc3\xb6", b""]]
    for outside in (6, -6):
        with pytest.raises(InvalidArgumentError, match=f"pos {outside} out of range"):
            strings.substr(texts, np.int32(outside), np.int32(1), unit=b"UTF8_CHAR")
    with pytest.raises(InvalidArgumentError, match="Incompatible shapes"):
        strings.substr(_strings(b"a", b"b"), np.zeros(3, int), np.zeros(3, int), unit=b"BYTE")


@given(st.text(), st.integers(0, 5), st.integers(0, 5))
def test_substr_of_characters_is_pythons_slice(text: str, pos: int, length: int) -> None:
    if pos <= len(text):
        part = strings.substr(text.encode(), np.int64(pos), np.int64(length), unit=b"UTF8_CHAR")
        assert part.decode() == text[pos : pos + length]
    assert strings.string_length(text.encode(), unit=b"UTF8_CHAR") == len(text)


@given(st.binary(), st.booleans())
def test_base64_comes_back(data: bytes, pad: bool) -> None:
    encoded = strings.encode_base64(data, pad=pad)
    if pad:
        assert encoded == base64.urlsafe_b64encode(data)
    assert b"=" not in encoded or pad
    assert strings.decode_base64(encoded) == data


@pytest.mark.parametrize("text", [b"YQ=", b"YQ===", b"Y", b"YWJj=", b"YW+j", b"=", b"==", b"YW Jj"])
def test_what_is_no_base64(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="ase64"):
        strings.decode_base64(text)


def test_case_and_ends() -> None:
    assert strings.string_lower(b"\xc3\x89A", encoding=b"") == b"\xc3\x89a"
    assert strings.string_lower(b"\xc3\x89A", encoding=b"utf-8") == b"\xc3\xa9a"
    assert strings.string_upper(_strings(b"ab"), encoding=b"").tolist() == [b"AB"]
    assert strings.string_strip(b" \va\t\x1c ") == b"a\t\x1c"
    with pytest.raises(InvalidArgumentError, match="encoding"):
        strings.string_upper(b"a", encoding=b"latin1")


@pytest.mark.parametrize(
    ("text", "delimiter", "skip_empty", "parts"),
    [
        (b"a b  c", b" ", True, [b"a", b"b", b"c"]),
        (b"a b  c", b" ", False, [b"a", b"b", b"", b"c"]),
        (b" a,b ", b" ,", False, [b"", b"a", b"b", b""]),
        (b"a;b", b"|;", True, [b"a", b"b"]),
        (b"\xc3\xa9", b"", False, [b"\xc3", b"\xa9"]),
        (b"", b"", False, []),
    ],
)
def test_split(text: bytes, delimiter: bytes, skip_empty: bool, parts: list[bytes]) -> None:
    indices, values, shape = string_splitting.string_split(
        _strings(b"", text), delimiter, skip_empty=skip_empty
    )
    in_second = indices[:, 0] == 1
    assert values[in_second].tolist() == parts
    assert indices[in_second][:, 1].tolist() == list(range(len(parts)))
    assert shape.tolist()[0] == 2


@pytest.mark.parametrize(
    ("text", "sep", "maxsplit", "parts"),
    [
        (b" a  b  c ", b"", 1, [b"a", b"b  c "]),
        (b"a<>b<>c", b"<>", 1, [b"a", b"b<>c"]),
        (b"", b",", -1, [b""]),
        (b"  ", b"", -1, []),
        (b"abc", b"abc", -1, [b"", b""]),
        (b" a b c ", b"", 0, [b" a b c "]),
        (b" a b c ", b"", 2, [b"a", b"b", b"c "]),
    ],
)
def test_split_v2(text: bytes, sep: bytes, maxsplit: int, parts: list[bytes]) -> None:
    indices, values, shape = string_splitting.string_split_v2(_strings(text), sep, maxsplit=maxsplit)
    assert values.tolist() == parts
    assert indices.tolist() == [[0, i] for i in range(len(parts))]
    assert shape.tolist() == [1, len(parts)]


@pytest.mark.parametrize(
    ("axes", "joined"),
    [
        ([0], [b"a-c", b"b-d"]),
        ([-1], [b"a-b", b"c-d"]),
        ([0, 1], b"a-c-b-d"),
        ([1, 0], b"a-b-c-d"),
        ([], [[b"a", b"b"], [b"c", b"d"]]),
    ],
)
def test_reduce_join(axes: list[int], joined: Any) -> None:
    letters = _strings(b"a", b"b", b"c", b"d").reshape(2, 2)
    out = string_splitting.reduce_join(letters, np.array(axes, int), keep_dims=False, separator=b"-")
    assert (out if isinstance(out, bytes) else out.tolist()) == joined
    kept = string_splitting.reduce_join(letters, np.array(axes, int), keep_dims=True, separator=b"-")
    assert kept.ndim == 2


def test_reduce_join_refuses_axes() -> None:
    with pytest.raises(InvalidArgumentError, match="Duplicate"):
        string_splitting.reduce_join(_strings(b"a"), np.array([0, -1]), keep_dims=False, separator=b"")
    with pytest.raises(InvalidArgumentError, match="Invalid reduction dimension 1"):
        string_splitting.reduce_join(_strings(b"a"), np.int32(1), keep_dims=False, separator=b"")


@pytest.mark.parametrize(
    ("pattern", "rewrite", "text", "everywhere", "first"),
    [
        ("a*", "x", "baac", "xbxcx", "xbaac"),
        ("(a)|b", "[\\1]", "ab", "[a][]", "[a]b"),
        ("a", "\\2", "cab", "cb", "cb"),
        ("a", "\\q", "cab", "cb", "cab"),
        ("$", "x", "ab\n", "ab\nx", "ab\nx"),
        ("(?i)A", "x", "aA", "xx", "xA"),
        ("\\d+", "<\\0>", "a12b3", "a<12>b<3>", "a<12>b3"),
        ("[[:alpha:]]+", "x", "ab1", "x1", "x1"),
        (".", "x", "\u00e9a", "xx", "xa"),
        ("\\pL", "x", "\u00e91", "x1", "x1"),
        ("^a", "x", "aa\na", "xa\na", "xa\na"),
        ("(?m)^a", "x", "aa\na", "xa\nx", "xa\na"),
        (".", "x", "a\nb", "x\nx", "x\nb"),
        ("(?s).", "x", "a\nb", "xxx", "x\nb"),
        ("\\bfoo\\b", "x", "foo foobar", "x foobar", "x foobar"),
        ("\\z", "x", "a", "ax", "ax"),
        ("\\Qa.b\\E", "x", "a.bacb", "xacb", "xacb"),
        ("a{,2}", "x", "a{,2}", "x", "x"),
        ("\\x{e9}", "x", "\u00e9", "x", "x"),
    ],
)
def test_replace(pattern: str, rewrite: str, text: str, everywhere: str, first: str) -> None:
    for replace_global, wanted in ((True, everywhere), (False, first)):
        out = regex.regex_replace(
            text.encode(), pattern.encode(), rewrite.encode(), replace_global=replace_global
        )
        assert out.decode() == wanted


@pytest.mark.parametrize("pattern", [b"(a", b"a++", b"(?=a)", b"(a)\\1", b"[a", b"\\", b"a**", b"[[:no:]]"])
def test_patterns_that_are_refused(pattern: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid pattern"):
        regex.static_regex_full_match(b"a", pattern=pattern)


@pytest.mark.parametrize("pattern", [b"(a|aa)+c", b"(a|a)*c", b"(a+)+c", b"(.*)(.*)(.*)(.*)(.*)(.*)[^a]"])
def test_time_is_linear_in_the_text(pattern: bytes) -> None:
    text = b"a" * 100_000
    assert not regex.static_regex_full_match(text, pattern=pattern)
    replaced = regex.static_regex_replace(text, pattern=pattern, rewrite=b"", replace_global=True)
    assert replaced == text


@pytest.mark.parametrize(
    ("pattern", "text", "replaced"),
    [
        (b".", b"a\xffb", b"-\xff-"),
        (b"[^a]", b"a\xffb", b"a\xff-"),
        (b"x*", b"\xe2\x82\xac\xff", b"-\xe2\x82\xac-\xff-"),
        (b"x*", b"\xf0\x9f\x98x", b"-\xf0-\x9f-\x98-"),
        (b"y*", b"\xed\xa0\x80x", b"-\xed\xa0\x80-x-"),
        (b"y*", b"\xc0\x80\xf4\x90\x80\x80", b"-\xc0-\x80-\xf4-\x90-\x80-\x80-"),
        (b"a*", b"baac", b"-b-c-"),
        (b"\\b", b"aXbX", b"-aXbX-"),
        (b"(?U)a+", b"aab", b"--b"),
        (b"\\p{Greek}", "aΩ".encode(), b"a-"),
    ],
)
def test_matches_are_those_of_the_library(pattern: bytes, text: bytes, replaced: bytes) -> None:
    out = regex.static_regex_replace(text, pattern=pattern, rewrite=b"-", replace_global=True)
    assert out == replaced


def test_text_that_is_no_utf8_matches_bytes_only() -> None:
    assert not regex.static_regex_full_match(b"\xff", pattern=b".")
    assert regex.static_regex_full_match(b"\xff", pattern=b"\\C")
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        regex.static_regex_full_match(b"a", pattern=b"\xff")


@given(st.text("ab\\01", max_size=6))
def test_a_rewrite_is_read_as_written(rewrite: str) -> None:
    """Backslashes two by two, and digits behind the odd one; the rest is text."""
    sound = re.fullmatch(r"(?:[^\\]|\\[\\0-9])*", rewrite)
    out = regex.static_regex_replace(b"xyz", pattern=b"y", rewrite=rewrite.encode(), replace_global=False)
    told = {"\\\\": "\\", "\\0": "y", "\\1": ""}
    wanted = re.sub(r"\\[\\01]", lambda m: told[m[0]], rewrite) if sound else "y"
    assert out == f"x{wanted}z".encode()


def test_a_missing_library_is_told_when_the_step_is_planned(
    run_op: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    patterns.library.cache_clear()
    try:
        with pytest.raises(UnimplementedError, match="pip install google-re2"):
            run_op("RegexFullMatch", _strings(b"ab"), b"a.")
    finally:
        patterns.library.cache_clear()


def test_rank_of_a_pattern(run_op: Callable[..., Any]) -> None:
    assert run_op("RegexFullMatch", _strings(b"ab", b"c"), b"a.")[0].tolist() == [True, False]
    with pytest.raises(InvalidArgumentError, match="must be scalar"):
        run_op("RegexFullMatch", _strings(b"ab"), _strings(b"a"))
