"""Places among strangers: shared fairly, whoever comes how often; and a server that is flooded."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import FailedPreconditionError, OpError
from flowengine.transport.calls.service import Reply, Service
from flowengine.transport.connection import Connection
from flowengine.transport.dialling import connect
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.server import serve
from flowengine.transport.streams.inproc import InprocStream, stream_pair
from flowengine.transport.streams.schemes import Scheme, register_scheme
from flowengine.transport.unauthenticated_slots import UnauthenticatedSlot, UnauthenticatedSlots, origin_of
from flowengine.transport.wire.states import Side
from tests.effort import IS_NIGHTLY
from tests.tools.links import KEY, identity, output

#: Connections that say nothing; 512 have a place.
SILENT = 2000 if IS_NIGHTLY else 1000


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("tcp://10.0.0.7:43210", "10.0.0.7"),
        ("tls://10.0.0.7:1", "10.0.0.7"),
        ("tcp://[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        ("tcp://[2001:db8:1:2::9]:80", "2001:db8:1:2::/64"),
        ("tcp://[2001:db8:1:3::9]:80", "2001:db8:1:3::/64"),
        ("tcp://[::ffff:10.0.0.7]:80", "10.0.0.7"),
        ("tcp://[fe80::1%eth0]:80", "fe80::/64"),
        ("tcp://(gone)", "(gone)"),
        ("inproc://name", "name"),
    ],
)
def test_one_machine_is_one_origin(address: str, origin: str) -> None:
    assert origin_of(address) == origin


@given(st.data())
def test_the_newest_takes_the_place_of_the_oldest_of_those_who_have_most(data: st.DataObject) -> None:
    most, young = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([0.0, 1.0]))
    lobby, now = UnauthenticatedSlots(most, young_seconds=young), 0.0
    inside: list[tuple[str, float, UnauthenticatedSlot]] = []
    gone: list[UnauthenticatedSlot] = []
    for _ in range(data.draw(st.integers(1, 30))):
        now += data.draw(st.sampled_from([0.0, 0.3, 0.6]))
        if data.draw(st.booleans()) and inside:
            left = inside.pop(data.draw(st.integers(0, len(inside) - 1)))
            lobby.leave(left[2])
            lobby.leave(left[2])
            continue
        origin = data.draw(st.sampled_from("abc"))
        gone.clear()
        place = lobby.enter(origin, now, lambda: None)
        counts = {each: sum(o == each for o, _, _ in inside) for each, _, _ in inside}
        crowded = [o for o, count in counts.items() if count == max(counts.values())]
        if len(inside) < most:
            assert place is not None
        else:
            first = {o: min(since for other, since, _ in inside if other == o) for o in crowded}
            if place is None:
                assert min(now - since for since in first.values()) < young
                assert lobby.room_at("nobody's") in {since + young for since in first.values()}
            else:
                # Which of several that have most loses one is free.
                held = lobby._places
                losers = [each for each in inside if each[2] not in held.get(each[0], {})]
                assert len(losers) == 1
                assert losers[0][0] in crowded
                assert losers[0][1] == first[losers[0][0]]
                assert now - losers[0][1] >= young
                inside.remove(losers[0])
        if place is not None:
            inside.append((origin, now, place))
        assert len(lobby) == len(inside) <= most


class _Arrivals:
    """A listener at which streams arrive from any address."""

    address = "inproc://flooded"

    def __init__(self) -> None:
        self._arrived: deque[InprocStream] = deque()
        self._waiting = trio.lowlevel.ParkingLot()

    def dial(self, address: str) -> InprocStream:
        near, far = stream_pair(address=address)
        self._arrived.append(far)
        self._waiting.unpark()
        return near

    async def accept(self) -> InprocStream:
        await trio.lowlevel.checkpoint()
        while not self._arrived:
            await self._waiting.park()
        return self._arrived.popleft()

    def close(self) -> None:
        pass


async def _reopen(listener: _Arrivals, address: str, words: Callable[[], bytes], rng: random.Random) -> None:
    """Connect, say so much and nothing more, and connect anew as soon as the connection is closed."""
    while True:
        await trio.sleep(rng.uniform(0, 0.2))
        stream = listener.dial(address)
        said = words()
        if said:
            await stream.send_some([said])
        while await stream.receive_into([memoryview(bytearray(4096))]):
            pass
        stream.close()


#: How an honest client dials, and its tries are counted.
_flooded_now: list[_Arrivals] = []
_tries: list[str] = []


async def _dial(address: str, security: Any = None) -> InprocStream:
    _tries.append(address)
    return _flooded_now[-1].dial(address)


register_scheme("flooded", Scheme(_dial, _dial))


async def _gets_in(address: str) -> bool:
    """Whether an honest client proves itself, and is answered."""
    async with trio.open_nursery() as nursery:
        try:
            peer = await connect(nursery, address, identity=identity("/job:c/task:0"), key=KEY)
        except OpError:
            return False
        assert (await peer.call("echo", 1)).result == 1
        nursery.cancel_scope.cancel()
    return True


async def _flooded(
    count: int, words: Callable[[], bytes], clients: Callable[[_Arrivals], Awaitable[Any]]
) -> Any:
    rng = random.Random(0)
    listener = _Arrivals()
    service = Service({"echo": lambda request: Reply(request.arguments, request.tensors)})
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(serve, listener, identity=identity("/job:s/task:0"), key=KEY, service=service)
        )
        for number in range(count):
            nursery.start_soon(_reopen, listener, f"tcp://10.0.0.1:{number}", words, rng)
        await trio.sleep(0.5)
        result = await clients(listener)
        nursery.cancel_scope.cancel()
    return result


async def _all_get_in(listener: _Arrivals, origin: str) -> list[bool]:
    _flooded_now.append(listener)
    _tries.clear()
    found: list[bool] = []

    async def one(number: int) -> None:
        await trio.sleep(number * 0.005)
        found.append(await _gets_in(f"flooded://{origin}:{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(one, number)
    return found


async def test_silent_connections_shut_nobody_out(autojump_clock: trio.testing.MockClock) -> None:
    """More than there are places, reopened at once; from elsewhere all get in, from there with retries."""
    others = await _flooded(SILENT, lambda: b"", partial(_all_get_in, origin="10.0.0.2"))
    assert others == [True] * 100
    assert len(_tries) == 100
    same = await _flooded(SILENT, lambda: b"", partial(_all_get_in, origin="10.0.0.1"))
    assert sum(same) >= 99


async def test_who_is_hung_up_on_dials_again_and_says_so_at_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With longer and longer pauses; what is refused with a reason is not tried again."""

    async def hang_up(listener: _Arrivals) -> None:
        while True:
            (await listener.accept()).close()

    listener = _Arrivals()
    _flooded_now.append(listener)
    _tries.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang_up, listener)
        began = trio.current_time()
        with pytest.raises(ConnectionLostError, match=r"before it was open|the other end is closed"):
            await connect(nursery, "flooded://10.0.0.1:1", identity=identity("/job:c/task:0"), key=KEY)
        assert len(_tries) == 6
        assert trio.current_time() - began == pytest.approx(1.55)
        nursery.cancel_scope.cancel()


async def test_strangers_that_begin_to_speak_shut_nobody_from_elsewhere_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They hold every place for a second; whoever comes from elsewhere waits for that, and gets in."""

    def hello() -> bytes:
        return bytes(output(Connection(Side.DIALLER, identity(), address="x", now=0.0, key=KEY)))

    others = await _flooded(600, hello, partial(_all_get_in, origin="10.0.0.2"))
    assert others == [True] * 100


async def test_all_before_the_proof_has_three_seconds(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Silence, a word and silence: each ends then, counted from the beginning, and the log says who."""
    caplog.set_level(logging.INFO, logger="flowengine.transport")

    async def ends(listener: _Arrivals, pause: float, said: bytes) -> float:
        began = trio.current_time()
        stream = listener.dial("tcp://10.0.0.9:1")
        await trio.sleep(pause)
        if said:
            await stream.send_some([said])
        while await stream.receive_into([memoryview(bytearray(4096))]):
            pass
        return trio.current_time() - began

    hello = bytes(output(Connection(Side.DIALLER, identity(), address="x", now=0.0, key=KEY)))
    for pause, said in ((0.0, b""), (2.5, hello), (2.5, hello[:3])):
        caplog.clear()
        took = await _flooded(0, bytes, partial(ends, pause=pause, said=said))
        assert took == pytest.approx(3.0, abs=0.01)
        assert "tcp://10.0.0.9:1 did not prove in time who it is" in caplog.text


async def test_who_has_proved_himself_is_not_told_of_as_a_stranger(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="flowengine.transport")

    async def comes_and_goes(listener: _Arrivals) -> bool:
        _flooded_now.append(listener)
        found = await _gets_in("flooded://10.0.0.3:1")
        await trio.testing.wait_all_tasks_blocked()
        return found

    assert await _flooded(0, bytes, comes_and_goes)
    assert "did not prove in time" not in caplog.text


async def test_a_silent_stream_that_is_closed_is_told(autojump_clock: trio.testing.MockClock) -> None:
    near, far = stream_pair()
    far.close()
    with pytest.raises(FailedPreconditionError):
        await far.wait_spoken()
    await near.wait_spoken()
