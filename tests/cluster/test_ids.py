"""Numbers of steps, and those that are over as ranges."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from flowengine.cluster.ids import Endings, StepNumbers, from_ranges, to_ranges

NUMBERS = st.lists(st.integers(0, 30), max_size=20)


@given(NUMBERS)
def test_ranges_are_the_set_of_the_numbers(numbers: list[int]) -> None:
    ranges = to_ranges(numbers)
    pairs = list(from_ranges(ranges))
    assert len(ranges) == 2 * len(pairs)
    assert [n for first, last in pairs for n in range(first, last + 1)] == sorted(set(numbers))
    # As few as can be: a gap lies between two of them.
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(pairs))


@given(NUMBERS)
def test_endings_are_told_once(numbers: list[int]) -> None:
    endings = Endings()
    endings.numbers.extend(numbers)
    assert bool(endings) == bool(numbers)
    assert endings.take() == to_ranges(numbers)
    assert not endings
    assert endings.take() == []


def test_an_odd_end_is_left_out() -> None:
    assert list(from_ranges([1, 2, 5])) == [(1, 2)]


def test_numbers_follow_each_other_and_two_masters_share_none() -> None:
    masters = [StepNumbers() for _ in range(20)]
    drawn = [[master.new() for _ in range(3)] for master in masters]
    assert all(numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2] for numbers in drawn)
    assert len({number for numbers in drawn for number in numbers}) == 60
    assert all(0 < numbers[0] < 2**63 for numbers in drawn)
