"""The simulated network: what any byte stream promises, and what its faults do to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from flowengine.core.errors import UnavailableError
from flowengine.testing.simulation.hosts import Death, Host
from flowengine.testing.simulation.log import EventLog
from flowengine.testing.simulation.network import LinkModel, Network
from flowengine.testing.simulation.streams import SimulatedStream, connect, listen
from flowengine.testing.streams import check_byte_stream, receive_exactly, send_all
from flowengine.transport.streams.schemes import ByteStream

_ADDRESS = "sim://b:1"


class Two:
    """Two hosts and the network between them, with streams from `a` to `b`."""

    def __init__(self, nursery: trio.Nursery, model: LinkModel, folder: Path) -> None:
        self.nursery = nursery
        self.log = EventLog()
        self.network = Network(1, self.log, model)
        nursery.start_soon(self.network.run)
        self.hosts: dict[str, Host] = {}
        for name in "ab":
            self.hosts[name] = Host(name, self.network, self.log, self.hosts, folder)

    async def on(self, name: str, body: Callable[[], Awaitable[object]]) -> None:
        """Have a host do this while it goes on living."""
        done = trio.Event()

        async def live() -> None:
            await body()
            done.set()
            await trio.sleep_forever()

        if self.hosts[name].is_running:
            await self.hosts[name].crash()
        self.nursery.start_soon(self.hosts[name].run, live)
        await done.wait()

    async def pair(self) -> tuple[SimulatedStream, SimulatedStream]:
        ends: list[SimulatedStream] = []
        listening = trio.Event()

        async def accept() -> None:
            listener = await listen(_ADDRESS)
            listening.set()
            ends.append(await listener.accept())

        async def dial() -> None:
            ends.append(await connect(_ADDRESS))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.on, "b", accept)
            await listening.wait()
            nursery.start_soon(self.on, "a", dial)
        far, near = sorted(ends, key=lambda end: end.peer)
        return near, far


async def _run(folder: Path, model: LinkModel, body: Callable[[Two], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        await body(Two(nursery, model, folder))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "model",
    [
        LinkModel(),
        LinkModel(jitter_seconds=1e-3, stray_seconds=0.01, stray_share=0.3, bytes_per_second=0),
        LinkModel(bytes_per_second=1e8, piece_seconds=1e-5, window_bytes=50_000),
    ],
    ids=["plain", "straying", "narrow"],
)
async def test_it_is_a_byte_stream(model: LinkModel, tmp_path: Path) -> None:
    """On the real clock: the kit waits until all tasks are blocked, and so no clock would jump."""

    async def body(two: Two) -> None:
        async def make() -> tuple[ByteStream, ByteStream]:
            return await two.pair()

        await check_byte_stream(make)

    await _run(tmp_path, model, body)


async def test_time_is_latency_and_bytes(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    model = LinkModel(latency_seconds=0.5, jitter_seconds=0, bytes_per_second=1000)

    async def body(two: Two) -> None:
        near, far = await two.pair()
        begun = trio.current_time()
        await send_all(near, bytes(2000))
        await receive_exactly(far, 2000)
        assert trio.current_time() - begun == pytest.approx(0.5 + 2.0)

    await _run(tmp_path, model, body)
    assert autojump_clock.autojump_threshold == 0


async def test_an_interface_is_shared(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    model = LinkModel(latency_seconds=0.5, jitter_seconds=0, bytes_per_second=1000, piece_seconds=0.25)

    async def body(two: Two) -> None:
        pairs = [await two.pair()]
        near, far = pairs[0]
        begun = trio.current_time()
        for _ in range(4):
            near.send_nowait([bytes(100)])
        await receive_exactly(far, 400)
        # The processors take 0.25 s for each piece, one after another, and the last needs both and the way.
        assert trio.current_time() - begun == pytest.approx(4 * 0.25 + 0.5 + 0.1 + 0.25)

    await _run(tmp_path, model, body)
    assert autojump_clock.autojump_threshold == 0


async def test_what_is_parted_arrives_later_and_in_order(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def body(two: Two) -> None:
        near, far = await two.pair()
        await send_all(near, b"on its way, ")
        two.network.block(("a", "b"))
        two.network.block(("a", "b"))
        await send_all(near, b"held, ")
        await send_all(far, b"the other way")
        assert await receive_exactly(near, 13) == b"the other way"
        await trio.sleep(60)
        two.network.unblock(("a", "b"))
        await trio.sleep(1)
        assert ("a", "b") in two.network.blocked, "it was blocked twice"
        two.network.unblock(("a", "b"))
        await send_all(near, b"after")
        assert await receive_exactly(far, 23) == b"on its way, held, after"
        assert trio.current_time() > 61

    await _run(tmp_path, LinkModel(), body)
    assert autojump_clock.autojump_threshold == 0


async def test_a_killed_process_is_heard_of(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async def body(two: Two) -> None:
        near, far = await two.pair()
        await send_all(far, b"last words")
        await two.hosts["b"].crash(Death.PROCESS)
        assert await receive_exactly(near, 10) == b"last words"
        with trio.fail_after(1), suppress(UnavailableError):
            # As a reset, or as the end of the stream: the seed says which.
            assert await near.receive_into([memoryview(bytearray(1))]) == 0
        with pytest.raises(UnavailableError, match="b has crashed"):
            far.send_nowait([b"not any more"])

    await _run(tmp_path, LinkModel(), body)
    assert autojump_clock.autojump_threshold == 0


async def test_a_lost_machine_is_silent_until_it_is_back(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def body(two: Two) -> None:
        near, _ = await two.pair()
        await two.hosts["b"].crash(Death.MACHINE)
        await send_all(near, b"anybody there?")
        with trio.move_on_after(1000) as scope:
            await near.receive_into([memoryview(bytearray(1))])
        assert scope.cancelled_caught
        await two.on("b", trio.lowlevel.checkpoint)
        await send_all(near, b"and now?")
        with pytest.raises(UnavailableError, match="reset by the other side"), trio.fail_after(1):
            await near.receive_into([memoryview(bytearray(1))])

    await _run(tmp_path, LinkModel(), body)
    assert autojump_clock.autojump_threshold == 0


async def test_dialling(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async def body(two: Two) -> None:
        await two.on("b", trio.lowlevel.checkpoint)

        async def refused() -> None:
            with pytest.raises(UnavailableError, match="no server listens"), trio.fail_after(1):
                await connect(_ADDRESS)

        await two.on("a", refused)
        await two.hosts["b"].crash(Death.MACHINE)

        async def silent() -> None:
            begun = trio.current_time()
            with pytest.raises(UnavailableError, match="nobody answered"):
                await connect(_ADDRESS)
            assert trio.current_time() - begun == 127

        await two.on("a", silent)

    await _run(tmp_path, LinkModel(), body)
    assert autojump_clock.autojump_threshold == 0
