"""Helpers that tests of lent pages share: connected sockets, and a system without pipes."""

from __future__ import annotations

import socket

import pytest

from flowengine.transport.streams.zero_copy import PagePipe, can_send_pages

# Pages and pipes.


needs_pages = pytest.mark.skipif(not can_send_pages(), reason="this system copies what sockets send")


def socket_pair() -> tuple[socket.socket, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    listener.close()
    near.setblocking(False)
    return near, far


def no_pipe() -> PagePipe:
    raise OSError("Too many open files")
