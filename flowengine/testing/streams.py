"""A kit that any byte stream can be checked with: what `ByteStream` in `transport.streams.schemes` promises.

await check_byte_stream(make_pair)         make_pair() -> two connected ends, each time a new pair
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
import trio.testing

from flowengine.core.errors import FailedPreconditionError, UnavailableError
from flowengine.transport.streams.schemes import ByteStream

#: More than any stream may hold on its way.
_MUCH = 1 << 30

MakePair = Callable[[], Awaitable[tuple[ByteStream, ByteStream]]]


async def check_byte_stream(make_pair: MakePair, *, seed: int = 0) -> None:
    """Run every check on new pairs, in both directions.

    make_pair   a coroutine function that returns both ends of a new connection
    seed        of the random sizes of pieces

    Raises AssertionError that says what is broken.

    >>> from flowengine.transport.streams.schemes import connect_stream, listen_streams
    >>> async def make_pair():
    ...     listener = await listen_streams("inproc://check")
    ...     near = await connect_stream("inproc://check")
    ...     far = await listener.accept()
    ...     listener.close()
    ...     return near, far
    >>> trio.run(fe.testing.check_byte_stream, make_pair)
    """
    for check in (
        _check_bytes_arrive_in_order,
        _check_scatter_and_gather,
        _check_the_end,
        _check_a_full_stream_waits,
        _check_cancelled_waits_change_nothing,
        _check_closing_wakes,
        _check_closed_streams,
    ):
        for turn in range(2):
            pair = await make_pair()
            near, far = pair if turn else pair[::-1]
            try:
                assert near.address, "a stream has an address"
                assert far.address, "a stream has an address"
                with trio.fail_after(60):
                    await check(near, far, random.Random(seed + turn))
            finally:
                near.close()
                far.close()


async def send_all(stream: ByteStream, data: bytes) -> None:
    """Send everything, however the stream cuts it."""
    view = memoryview(data)
    while view:
        count = await stream.send_some([view])
        assert 0 < count <= len(view), f"send_some sent {count} of {len(view)} bytes"
        view = view[count:]


async def receive_exactly(stream: ByteStream, count: int, *, piece: int = 1 << 20) -> bytes:
    """Receive so many bytes."""
    data = bytearray()
    while len(data) < count:
        room = bytearray(min(piece, count - len(data)))
        got = await stream.receive_into([memoryview(room)])
        assert 0 < got <= len(room), f"receive_into filled {got} of {len(room)} bytes"
        data += room[:got]
    return bytes(data)


async def _check_bytes_arrive_in_order(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    """Both ways at once, in pieces of all sizes."""
    there, back = chance.randbytes(700_001), chance.randbytes(300_007)
    received: dict[str, bytes] = {}

    async def receive(stream: ByteStream, count: int, name: str) -> None:
        received[name] = await receive_exactly(stream, count, piece=chance.randint(1, 100_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_all, near, there)
        nursery.start_soon(send_all, far, back)
        nursery.start_soon(receive, far, len(there), "there")
        nursery.start_soon(receive, near, len(back), "back")
    assert received == {"there": there, "back": back}, "bytes were lost, changed or reordered"


async def _check_scatter_and_gather(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    parts = [chance.randbytes(size) for size in (1, 20, 0, 300, 4096)]
    whole = b"".join(parts)
    rooms = [bytearray(size) for size in (7, 1, 2000, len(whole) - 2008)]

    async def gather() -> None:
        views: list[memoryview] = [memoryview(part) for part in parts]
        while views:
            views = _after(views, await near.send_some(views))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gather)
        free = [memoryview(room) for room in rooms]
        while free:
            count = await far.receive_into(free)
            assert count, "the stream ended early"
            free = _after(free, count)
    assert b"".join(rooms) == whole, "buffers were not filled in order"


def _after(views: list[memoryview], count: int) -> list[memoryview]:
    """Return the rest of buffers after so many bytes are done."""
    rest = []
    for view in views:
        done = min(count, len(view))
        count -= done
        if done < len(view):
            rest.append(view[done:])
    return rest


async def _check_the_end(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    await send_all(near, b"last words")
    assert await receive_exactly(far, 10) == b"last words"
    near.close()
    room = memoryview(bytearray(10))
    # A link may also break when the other end is closed without more ado.
    with suppress(UnavailableError):
        assert await far.receive_into([room]) == 0, "a closed stream ends with 0"


async def _check_a_full_stream_waits(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    """A sender waits when nobody reads, and goes on when somebody does."""
    block = chance.randbytes(65_536)
    sent = 0
    is_enough = False

    async def fill() -> None:
        nonlocal sent
        while not is_enough:
            sent += await near.send_some([memoryview(block)[sent % len(block) :]])
            assert sent < _MUCH, f"a stream took {sent} bytes that nobody read"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fill)
        before = -1
        while sent != before:
            before = sent
            with trio.move_on_after(0.05):
                await trio.sleep_forever()
        is_enough = True
        received = 0
        while nursery.child_tasks or received < sent:
            if received == sent:
                await trio.testing.wait_all_tasks_blocked()
                continue
            data = await receive_exactly(far, min(len(block), sent - received))
            place = received % len(block)
            assert data == (block + block)[place : place + len(data)], "bytes were lost, changed or reordered"
            received += len(data)
    assert near.send_nowait([b"x"]) in (0, 1)


async def _check_cancelled_waits_change_nothing(
    near: ByteStream, far: ByteStream, chance: random.Random
) -> None:
    room = bytearray(4)
    with trio.move_on_after(0.02) as scope:
        await far.receive_into([memoryview(room)])
    assert scope.cancelled_caught, "receive_into returned where nothing was sent"
    await send_all(near, b"abcd")
    assert await receive_exactly(far, 4) == b"abcd", "a cancelled receiving took bytes"


async def _check_closing_wakes(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    async def wait_for_bytes() -> None:
        try:
            await near.receive_into([memoryview(bytearray(1))])
        except FailedPreconditionError:
            return
        raise AssertionError("receive_into outlived its stream")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_bytes)
        await trio.testing.wait_all_tasks_blocked()
        near.close()


async def _check_closed_streams(near: ByteStream, far: ByteStream, chance: random.Random) -> None:
    near.close()
    near.close()
    for use in (near.receive_into([memoryview(bytearray(1))]), near.send_some([b"x"])):
        try:
            await use
        except FailedPreconditionError:
            continue
        raise AssertionError("a closed stream was used without an error")


__all__ = ["check_byte_stream", "receive_exactly", "send_all"]
