"""How long peers may be silent, and when a running step is looked at."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from flowengine.cluster.health import (
    CONNECT_SECONDS,
    LOOK_SECONDS,
    LOOK_SECONDS_MAX,
    Patience,
    connect_seconds,
    first_in_vain,
    limits_for,
    lost_task,
)
from flowengine.cluster.messages import PartStatus
from flowengine.core.errors import UnavailableError
from flowengine.transport.limits import Limits


@pytest.mark.parametrize("silence", [0.5, CONNECT_SECONDS, 3 * CONNECT_SECONDS])
def test_connecting_takes_no_longer_than_silence_may_nor_than_its_own_bound(silence: float) -> None:
    assert connect_seconds(silence) == (silence if silence < CONNECT_SECONDS else CONNECT_SECONDS)
    limits = limits_for(silence)
    assert limits.handshake_seconds == connect_seconds(silence)
    assert limits.silence_seconds == silence
    # Asked in time, looked at twice as often, and given up a twelfth after its time.
    assert limits.heartbeat_seconds == pytest.approx(silence / 6)
    assert limits.frame_seconds == (silence if silence > Limits().frame_seconds else Limits().frame_seconds)


def test_who_was_lost_is_told_with_its_devices_and_the_link() -> None:
    master, gone = "/job:worker/task:0", UnavailableError("silent for 30 s")
    idle = lost_task("/job:ps/task:1", [], master, gone)
    assert str(idle).startswith("/job:ps/task:1 was lost; on the link from /job:worker/task:0: silent")
    assert idle.device is None
    busy = lost_task("/job:ps/task:1", ["/cpu:0", "/cpu:1"], master, gone)
    assert "its part of the step on /cpu:0, /cpu:1; on the link" in str(busy)
    assert busy.device == "/cpu:0"


@pytest.mark.parametrize(
    ("places", "first"),
    [
        ([[0], [-1, 2]], [-1, 2]),  # the deepest first: who is inside of a loop keeps it from going on
        ([[-1, 2], [], [-1, 1]], [-1, 1]),  # of one depth the earliest iteration
        ([[-2, 1, 0], [-2, 0, 5], [-1, 0]], [-2, 0, 5]),
        ([[], []], None),  # all are over
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
async def test_given_up_is_what_stands_first_whoever_waits_there(
    places: list[list[int]], first: list[int] | None, is_reversed: bool
) -> None:
    order = places[::-1] if is_reversed else places

    async def ask(index: int) -> PartStatus:
        await trio.lowlevel.checkpoint()
        return PartStatus(sent=index, received=len(order) - 1 - index, first=order[index])

    assert await first_in_vain(len(order), ask) == first


def test_the_first_look_comes_after_half_a_pause_and_none_beside_another() -> None:
    patience = Patience()
    assert not patience.is_due(100.0)
    assert not patience.is_due(100.0 + 0.49 * LOOK_SECONDS)
    assert patience.is_due(100.0 + 0.5 * LOOK_SECONDS)
    patience.is_looked_at = True
    assert not patience.is_due(200.0)
    patience.is_looked_at = False
    assert patience.is_due(200.0)


async def test_looks_become_rarer_while_it_does_something(autojump_clock: trio.testing.MockClock) -> None:
    patience = Patience()
    pauses = []
    for _ in range(6):
        assert not await patience.wait(), "put off to a later look"
        pause = patience.pause
        assert not patience.is_due(trio.current_time() + 0.99 * pause)
        assert patience.is_due(trio.current_time() + pause)
        pauses.append(pause)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert max(pauses) == LOOK_SECONDS_MAX
    assert autojump_clock.current_time() == 0


async def test_what_was_given_something_is_looked_at_again_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    patience = Patience()
    await patience.wait()
    patience.something_happened()
    waited = 0
    while await patience.wait():
        waited += 1
    # 1, 2, 4 ... 256 ms; the next pause is one of a step that was just begun.
    assert waited == 9
    assert autojump_clock.current_time() == pytest.approx(0.511)
    assert patience.pause >= LOOK_SECONDS
