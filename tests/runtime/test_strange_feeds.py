"""Feeds that are no tensors: each is refused with what it is and for which tensor it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.dtypes import as_dtype
from flowengine.runtime.planning.values import FeedSpec


class Raising:
    """An object of which NumPy is to make an array, and cannot."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self._error


STRUCTURED = np.zeros(2, [("a", "f4"), ("b", "i4")])

STRANGE: dict[str, tuple[str, Any, str]] = {
    "two fields": ("float32", STRUCTURED, "it is structured"),
    "one field": ("float32", np.zeros(2, [("a", "f4")]), "it is structured"),
    "a void": ("float32", np.zeros(2, "V4"), "it is structured"),
    "two fields for quantised": ("qint8", STRUCTURED, "it is structured"),
    "a field of another width": ("qint8", np.zeros(2, [("qint8", "f8")]), "it is structured"),
    "structured text": ("string", STRUCTURED, "it holds"),
    "a bug in __array__": ("float32", Raising(RuntimeError("broken")), "RuntimeError: broken"),
    "an attribute of __array__": ("float32", Raising(AttributeError("gone")), "AttributeError: gone"),
    "a bug in __array__ for text": ("string", Raising(KeyError("k")), "KeyError: 'k'"),
    "masked": ("float32", np.ma.masked_array([1.0, 2.0], [False, True], np.float32), "some of it is masked"),
    "masked text": ("string", np.ma.masked_array([b"a"], [True], object), "some of it is masked"),
    "half a character": ("string", "\ud800", "surrogates not allowed"),
    "an object": ("float32", object(), "it holds strings or objects"),
    "a set": ("int32", {1}, "it holds strings or objects"),
}


@pytest.mark.parametrize(("dtype", "value", "message"), STRANGE.values(), ids=STRANGE)
def test_what_is_no_tensor_is_refused_by_name(dtype: str, value: Any, message: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError) as caught:
        FeedSpec("x:0", as_dtype(dtype)).convert(value)
    text = str(caught.value)
    assert message in text
    assert f"Cannot feed {type(value).__name__} for 'x:0', which has dtype {dtype}" in text


def test_an_interrupt_in_a_feed_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt):
        FeedSpec("x:0", as_dtype("float32")).convert(Raising(KeyboardInterrupt()))


def test_quantised_numbers_come_as_tensorflow_gives_them() -> None:
    fed = np.array([1, 2], np.int8).view([("qint8", "i1")])
    assert FeedSpec("x:0", as_dtype("qint8")).convert(fed).tolist() == [1, 2]


def test_an_array_of_another_class_is_fed_as_a_plain_one() -> None:
    class Own(np.ndarray[Any, Any]):
        pass

    fed = np.ones(3, np.float32).view(Own)
    assert type(FeedSpec("x:0", as_dtype("float32")).convert(fed)) is np.ndarray


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_what_is_too_large_for_a_float_is_an_infinity(dtype: str) -> None:
    """Nothing warns of it: a program whose warnings are errors gets a value, too."""
    found = FeedSpec("x:0", as_dtype(dtype)).convert([1e300, -1e300, 1.0])
    assert found.dtype == as_dtype(dtype).as_numpy_dtype
    assert found.astype(np.float64).tolist() == [np.inf, -np.inf, 1.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "bool", "float16", "float32"])
@given(
    st.one_of(
        st.integers(-(2**63), 2**64 - 1),
        st.floats(width=64),
        st.integers(-300, 300).map(float),
        st.booleans(),
    )
)
def test_a_number_may_be_fed_where_its_value_fits(dtype: str, value: Any) -> None:
    numpy_dtype = as_dtype(dtype).as_numpy_dtype
    if dtype.startswith("float"):
        fits = True  # rounded, or infinite
    elif dtype == "bool":
        fits = value in (0, 1)
    else:
        info = np.iinfo(numpy_dtype)
        fits = bool(np.isfinite(value)) and value == int(value) and info.min <= value <= info.max
    spec = FeedSpec("x:0", as_dtype(dtype))
    if not fits:
        with pytest.raises(fe.errors.InvalidArgumentError, match="a value does not fit into"):
            spec.convert(value)
        return
    fed = spec.convert(value)
    assert fed.dtype == numpy_dtype
    if not dtype.startswith("float"):
        assert int(fed) == int(value)
