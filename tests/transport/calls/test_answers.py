"""Callers that wait for answers: who is not cancelled gets one, and none waits for a link that has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hypothesis.strategies as st
import pytest
import trio
import trio.testing
from hypothesis import given

from flowengine.core.errors import CancelledError
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import IncomingCall, Peer, Reply, Service
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import ByteStream
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, FaultyStream, identity


class Watched(FaultyStream):
    """Says if two tasks ever read at once."""

    def __init__(self, stream: ByteStream, **options: Any) -> None:
        super().__init__(stream, **options)
        self.is_read = False
        #: Nothing arrives any more.
        self.is_deaf = False

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        assert not self.is_read, "two tasks read at once"
        self.is_read = True
        try:
            while True:
                count = await super().receive_into(buffers)
                if not self.is_deaf:
                    return count
        finally:
            self.is_read = False


class Link:
    """A caller's peer, the stream beneath it, and the other side with its gate."""

    def __init__(self, **options: Any) -> None:
        near_stream, far_stream = stream_pair(address="inproc://reading")
        self.stream = Watched(near_stream, **options)
        self.gate = trio.Event()
        self.waiting = 0
        now = trio.current_time()
        self.near = Peer(
            self.stream,
            Connection(Side.DIALLER, identity("/job:c/task:0"), address="inproc://far", now=now, key=KEY),
        )
        self.far = Peer(
            far_stream,
            Connection(Side.LISTENER, identity("/job:s/task:0"), address="inproc://near", now=now, key=KEY),
            service=Service(
                {"echo": lambda request: Reply(request.arguments, request.tensors), "wait": self.wait}
            ),
        )

    async def wait(self, request: IncomingCall) -> Any:
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return request.arguments


@asynccontextmanager
async def linked(**options: Any) -> AsyncIterator[Link]:
    link = Link(**options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.far.run)
        await nursery.start(link.near.run)
        yield link
        nursery.cancel_scope.cancel()


async def test_calls_that_wait_side_by_side_are_answered() -> None:
    async with linked() as link:
        await link.near.call("echo")
        answers: list[Any] = []

        async def ask(number: int) -> None:
            answers.append((await link.near.call("wait", number)).result)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            nursery.start_soon(ask, 2)
            nursery.start_soon(ask, 3)
            while link.waiting < 3:
                await trio.lowlevel.checkpoint()
            assert (await link.near.call("echo", "beside")).result == "beside"
            link.gate.set()
        assert sorted(answers) == [1, 2, 3]
        assert (await link.near.call("echo", 4)).result == 4


async def test_a_caller_that_is_cancelled_leaves_nothing_behind() -> None:
    async with linked() as link:
        for _ in range(2):
            await link.near.call("echo")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def cancel() -> None:
                    while not link.waiting:
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                nursery.start_soon(cancel)
                await link.near.call("wait")
        assert scope.cancelled_caught
        while link.waiting:
            await trio.lowlevel.checkpoint()
        assert (await link.near.call("echo", 5)).result == 5
        assert link.near.statistics().calls_waiting == 0


async def test_an_answer_that_was_read_is_not_lost_to_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked() as link:
        settle = link.near._caller._settle
        scopes: list[trio.CancelScope] = []

        def settle_and_cancel(*given: Any) -> None:
            settle(*given)
            scopes[-1].cancel()

        monkeypatch.setattr(link.near._caller, "_settle", settle_and_cancel)
        # More of them than are read before others get their turn.
        for number in range(100):
            with trio.CancelScope() as scope:
                scopes.append(scope)
                assert (await link.near.call("echo", number)).result == number
            assert not scope.cancelled_caught


async def test_a_link_that_breaks_while_a_caller_waits() -> None:
    async with linked() as link:
        for _ in range(2):
            await link.near.call("echo")

        async def break_it() -> None:
            while not link.waiting:
                await trio.lowlevel.checkpoint()
            link.far.fail(CancelledError("killed"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(break_it)
            with pytest.raises(ConnectionLostError, match="'wait' has no answer"):
                await link.near.call("wait")
        assert isinstance(link.near.failure, ConnectionLostError)


async def test_a_peer_that_is_closed_while_a_caller_waits() -> None:
    async with linked() as link:
        for _ in range(2):
            await link.near.call("echo")

        async def close() -> None:
            while not link.waiting:
                await trio.lowlevel.checkpoint()
            await link.near.aclose("enough")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close)
            with pytest.raises((CancelledError, ConnectionLostError), match="'wait' has no answer"):
                await link.near.call("wait")


async def test_silence_is_noticed_while_a_caller_waits(autojump_clock: trio.testing.MockClock) -> None:
    async with linked() as link:
        for _ in range(2):
            await link.near.call("echo")
        link.stream.is_deaf = True
        with pytest.raises(ConnectionLostError, match="gave no sign of life"):
            await link.near.call("wait")


@given(
    plans=st.lists(
        st.lists(st.tuples(st.sampled_from(["call", "wait", "yield"]), st.integers(0, 6)), max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_any_callers_in_any_order_are_answered(plans: list[list[tuple[str, int]]]) -> None:
    """Tasks call, give calls up after some turns, or let others run; whoever is not cancelled is answered."""

    async def main() -> None:
        async with linked() as link:

            async def act(plan: list[tuple[str, int]]) -> None:
                for what, count in plan:
                    if what == "call":
                        assert (await link.near.call("echo", count)).result == count
                    elif what == "yield":
                        for _ in range(count):
                            await trio.lowlevel.checkpoint()
                    else:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(link.near.call, "wait")
                            for _ in range(count):
                                await trio.lowlevel.checkpoint()
                            nursery.cancel_scope.cancel()

            async with trio.open_nursery() as nursery:
                for plan in plans:
                    nursery.start_soon(act, plan)
            await trio.testing.wait_all_tasks_blocked()
            assert link.near.statistics().calls_waiting == 0
            assert link.stream.is_read

    trio.run(main)
