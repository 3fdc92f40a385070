"""A full disk: an error that says so, and what was written before stays as it was."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint.files import FileLayer


def _graph() -> fe.Graph:
    graph = fe.Graph()
    step = graph.ops.VariableV2(shape=[4], dtype="int64", name="step")
    graph.ops.Assign(step, np.zeros(4, np.int64), name="init")
    graph.ops.AssignAdd(step, np.ones(4, np.int64), name="train")
    return graph


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_checkpoint_that_does_not_fit(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is whole, training goes on, and so does saving once there is room."""
    write = FileLayer.write

    def full(self: FileLayer, file: Any, data: Any) -> None:
        raise OSError(number, os.strerror(number))

    graph = _graph()
    saver = fe.train.Saver()
    async with fe.Session(graph) as session:
        await session.run("init")
        await session.run("train")
        first = await saver.save(session, tmp_path / "model", global_step=1)
        await session.run("train")
        monkeypatch.setattr(FileLayer, "write", full)
        with pytest.raises(fe.errors.ResourceExhaustedError, match=os.strerror(number)):
            await saver.save(session, tmp_path / "model", global_step=2)
        assert fe.train.latest_checkpoint(str(tmp_path)) == first
        await session.run("train")
        monkeypatch.setattr(FileLayer, "write", write)
        third = await saver.save(session, tmp_path / "model", global_step=3)
        assert fe.train.latest_checkpoint(str(tmp_path)) == third
        await saver.restore(session, first)
        assert (await session.run("step:0")).tolist() == [1] * 4
        await saver.restore(session, third)
        assert (await session.run("step:0")).tolist() == [3] * 4
    assert not [name for name in os.listdir(tmp_path) if "tempstate" in name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
async def test_a_line_that_does_not_fit() -> None:
    graph = fe.Graph()
    graph.ops.PrintV2(graph.constant("text"), output_stream="file:///dev/full", name="print")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.ResourceExhaustedError, match="/dev/full"):
            await session.run("print")
