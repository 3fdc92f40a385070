"""The far side of the transport benchmark: run by `bench_transport.py` in a process of its own.

    python transport_peer.py bare|ours

It prints its address and serves until its standard input closes. `bare` is two trio sockets and nothing else:
a 16-byte prefix says how many bytes come and how many are wanted back; they are received into an array.
"""

from __future__ import annotations

import socket
import struct
import sys
from functools import partial
from typing import Any

import numpy as np
import trio

from flowengine.transport.peer import IncomingCall, Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.wire.identity import Identity, new_incarnation

#: What the bare sockets say first: bytes that follow, bytes wanted back.
ASK = struct.Struct("<QQ")
KEY = b"benchmark on loopback, no secret"
CLUSTER = "benchmark"


async def receive_array(sock: trio.socket.SocketType, array: np.ndarray[Any, Any]) -> None:
    """Fill an array from a bare socket, straight into its memory."""
    view = array.data.cast("B")
    done = 0
    while done < len(view):
        count = await sock.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count


async def send_buffers(sock: trio.socket.SocketType, *buffers: memoryview) -> None:
    """Send buffers over a bare socket, the first two in one call."""
    pending = [buffer for buffer in buffers if len(buffer)]
    while pending:
        count = await sock.sendmsg(pending)
        while count:
            if count < len(pending[0]):
                pending[0] = pending[0][count:]
                break
            count -= len(pending.pop(0))


async def _bare_connection(sock: trio.socket.SocketType, kept: dict[int, np.ndarray[Any, Any]]) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = np.empty(ASK.size, np.uint8)
    try:
        while True:
            await receive_array(sock, head)
            coming, wanted = ASK.unpack(head.tobytes())
            if coming:
                await receive_array(sock, np.empty(coming, np.uint8))
            source = kept.setdefault(wanted, np.ones(wanted, np.uint8))
            await send_buffers(sock, memoryview(ASK.pack(wanted, 0)), source.data)
    except EOFError:
        sock.close()


async def bare(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    """Serve bare sockets."""
    kept: dict[int, np.ndarray[Any, Any]] = {}
    listener = trio.socket.socket()
    await listener.bind(("127.0.0.1", 0))
    listener.listen()
    task_status.started(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    async with trio.open_nursery() as nursery:
        while True:
            sock, _ = await listener.accept()
            nursery.start_soon(_bare_connection, sock, kept)


async def ours(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    """Serve FlowEngine's protocol: `fetch` answers with that many bytes, `take` with none."""
    kept: dict[int, np.ndarray[Any, Any]] = {}

    def fetch(request: IncomingCall) -> Reply:
        wanted = request.arguments
        return Reply(None, [kept.setdefault(wanted, np.ones(wanted, np.uint8))])

    def take(request: IncomingCall) -> Reply:
        return Reply(len(request.tensors))

    listener = await listen("tcp://127.0.0.1:0")
    me = Identity("worker", CLUSTER, "/job:far/task:0", new_incarnation())
    await serve(
        listener,
        identity=me,
        key=KEY,
        service=Service({"fetch": fetch, "take": take}),
        task_status=task_status,
    )


async def main() -> None:
    async with trio.open_nursery() as nursery:
        address = await nursery.start(partial({"bare": bare, "ours": ours}[sys.argv[1]]))
        print(address, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
