"""Types that TensorFlow's kernels have taken since 1.15: values are TensorFlow 2.21's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from tests.oprecords.record import strings

RunOp = Callable[..., Any]


@pytest.mark.parametrize(
    ("attrs", "texts"),
    [
        ({}, [b"ab", b"longer", b"\xff\0"]),
        ({"width": 5}, [b"   ab", b"longer", b"   \xff\0"]),
        ({"width": 5, "fill": b"-"}, [b"ab   ", b"longer", b"\xff\0   "]),
        ({"width": 5, "fill": b"0"}, [b"   ab", b"longer", b"   \xff\0"]),
        ({"precision": 2, "scientific": True, "shortest": False}, [b"ab", b"longer", b"\xff\0"]),
    ],
)
def test_text_as_a_string_only_gets_its_width(run_op: RunOp, attrs: Any, texts: list[bytes]) -> None:
    (out,) = run_op("AsString", strings(b"ab", b"longer", b"\xff\0"), **attrs)
    assert out.tolist() == texts


def test_a_fill_that_is_none_is_refused_for_text_too(run_op: RunOp) -> None:
    with pytest.raises(InvalidArgumentError, match="Fill argument not supported"):
        run_op("AsString", strings(b"ab"), fill=b"x")


def test_what_is_not_finite_is_filled_with_spaces(run_op: RunOp) -> None:
    values = np.array([1.1, np.inf, np.nan, -np.inf, -np.nan], np.float16)
    (out,) = run_op("AsString", values, width=9, fill=b"0")
    assert out.tolist() == [b"01.099609", b"      inf", b"      nan", b"     -inf", b"     -nan"]
    (out,) = run_op("AsString", np.array([np.inf, 1.5]), width=9, fill=b"+")
    assert out.tolist() == [b"     +inf", b"+1.500000"]


@pytest.mark.parametrize("fill", [b"+", b" ", b""])
def test_numbers_without_a_sign_get_none(run_op: RunOp, fill: bytes) -> None:
    (out,) = run_op("AsString", np.array([7], np.uint16), width=3, fill=fill)
    assert out.tolist() == [b"  7"]
    (out,) = run_op("AsString", np.array([2**64 - 1], np.uint64), fill=fill)
    assert out.tolist() == [b"18446744073709551615"]


def test_short_floats_as_strings(run_op: RunOp) -> None:
    (out,) = run_op("AsString", np.array([1.1, 65024], ml_dtypes.bfloat16), shortest=True)
    assert out.tolist() == [b"1.10156", b"65024"]


@pytest.mark.parametrize(
    ("dtype", "text", "number"),
    [
        (dtypes.uint32, b" 12 ", 12),
        (dtypes.uint32, b"4294967295", 2**32 - 1),
        (dtypes.uint32, b"4294967296", None),
        (dtypes.uint32, b"-0", None),
        (dtypes.uint64, b"18446744073709551615", 2**64 - 1),
        (dtypes.uint64, b"18446744073709551616", None),
        (dtypes.uint64, b"-1", None),
        (dtypes.int32, b"-2147483648", -(2**31)),
        (dtypes.int32, b"2147483648", None),
    ],
)
def test_numbers_from_strings_within_their_type(
    run_op: RunOp, dtype: Any, text: bytes, number: int | None
) -> None:
    if number is None:
        with pytest.raises(InvalidArgumentError, match="could not correctly convert"):
            run_op("StringToNumber", strings(text), out_type=dtype)
    else:
        (out,) = run_op("StringToNumber", strings(text), out_type=dtype)
        assert out.tolist() == [number]
        assert out.dtype == dtype.as_numpy_dtype


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_short_integers(run_op: RunOp, dtype: Any) -> None:
    least = np.iinfo(dtype).min
    x = np.array([least, 0, 15], dtype)
    assert run_op("Neg", x)[0].tolist() == [least, 0, -15]
    assert run_op("Sign", x)[0].tolist() == [-1, 0, 1]
    assert run_op("Square", x)[0].tolist() == [0, 0, 225 if dtype is np.int16 else -31]
    (powers,) = run_op("Pow", np.array([2, 3, -2, 0], dtype), np.array([3, 6, 7, 0], dtype))
    assert powers.tolist() == [8, 729 if dtype is np.int16 else -39, -128, 1]
    seven = np.array([7, -7, 7, -7], dtype)
    assert run_op("FloorMod", seven, np.array([2, 2, -2, -3], dtype))[0].tolist() == [1, 1, -1, -1]
    with pytest.raises(InvalidArgumentError, match="Integer division by zero"):
        run_op("FloorMod", seven, np.zeros(4, dtype))


def test_positions_in_short_integers(run_op: RunOp) -> None:
    x = np.array([[True, False], [False, True]])
    (rows,) = run_op("ArgMax", x, np.int16(0), output_type=dtypes.int16)
    assert (rows.dtype, rows.tolist()) == (np.int16, [0, 1])
    (rows,) = run_op("ArgMax", x, np.int32(1), output_type=dtypes.uint16)
    assert (rows.dtype, rows.tolist()) == (np.uint16, [0, 1])
    assert run_op("ArgMin", x, np.int32(1))[0].tolist() == [1, 0]
    # A position that the type does not hold is wrapped.
    assert run_op("ArgMax", np.arange(70_000), np.int32(0), output_type=dtypes.uint16)[0] == 4463


def test_short_integers_as_indices(run_op: RunOp) -> None:
    x = np.arange(12).reshape(3, 4)
    places = [np.array(each, np.int16) for each in ([1, -1], [3, 0], [1, -2])]
    assert run_op("StridedSlice", x, *places)[0].tolist() == [[7, 5], [11, 9]]
    assert run_op("GatherV2", x, np.array([2, 0], np.int16), np.int32(1))[0].tolist() == [
        [2, 0],
        [6, 4],
        [10, 8],
    ]
    assert run_op("GatherNd", x, np.array([[2, 3]], np.int16))[0].tolist() == [11]
    parts = run_op("SplitV", x, np.array([1, 3], np.int8), np.int32(1), num_split=2)
    assert [part.shape for part in parts] == [(3, 1), (3, 3)]
    (hot,) = run_op("OneHot", np.array([-1, 100], np.int8), np.int32(128), np.int32(1), np.int32(0))
    assert np.argwhere(hot).tolist() == [[1, 100]]
    sums = run_op("UnsortedSegmentSum", np.array([1, 2, 3]), np.array([0, 1, 0], np.int16), np.int32(2))
    assert sums[0].tolist() == [4, 2]


def test_convolutions_of_integers(run_op: RunOp) -> None:
    x = np.arange(16, dtype=np.int32).reshape(1, 4, 4, 1)
    ones = np.ones((2, 2, 1, 1), np.int32)
    settings = {"strides": (1, 1, 1, 1), "padding": b"VALID"}
    (out,) = run_op("Conv2D", x, ones, **settings)
    assert out.dtype == np.int32
    assert out.reshape(3, 3).tolist() == [[10, 14, 18], [26, 30, 34], [42, 46, 50]]
    sizes, back = np.array([1, 3, 3, 1], np.int32), np.ones((1, 2, 2, 1), np.int32)
    (out,) = run_op("Conv2DBackpropInput", sizes, ones, back, **settings)
    assert out.dtype == np.int32
    assert out.reshape(3, 3).tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


@pytest.mark.parametrize("dtype", ["qint16", "quint16"])
def test_quantised_numbers_are_compared(run_op: RunOp, dtype: str) -> None:
    x = np.array([1, 2], dtype[1:])
    for op, expected in (("Equal", [True, True]), ("NotEqual", [False, False])):
        assert run_op(op, x, x, types={"T": dtype})[0].tolist() == expected


def test_bytes_as_bfloat16(run_op: RunOp) -> None:
    (out,) = run_op("DecodeRaw", strings(b"\x80\x3f\x00\x40"), out_type=dtypes.bfloat16)
    assert (out.dtype, out.tolist()) == (ml_dtypes.bfloat16, [[1.0, 2.0]])
    (out,) = run_op("DecodeRaw", strings(b"\x3f\x80"), out_type=dtypes.bfloat16, little_endian=False)
    assert out.tolist() == [[1.0]]
