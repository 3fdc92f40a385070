"""Examples that are like the first one are read as any others are, and only those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.ir.proto import example_pb2
from flowengine.kernels.io.example_alike import AlikeExamples
from flowengine.kernels.io.example_lists import ExampleLists, Irregular
from flowengine.kernels.io.example_scan import Scan

TYPES = {"int64_list": dtypes.int64, "float_list": dtypes.float32, "bytes_list": dtypes.string}
VALUES: dict[str, Any] = {
    "int64_list": st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1)),
    "float_list": st.floats(width=32),
    "bytes_list": st.one_of(st.binary(max_size=3), st.binary(min_size=8, max_size=8)),
}
KEYS = st.text(st.sampled_from("aé\n\x12I0123456789"), max_size=12)
LAYOUTS = st.dictionaries(KEYS, st.sampled_from(sorted(TYPES)), min_size=1, max_size=5)


def serialized(layout: dict[str, str], rows: dict[str, list[Any]]) -> bytes:
    made = example_pb2.Example()
    for key, kind in layout.items():
        getattr(made.features.feature[key], kind).value.extend(rows[key])
    return bytes(made.SerializeToString(deterministic=True))


def lists_of(layout: dict[str, str], least: int, most: int) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {key: st.lists(VALUES[kind], min_size=least, max_size=most) for key, kind in layout.items()}
    )


def examples(least: int, most: int) -> st.SearchStrategy[Any]:
    """A layout and the values of a few examples of it, so many in each list."""
    return LAYOUTS.flatmap(
        lambda layout: st.tuples(
            st.just(layout), st.lists(lists_of(layout, least, most), min_size=1, max_size=5)
        )
    )


def wanted_of(layout: dict[str, str]) -> list[Any]:
    return [(key.encode(), TYPES[kind]) for key, kind in layout.items()] + [(b"absent", dtypes.float32)]


def same(one: list[Any], other: list[Any]) -> None:
    for given_, wanted in zip(one, other, strict=True):
        for part, reference in zip(given_, wanted, strict=True):
            np.testing.assert_array_equal(part, reference)
            assert getattr(part, "dtype", None) == getattr(reference, "dtype", None)


def columns(texts: list[bytes], wanted: list[Any]) -> list[Any]:
    return AlikeExamples(ExampleLists(texts), texts).columns(wanted)


@given(examples(1, 1))
def test_examples_of_single_values(drawn: Any) -> None:
    layout, rows = drawn
    texts = [serialized(layout, each) for each in rows]
    same(columns(texts, wanted_of(layout)), Scan(ExampleLists(texts)).columns(wanted_of(layout)))


@given(examples(0, 3))
def test_examples_of_any_lists(drawn: Any) -> None:
    layout, rows = drawn
    texts = [serialized(layout, each) for each in rows]
    wanted = wanted_of(layout)
    try:
        found = columns(texts, wanted)
    except Irregular:
        return
    same(found, Scan(ExampleLists(texts)).columns(wanted))


@given(st.data())
def test_damaged_examples_are_never_guessed_at(data: st.DataObject) -> None:
    layout = {"I1": "int64_list", "a longer key": "bytes_list", "f": "float_list"}
    rows = data.draw(st.lists(lists_of(layout, 1, 1), min_size=2, max_size=4))
    texts = [bytearray(serialized(layout, each)) for each in rows]
    damaged = texts[data.draw(st.integers(0, len(texts) - 1))]
    for _ in range(data.draw(st.integers(1, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    given_ = [bytes(each) for each in texts]
    try:
        found = columns(given_, wanted_of(layout))
    except Irregular:
        return
    same(found, Scan(ExampleLists(given_)).columns(wanted_of(layout)))


ONE: Any = ({"a": "int64_list"}, {"a": [1]})


@pytest.mark.parametrize(
    "others",
    [
        ({"b": "int64_list"}, {"b": [1]}),
        ({"a": "float_list"}, {"a": [1.0]}),
        ({"a": "int64_list", "b": "int64_list"}, {"a": [1], "b": [1]}),
        ({}, {}),
    ],
    ids=["key", "type", "more", "empty"],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_what_is_not_like_the_first(others: Any, is_first: bool) -> None:
    texts = [serialized(*ONE), serialized(*others)]
    texts = texts[::-1] if is_first else texts
    with pytest.raises(Irregular):
        columns(texts, [(b"a", dtypes.int64)])


@pytest.mark.parametrize("place", range(20))
def test_sizes_that_seem_to_be_equal(place: int) -> None:
    """Only some examples are looked at to tell which entries have the same size everywhere."""
    words = [b"four"] * 20
    words[place] = b"six six"
    layout = {"a": "bytes_list", "b": "int64_list"}
    texts = [serialized(layout, {"a": [word], "b": [number]}) for number, word in enumerate(words)]
    found = columns(texts, wanted_of(layout)[:2])
    assert found[0][0].tolist() == words
    assert found[1][0].tolist() == list(range(20))


def test_another_type_is_asked_for() -> None:
    with pytest.raises(Irregular):
        columns([serialized(*ONE)] * 3, [(b"a", dtypes.string)])


@pytest.mark.parametrize("count", [114, 115, 116, 130, 20_000])
def test_long_entries(count: int) -> None:
    """Sizes of two bytes are looked at elsewhere; the longest of one byte are read here."""
    texts = [serialized({"a": "bytes_list"}, {"a": [bytes([65 + number]) * count]}) for number in range(3)]
    try:
        ((found, _, _),) = columns(texts, [(b"a", dtypes.string)])
    except Irregular:
        assert count > 115
    else:
        assert found.tolist() == [bytes([65 + number]) * count for number in range(3)]
        assert count <= 118


BLOCK = {"a": "bytes_list", "be": "bytes_list", "c": "float_list", "none": "bytes_list", "z": "int64_list"}


def block_texts(count: int = 9) -> list[bytes]:
    """Examples whose first four entries are of equal sizes, and lie in one block."""
    return [
        serialized(
            BLOCK,
            {
                "a": [b"%08x" % (number * 77_777_777)],
                "be": [b"\0%d\0" % (number % 10)],
                "c": [number / 4],
                "none": [b""],
                "z": [number * 50],
            },
        )
        for number in range(count)
    ]


def test_entries_of_equal_sizes_are_read_as_a_block() -> None:
    texts = block_texts()
    found = columns(texts, wanted_of(BLOCK))
    same(found, Scan(ExampleLists(texts)).columns(wanted_of(BLOCK)))
    assert found[1][0].tolist() == [b"\0%d\0" % number for number in range(9)]
    assert all(type(each) is bytes for column in (found[0], found[1], found[3]) for each in column[0])


def test_no_damage_of_a_block_is_overlooked() -> None:
    """Each byte of one example in turn: it is of a value, or it is noticed."""
    texts = block_texts()
    for at in range(len(texts[-1])):
        damaged = bytearray(texts[-1])
        damaged[at] ^= 1
        given_ = [*texts[:-1], bytes(damaged)]
        try:
            found = columns(given_, wanted_of(BLOCK))
        except Irregular:
            continue
        same(found, Scan(ExampleLists(given_)).columns(wanted_of(BLOCK)))


def test_strings_outlive_the_examples() -> None:
    """Strings of a block are objects of their own, not views of what they were read from."""
    found = columns(block_texts(), wanted_of(BLOCK))
    assert found[0][0].dtype == object
    assert found[0][0].base is None
    assert found[0][0][8] == b"%08x" % (8 * 77_777_777)
