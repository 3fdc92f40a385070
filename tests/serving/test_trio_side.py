"""The trio program behind a server, under either event loop: a call has ended when its caller goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import trio

from flowengine.serving.requests import ClientGone
from flowengine.serving.trio_side import TrioSide


async def _program(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("run", "checkpoint"),
    [(trio.run, trio.lowlevel.checkpoint), (lambda main: asyncio.run(main()), lambda: asyncio.sleep(0))],
    ids=["trio", "asyncio"],
)
def test_a_call_has_ended_when_its_client_is_gone(run: Any, checkpoint: Any) -> None:
    steps: list[str] = []

    began = threading.Event()

    async def gone() -> None:
        while not began.is_set():
            await checkpoint()

    async def call() -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _ in range(100):
                    await trio.lowlevel.checkpoint()
                steps.append("the call has ended")

    async def main() -> None:
        async with TrioSide(_program) as side:
            with pytest.raises(ClientGone):
                await side.call_unless(gone, call)
            steps.append("its client is gone")

    run(main)
    assert steps == ["the call has ended", "its client is gone"]
