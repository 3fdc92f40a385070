"""Inferred shapes agree with what NumPy's own operations give; what is inferred from less is never wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape, broadcast_shapes
from flowengine.ops.array.slicing import sliced_length
from flowengine.ops.shape_functions import windowed

Infer = Callable[..., Any]
sides = st.integers(0, 4)
shapes = st.lists(sides, max_size=4)


def blurred(data: st.DataObject, shape: list[int]) -> list[int | None] | None:
    """Draw how much of a shape is known: all of it, some dimensions, the rank, or nothing."""
    if data.draw(st.integers(0, 9)) == 0:
        return None
    return [d if data.draw(st.booleans()) else None for d in shape]


def fits(inferred: Any, actual: tuple[int, ...]) -> bool:
    return TensorShape(inferred).is_compatible_with(TensorShape(actual))


@given(st.data(), shapes, shapes)
def test_broadcast_of_partial_shapes_admits_the_real_one(
    data: st.DataObject, a: list[int], b: list[int]
) -> None:
    try:
        actual = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        actual = None
    try:
        exact = broadcast_shapes(TensorShape(a), TensorShape(b))
    except InvalidArgumentError:
        assert actual is None
        return
    assert actual is not None
    assert exact == TensorShape(actual)
    partial = broadcast_shapes(TensorShape(blurred(data, a)), TensorShape(blurred(data, b)))
    assert partial.is_compatible_with(TensorShape(actual))


@given(
    st.integers(0, 12),
    st.integers(-15, 15),
    st.integers(-15, 15),
    st.integers(-4, 4),
    st.booleans(),
    st.booleans(),
)
def test_sliced_length_is_pythons(
    size: int, begin: int, end: int, stride: int, first: bool, last: bool
) -> None:
    assume(stride != 0)
    expected = len(range(size)[None if first else begin : None if last else end : stride])
    assert sliced_length(size, begin, end, stride, first, last) == expected


@given(
    st.integers(0, 20),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([b"SAME", b"VALID"]),
)
def test_windows_are_counted_by_enumeration(
    size: int, window: int, stride: int, rate: int, padding: bytes
) -> None:
    span = (window - 1) * rate + 1
    if padding == b"SAME":
        expected = len(range(0, size, stride))
    else:
        expected = len([start for start in range(0, size, stride) if start + span <= size])
    try:
        assert windowed(size, window, stride, padding, rate) == expected
    except InvalidArgumentError:
        assert padding == b"VALID"
        assert size - span + stride < 0


@given(st.data(), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_strided_slice_is_numpys(infer: Infer, data: st.DataObject, shape: list[int]) -> None:
    array = np.zeros(shape, np.float32)
    spec: list[Any] = []
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask"), 0)
    seen = 0
    for position in range(data.draw(st.integers(0, len(shape) + 1))):
        kind = data.draw(st.sampled_from(["slice", "index", "new", "ellipsis"]))
        b, e, s = data.draw(
            st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, -1, 1, 2]))
        )
        if kind == "ellipsis" and not masks["ellipsis_mask"]:
            masks["ellipsis_mask"] |= 1 << position
            spec.append(Ellipsis)
        elif kind == "new":
            masks["new_axis_mask"] |= 1 << position
            spec.append(None)
        else:
            seen += 1
            if kind == "index":
                masks["shrink_axis_mask"] |= 1 << position
                s = 1
                spec.append(b)
            else:
                open_begin, open_end = data.draw(st.booleans()), data.draw(st.booleans())
                masks["begin_mask"] |= open_begin << position
                masks["end_mask"] |= open_end << position
                spec.append(slice(None if open_begin else b, None if open_end else e, s))
        begin.append(b)
        end.append(e)
        strides.append(s)
    bounds = [np.array(v, np.int32) for v in (begin, end, strides)]
    try:
        actual = array[tuple(spec)].shape
    except IndexError:
        return
    (exact,) = infer("StridedSlice", shape, *bounds, **masks)
    assert exact == list(actual)
    (partial,) = infer("StridedSlice", blurred(data, shape), *bounds, **masks)
    assert fits(partial, actual)


@given(st.data(), shapes)
def test_reductions_are_numpys(infer: Infer, data: st.DataObject, shape: list[int]) -> None:
    axes = data.draw(st.sets(st.sampled_from(range(len(shape)))) if shape else st.builds(set[int]))
    backwards, keep = data.draw(st.booleans()), data.draw(st.booleans())
    chosen = np.array(sorted(axes), np.int32) - (len(shape) if backwards else 0)
    actual = np.zeros(shape).sum(axis=tuple(axes), keepdims=keep).shape
    (exact,) = infer("Sum", shape, chosen, keep_dims=keep)
    assert exact == list(actual)
    (partial,) = infer("Sum", blurred(data, shape), chosen, keep_dims=keep)
    assert fits(partial, actual)
    (blind,) = infer("Sum", shape, [len(axes)], dtypes=["float32", "int32"], keep_dims=keep)
    assert fits(blind, actual)


@given(st.data(), st.lists(sides, min_size=1, max_size=4), st.integers(2, 4))
def test_concatenation_is_numpys(infer: Infer, data: st.DataObject, shape: list[int], count: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(count):
        part = list(shape)
        part[axis] = data.draw(sides)
        parts.append(part)
    actual = np.concatenate([np.zeros(p) for p in parts], axis).shape
    (exact,) = infer("ConcatV2", parts, np.int32(axis))
    assert exact == list(actual)
    blurs = [blurred(data, p) for p in parts]
    # A list of which no element has a known rank is written as placeholders all the same.
    if any(b is not None for b in blurs):
        (partial,) = infer(
            "ConcatV2", [b if b is not None else [None] * len(shape) for b in blurs], np.int32(axis)
        )
        assert fits(partial, actual)


@given(st.data(), shapes)
def test_layout_ops_are_numpys(infer: Infer, data: st.DataObject, shape: list[int]) -> None:
    array = np.zeros(shape, np.float32)
    rank = len(shape)
    known = blurred(data, shape)
    perm = data.draw(st.permutations(range(rank)))
    pads = np.array(data.draw(st.lists(st.tuples(sides, sides), min_size=rank, max_size=rank)), np.int32)
    times = data.draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    where = data.draw(st.integers(-rank - 1, rank))
    for op, argument, actual in (
        ("Transpose", np.array(perm, np.int32), array.transpose(perm).shape),
        ("Pad", pads.reshape(rank, 2), np.pad(array, pads).shape if rank else ()),
        ("Tile", np.array(times, np.int32), np.tile(array, times).shape if rank else ()),
        ("ExpandDims", np.int32(where), np.expand_dims(array, where).shape),
    ):
        (exact,) = infer(op, shape, argument)
        assert exact == list(actual), op
        (partial,) = infer(op, known, argument)
        assert fits(partial, actual), op


@given(st.data(), st.lists(st.integers(1, 4), max_size=4))
def test_reshape_is_numpys(infer: Infer, data: st.DataObject, shape: list[int]) -> None:
    array = np.zeros(shape, np.float32)
    target: list[int] = list(data.draw(st.permutations(shape)))
    if len(target) > 1 and data.draw(st.booleans()):
        target[0:2] = [target[0] * target[1]]
    leave_open = data.draw(st.booleans())
    if target and leave_open:
        target[data.draw(st.integers(0, len(target) - 1))] = -1
    actual = array.reshape(target).shape
    (exact,) = infer("Reshape", shape, np.array(target, np.int32))
    assert exact == list(actual)
    (partial,) = infer("Reshape", blurred(data, shape), np.array(target, np.int32))
    assert fits(partial, actual)


@given(st.data(), st.lists(sides, min_size=1, max_size=3), shapes)
def test_gather_is_numpys(
    infer: Infer, data: st.DataObject, shape: list[int], index_shape: list[int]
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assume(shape[axis] > 0)
    indices = np.zeros(index_shape, np.int32)
    actual = np.take(np.zeros(shape), indices, axis).shape
    (exact,) = infer("GatherV2", shape, indices, np.int32(axis))
    assert exact == list(actual)
    partial = infer(
        "GatherV2", blurred(data, shape), index_shape, np.int32(axis), dtypes=["float32", "int32"]
    )
    assert fits(partial[0], actual)


@given(
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.one_of(st.integers(-5, 5), st.sampled_from([0.1, 0.3, -0.7, 1.5])),
)
def test_range_has_the_length_of_numpys(infer: Infer, start: int, limit: int, delta: float) -> None:
    assume(delta != 0 and (limit - start) * delta >= 0)
    kind = np.int32 if isinstance(delta, int) else np.float64
    actual = np.arange(start, limit, delta)
    (length,) = infer("Range", kind(start), kind(limit), kind(delta))
    assert length == [len(actual)]
