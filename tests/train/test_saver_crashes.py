"""Whatever a crash interrupts, the latest checkpoint is whole, and no older than the last save."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint import V1Writer, open_checkpoint
from flowengine.checkpoint.state import latest_checkpoint
from tests.tools.disks import Recorder, disks_after


def counting() -> fe.Graph:
    """Three variables that are all the number of steps; the state between two steps is known by it."""
    graph = fe.Graph()
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="step")
    wide = graph.ops.VariableV2(shape=[40], dtype="int64", name="wide")
    handle = graph.ops.VarHandleOp(shape=[3], dtype="int64", shared_name="handle", name="handle")
    graph.group(
        graph.ops.Assign(step, np.int64(0)),
        graph.ops.Assign(wide, np.zeros(40, np.int64)),
        graph.ops.AssignVariableOp(handle, np.zeros(3, np.int64)),
        name="init",
    )
    graph.group(
        graph.ops.AssignAdd(step, np.int64(1)),
        graph.ops.AssignAdd(wide, np.ones(40, np.int64)),
        graph.ops.AssignAddVariableOp(handle, np.ones(3, np.int64)),
        name="train",
    )
    return graph


def restored(folder: Path) -> int:
    """The step of the latest checkpoint, whose values must agree; 0 where there is none."""
    prefix = latest_checkpoint(str(folder))
    if prefix is None:
        return 0
    with open_checkpoint(prefix) as reader:
        values = [reader.read(name).reshape(-1) for name in reader.names()]
    assert [len(value) for value in values] == [3, 1, 40]
    (number,) = set(np.concatenate(values).tolist())
    return int(number)


def lay_out(folder: Path, disk: dict[str, bytes]) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for path, content in disk.items():
        Path(path).write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbered", "best", "one name", "first format"])
async def test_every_prefix_of_the_writes(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recorder = Recorder()
    options: dict[str, Any] = {"keep_best": 1} if kind == "best" else {}
    saver = fe.train.Saver(max_to_keep=1 if kind == "best" else 2, files=recorder, **options)
    if kind == "first format":
        saver._make = V1Writer
    begun, complete = [0], []
    async with fe.Session(counting()) as session:
        await session.run((), targets=["init"])
        for number in range(1, 5):
            await session.run((), targets=["train"])
            await saver.save(
                session,
                folder / "m",
                global_step=None if kind == "one name" else "step",
                metric=0.5 * (number == 2) if kind == "best" else None,
            )
            begun.append(len(recorder.calls))
            complete.append(len(recorder.calls))
    assert restored(folder) == 4
    found = 0
    for done, disk in disks_after({}, recorder.calls):
        lay_out(folder, disk)
        number = restored(folder)
        # What has been saved is there; what comes after it may be.
        assert sum(done >= count for count in complete) <= number <= sum(done >= count for count in begun)
        found += 1
    assert found > 50


TRAINS_FOR_EVER = """
import sys
import trio
import flowengine as fe
import importlib.util

spec = importlib.util.spec_from_file_location("crashes", sys.argv[2])
crashes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(crashes)

async def main():
    folder, sync = sys.argv[1], sys.argv[3] == "sync"
    saver = fe.train.Saver(max_to_keep=2, sync=sync)
    async with fe.Session(crashes.counting()) as session:
        if fe.train.latest_checkpoint(folder) is None:
            await session.run((), targets=["init"])
        else:
            await saver.restore(session, folder)
        while True:
            await session.run((), targets=["train"])
            prefix = await saver.save(session, folder + "/m", global_step="step")
            print(prefix.rpartition("-")[2], flush=True)

trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moments", "sync"),
    [(3, "sync"), pytest.param(50, "sync", marks=pytest.mark.nightly), (2, "no sync")],
)
def test_a_run_that_is_killed_goes_on(moments: int, sync: str, root: Path, tmp_path: Path) -> None:
    """SIGKILL at a random moment: the next process begins with what the last one had saved, or was saving."""
    reported = 0
    for moment in range(moments):
        process = subprocess.Popen(
            [sys.executable, "-c", TRAINS_FOR_EVER, str(tmp_path), __file__, sync],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "the process ended by itself"
        assert int(first) == restored_before(tmp_path, reported, int(first))
        # Somewhere in the saves that follow the first one, each of which takes milliseconds.
        until = perf_counter() + random.Random(moment).random() * 0.05
        while perf_counter() < until:
            pass
        os.kill(process.pid, signal.SIGKILL)
        rest = process.communicate()[0].split()
        reported = int(rest[-1]) if rest else int(first)
        assert reported <= restored(tmp_path) <= reported + 1
    # Two are kept; each process may have left one that was no longer told of, or not yet.
    assert len(list(tmp_path.glob("*.index"))) <= 2 + moments
    assert len(list(tmp_path.glob("*.tempstate*"))) <= 3


def restored_before(folder: Path, reported: int, first: int) -> int:
    """Check the first save of a new process, one step after the one that it found; return its step."""
    assert reported + 1 <= first <= reported + 2
    assert restored(folder) >= first
    return first
