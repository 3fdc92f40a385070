"""Texts are read as the standard library reads them, whatever their size, and in short pieces."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import at_once
from flowengine.serving.text import reading as module
from flowengine.serving.text.reading import reading

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=30,
)


def plain(value: Any) -> Any:
    """A value with lists in the place of arrays, and a word for each NaN."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return "NaN!" if isinstance(value, float) and math.isnan(value) else value


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans(), st.integers(1, 40))
def test_any_text_is_read_as_the_standard_library_does(
    value: Any, indent: Any, ascii_only: bool, shortest: int
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        for slice_bytes in (module.SLICE_BYTES, shortest):
            # Small slices send every text the long way, and its numbers into arrays.
            patch.setattr(module, "SLICE_BYTES", slice_bytes)
            patch.setattr(module, "_NUMBERS_MIN", min(shortest, slice_bytes))
            found = at_once(reading(text))
            assert plain(found) == plain(value)


@given(st.data())
def test_nested_lists_of_numbers_are_arrays(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    whole = data.draw(st.booleans())
    count = math.prod(shape)
    numbers = st.integers(-(2**63), 2**63 - 1) if whole else st.floats(allow_nan=False, allow_infinity=False)
    values = data.draw(st.lists(numbers, min_size=count, max_size=count))
    array = np.array(values, np.int64 if whole else np.float64).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE_BYTES", data.draw(st.integers(1, 60)))
        patch.setattr(module, "_NUMBERS_MIN", 1)
        found = at_once(reading(json.dumps({"x": array.tolist(), "more": "[1]"}).encode()))
    assert found["more"] == "[1]"
    np.testing.assert_array_equal(np.asarray(found["x"]), array)
    assert np.asarray(found["x"]).dtype == array.dtype


@given(st.data())
def test_a_changed_text_is_refused_as_the_standard_library_does(data: st.DataObject) -> None:
    text = bytearray(json.dumps(data.draw(VALUES)).encode())
    place = data.draw(st.integers(0, len(text)))
    if data.draw(st.booleans()):
        text[place:place] = data.draw(
            st.sampled_from([b"[", b"]", b",", b'"', b"1", b"-", b"}", b":", b".", b"e"])
        )
    else:
        del text[place : place + 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE_BYTES", data.draw(st.integers(1, 30)))
        patch.setattr(module, "_NUMBERS_MIN", 1)
        try:
            found = at_once(reading(bytes(text)))
        except InvalidArgumentError as error:
            text_of_error = error.message
            with pytest.raises((ValueError, AssertionError)):
                _strict(bytes(text))
            if not text_of_error.startswith("JSON Parse error: "):
                raise
        else:
            assert plain(found) == plain(json.JSONDecoder().raw_decode(text.decode().lstrip())[0])


def _strict(text: bytes) -> None:
    """ValueError for what is no JSON; AssertionError for what is, and is refused all the same."""
    value = json.loads(text, object_pairs_hook=_once, parse_float=_finite)
    json.dumps(value, ensure_ascii=False).encode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def _finite(text: str) -> float:
    assert math.isfinite(float(text))
    return float(text)


def test_a_long_text_is_read_in_short_pieces() -> None:
    values = np.arange(60_000.0).reshape(200, 100, 3)
    text = json.dumps({"instances": [{"x": row.tolist(), "name": "n"} for row in values]}).encode()
    pieces = sum(1 for _ in reading(text))
    assert pieces > len(text) / module.SLICE_BYTES / 2
    deep = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert sum(1 for _ in reading(deep)) > 50


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b'{"a": 1, "b": {"c": 1, "c": 1}}'])
def test_a_key_that_comes_twice(text: bytes) -> None:
    for padded in (text, text[:-1] + b" " * module.SLICE_BYTES + b"}"):
        with pytest.raises(InvalidArgumentError, match=r"an object has the key .* twice"):
            at_once(reading(padded))
