"""A TCP proxy on the way to a task, which delays, swallows and cuts what passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Proxy:
    """Forwards each connection to an address, for as long and as well as it is told to.

    delay_seconds          what each piece waits before it goes on
    swallows_to_task, swallows_from_task   whether what comes from one side is lost, as on a link that is half
                           open; new connections are taken all the same
    """

    def __init__(self, address: str, nursery: trio.Nursery, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.delay_seconds = 0.0
        self.swallows_to_task = False
        self.swallows_from_task = False
        self.connections = 0
        self._target = address
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """Close all connections."""
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, from its beginning to its end."""
        self.connections += 1
        host, port = self._target.split(":")
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with (
                    stream,
                    await trio.open_tcp_stream(host, int(port)) as there,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self._forward, stream, there, "to", nursery.cancel_scope)
                    nursery.start_soon(self._forward, there, stream, "from", nursery.cancel_scope)
            except OSError:
                pass
            finally:
                self._scopes.discard(scope)

    async def _forward(
        self, source: trio.SocketStream, target: trio.SocketStream, way: str, scope: trio.CancelScope
    ) -> None:
        send, receive = trio.open_memory_channel[tuple[float, bytes]](1000)

        async def pass_on() -> None:
            async for due, data in receive:
                await trio.sleep_until(due)
                await target.send_all(data)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pass_on)
                while data := await source.receive_some(65536):
                    if not getattr(self, f"swallows_{way}_task"):
                        await send.send((trio.current_time() + self.delay_seconds, bytes(data)))
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def open_proxy(address: str) -> AsyncIterator[Proxy]:
    """A proxy before the address "host:port", for the time of the block."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        proxy = Proxy(address, nursery, listener.socket.getsockname()[1])
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
