"""How fast tensors and small calls cross between two processes, beside what bare sockets do.

    python tests/benchmarks/bench_transport.py [--rounds N]
    FLOWENGINE_BENCH_TF1_PYTHON=/path/to/python ...      beside TensorFlow 1.15's gRPC, in the same run

Every round measures each road in turn, so that a busy machine slows all of them alike; medians of per-round
ratios are what counts.

On paper: a round trip is two wakes on each side, 10 us each with trio's bookkeeping, and we add one wake (of
the task that waits for its answer) and two msgpack headers: 1.5 times bare sockets, bound 2. 100 MB are bound
by copying in and out of the kernel, 2-6 GB/s; a chunk costs us some 20 us on each side besides: 0.9 of
bare sockets, bound 0.8. A small message during 1 GB waits for what is queued before it: 3 MB or 2 ms, bound
10 ms.
"""

from __future__ import annotations

import argparse
import os
import runpy
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import trio

from flowengine.transport.dialling import connect
from flowengine.transport.peer import Peer
from flowengine.transport.streams.schemes import host_and_port
from flowengine.transport.wire.identity import Identity, new_incarnation

HERE = Path(__file__).parent
far_side = runpy.run_path(str(HERE / "transport_peer.py"))
ASK, CLUSTER, KEY = far_side["ASK"], far_side["CLUSTER"], far_side["KEY"]
receive_array, send_buffers = far_side["receive_array"], far_side["send_buffers"]
ROOT = HERE.parent.parent
#: bytes -> repetitions in a round
SIZES = {4: 300, 64 * 1024: 100, 1 << 20: 30, 10 * 10**6: 6, 100 * 10**6: 2}


def start(stack: ExitStack, *command: str) -> subprocess.Popen[str]:
    """A process that says its address and ends when its standard input does."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )

    def stop() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)

    stack.callback(stop)
    return process


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


class Bare:
    """Two trio sockets that receive into an array."""

    name = "bare sockets"

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._sock = sock
        self._head = np.empty(ASK.size, np.uint8)

    async def fetch(self, size: int) -> Any:
        await send_buffers(self._sock, memoryview(ASK.pack(0, size)))
        await receive_array(self._sock, self._head)
        (coming, _) = ASK.unpack(self._head.tobytes())
        array = np.empty(coming, np.uint8)
        await receive_array(self._sock, array)
        return array


class Ours:
    """A call that is answered with a tensor."""

    name = "FlowEngine"

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def fetch(self, size: int) -> Any:
        return (await self._peer.call("fetch", size)).tensors[0]


class TensorFlow1:
    """RecvTensor over gRPC between two servers, driven from here."""

    name = "TF 1.15 gRPC"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def seconds(self, size: int, repetitions: int) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(size, repetitions, file=self._process.stdin, flush=True)
        return [float(text) for text in self._process.stdout.readline().split()]


async def seconds(road: Bare | Ours | TensorFlow1, size: int, repetitions: int) -> list[float]:
    """How long each fetch of this many bytes took."""
    if isinstance(road, TensorFlow1):
        return await road.seconds(size, repetitions)
    taken = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        array = await road.fetch(size)
        taken.append(time.perf_counter() - begin)
        assert len(array) == size
    return taken


async def small_during_large(peer: Peer, size: int = 10**9) -> list[float]:
    """Round trips of 4 bytes while a gigabyte comes in, and while one goes out."""
    taken: list[float] = []
    done = trio.Event()

    async def large(method: str) -> None:
        if method == "fetch":
            await peer.call("fetch", size)
        else:
            await peer.call("take", None, [np.ones(size, np.uint8)])
        done.set()

    for method in ("fetch", "take"):
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(large, method)
            await trio.sleep(0.02)
            while not done.is_set():
                begin = time.perf_counter()
                await peer.call("fetch", 4)
                taken.append(time.perf_counter() - begin)
                await trio.sleep(0.001)
    return taken


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="bytes")
    options = parser.parse_args()
    with ExitStack() as stack:
        far_bare = start(stack, sys.executable, str(HERE / "transport_peer.py"), "bare")
        far_ours = start(stack, sys.executable, str(HERE / "transport_peer.py"), "ours")
        roads: list[Bare | Ours | TensorFlow1] = []
        async with trio.open_nursery() as nursery:
            sock = trio.socket.socket()
            await sock.connect(host_and_port(address_of(far_bare)))
            sock.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
            me = Identity("client", CLUSTER, "benchmark", new_incarnation())
            peer = await connect(nursery, address_of(far_ours), identity=me, key=KEY)
            roads += [Bare(sock), Ours(peer)]
            tensorflow = os.environ.get("FLOWENGINE_BENCH_TF1_PYTHON")
            if tensorflow:
                process = start(stack, tensorflow, str(HERE / "transport_tensorflow.py"))
                assert process.stdout is not None
                process.stdout.readline()
                roads.append(TensorFlow1(process))
            await compare(roads, options.rounds, options.sizes)
            small = sorted(await small_during_large(peer))
            print(
                f"4 B during 1 GB: median {statistics.median(small) * 1e3:.2f} ms, "
                f"p90 {small[int(len(small) * 0.9)] * 1e3:.2f} ms, {len(small)} calls"
            )
            counted = peer.statistics()
            print(
                f"bytes copied by us: {counted.bytes_copied_to_receive} received, "
                f"{counted.bytes_copied_to_send} sent"
            )
            await peer.aclose()


async def compare(roads: list[Bare | Ours | TensorFlow1], rounds: int, sizes: list[int]) -> None:
    for size in sizes:
        repetitions = SIZES.get(size, 5)
        medians: dict[str, list[float]] = {road.name: [] for road in roads}
        for turn in range(rounds + 1):
            for road in roads if turn % 2 else roads[::-1]:
                taken = await seconds(road, size, repetitions)
                if turn:
                    medians[road.name].append(statistics.median(taken))
        bare = medians[Bare.name]
        print(f"{size} bytes")
        for road in roads:
            mine = medians[road.name]
            ratio = statistics.median([a / b for a, b in zip(mine, bare, strict=True)])
            typical = statistics.median(mine)
            print(
                f"    {road.name:14} {typical * 1e6:12.1f} us  {size / typical / 1e9:8.3f} GB/s"
                f"    time {ratio:6.2f}, rate {1 / ratio:5.2f} of bare sockets"
            )


if __name__ == "__main__":
    trio.run(main)
