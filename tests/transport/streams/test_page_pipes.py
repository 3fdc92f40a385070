"""Pages that a socket is given, and what happens where there is no pipe for them."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.transport.streams import zero_copy
from flowengine.transport.streams.zero_copy import PagePipe
from tests.effort import examples
from tests.transport.streams.paging import needs_pages, no_pipe, socket_pair

# Pages and pipes.


@needs_pages
@given(
    offset=st.integers(0, 5000),
    sizes=st.lists(st.one_of(st.integers(1, 9000), st.integers(900_000, 4_000_000)), min_size=1, max_size=4),
    taken=st.integers(1, 2_000_000),
)
@settings(max_examples=examples(40))
def test_pages_arrive_whatever_their_place(offset: int, sizes: list[int], taken: int) -> None:
    """From any address, in pieces of any length, to a receiver that is slow."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, offset + sum(sizes), np.uint8)
    got = bytearray()
    near, far = socket_pair()
    pipe = PagePipe()
    with near, far:
        begin = offset
        for size in sizes:
            view = data.data[begin : begin + size]
            begin += size
            while view:
                count = pipe.send(near.fileno(), view)
                view = view[count:]
                if not count:
                    got += far.recv(taken)
        near.close()
        while piece := far.recv(1 << 20):
            got += piece
    pipe.close()
    assert got == data[offset:].tobytes()


@needs_pages
def test_a_broken_socket_leaves_the_pipe_empty() -> None:
    pipe = PagePipe()
    view = np.full(3_000_000, 7, np.uint8).data
    near, far = socket_pair()
    far.close()
    with near:
        with suppress(ConnectionError):
            pipe.send(near.fileno(), view)
        with pytest.raises(ConnectionError):
            pipe.send(near.fileno(), view)
    near, far = socket_pair()
    with near, far:
        other = np.full(100_000, 9, np.uint8)
        assert pipe.send(near.fileno(), other.data) == 100_000
        near.close()
        got = b""
        while piece := far.recv(1 << 20):
            got += piece
    assert got == other.tobytes()
    pipe.close()


@needs_pages
def test_what_cannot_be_lent_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that no pipe takes; and any, while there are no descriptors for a pipe."""
    data = np.arange(50_000, dtype=np.uint8)
    pipe = PagePipe()
    monkeypatch.setattr(pipe, "_vmsplice", lambda *arguments: -1)
    monkeypatch.setattr(zero_copy, "_free", [])
    for send in (pipe.send, zero_copy.send_pages):
        near, far = socket_pair()
        with near, far:
            monkeypatch.setattr(zero_copy, "PagePipe", no_pipe)
            assert send(near.fileno(), data.data) == 50_000
            near.setblocking(False)
            big = np.zeros(50_000_000, np.uint8).data
            while send(near.fileno(), big):
                pass
            assert np.array_equal(np.frombuffer(far.recv(50_000, socket.MSG_WAITALL), np.uint8), data)
    pipe.close()


@needs_pages
def test_a_pipe_that_cannot_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))

    def full(*arguments: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(OSError, match="Too many"):
            PagePipe()
    assert set(os.listdir("/proc/self/fd")) == before


@needs_pages
def test_a_c_library_without_the_call_has_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    find = zero_copy._vmsplice.__wrapped__
    assert find().restype is ctypes.c_ssize_t
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    with pytest.raises(OSError, match="vmsplice"):
        find()
