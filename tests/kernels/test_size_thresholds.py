"""Kernels that go another way when there is much to do: the same values on both sides of each threshold.

The other side is a loop in Python whose numbers are wide: integers wrap at the end, halves are rounded once.
Every type has its turn, with each provider and with NumPy's kernels alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flowengine as fe

PROVIDERS = ("auto", "numpy")
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)
HALVES = (np.float16, ml_dtypes.bfloat16)
FLOATS = (np.float32, np.float64)
TYPES = (*INTEGERS, *HALVES, *FLOATS)
#: Elements: below, at and above where sums by `ufunc.at` end, and where sparse products begin.
SIZES = (60, 2047, 2049, 20000)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, ones: bool = False) -> Any:
    """Small numbers, or units (1 and -1) of which products stay units."""
    signed = np.dtype(dtype).kind != "u"
    if ones:
        return rng.choice([-1, 1] if signed else [1], shape).astype(dtype)
    return rng.integers(-3 if signed else 0, 4, shape).astype(dtype)


def in_type(value: Any, dtype: Any) -> Any:
    """Wide numbers in a type: integers wrap, floats are rounded."""
    if np.dtype(dtype).kind in "iu":
        return value.astype(np.int64).astype(dtype)
    return value.astype(dtype)


def wide(array: Any) -> Any:
    return array.astype(np.float64 if np.dtype(array.dtype).kind not in "iu" else np.int64)


def run(op: str, *inputs: Any, provider: str, **attrs: Any) -> Any:
    graph = fe.Graph()
    arguments = [graph.placeholder(fe.dtypes.as_dtype(each.dtype), each.shape) for each in inputs]
    result = getattr(graph.ops, op)(*arguments, **attrs)
    feeds = dict(zip(arguments, inputs, strict=True))
    with fe.blocking.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
        return session.run(result, feeds)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
}


#: The extremes take no narrow integers.
_SCATTERED = [
    (kind, dtype)
    for kind in sorted(_COMBINE)
    for dtype in TYPES
    if kind not in ("Max", "Min") or dtype not in (np.int8, np.uint8, np.int16, np.uint16)
]


@pytest.mark.parametrize(("kind", "dtype"), _SCATTERED, ids=lambda each: getattr(each, "__name__", each))
def test_scattered_updates_of_repeated_rows(kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        for width in (1, 5):
            rows = rng.integers(0, 11, size // width)
            start = drawn(rng, (11, width), dtype, kind == "Mul")
            updates = drawn(rng, (len(rows), width), dtype, kind == "Mul")
            expected = wide(start)
            for row in range(11):
                chosen = wide(updates[rows == row])
                expected[row] = reduce(_COMBINE[kind], chosen, expected[row])
            graph = fe.Graph()
            variable = graph.ops.VariableV2(shape=start.shape, dtype=fe.dtypes.as_dtype(dtype))
            first = graph.ops.Assign(variable, start)
            scatter = getattr(graph.ops, f"Scatter{kind}")(variable, rows, updates)
            with fe.blocking.Session(graph) as session:
                session.run(first)
                found = session.run(scatter)
            np.testing.assert_array_equal(found, in_type(expected, dtype), f"{size} elements of {width}")


_SEGMENTS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "Sum": (np.add, 0),
    "Prod": (np.multiply, 1),
    "Max": (np.maximum, 0),
    "Min": (np.minimum, 0),
}


@pytest.mark.parametrize("dtype", TYPES, ids=lambda each: np.dtype(each).name)
@pytest.mark.parametrize("kind", sorted(_SEGMENTS))
def test_segments_in_order_and_in_none(kind: str, dtype: Any) -> None:
    combine, empty = _SEGMENTS[kind]
    rng = np.random.default_rng(8)
    for size in SIZES:
        for width in (1, 5):
            ids = rng.choice([0, 1, 2, 5, 6], size // width)
            data = drawn(rng, (len(ids), width), dtype, kind == "Prod")
            expected = np.full((7, width), empty, wide(data).dtype)
            for row in set(ids.tolist()):
                expected[row] = reduce(combine, wide(data[ids == row]))
            expected = in_type(expected, dtype)
            order = np.argsort(ids, kind="stable")
            found = run(f"Segment{kind}", data[order], ids[order], provider="auto")
            np.testing.assert_array_equal(found, expected)
            if kind in ("Max", "Min"):
                info = fe.dtypes.as_dtype(dtype)
                expected[[3, 4]] = info.min if kind == "Max" else info.max
            # Rows of negative ids do not count.
            loose = np.concatenate([ids, [-1, -7]])
            rows = np.concatenate([data, drawn(rng, (2, width), dtype)])
            mixed = rng.permutation(len(loose))
            found = run(f"UnsortedSegment{kind}", rows[mixed], loose[mixed], np.int32(7), provider="auto")
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [3, 3000])
def test_ids_in_order_are_not_negative(size: int) -> None:
    ids = np.zeros(size, np.int32)
    ids[0] = -1
    for kind in (*_SEGMENTS, "Mean"):
        with pytest.raises(fe.errors.InvalidArgumentError, match="segment ids must be >= 0"):
            run(f"Segment{kind}", np.ones(size, np.float32), ids, provider="auto")


@pytest.mark.parametrize("dtype", TYPES, ids=lambda each: np.dtype(each).name)
@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
def test_scans(op: str, dtype: Any) -> None:
    """Halves are summed in float32 and rounded once: of 3,000 ones none is lost above 2,048."""
    rng = np.random.default_rng(9)
    combine, empty = (np.add, 0) if op == "Cumsum" else (np.multiply, 1)
    for size in (5, 3000):
        x = np.ones(size, dtype) if op == "Cumsum" else drawn(rng, (size,), dtype, True)
        sums = combine.accumulate(wide(x))
        before = np.concatenate([[empty], sums[:-1]])
        for exclusive, expected in ((False, sums), (True, before)):
            for reverse in (False, True):
                given = x[::-1].copy() if reverse else x
                found = run(op, given, np.int32(0), provider="auto", exclusive=exclusive, reverse=reverse)
                found = found[::-1] if reverse else found
                np.testing.assert_array_equal(found, in_type(expected, dtype))


@pytest.mark.parametrize("source", FLOATS, ids=lambda each: np.dtype(each).name)
@pytest.mark.parametrize("target", HALVES, ids=lambda each: np.dtype(each).name)
@pytest.mark.parametrize("truncate", [False, True])
def test_a_nan_stays_one_whatever_its_payload(source: Any, target: Any, truncate: bool) -> None:
    """Its lowest bit alone, its highest, all: dropping the low bits must not leave an infinity."""
    bits: Any = np.uint32 if source == np.float32 else np.uint64
    fraction = np.finfo(source).nmant
    payloads = [1, 3, 1 << 12, 1 << 13, 1 << 15, 1 << 16, 1 << (fraction - 1), (1 << fraction) - 1]
    exponent = int(np.array(np.inf, source).view(bits))
    sign = 1 << (8 * np.dtype(source).itemsize - 1)
    patterns = [exponent | payload | s for payload in payloads for s in (0, sign)]
    x = np.array(patterns, bits).view(source)
    assert np.isnan(x).all()
    found = run("Cast", x, provider="auto", DstT=fe.dtypes.as_dtype(target), Truncate=truncate)
    assert np.isnan(found.astype(np.float32)).all()
    finite = np.array([np.inf, -np.inf, 1.0, -0.0], source)
    found = run("Cast", finite, provider="auto", DstT=fe.dtypes.as_dtype(target), Truncate=truncate)
    np.testing.assert_array_equal(found.astype(source), finite)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: np.dtype(each).name)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_gradients_in_both_layouts(provider: str, dtype: Any, multiplier: int, stride: int) -> None:
    rng = np.random.default_rng(10)
    n, h, w, c = 2, 7, 6, 3
    x = rng.integers(-3, 4, (n, h, w, c)).astype(dtype)
    filters = rng.integers(-3, 4, (3, 2, c, multiplier)).astype(dtype)
    out_h, out_w = -(-(h - 2) // stride), -(-(w - 1) // stride)
    gradient = rng.integers(-3, 4, (n, out_h, out_w, c * multiplier)).astype(dtype)
    of_x, of_filters = np.zeros_like(x), np.zeros_like(filters)
    for image, row, column, channel, copy, i, j in np.ndindex(n, out_h, out_w, c, multiplier, 3, 2):
        slope = gradient[image, row, column, channel * multiplier + copy]
        of_x[image, row * stride + i, column * stride + j, channel] += slope * filters[i, j, channel, copy]
        of_filters[i, j, channel, copy] += slope * x[image, row * stride + i, column * stride + j, channel]

    def laid(array: Any, layout: str) -> Any:
        return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if layout == "NCHW" else array

    for layout in ("NHWC", "NCHW"):
        strides = [1, stride, stride, 1] if layout == "NHWC" else [1, 1, stride, stride]
        attrs: dict[str, Any] = {"strides": strides, "padding": b"VALID", "data_format": layout.encode()}
        given, slope = laid(x, layout), laid(gradient, layout)
        sizes = np.array(given.shape, np.int32)
        op = "DepthwiseConv2dNativeBackprop"
        found = run(f"{op}Input", sizes, filters, slope, provider=provider, **attrs)
        np.testing.assert_array_equal(found, laid(of_x, layout))
        sizes = np.array(filters.shape, np.int32)
        found = run(f"{op}Filter", given, sizes, slope, provider=provider, **attrs)
        np.testing.assert_array_equal(found, of_filters)
