"""Clocks that show other times are aligned by round trips, and the stated error holds."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from flowengine.runtime.tracing.clock_alignment import NO_OFFSET, ClockOffset, aligned

DELAYS = st.floats(0, 10, allow_nan=False)
OFFSETS = st.floats(-1e6, 1e6)
#: Clocks of 1e6 seconds have as many digits.
ROUNDING = 1e-8


def far(
    delays: list[tuple[float, float]], offset: float
) -> tuple[Callable[[], Awaitable[float]], list[float]]:
    """Return a clock elsewhere, to which a question and an answer take these seconds, and the time here."""
    now, left = [0.0], iter(delays)

    async def ask() -> float:
        await trio.lowlevel.checkpoint()
        question, answer = next(left)
        now[0] += question
        read = now[0] + offset
        now[0] += answer
        return read

    return ask, now


@given(delays=st.lists(st.tuples(DELAYS, DELAYS), min_size=5, max_size=5), offset=OFFSETS)
def test_the_offset_is_wrong_by_the_stated_error_at_most(
    delays: list[tuple[float, float]], offset: float
) -> None:
    ask, now = far(delays, offset)
    found = trio.run(aligned, ask, lambda: now[0])
    assert abs(found.seconds - offset) <= found.error + ROUNDING
    shortest = min(question + answer for question, answer in delays)
    assert found.error == pytest.approx(shortest / 2, abs=ROUNDING)


@given(first=OFFSETS, second=OFFSETS, errors=st.tuples(DELAYS, DELAYS))
def test_offsets_of_offsets_add_up_with_their_errors(
    first: float, second: float, errors: tuple[float, float]
) -> None:
    through = ClockOffset(first, errors[0]).beyond(ClockOffset(second, errors[1]))
    assert through == (first + second, sum(errors))
    assert through.beyond(NO_OFFSET) == through


async def test_an_error_of_the_other_side_is_raised() -> None:
    async def ask() -> float:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await aligned(ask, lambda: math.nan)
