"""Memory that two processes map: its size is for ever, its places are told, and nonsense is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.work_pieces import at_once
from flowengine.sandbox.shared_memory import Ranges, Segment, leased, sealed_memory, whole_pages
from flowengine.sandbox.shared_values import PASSED_MIN, Passage, copying, idle_bytes
from flowengine.transport.errors import RemoteProtocolError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is sealed by Linux")

_SIZE: Final = 16 << 20
_IDLE: Final = 1 << 20
#: Elements of a value that just passes.
_COUNT: Final = PASSED_MIN // 4 + 1


@pytest.fixture
def ends() -> Iterator[tuple[Passage, Passage]]:
    """Both ends of a passage, each with mappings of its own."""
    descriptors = [sealed_memory(_SIZE) for _ in range(2)]
    there, back = (Segment(each, _SIZE) for each in descriptors)
    out, into = (Segment(os.dup(each), _SIZE) for each in reversed(descriptors))
    near, far = Passage(there, back, _IDLE), Passage(out, into, _IDLE)
    yield near, far
    near.close()
    far.close()


def _sent(near: Passage, values: list[Any], room: int = _SIZE) -> Any:
    sending = near.sending(values, room)
    at_once(copying(sending.copies))
    return sending


def _copied(far: Passage, sending: Any, dtypes: list[Any]) -> list[Any]:
    values, offsets, copies = far.receiving(sending.places, sending.beside, dtypes)
    at_once(copying(copies))
    far.received(offsets)
    return list(values)


def test_the_size_of_sealed_memory_cannot_be_changed() -> None:
    import fcntl

    descriptor = sealed_memory(1 << 16)
    try:
        for size in (0, 1 << 15, 1 << 17):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"more", 1 << 16)
        assert os.fstat(descriptor).st_size == 1 << 16
    finally:
        os.close(descriptor)


def test_values_come_as_they_were_sent(ends: tuple[Passage, Passage]) -> None:
    near, far = ends
    wide = np.arange(6 * _COUNT, dtype=np.float64).reshape(2, 3, _COUNT)
    values: list[Any] = [
        np.arange(_COUNT, dtype=np.float32),
        np.float32(1),
        np.array([b"a", b"bc"], object),
        wide[:, ::-1].T,
        np.ones((_COUNT, 9), np.complex128),
        np.zeros((0, 5)),
        np.arange(8 << 20, dtype=np.uint8).reshape(2, -1),
    ]
    sending = _sent(near, values)
    assert [each is None for each in sending.places] == [False, True, True, False, False, True, False]
    received = _copied(far, sending, [getattr(each, "dtype", None) for each in values])
    for value, found in zip(values, received, strict=True):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    assert near.used_bytes > 0
    near.released(far.take_done())
    assert near.used_bytes == 0
    assert far.take_done() == []


def test_what_lies_there_is_free_with_the_last_reference(ends: tuple[Passage, Passage]) -> None:
    near, far = ends
    sending = _sent(near, [np.ones((3, _COUNT), np.float32)])
    (value,) = far.lent(sending.places, sending.beside, [np.dtype(np.float32)])
    part = value[1:].T
    del value
    assert not far.has_done
    assert part.sum() == 2 * _COUNT
    del part
    assert far.take_done() == [0]


def test_what_is_full_goes_beside(ends: tuple[Passage, Passage]) -> None:
    near, _ = ends
    value = np.ones(_SIZE // 3, np.uint8)
    assert [each is None for each in _sent(near, [value] * 4).places] == [False, False, True, True]
    assert near.sending([value], _SIZE).places == []
    near.released([0])
    assert near.sending([value], value.nbytes - 1).places == []
    assert near.sending([value], value.nbytes).places == [[0, value.size]]


def test_pages_without_values_are_given_back(ends: tuple[Passage, Passage]) -> None:
    near, far = ends
    small, large = np.ones(_IDLE // 2, np.uint8), np.ones(4 * _IDLE, np.uint8)
    for value, kept in ((small, _IDLE // 2), (large, 0)):
        _copied(far, _sent(near, [value]), [value.dtype])
        assert near.charged_bytes == value.nbytes
        near.released(far.take_done())
        assert near.charged_bytes == 0
        assert far._into.resident_bytes == kept


def test_what_is_withdrawn_is_free(ends: tuple[Passage, Passage]) -> None:
    near, _ = ends
    near.withdraw(near.sending([np.ones(_COUNT), np.float32(1), np.ones(_COUNT)], _SIZE))
    assert near.used_bytes == 0


@pytest.mark.parametrize(
    ("places", "beside"),
    [
        ([[_SIZE, 1], None], 1),
        ([[_SIZE - 4, 2], None], 1),
        ([[1 << 62, 1 << 62], None], 1),
        ([[0, 1 << 62, 1 << 62], None], 1),
        ([[0, *[1] * 65], None], 1),
        ([[-4096, 2], None], 1),
        ([[0, -1], None], 1),
        ([[0, -1, -1], None], 1),
        ([[True, 2], None], 1),
        ([["0", 2], None], 1),
        ([[0, 2.0], None], 1),
        ([[0, [2]], None], 1),
        ([[], None], 1),
        ([{}, None], 1),
        ([7, None], 1),
        ([[0, 100], [396, 1]], 0),
        ([[0, 100], [0, 100]], 0),
        ([None, None], 1),
        ([None, None], 3),
        ([[0, 1]], 0),
        ([[0, 1]] * 3, 0),
        ([[0, 1], None], 0),
        ([[0, 1], [4, 1]], 1),
    ],
)
def test_places_that_are_none_are_refused(
    ends: tuple[Passage, Passage], places: list[Any], beside: int
) -> None:
    with pytest.raises(RemoteProtocolError):
        ends[0].receiving(places, [np.float32(1)] * beside, [np.dtype(np.float32)] * 2)
    assert not ends[0].has_done


def test_objects_lie_nowhere(ends: tuple[Passage, Passage]) -> None:
    with pytest.raises(RemoteProtocolError):
        ends[0].receiving([[0, 1]], [], [np.dtype(object)])


@pytest.mark.parametrize("offsets", [[0, 0], [4096], [-1], [[0]], ["0"], [None]])
def test_what_was_not_given_is_not_taken_back(ends: tuple[Passage, Passage], offsets: list[Any]) -> None:
    _sent(ends[0], [np.ones(_COUNT)])
    with pytest.raises(RemoteProtocolError):
        ends[0].released(offsets)


def test_a_closed_segment_has_nothing() -> None:
    segment = Segment(sealed_memory(1 << 16), 1 << 16)
    kept = segment.view(0, (4,), np.uint8)
    kept[:] = 7
    segment.close()
    segment.close()
    assert kept.tolist() == [7] * 4
    assert segment.resident_bytes == 0
    segment.empty(0, 4096)
    with pytest.raises(ValueError, match="closed"):
        segment.view(0, (4,), np.uint8)


def test_memory_that_cannot_be_mapped_is_closed() -> None:
    descriptor = sealed_memory(1 << 16)
    with pytest.raises(ValueError, match="length"):
        Segment(descriptor, 1 << 20)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_a_lease_ends_once() -> None:
    freed: list[int] = []
    first = leased(np.arange(6, dtype=np.int16).reshape(2, 3), 5, freed)
    second = first[0]
    del first
    assert second.tolist() == [0, 1, 2]
    assert freed == []
    del second
    assert freed == [5]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40_000)), max_size=60))
def test_ranges_never_overlap_and_are_found_again(doings: list[tuple[bool, int]]) -> None:
    size = 100_000 // 4096 * 4096
    ranges, taken = Ranges(size), dict[int, int]()
    for gives_back, number in doings:
        if gives_back and taken:
            offset = sorted(taken)[number % len(taken)]
            ranges.give_back(offset)
            del taken[offset]
        else:
            found = ranges.take(number)
            if found is None:
                assert all(room < whole_pages(number) for _, room in ranges.gaps())
                continue
            taken[found] = whole_pages(number)
        ends = [(offset, offset + length) for offset, length in sorted(taken.items())]
        assert all(0 <= begin < end <= size for begin, end in ends)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
        assert ranges.used_bytes == sum(taken.values())
        assert sum(room for _, room in ranges.gaps()) == size - ranges.used_bytes


def test_what_is_kept_is_a_part_of_what_may_be_taken() -> None:
    assert idle_bytes(80_000_000) == 10_000_000
    assert idle_bytes(1 << 40) == 128 << 20


def test_after_answers_that_nobody_took_both_sides_agree(ends: tuple[Passage, Passage]) -> None:
    near, far = ends
    kept, lost = np.ones(_COUNT, np.float32), np.ones((5, _COUNT))
    sending = _sent(near, [kept, lost])
    lent = far.lent(sending.places, sending.beside, [kept.dtype, lost.dtype])
    _sent(far, [kept])
    del lent[1]
    assert far.take_done()  # in an answer that is not read
    near.settle_written(far.settle_read())
    assert near.used_bytes == whole_pages(kept.nbytes)
    assert far.used_bytes == 0
    lent.clear()
    near.released(far.take_done())
    assert near.used_bytes == 0
    wrong: list[Any] = [[0], ["x"], [[0]]]
    for held in wrong:
        with pytest.raises(RemoteProtocolError):
            near.settle_written(held)
