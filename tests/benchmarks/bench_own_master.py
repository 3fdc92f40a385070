"""A number fetched from a task that is its own master, beside 4 bytes there and back by bare trio sockets.

python -m tests.benchmarks.bench_own_master

Both other ends are processes of their own, and take turns; medians of seven rounds are compared. The bound
is 3.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from statistics import median
from time import perf_counter
from typing import Final

import trio

import flowengine as fe
from flowengine.cluster.local import local_cluster

BOUND: Final = 3.0
_ROUNDS: Final = 7
_STEPS: Final = 500

#: Sends back what it is sent, four bytes at a time; prints its port first.
_ECHO: Final = """
import trio

async def answer(stream):
    stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, True)
    while data := await stream.receive_some(4):
        await stream.send_all(data)

async def main():
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(answer, listeners)

trio.run(main)
"""


async def measure() -> tuple[float, float]:
    """Seconds of a step, and of 4 bytes there and back."""
    graph = fe.Graph()
    graph.ops.Neg(graph.constant(1.0), name="number")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            local_cluster({"worker": 1}, options=["--log-level", "error"])
        )
        session = await stack.enter_async_context(fe.Session(graph, target=cluster.target("worker", 0)))
        echo = await trio.lowlevel.open_process([sys.executable, "-c", _ECHO], stdout=subprocess.PIPE)
        stack.callback(echo.kill)
        assert echo.stdout is not None
        port = int(await echo.stdout.receive_some(64))
        stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, True)

        async def steps() -> float:
            began = perf_counter()
            for _ in range(_STEPS):
                await session.run("number:0")
            return (perf_counter() - began) / _STEPS

        async def echoes() -> float:
            began = perf_counter()
            for _ in range(_STEPS):
                await stream.send_all(b"1234")
                await stream.receive_some(4)
            return (perf_counter() - began) / _STEPS

        await steps()
        rounds = [(await steps(), await echoes()) for _ in range(_ROUNDS)]
    ours, bare = (median(column) for column in zip(*rounds, strict=True))
    return ours, bare


def main() -> int:
    ours, bare = trio.run(measure)
    ratio = ours / bare
    print(f"step {ours * 1e6:.0f} us, bare sockets {bare * 1e6:.0f} us: ratio {ratio:.2f} (bound {BOUND:g})")
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
