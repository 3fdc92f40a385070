"""Elementwise, reduction and sorting kernels where a property says more than an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common import blockwise, ufuncs
from flowengine.kernels.io.summaries import histogram_proto
from flowengine.kernels.math import binary as math_binary
from flowengine.kernels.math import binary as math_division
from flowengine.kernels.math.cast import convert
from flowengine.kernels.numpy.channels import Blocks
from flowengine.kernels.numpy.sorting import _top
from flowengine.kernels.quantized import codes

Run = Callable[..., Any]

_INTEGERS = st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16])


@given(_INTEGERS.flatmap(lambda t: hnp.arrays(t, st.tuples(st.just(2), st.integers(0, 20)))))
def test_quotient_and_remainder_make_up_the_dividend(pair: Any) -> None:
    x, y = pair[0], np.where(pair[1] == 0, pair.dtype.type(1), pair[1])
    with np.errstate(all="ignore"):
        for divide, remain in (
            (math_division.floor_div_integer, math_division.floor_mod_integer),
            (math_division.truncate_div_integer, math_division.truncate_mod_integer),
        ):
            quotient, rest = divide(np, x, y), remain(np, x, y)
            assert quotient.dtype == rest.dtype == x.dtype
            np.testing.assert_array_equal(quotient * y + rest, x)
        floored = math_division.floor_mod_integer(np, x, y)
        cut = math_division.truncate_mod_integer(np, x, y)
    assert ((floored == 0) | ((floored < 0) == (y < 0))).all()
    assert ((cut == 0) | ((cut < 0) == (x < 0))).all()


@given(hnp.arrays(np.float32, st.tuples(st.just(2), st.integers(0, 20)), elements=st.floats(width=32)))
def test_extremes_choose_as_one_comparison_does(pair: Any) -> None:
    x, y = pair
    np.testing.assert_array_equal(math_binary.maximum(np, x, y), np.where(x < y, y, x))
    np.testing.assert_array_equal(math_binary.minimum(np, x, y), np.where(y < x, y, x))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int32, np.float64, np.int64, np.int16, np.complex64, object]
)
@pytest.mark.parametrize("shape", [(), (3,), (64, 65), (2, 5000)])
def test_a_blend_is_where(dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    condition = random.random(shape) > 0.5
    x, y = (np.asarray(random.normal(size=shape) * 100).astype(dtype) for _ in range(2))
    for a, b in ((x, y), (x[..., :1], y) if shape else (x, y), (x.T, y.T)):
        mask = condition.T if a is not x and a.shape == x.T.shape and len(shape) > 1 else condition
        np.testing.assert_array_equal(ufuncs.blend(np, mask, a, b), np.where(mask, a, b))


def test_a_blend_keeps_the_bits_of_a_nan() -> None:
    odd = np.array([0x7FC12345], np.uint32).view(np.float32)
    x = np.repeat(odd, 5000)
    kept = ufuncs.blend(np, np.ones(5000, bool), x, np.zeros(5000, np.float32))
    assert (kept.view(np.uint32) == 0x7FC12345).all()


@given(st.integers(0, 400), st.integers(1, 300))
def test_a_repeated_vector_is_a_broadcast_one(count: int, channels: int) -> None:
    rows = np.arange(count * channels, dtype=np.float64).reshape(count, channels)
    vector = np.arange(channels) * 0.5
    out = np.empty_like(rows)
    blocks = Blocks(count, channels)
    vectors = blocks.vector(vector)
    blocks.run(
        lambda _, part, repeat: np.subtract(
            blocks.long(rows, part, repeat), vectors[repeat], blocks.long(out, part, repeat)
        )
    )
    np.testing.assert_array_equal(out, rows - vector)
    sums = blocks.sums(lambda part, repeat: np.add.reduce(blocks.long(rows, part, repeat), 0), rows.dtype)
    np.testing.assert_array_equal(sums, rows.sum(axis=0))


def test_blocks_of_elements_give_what_one_pass_gives(run_op: Run) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal(blockwise.LARGE * 2 + 5).astype(np.float32)
    x[7], y = np.nan, random.standard_normal(x.size).astype(np.float32)
    y[3] = np.inf
    np.testing.assert_array_equal(run_op("Relu", x)[0], np.maximum(x, 0))
    np.testing.assert_array_equal(run_op("Relu6", x)[0], np.clip(x, 0, 6))
    np.testing.assert_array_equal(run_op("ReluGrad", y, x)[0], y * (x > 0))
    np.testing.assert_array_equal(run_op("Select", x > 0, x, y)[0], np.where(x > 0, x, y))
    count = np.int32(200_001)
    for start, delta in ((np.int32(-7), np.int32(3)), (np.int32(90_000), np.int32(-2))):
        (numbers,) = run_op("Range", start, np.int32(start + delta * count), delta)
        np.testing.assert_array_equal(numbers, np.arange(start, start + delta * count, delta))
        assert numbers.dtype == np.int32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(run_op: Run, dtype: Any) -> None:
    x = np.linspace(-4, 4, 41).astype(dtype)
    (actual,) = run_op("Sigmoid", x)
    assert actual.dtype == dtype
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_array_equal(actual, exact.astype(np.float32).astype(dtype))
    (total,) = run_op("Sum", np.full(5000, 0.1, dtype), np.int32(0))
    assert float(total) == pytest.approx(5000 * float(dtype(0.1)), rel=4e-3)


@pytest.mark.parametrize(
    ("op", "x", "y", "message"),
    [
        ("FloorDiv", np.int32(1), np.int32(0), "Integer division by zero"),
        ("Mod", np.array([1, 2], np.int64), np.array([1, 0], np.int64), "Integer division by zero"),
        ("Pow", np.int32(2), np.array([1, -1], np.int32), "negative integer powers"),
        (
            "ApproximateEqual",
            np.zeros(2, np.float32),
            np.zeros(3, np.float32),
            r"x shape: \[2\]. y shape: \[3\]",
        ),
        ("MatMul", np.zeros((2, 3)), np.zeros((2, 3)), r"In\[0\]: \[2,3\], In\[1\]: \[2,3\]"),
        ("MatMul", np.zeros(3), np.zeros((2, 3)), r"In\[0\] is not a matrix.*\[3\]"),
        (
            "BatchMatMulV2",
            np.zeros((2, 2, 2)),
            np.zeros((3, 2, 2)),
            r"batch dimensions: \[2,2,2\] vs. \[3,2,2\]",
        ),
        ("Sum", np.zeros((2, 3)), np.int32(2), r"Invalid reduction dimension \(2 for input with 2"),
        ("ArgMax", np.zeros((0, 3)), np.int32(0), r"Reduction axis 0 is empty in shape \[0,3\]"),
        ("Cumsum", np.zeros(3), np.int32(-2), r"scan axis in the range \[-1, 1\), but got -2"),
        ("BroadcastGradientArgs", np.array([2, 3]), np.array([4]), r"Incompatible shapes: \[2,3\] vs. \[4\]"),
    ],
)
def test_bad_input_is_named(run_op: Run, op: str, x: Any, y: Any, message: str) -> None:
    attrs = {"tolerance": 0.1} if op == "ApproximateEqual" else {}
    with pytest.raises(InvalidArgumentError, match=message):
        run_op(op, x, y, **attrs)


def test_strings_are_added_and_compared_whole(run_op: Run) -> None:
    assert run_op("Add", b"a\0", b"\0b") == (b"a\0\0b",)
    assert run_op("Equal", b"a\0", b"a") == (False,)
    column = np.array([[b"x"], [b"y\0"]], object)
    (joined,) = run_op("AddV2", column, np.array([b"1", b"\0"], object))
    assert joined.tolist() == [[b"x1", b"x\0"], [b"y\x001", b"y\0\0"]]


def test_a_cast_to_or_from_strings_is_refused(run_op: Run) -> None:
    with pytest.raises(UnimplementedError, match="Cast string to float32 is not supported"):
        run_op("Cast", b"1", SrcT=dtypes.string, DstT=dtypes.float32, types={"SrcT": "string"})


@given(st.sampled_from([d for d in dtypes.ALL if d.is_integer]), st.data())
def test_integers_survive_a_wider_type(narrow: dtypes.DType, data: st.DataObject) -> None:
    numbers = st.integers(int(narrow.min), int(narrow.max))
    wide = dtypes.uint64 if narrow.name.startswith("u") else dtypes.int64
    drawn = data.draw(st.lists(numbers, min_size=5, max_size=5))
    values = np.array(drawn, wide.as_numpy_dtype).astype(narrow.as_numpy_dtype)
    there = convert(np, values, wide)
    np.testing.assert_array_equal(convert(np, there, narrow), values)


@pytest.mark.parametrize(("target", "expected"), [(dtypes.int32, -(2**31)), (dtypes.int64, -(2**63))])
def test_what_does_not_fit_an_integer_is_the_smallest(target: dtypes.DType, expected: int) -> None:
    with np.errstate(all="ignore"):
        cast = convert(np, np.array([np.nan, np.inf, -np.inf, 1e30]), target)
    assert cast.tolist() == [expected] * 4


@given(
    hnp.arrays(np.int32, st.tuples(st.integers(1, 4), st.integers(1, 200)), elements=st.integers(-20, 20)),
    st.integers(0, 12),
)
def test_top_k_is_the_head_of_a_stable_sort(rows: Any, k: int) -> None:
    k = min(k, rows.shape[1])
    values, places = _top(rows, k, True)
    for row, value, place in zip(rows, values, places, strict=True):
        expected = sorted(range(row.size), key=lambda i: (-row[i], i))[:k]
        assert place.tolist() == expected
        assert value.tolist() == row[expected].tolist()
    unsorted_values, _ = _top(rows, k, False)
    np.testing.assert_array_equal(np.sort(unsorted_values, axis=1), np.sort(values, axis=1))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_codes_are_rounded_to_the_nearest_and_halves_away_from_zero(kind: Any) -> None:
    """Also just below a half, and where no half can be told any more: with a half added both would go up."""
    below = np.nextafter(kind(0.5), kind(0))
    large = kind(2.0 ** (np.finfo(kind).nmant) + 1)
    x = np.array([0, below, 0.5, 1.5, 2.5, 3.49, large], kind)
    expected = [0, 0, 1, 2, 3, 3, large]
    assert codes.rounded(np, x).tolist() == expected
    assert codes.rounded(np, -x).tolist() == [-each for each in expected]


@pytest.mark.parametrize("name", ["quint8", "qint8", "qint32"])
def test_all_codes_of_a_range_without_extent_are_its_number(name: str) -> None:
    kind = dtypes.as_dtype(name)
    many = np.array([kind.min, 7, kind.max], kind.as_numpy_dtype)
    assert codes.numbers(np, many, 3, 3, kind).tolist() == [3, 3, 3]
    assert codes.dequantized(many, 3, 3, kind).tolist() == [3, 3, 3]
    assert codes.number(7, 3, 3, kind) == 3
    assert (
        codes.quantized_exactly(np, np.array([-5, 3, 5], np.float32), 3, 3, kind).tolist() == [kind.min] * 3
    )


@given(hnp.arrays(np.float64, st.integers(0, 50), elements=st.floats(-1e25, 1e25)))
def test_a_histogram_counts_every_value_once(values: Any) -> None:
    encoded = histogram_proto(values)
    buckets = np.frombuffer(encoded[-_count_of_last(encoded) * 8 :], "<f8")
    assert buckets.sum() == values.size


def _count_of_last(encoded: bytes) -> int:
    """Length of the last packed field (number 7), which the message ends with."""
    position = 0
    while True:
        kind, field = encoded[position] & 7, encoded[position] >> 3
        position += 1
        if kind == 1:
            position += 8
            continue
        size = shift = 0
        while True:
            byte = encoded[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if field == 7:
            return size // 8
        position += size
