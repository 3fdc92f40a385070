"""A file without end is read no further than its step goes."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
import trio

import flowengine as fe
from flowengine.core.files.access import Files
from flowengine.kernels.io import files


class Endless(io.BytesIO):
    """Gives as much as it is asked for, and says when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gone = threading.Event(), threading.Event()
        self.asked: list[Any] = []

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None, "all of it is more than there is memory for"
        assert size > 0
        self.asked.append(size)
        self.begun.set()
        return b"x"

    def close(self) -> None:
        super().close()
        self.gone.set()


async def test_reading_ends_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Endless()
    monkeypatch.setattr(Files, "open", lambda *_: file)
    g = fe.Graph()
    g.ops.ReadFile(g.constant("endless"), name="read")
    async with fe.Session(g) as session:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "read:0")
                assert await trio.to_thread.run_sync(file.begun.wait, 20)
                scope.cancel()
    assert await trio.to_thread.run_sync(file.gone.wait, 20), "it is read on"


async def test_a_file_in_pieces_is_the_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE", 7)
    g = fe.Graph()
    path = g.placeholder("string", [], name="path")
    g.ops.ReadFile(path, name="read")
    async with fe.Session(g) as session:
        for count in (0, 1, 6, 7, 8, 50):
            content = bytes(range(count))
            (tmp_path / "file").write_bytes(content)
            assert await session.run("read:0", {path: str(tmp_path / "file")}) == content
