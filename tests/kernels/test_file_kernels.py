"""Files read, written and found by graphs, and what the configuration forbids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
)
from flowengine.core.files.access import files_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io import files
from flowengine.resources.container import ResourceManager, StepContainer


def _context(file_access: str = "all") -> KernelContext:
    return KernelContext(
        resources=ResourceManager(), step_container=StepContainer(), files=files_of(file_access)
    )


async def test_a_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    name = os.fsencode(path)
    for contents in (b"one", b"", b"\0\xff" * 1000):
        await files.write_file(name, contents, ctx=_context())
        assert await files.read_file(name, ctx=_context()) == contents
    assert os.listdir(path.parent) == ["file"]


async def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        await files.read_file(os.fsencode(tmp_path / "missing"), ctx=_context())
    with pytest.raises(FailedPreconditionError):
        await files.read_file(os.fsencode(tmp_path), ctx=_context())
    names = np.array([b"a", b"b"], object)
    with pytest.raises(InvalidArgumentError, match="must be scalar"):
        await files.read_file(names, ctx=_context())


async def test_what_the_configuration_forbids(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path / "file")
    for access in ("none", "read"):
        with pytest.raises(PermissionDeniedError, match="file_access"):
            await files.write_file(name, b"", ctx=_context(access))
    assert not os.listdir(tmp_path)
    with pytest.raises(PermissionDeniedError):
        await files.read_file(name, ctx=_context("none"))
    with pytest.raises(PermissionDeniedError):
        await files.matching_files(name, ctx=_context("none"))


async def test_matching(tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1", "deep/a3"):
        await files.write_file(os.fsencode(tmp_path / name), b"", ctx=_context())

    async def match(*patterns: str) -> list[str]:
        names = np.array([os.fsencode(tmp_path / p) for p in patterns], object)
        found = await files.matching_files(names, ctx=_context())
        return [os.fsdecode(f).removeprefix(f"{tmp_path}/") for f in found.tolist()]

    assert await match("a*") == ["a1", "a2"]
    assert await match("a?", "*1") == ["a1", "a2", "b1"]
    assert await match("*/a[0-9]") == ["deep/a3"]
    assert await match("a1") == ["a1"]
    assert await match("no*") == []


async def test_a_reader_in_a_session(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    await files.write_file(os.fsencode(path), b"x\ny\n", ctx=_context())
    graph = fe.Graph()
    ops: Any = graph.ops
    queue = ops.FIFOQueueV2(component_types=[dtypes.string], name="q")
    ops.QueueEnqueueV2(queue, [ops.Const(value=os.fsencode(path), dtype=dtypes.string)], name="put")
    ops.QueueCloseV2(queue, name="close")
    reader = ops.TextLineReaderV2(name="r")
    ops.ReaderReadV2(reader, queue, name="read")
    ops.ReaderNumRecordsProducedV2(reader, name="count")
    async with fe.Session(graph) as session:
        await session.run("put")
        await session.run("close")
        name = os.fsencode(path)
        assert await session.run(["read:0", "read:1"]) == [name + b":1", b"x"]
        assert await session.run(["read:0", "read:1"]) == [name + b":2", b"y"]
        assert await session.run("count:0") == 2
        with pytest.raises(OutOfRangeError):
            await session.run("read:0")
    async with fe.Session(graph, config=fe.Config(file_access="none")) as session:
        await session.run("put")
        with pytest.raises(PermissionDeniedError, match="file_access"):
            await session.run("read:0")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a thing of Unix")
@pytest.mark.parametrize("op", ["TextLineReaderV2", "TFRecordReaderV2", "WholeFileReaderV2", "ReadFile"])
async def test_a_file_that_keeps_one_waiting_holds_nothing_up(op: str, tmp_path: Path) -> None:
    """While a disk takes its time, here a pipe that nobody writes to, other steps run, and the wait can be
    cancelled."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    graph = fe.Graph()
    if op == "ReadFile":
        fetch = graph.ops.ReadFile(str(path))
    else:
        queue = fe.train.string_input_producer(graph, [str(path)])
        fetch = graph.ops.ReaderReadV2(getattr(graph.ops, op)(), queue.handle).value
    other = graph.ops.Add(graph.constant(1), 1)
    async with fe.Session(graph) as session, fe.train.QueueRunners(session):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, fetch)
                for _ in range(20):
                    assert await session.run(other) == 2
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert scope.cancelled_caught
        # The thread that waits for the pipe is let go.
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
