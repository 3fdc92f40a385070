"""Arrays are written so that they read back as they were, with no digit more than their type needs."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flowengine.core.work_pieces import at_once
from flowengine.serving.text import writing as module
from flowengine.serving.text.writing import written


def text_of(value: Any, **options: Any) -> str:
    return b"".join(at_once(written(value, **options))).decode("utf-8", "surrogateescape")


@given(st.data())
def test_any_array_reads_back(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["f4", "f8", "f2", "i1", "i8", "u8", "?"]))
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = data.draw(arrays.arrays(dtype, shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ELEMENTS", data.draw(st.integers(1, 20)))
        text = text_of(array)
    found = np.array(json.loads(text), dtype).reshape(shape)
    np.testing.assert_array_equal(found, array)
    assert text.count("[") == text.count("]")
    assert json.loads(text) == array.tolist() or array.dtype.kind == "f"


@given(st.integers(0, 2**32 - 1))
def test_float32_has_the_fewest_digits(bits: int) -> None:
    value = np.array(bits, np.uint32).view(np.float32)
    text = text_of(value)
    if not np.isfinite(value):
        assert text == {True: "NaN", False: "Infinity" if value > 0 else "-Infinity"}[bool(np.isnan(value))]
        return
    assert np.float32(float(text)) == value
    assert digits(text) == digits(str(value))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8))
def test_few_numbers_are_written_as_many_are(bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    many = text_of(np.tile(values, 40))[1:-1].split(",")
    assert text_of(values)[1:-1].split(",") == many[: len(bits)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_half_has_the_fewest_digits(dtype: Any) -> None:
    values = np.arange(2**16, dtype=np.uint16).view(dtype)
    values = values[np.isfinite(values.astype(np.float32))]
    texts = text_of(values)[1:-1].split(",")
    assert (np.array([float(each) for each in texts]).astype(dtype) == values).all()
    most = 5 if dtype is np.float16 else 4
    assert max(digits(each) for each in texts) <= most
    for digit_count in range(1, most):
        # None could do with fewer.
        rounded = np.array([float(f"{float(each):.{digit_count - 1}e}") for each in values])
        with np.errstate(over="ignore"):
            fits = rounded.astype(dtype) == values
        assert all(digits(each) <= digit_count for each, fit in zip(texts, fits, strict=True) if fit)


def digits(text: str) -> int:
    """The number of significant digits of a number's text."""
    return len(text.replace("-", "").replace(".", "").partition("e")[0].strip("0"))


@given(st.lists(st.binary()))
def test_strings_are_text_or_base64(values: list[bytes]) -> None:
    array = np.empty(len(values), object)
    array[:] = values
    found = [each.encode("utf-8", "surrogateescape") for each in json.loads(text_of(array))]
    assert found == values
    assert [base64.b64decode(each["b64"]) for each in json.loads(text_of(array, as_base64=True))] == values


def test_a_long_array_is_written_in_pieces() -> None:
    array = np.zeros((100, 700), np.float32)
    assert sum(1 for _ in written(array)) == math.ceil(array.size / module._ELEMENTS)
