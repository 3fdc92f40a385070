"""The application sends a long answer in several turns of the event loop, also to a fast client."""

from __future__ import annotations

import asyncio
from typing import Any

from flowengine.serving.requests import Answer, send


def test_a_fast_client_does_not_hold_the_loop_up() -> None:
    pieces = [bytes([number]) * 65536 for number in range(40)]
    sent: list[bytes] = []
    turns: list[int] = []

    async def send_message(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))  # a client that takes all at once: no wait

    async def others() -> None:
        while True:
            turns.append(sum(map(len, sent)))
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(others())
        await send(Answer(200, list(pieces)), send_message)
        task.cancel()

    asyncio.run(main())
    assert b"".join(sent) == b"".join(pieces)
    steps = [after - before for before, after in zip(turns, [*turns[1:], sum(map(len, sent))], strict=True)]
    assert max(steps) <= 256 << 10
