"""One end of a pair of sockets that a process inherits: no address, no listener, no stranger."""

from __future__ import annotations

import socket
from typing import Any

from flowengine.transport.streams.tcp import TcpStream


class PairStream(TcpStream):
    """A connected socket of a pair.

    lends   whether memory may be sent without a copy. The other end then reads it from this process for as
            long as
            it likes, so the other end must be trusted
    """

    is_authenticated = True

    def __init__(self, connected: socket.socket, address: str, *, lends: bool) -> None:
        super().__init__(connected, address)
        self.lends_memory = self.lends_memory and lends

    def _tune(self, connected: socket.socket) -> bool:
        return True


def ends(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, Any]:
    """Two sockets that are connected with each other."""
    return socket.socketpair(socket.AF_UNIX, kind)


__all__ = ["PairStream", "ends"]
