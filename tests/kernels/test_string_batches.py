"""Kernels that go over many strings at once, beside what they do with each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.strings.elements import to_number
from tests.oprecords.record import strings

RunOp = Callable[..., Any]


_TEXTS = st.lists(st.binary(max_size=6), min_size=1, max_size=5)


@given(_TEXTS, st.integers(-7, 7), st.integers(-2, 9))
def test_one_place_for_all_strings_is_that_place_of_each(
    run_op: RunOp, texts: list[bytes], pos: int, length: int
) -> None:
    every = strings(*texts)
    try:
        (apart,) = run_op("Substr", every, np.full(len(texts), pos), np.full(len(texts), length))
    except InvalidArgumentError:
        with pytest.raises(InvalidArgumentError, match="out of range for string"):
            run_op("Substr", every, np.int64(pos), np.int64(length))
    else:
        (together,) = run_op("Substr", every, np.int64(pos), np.int64(length))
        assert together.tolist() == apart.tolist()


_PLAIN = st.text("0123456789.+-eE_ xn", max_size=5).map(str.encode)
_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(lambda number: b"%d" % number),
    st.floats(width=32).map(lambda number: b"%r" % number),
    _PLAIN,
)


@given(
    st.lists(_NUMBERS, min_size=1, max_size=4),
    st.sampled_from([dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint64]),
)
@example(texts=[b"7", b"-0"], dtype=dtypes.uint64)
@example(texts=[b"-0"], dtype=dtypes.int64)
def test_many_numbers_are_read_as_each_is_alone(
    run_op: RunOp, texts: list[bytes], dtype: dtypes.DType
) -> None:
    try:
        alone = [to_number(text, dtype, "") for text in texts]
    except InvalidArgumentError as error:
        with pytest.raises(InvalidArgumentError, match=re.escape(str(error))):
            run_op("StringToNumber", strings(*texts), out_type=dtype)
    else:
        (read,) = run_op("StringToNumber", strings(*texts), out_type=dtype)
        with np.errstate(over="ignore"):  # of float32, 1e40 is infinite
            wanted = np.array(alone, dtype.as_numpy_dtype)
        np.testing.assert_array_equal(read, wanted)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=4), st.integers(-1, 8), st.sampled_from([b"", b"0"])
)
def test_finite_numbers_are_written_as_beside_one_that_is_not(
    run_op: RunOp, numbers: list[float], width: int, fill: bytes
) -> None:
    (alone,) = run_op("AsString", np.array(numbers, np.float32), width=width, fill=fill)
    (beside,) = run_op("AsString", np.array([*numbers, np.inf], np.float32), width=width, fill=fill)
    assert alone.tolist() == beside.tolist()[:-1]


@given(_TEXTS, st.binary(min_size=1, max_size=3), st.booleans())
def test_strings_are_split_at_any_of_the_bytes(
    run_op: RunOp, texts: list[bytes], between: bytes, skip_empty: bool
) -> None:
    indices, values, shape = run_op("StringSplit", strings(*texts), between, skip_empty=skip_empty)
    parts = [re.split(b"[" + re.escape(between) + b"]", text) if text else [] for text in texts]
    rows = [[part for part in row if part or not skip_empty] for row in parts]
    assert values.tolist() == [part for row in rows for part in row]
    assert indices.tolist() == [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    assert shape.tolist() == [len(rows), max(map(len, rows))]


@given(st.lists(st.text("ab \t\n", max_size=8).map(str.encode), min_size=1, max_size=5), st.integers(-1, 4))
def test_words_and_the_rest_of_the_text(run_op: RunOp, texts: list[bytes], maxsplit: int) -> None:
    """As many words as asked for are followed by the rest, be it empty; TensorFlow 1.15 gave the examples."""
    rows = []
    for text in texts:
        words = list(re.finditer(rb"\S+\s*", text))
        if maxsplit == 0:
            rows.append([text])
        elif 0 < maxsplit <= len(words):
            kept = words[:maxsplit]
            rows.append([*(word[0].rstrip() for word in kept), text[kept[-1].end() :]])
        else:
            rows.append([word[0].rstrip() for word in words])
    indices, values, shape = run_op("StringSplitV2", strings(*texts), b"", maxsplit=maxsplit)
    assert values.tolist() == [part for row in rows for part in row]
    assert indices.tolist() == [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    assert shape.tolist() == [len(rows), max(map(len, rows))]


@pytest.mark.parametrize(
    ("text", "maxsplit", "parts"),
    [
        (b",a b", 2, [b",a", b"b", b""]),
        (b"  a b  c ", 2, [b"a", b"b", b"c "]),
        (b"ba\r", 1, [b"ba", b""]),
        (b" \ta", 3, [b"a"]),
        (b"\f\r", 3, []),
    ],
)
def test_words_as_recorded(run_op: RunOp, text: bytes, maxsplit: int, parts: list[bytes]) -> None:
    values = run_op("StringSplitV2", strings(text), b"", maxsplit=maxsplit)[1]
    assert values.tolist() == parts


@pytest.mark.parametrize(
    ("encoding", "text", "codes", "offsets"),
    [
        (b"Shift_JIS", b"\x8e\x9a\x88\x82\xc8", [0x5B57, 0xFFFD, 0xFF88], [0, 2, 4]),
        (
            b"Shift_JIS",
            b"\x82\xc8\x8e\x9a\xec\x95\xb6 ",
            [0x306A, 0x5B57, 0xFFFD, 0xFF76, 0x20],
            [0, 2, 4, 6, 7],
        ),
        (b"windows-31j", b"\x87@\x83g \x8b", [0x2460, 0x30C8, 0x20, 0xFFFD], [0, 2, 4, 5]),
    ],
)
def test_a_pair_of_bytes_that_means_nothing_is_one_part(
    run_op: RunOp, encoding: bytes, text: bytes, codes: list[int], offsets: list[int]
) -> None:
    """TensorFlow 1.15 gave the code points."""
    found = run_op("UnicodeDecodeWithOffsets", strings(text), input_encoding=encoding)
    assert found[1].tolist() == codes
    assert found[2].tolist() == offsets
