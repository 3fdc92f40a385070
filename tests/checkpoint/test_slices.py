"""Slices of tensors: which stored ones make up a wanted one, in one checkpoint and merged from two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import BundleReader, BundleWriter, merge_bundles
from flowengine.checkpoint.slices import (
    Shape,
    Slice,
    cover,
    decode_slice,
    describe,
    encode_slice,
    parse_shape_and_slice,
    slice_key,
    slice_shape,
    to_index,
)
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError


@st.composite
def shapes_and_slices(draw: st.DrawFn, most: int = 6) -> tuple[Shape, list[Slice]]:
    """A small shape and slices of it: parts of a partition, then some changed, dropped or said twice."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))

    def one() -> Slice:
        part: list[tuple[int, int] | None] = []
        for size in shape:
            start = draw(st.integers(0, size - 1))
            length = draw(st.integers(1, size - start))
            part.append(None if (start, length) == (0, size) and draw(st.booleans()) else (start, length))
        return tuple(part)

    if draw(st.booleans()):
        axis = draw(st.integers(0, len(shape) - 1))
        ends = sorted({*draw(st.sets(st.integers(1, shape[axis]), max_size=3)), shape[axis]})
        parts: list[Slice] = []
        for start, end in zip([0, *ends], ends, strict=False):
            rest: list[tuple[int, int] | None] = [None] * len(shape)
            rest[axis] = (start, end - start)
            parts.append(tuple(rest))
        if draw(st.booleans()):
            parts.append(draw(st.sampled_from(parts)) if draw(st.booleans()) else one())
        if draw(st.booleans()):
            parts.pop(draw(st.integers(0, len(parts) - 1)))
        return shape, draw(st.permutations(parts))
    return shape, [one() for _ in range(draw(st.integers(0, most)))]


@given(shapes_and_slices(), st.data())
def test_a_slice_is_made_up_where_each_element_is_stored_once(
    drawn: tuple[Shape, list[Slice]], data: st.DataObject
) -> None:
    """Beside an array in which each element counts how often it is stored."""
    shape, stored = drawn
    wanted: Slice = (None,) * len(shape)
    if stored:
        wanted = data.draw(st.sampled_from([wanted, *stored]))
    count = np.zeros(shape, np.int64)
    for part in stored:
        count[to_index(part)] += 1
    possible = bool((count[to_index(wanted)] == 1).all())
    pieces = cover(shape, wanted, stored)
    assert (pieces is not None) == possible
    if pieces is None:
        return
    whole = np.arange(count.size).reshape(shape)
    found = np.full(slice_shape(shape, wanted), -1)
    for position, inside, result in pieces:
        found[result] = whole[to_index(stored[position])][inside]
    np.testing.assert_array_equal(found, whole[to_index(wanted)])


@given(shapes_and_slices())
def test_slices_come_back_as_text_and_as_bytes(drawn: tuple[Shape, list[Slice]]) -> None:
    shape, parts = drawn
    for part in parts:
        text = " ".join(map(str, shape)) + " " + describe(part)
        assert parse_shape_and_slice(text) == (shape, part, slice_shape(shape, part))
        assert decode_slice(memoryview(encode_slice(part))) == part


_EXTENTS = st.none() | st.tuples(st.integers(0, 2**40), st.integers(1, 2**40))


@given(st.lists(st.tuples(st.binary(max_size=3), st.lists(_EXTENTS, max_size=2).map(tuple)), max_size=6))
def test_keys_of_slices_sort_as_names_and_extents_do(slices: list[tuple[bytes, Any]]) -> None:
    def order(each: tuple[bytes, Any]) -> tuple[bytes, int, list[tuple[int, int]]]:
        name, part = each
        return name, len(part), [extent or (0, -1) for extent in part]

    assert sorted(slices, key=lambda each: slice_key(*each)) == sorted(slices, key=order)


def _write(prefix: Path, parts: list[Slice], value: float = 0.0) -> str:
    with BundleWriter(str(prefix), sync=False) as writer:
        for part in parts:
            array = np.full(slice_shape((4,), part), value, np.float32)
            writer.add_slice(b"t", (4,), part, array, dtypes.float32)
    return str(prefix)


def test_as_many_elements_as_wanted_may_still_overlap() -> None:
    """Four elements are stored of a tensor of four: one of them twice, one not at all."""
    assert cover((4,), (None,), [((0, 2),), ((1, 1),), ((3, 1),)]) is None
    assert cover((2, 2), (None, None), [((0, 1), None), (None, (1, 1))]) is None
    assert cover((4,), ((0, 1),), [((0, 2),), ((1, 1),), ((3, 1),)]) is not None


def test_a_slice_of_nothing_overlaps_with_none() -> None:
    nothing, whole = ((3, 0),), ((0, 6),)
    for stored in ([nothing, whole], [whole, nothing], [nothing, whole, nothing]):
        found = cover((6,), (None,), stored)
        assert found == [(stored.index(whole), (slice(0, 6),), (slice(0, 6),))]


def test_overlapping_slices_are_refused_when_read(tmp_path: Path) -> None:
    prefix = _write(tmp_path / "m", [((0, 3),), ((2, 2),)])
    with BundleReader(prefix) as reader:
        with pytest.raises(InvalidArgumentError, match="do not cover"):
            reader.read(b"t")
        assert reader.read(b"t", ((0, 2),)).shape == (2,)  # where only one of them lies


def test_one_slice_in_two_bundles_is_refused_and_both_stay(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", [((0, 2),)], 1)
    two = _write(tmp_path / "two", [((2, 2),), ((0, 2),)], 2)
    with pytest.raises(InvalidArgumentError, match="Duplicate slice of t encountered"):
        merge_bundles([one, two], str(tmp_path / "merged"))
    with BundleReader(one) as reader:
        assert reader.read(b"t", ((0, 2),)).tolist() == [1, 1]
    with BundleReader(two) as reader:
        assert reader.read(b"t").tolist() == [2, 2, 2, 2]
    assert not (tmp_path / "merged.index").exists()


def test_slices_of_one_tensor_are_of_one_type_and_shape(tmp_path: Path) -> None:
    with BundleWriter(str(tmp_path / "m")) as writer:
        writer.add_slice(b"t", (4,), ((0, 2),), np.zeros(2, np.int32), dtypes.int32)
        with pytest.raises(InvalidArgumentError, match="float32 of a tensor"):
            writer.add_slice(b"t", (4,), ((2, 2),), np.zeros(2, np.float32), dtypes.float32)
        with pytest.raises(InvalidArgumentError, match="of shape"):
            writer.add_slice(b"t", (5,), ((2, 2),), np.zeros(2, np.int32), dtypes.int32)
        with pytest.raises(InvalidArgumentError, match="its specification says"):
            writer.add_slice(b"t", (4,), ((2, 2),), np.zeros(3, np.int32), dtypes.int32)
        with pytest.raises(InvalidArgumentError):
            writer.add(b"objects", np.array([None, None], object), dtypes.int64)
        writer.add_slice(b"t", (4,), ((2, 2),), np.ones(2, np.int32), dtypes.int32)
    with BundleReader(str(tmp_path / "m")) as reader:
        assert reader.read(b"t").tolist() == [0, 0, 1, 1]


def test_slices_of_tensors_that_differ_are_refused(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", [((0, 2),)])
    for name, shape, dtype in (("shape", (6,), np.float32), ("type", (4,), np.float64)):
        with BundleWriter(str(tmp_path / name), sync=False) as writer:
            kind = dtypes.float32 if dtype is np.float32 else dtypes.float64
            writer.add_slice(b"t", shape, ((2, 2),), np.zeros(2, dtype), kind)
        with pytest.raises(InvalidArgumentError, match="different shapes or types"):
            merge_bundles([one, str(tmp_path / name)], str(tmp_path / "merged"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "two elements"),
        ("0,2", "two elements"),
        ("0,2 ", "two elements"),
        ("4 x,2", "Non numerical"),
        ("4 0,x", "Non numerical"),
        ("4 0", "Non numerical"),
        ("four -", "Non numerical"),
        ("-4 -", "Non numerical"),
        ("4 -1,2", "Non numerical"),
        (f"{2**63} -", "Non numerical"),
        ("4 0,1:0,1", "2 dimensions"),
        ("4 5 -", "1 dimensions"),
        ("4 3,2", "reaches beyond"),
    ],
)
def test_text_that_describes_no_slice(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_shape_and_slice(text)


def test_text_that_describes_a_slice() -> None:
    assert parse_shape_and_slice("4 5 0,2:-") == ((4, 5), ((0, 2), None), (2, 5))
    assert parse_shape_and_slice("4 2,2 ") == ((4,), ((2, 2),), (2,))
    assert parse_shape_and_slice(f"{2**63 - 1} -") == ((2**63 - 1,), (None,), (2**63 - 1,))
