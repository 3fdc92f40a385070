"""Saving every so many steps or seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.checkpoint import BundleReader, FileLayer


def counter() -> fe.Graph:
    graph = fe.Graph()
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="step")
    graph.ops.Assign(step, graph.constant(0, "int64"), name="init")
    graph.ops.AssignAdd(step, graph.constant(1, "int64"), name="train")
    return graph


def saved(folder: Path) -> dict[str, int]:
    found = {}
    for path in sorted(folder.glob("*.index")):
        with BundleReader(str(path)[: -len(".index")]) as reader:
            found[path.stem] = int(reader.read(b"step"))
    return found


async def test_every_so_many_steps_and_at_the_end(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=0, sync=False)
    async with fe.Session(counter()) as session:
        await session.run((), targets=["init"])
        async with fe.train.save_every(saver, session, tmp_path / "m", steps=3) as saves:
            told = []
            for _ in range(8):
                await session.run((), targets=["train"])
                told.append(await saves.after_step())
        assert saves.latest == str(tmp_path / "m-8")
    assert told == [False, False, True] * 2 + [False, False]
    assert saved(tmp_path) == {"m-3": 3, "m-6": 6, "m-8": 8}


async def test_every_so_many_seconds(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    saver = fe.train.Saver(max_to_keep=0, sync=False)
    async with fe.Session(counter(), config=fe.Config(worker_threads=False)) as session:
        await session.run((), targets=["init"])
        async with fe.train.save_every(
            saver, session, tmp_path / "m", seconds=60, global_step="step", final=False
        ) as saves:
            for _ in range(7):
                mock_clock.jump(25)
                await session.run((), targets=["train"])
                await saves.after_step()
    assert saved(tmp_path) == {"m-3": 3, "m-6": 6}


@pytest.mark.parametrize(("seconds", "due"), [(59.9375, False), (60.0, True), (60.0625, True)])
async def test_a_period_is_over_when_it_is_over(
    tmp_path: Path, mock_clock: trio.testing.MockClock, seconds: float, due: bool
) -> None:
    saver = fe.train.Saver(max_to_keep=0, sync=False)
    async with fe.Session(counter(), config=fe.Config(worker_threads=False)) as session:
        await session.run((), targets=["init"])
        async with fe.train.save_every(saver, session, tmp_path / "m", seconds=60, final=False) as saves:
            mock_clock.jump(seconds)
            assert await saves.after_step() == due
            # The next begins with the save.
            mock_clock.jump(60.0 - 0.0625)
            assert await saves.after_step() == (not due)


async def test_a_metric_is_of_the_step_that_it_was_told_with(tmp_path: Path) -> None:
    saver = fe.train.Saver(keep_best=1, sync=False)
    async with fe.Session(counter()) as session:
        await session.run((), targets=["init"])
        async with fe.train.save_every(saver, session, tmp_path / "m", steps=2) as saves:
            for metric in (0.5, None, None, 0.7):
                await saves.after_step(metric=metric)
    assert saver.checkpoints == [str(tmp_path / "m-2"), str(tmp_path / "m-4")]
    assert saver.best_checkpoint == str(tmp_path / "m-4"), "nobody said what the second step scored"


async def test_a_block_that_fails_saves_nothing_more(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with fe.Session(counter()) as session:
        await session.run((), targets=["init"])

        async def fail() -> None:
            async with fe.train.save_every(saver, session, tmp_path / "m", steps=5) as saves:
                await saves.after_step()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        with trio.CancelScope() as scope:
            async with fe.train.save_every(saver, session, tmp_path / "m", steps=5) as saves:
                await saves.after_step()
                scope.cancel()
                await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
    assert saved(tmp_path) == {}


class Full(FileLayer):
    def write(self, file: Any, data: Any) -> None:
        raise OSError(28, "No space left on device")


async def test_a_save_that_fails_ends_the_block(tmp_path: Path) -> None:
    saver = fe.train.Saver(files=Full())
    async with fe.Session(counter()) as session:
        await session.run((), targets=["init"])

        async def fail() -> None:
            async with fe.train.save_every(saver, session, tmp_path / "m", steps=1) as saves:
                await saves.after_step()
                await trio.sleep_forever()

        with pytest.raises(fe.errors.ResourceExhaustedError, match="No space left"):
            await fail()
    assert saved(tmp_path) == {}


@pytest.mark.parametrize("options", [{}, {"steps": 0}, {"seconds": -1.0}, {"seconds": 0.0}])
async def test_wrong_use(options: dict[str, Any], tmp_path: Path) -> None:
    async with fe.Session(counter()) as session:
        with pytest.raises(fe.errors.InvalidArgumentError):
            async with fe.train.save_every(fe.train.Saver(), session, tmp_path / "m", **options):
                pass
