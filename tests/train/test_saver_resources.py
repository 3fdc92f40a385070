"""Saving and restoring hold no second copy, and leave the event loop to others."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.checkpoint import BundleReader, FileLayer

MEGABYTES = 96
#: Pieces on their way, and the work space of the checksum, on each of a few threads.
SPARE = 24


def large() -> fe.Graph:
    """Variables of 96 MB in all, and a step that writes the first."""
    graph = fe.Graph()
    inits = []
    for number in range(4):
        shape = [MEGABYTES // 4, 1 << 18]
        w = graph.ops.VariableV2(shape=shape, dtype="float32", name=f"w{number}")
        inits.append(graph.ops.Assign(w, graph.ops.Fill(shape, np.float32(number))))
    graph.group(*inits, name="init")
    handle = graph.tensor("w0:0")
    graph.ops.ScatterAdd(handle, [0], np.ones((1, 1 << 18), np.float32), name="train")
    return graph


class Watch(trio.abc.Instrument):
    """The most processor time that the event loop's thread has spent in one step of a task."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


@pytest.mark.slow
@pytest.mark.parametrize("running", [False, True])
async def test_a_large_save_is_streamed_beside_the_loop(running: bool, tmp_path: Path) -> None:
    saver = fe.train.Saver(sync=False)
    graph = large()
    names = np.array([b"w0", b"w1", b"w2", b"w3"], dtype=object)
    tensors = [graph.tensor(f"w{n}:0") for n in range(4)]
    graph.ops.SaveV2(str(tmp_path / "m").encode(), names, [b""] * 4, tensors, name="save")
    config = fe.Config(sync_checkpoints=False)
    async with fe.Session(graph, config=config) as session:
        await session.run((), targets=["init"])
        watch = Watch()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            trio.lowlevel.add_instrument(watch)
            try:
                if running:
                    await session.run((), targets=["save"])
                else:
                    await saver.save(session, tmp_path / "m")
            finally:
                trio.lowlevel.remove_instrument(watch)
            assert (tracemalloc.get_traced_memory()[1] - before) / 1e6 < SPARE
        finally:
            tracemalloc.stop()
        assert watch.longest < 0.05
    async with fe.Session(large()) as session:
        watch = Watch()
        tracemalloc.start()
        try:
            trio.lowlevel.add_instrument(watch)
            try:
                await saver.restore(session, tmp_path / "m")
            finally:
                trio.lowlevel.remove_instrument(watch)
            assert tracemalloc.get_traced_memory()[1] / 1e6 < MEGABYTES * 1.05 + SPARE
        finally:
            tracemalloc.stop()
        assert watch.longest < 0.05
        assert (await session.run("w3:0"))[-1, -1] == 3


class Gate(FileLayer):
    """Waits before it writes."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()

    def write(self, file: Any, data: Any) -> None:
        self.reached.set()
        assert self.open.wait(20)
        super().write(file, data)


async def test_steps_go_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    gate = Gate()
    saver = fe.train.Saver(sync=False, files=gate)
    graph = fe.Graph()
    w = graph.ops.VariableV2(shape=[1000], dtype="float32", name="w")
    graph.ops.Assign(w, np.zeros(1000, np.float32), name="init")
    graph.ops.AssignAdd(w, np.ones(1000, np.float32), name="train")
    async with fe.Session(graph) as session:
        await session.run((), targets=["init"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(saver.save, session, tmp_path / "m")
            await trio.to_thread.run_sync(gate.reached.wait)
            for _ in range(3):
                await session.run((), targets=["train"])
            assert (await session.run("w:0"))[0] == 3
            gate.open.set()
        with BundleReader(str(tmp_path / "m")) as reader:
            assert not reader.read(b"w").any()
        variable = session.resources.lookup("", "w", type(saver._variables(session)[0]))
        assert variable.copies == 1
