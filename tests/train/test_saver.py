"""Saver: what is saved and restored, which checkpoints stay, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.checkpoint import BundleReader
from flowengine.checkpoint.files import remove_checkpoint
from flowengine.checkpoint.state import latest_checkpoint, read_state

pytestmark = pytest.mark.everywhere


def model() -> fe.Graph:
    """Two variables of either kind, a counter, and an update of all."""
    graph = fe.Graph()
    w = graph.ops.VariableV2(shape=[2, 3], dtype="float32", name="w")
    b = graph.ops.VarHandleOp(shape=[3], dtype="float32", shared_name="b", name="b")
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="global_step")
    inits: list[fe.Tensor | fe.Operation] = [
        graph.ops.Assign(w, np.zeros((2, 3), np.float32)),
        graph.ops.AssignVariableOp(b, np.zeros(3, np.float32)),
        graph.ops.Assign(step, np.int64(0)),
    ]
    graph.group(*inits, name="init")
    updates: list[fe.Tensor | fe.Operation] = [
        graph.ops.AssignAdd(w, np.full((2, 3), 0.5, np.float32)),
        graph.ops.AssignAddVariableOp(b, np.ones(3, np.float32)),
        graph.ops.AssignAdd(step, np.int64(1)),
    ]
    graph.group(*updates, name="train")
    graph.ops.ReadVariableOp(b, dtype="float32", name="b/read")
    return graph


async def trained(steps: int) -> fe.Session:
    session = fe.Session(model())
    await session.run((), targets=["init"])
    for _ in range(steps):
        await session.run((), targets=["train"])
    return session


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def indexes_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.index"))


def values(prefix: str) -> dict[str, Any]:
    with BundleReader(prefix) as reader:
        return {name.decode(): reader.read(name) for name in reader.names()}


async def test_save_and_restore(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with await trained(3) as session:
        prefix = await saver.save(session, tmp_path / "model.ckpt", global_step="global_step")
    assert prefix == str(tmp_path / "model.ckpt-3")
    assert files_in(tmp_path) == [
        "checkpoint",
        "model.ckpt-3.data-00000-of-00001",
        "model.ckpt-3.index",
    ]
    assert values(prefix)["b"].tolist() == [3, 3, 3]
    async with fe.Session(model()) as session:
        assert await saver.restore(session, tmp_path) == ["w", "b", "global_step"]
        w, b, step = await session.run(["w:0", "b/read:0", "global_step:0"])
        assert w.tolist() == [[1.5] * 3] * 2
        assert b.tolist() == [3, 3, 3]
        assert step == 3
        await session.run((), targets=["train"])
        assert await session.run("global_step:0") == 4


async def test_a_dict_gives_names_and_a_list_chooses(tmp_path: Path) -> None:
    async with await trained(1) as session:
        graph = session.graph
        assert isinstance(graph, fe.Graph)
        renamed = fe.train.Saver({"weights": "w", "bias": graph.tensor("b/read:0")})
        prefix = await renamed.save(session, tmp_path / "renamed")
        assert list(values(prefix)) == ["bias", "weights"]
        one = fe.train.Saver([graph.operation("w")])
        assert list(values(await one.save(session, tmp_path / "one"))) == ["w"]
        with pytest.raises(fe.errors.NotFoundError, match="did you mean"):
            await fe.train.Saver(["globl_step"]).save(session, tmp_path / "none")
        with pytest.raises(fe.errors.InvalidArgumentError, match="only variables can be saved"):
            await fe.train.Saver(["train"]).save(session, tmp_path / "none")
        with pytest.raises(fe.errors.InvalidArgumentError, match="both to be saved as 'w'"):
            await fe.train.Saver(["w", "w:0"]).save(session, tmp_path / "none")


async def test_local_variables_of_a_pipeline_are_left_out(tmp_path: Path) -> None:
    graph = model()
    fe.train.string_input_producer(graph, ["a"], num_epochs=2)
    async with fe.Session(graph) as session:
        assert fe.train.Saver().names(session) == ["w", "b", "global_step"]


def test_a_saver_serves_sessions_of_other_programs(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    with fe.blocking.Session(model()) as session:
        session.run((), targets=["init"])
        prefix = session.call(saver.save, tmp_path / "m", global_step=1)
    assert prefix == str(tmp_path / "m-1")

    async def main() -> list[str]:
        async with fe.asyncio.Session(model()) as session:
            restored: list[str] = await session.call(saver.restore, tmp_path, names=["w"])
            return restored

    assert asyncio.run(main()) == ["w"]


async def test_a_subset_is_restored(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with await trained(2) as session:
        prefix = await saver.save(session, tmp_path / "m")
    async with await trained(0) as session:
        assert await saver.restore(session, prefix, names=["w", "glob*"]) == ["w", "global_step"]
        assert (await session.run("b/read:0")).tolist() == [0, 0, 0]
        assert await session.run("global_step:0") == 2
        with pytest.raises(fe.errors.NotFoundError, match="no variable 'v'"):
            await saver.restore(session, prefix, names=["v"])


async def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.ops.Assign(
        graph.ops.VariableV2(shape=[3, 2], dtype="float32", name="w"), np.ones((3, 2), np.float32), name="i1"
    )
    graph.ops.Assign(
        graph.ops.VariableV2(shape=[], dtype="int32", name="global_step"), np.int32(7), name="i2"
    )
    saver = fe.train.Saver()
    async with fe.Session(graph) as session:
        await session.run((), targets=["i1", "i2"])
        prefix = await saver.save(session, tmp_path / "m")
    async with await trained(1) as session:
        with pytest.raises(fe.errors.NotFoundError, match="Key b not found in checkpoint"):
            await saver.restore(session, prefix)
        with pytest.raises(
            fe.errors.InvalidArgumentError, match=r"'w' has shape \[3, 2\].*'global_step' is int32"
        ):
            await saver.restore(session, prefix, strict=False)
        assert await session.run("global_step:0") == 1
        assert await fe.train.Saver(["w", "b"]).restore(session, prefix, names=["b"], strict=False) == []


async def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with await trained(2) as session:
        prefix = await saver.save(session, tmp_path / "m")
        data = tmp_path / "m.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:-1] + b"\xff")
        await session.run((), targets=["train"])
        with pytest.raises(fe.errors.DataLossError, match=r"m\.data-00000-of-00001: tensor '\w+'"):
            await saver.restore(session, prefix)
        assert await session.run("global_step:0") == 3


async def test_uninitialized_variables_are_told(tmp_path: Path) -> None:
    async with fe.Session(model()) as session:
        with pytest.raises(fe.errors.FailedPreconditionError, match="values 'w', 'b', 'global_step'"):
            await fe.train.Saver().save(session, tmp_path / "m")
    assert files_in(tmp_path) == []


async def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with await trained(0) as session:
        with pytest.raises(fe.errors.NotFoundError, match="no checkpoint there"):
            await saver.restore(session, tmp_path)
        with pytest.raises(fe.errors.NotFoundError, match="nothing"):
            await saver.restore(session, tmp_path / "nothing")
        with pytest.raises(fe.errors.NotFoundError, match="no/such"):
            await saver.save(session, tmp_path / "no" / "such" / "folder" / "m")
        with pytest.raises(fe.errors.InvalidArgumentError, match="names a folder"):
            await saver.save(session, f"{tmp_path}/")
    async with fe.Session(fe.Graph()) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="no variable"):
            await saver.save(session, tmp_path / "m")


# -- which stay -------------------------------------------------------------------------------------


async def test_the_newest_stay(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=2)
    async with await trained(0) as session:
        for _ in range(4):
            await session.run((), targets=["train"])
            await saver.save(session, tmp_path / "m", global_step="global_step")
    assert [os.path.basename(p) for p in saver.checkpoints] == ["m-3", "m-4"]
    assert {name.partition(".")[0] for name in files_in(tmp_path)} == {"checkpoint", "m-3", "m-4"}
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-4")
    text = (tmp_path / "checkpoint").read_text()
    assert text.splitlines() == [
        'model_checkpoint_path: "m-4"',
        'all_model_checkpoint_paths: "m-3"',
        'all_model_checkpoint_paths: "m-4"',
    ]


async def test_one_every_so_many_hours_stays(tmp_path: Path) -> None:
    now = 0.0
    saver = fe.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=2, clock=lambda: now)
    async with await trained(0) as session:
        for half_hour in range(10):
            now = 1800.0 * half_hour
            await saver.save(session, tmp_path / "m", global_step=half_hour)
    assert indexes_in(tmp_path) == ["m-5", "m-9"]  # the first one after two hours, and the newest


async def test_the_best_stay(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=1, keep_best=2, best="highest")
    scores = [0.3, 0.9, float("nan"), 0.7, 0.1, 0.8]
    async with await trained(0) as session:
        for number, score in enumerate(scores):
            await saver.save(session, tmp_path / "m", global_step=number, metric=score)
        assert saver.best_checkpoint == str(tmp_path / "m-1")
        assert indexes_in(tmp_path) == ["m-1", "m-5"]
        assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-5")
        # A saver that goes on knows what the first one knew.
        again = fe.train.Saver(max_to_keep=1, keep_best=2, best="highest")
        await again.restore(session, tmp_path)
        await again.save(session, tmp_path / "m", global_step=6, metric=0.2)
        assert indexes_in(tmp_path) == ["m-1", "m-5", "m-6"]
        assert again.best_checkpoint == str(tmp_path / "m-1")


async def test_all_may_stay(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=0)
    async with await trained(0) as session:
        for number in range(7):
            await saver.save(session, tmp_path / "m", global_step=number)
    assert len(indexes_in(tmp_path)) == 7
    state = read_state(str(tmp_path))
    assert state is not None
    assert state.all == (state.latest,) == (str(tmp_path / "m-6"),)


async def test_a_run_that_is_continued_goes_on_removing(tmp_path: Path) -> None:
    async with await trained(0) as session:
        first = fe.train.Saver(max_to_keep=3)
        for number in range(3):
            await first.save(session, tmp_path / "m", global_step=number)
        second = fe.train.Saver(max_to_keep=3)
        await second.restore(session, tmp_path)
        await second.save(session, tmp_path / "m", global_step=3)
    assert indexes_in(tmp_path) == ["m-1", "m-2", "m-3"]


async def test_a_run_that_goes_back_keeps_its_own_list(tmp_path: Path) -> None:
    """The saver knows the kept checkpoints; the state file names only the latest if all are kept."""
    async with await trained(0) as session:
        saver = fe.train.Saver(max_to_keep=0)
        saved = [await saver.save(session, tmp_path / "m", global_step=number) for number in range(3)]
        await saver.restore(session, saved[-1])
        assert saver.checkpoints == saved


async def test_what_somebody_has_removed_is_not_kept(tmp_path: Path) -> None:
    async with await trained(0) as session:
        first = fe.train.Saver(keep_best=1)
        for number, metric in enumerate([0.1, 0.3, 0.2]):
            await first.save(session, tmp_path / "m", global_step=number, metric=metric)
        remove_checkpoint(str(tmp_path / "m-0"))
        second = fe.train.Saver(keep_best=1)
        await second.restore(session, tmp_path)
    assert second.checkpoints == [str(tmp_path / "m-1"), str(tmp_path / "m-2")]
    assert second.best_checkpoint == str(tmp_path / "m-2")


async def test_the_metric_of_a_removed_checkpoint_goes_with_it(tmp_path: Path) -> None:
    """Also of the last that had one: another of the same name has not scored what that one did."""
    async with await trained(0) as session:
        first = fe.train.Saver(max_to_keep=1)
        for number, metric in ((1, 0.5), (2, None), (1, None)):
            await first.save(session, tmp_path / "m", global_step=number, metric=metric)
        second = fe.train.Saver(keep_best=1)
        await second.restore(session, tmp_path)
    assert second.checkpoints == [str(tmp_path / "m-1")]
    assert second.best_checkpoint is None


async def test_what_a_run_begins_with_is_not_its_own_to_remove(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    async with await trained(0) as session:
        await fe.train.Saver().save(session, theirs / "m", global_step=1)
        saver = fe.train.Saver(max_to_keep=1)
        await saver.restore(session, theirs)
        for number in range(3):
            await saver.save(session, ours / "m", global_step=number)
    assert indexes_in(theirs) == ["m-1"]
    assert indexes_in(ours) == ["m-2"]
    assert saver.checkpoints == [str(ours / "m-2")]


@pytest.mark.parametrize(
    "options",
    [{"max_to_keep": -1}, {"keep_checkpoint_every_n_hours": 0}, {"keep_best": -1}, {"best": "most"}],
)
def test_numbers_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError):
        fe.train.Saver(**options)


# -- while steps go on ------------------------------------------------------------------------------


async def test_a_snapshot_is_of_its_moment(tmp_path: Path) -> None:
    saver = fe.train.Saver()
    async with await trained(2) as session:
        taken = saver.snapshot(session, global_step="global_step")
        await session.run((), targets=["train"])
        prefix = await saver.write(taken, tmp_path / "m")
        assert values(prefix)["w"].tolist() == [[1.0] * 3] * 2
        assert (await session.run("w:0")).tolist() == [[1.5] * 3] * 2
        with pytest.raises(fe.errors.FailedPreconditionError, match="has been written"):
            await saver.write(taken, tmp_path / "m")


async def test_a_boundary_is_between_two_steps(tmp_path: Path) -> None:
    """A step that has done half of its updates and waits is none; one that only waits does not count."""
    graph = fe.Graph()
    first = graph.ops.VariableV2(shape=[], dtype="int32", name="first")
    second = graph.ops.VariableV2(shape=[], dtype="int32", name="second")
    graph.group(graph.ops.Assign(first, 0), graph.ops.Assign(second, 0), name="init")
    queue = graph.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], capacity=1)
    graph.ops.QueueEnqueueV2(queue, [graph.constant(1)], name="enqueue")
    other = graph.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], capacity=1)
    graph.ops.QueueDequeueV2(other, component_types=["int32"], name="never")
    with graph.control_dependencies([graph.ops.AssignAdd(first, 1)]):
        taken = graph.ops.QueueDequeueV2(queue, component_types=["int32"], name="dequeue")
    with graph.control_dependencies(taken):
        graph.ops.AssignAdd(second, 1, name="train")
    saver = fe.train.Saver()
    async with fe.Session(graph) as session, trio.open_nursery() as nursery:
        await session.run((), targets=["init"])
        nursery.start_soon(session.run, "never:0")
        nursery.start_soon(session.run, "train:0")
        await trio.testing.wait_all_tasks_blocked()
        half = await saver.save(session, tmp_path / "half")
        prefixes = []

        async def save() -> None:
            prefixes.append(await saver.save(session, tmp_path / "whole", at_boundary=True))

        nursery.start_soon(save)
        await trio.testing.wait_all_tasks_blocked()
        assert prefixes == []
        await session.run((), targets=["enqueue"])
        with trio.fail_after(120):
            while not prefixes:
                await trio.testing.wait_all_tasks_blocked(0.001)
        nursery.cancel_scope.cancel()
    assert [int(value) for value in values(half).values()] == [1, 0]
    assert [int(value) for value in values(prefixes[0]).values()] == [1, 1]


async def test_saves_at_the_same_time_take_turns(tmp_path: Path) -> None:
    saver = fe.train.Saver(max_to_keep=0)
    async with await trained(1) as session, trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(lambda n: saver.save(session, tmp_path / "m", global_step=n), number)
    assert len(saver.checkpoints) == 5
    assert all(values(prefix)["b"].tolist() == [1, 1, 1] for prefix in saver.checkpoints)


async def test_a_cancelled_save_leaves_nothing(tmp_path: Path) -> None:
    async with await trained(1) as session:
        with trio.CancelScope() as scope:
            scope.cancel()
            await fe.train.Saver().save(session, tmp_path / "m")
    assert files_in(tmp_path) == []


async def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    names = ["m-3.data-00000-of-00001.tempstate123", "m-3.index.tempstate1", "checkpoint.tempstate77"]
    names += ["m-3.meta.tempstate4", "m-12.run.tempstate5"]
    strangers = ["n-3.index.tempstate1", "m-3.index.tempstate", "m-3.txt"]
    for name in (*names, *strangers):
        (tmp_path / name).write_bytes(b"")
    async with await trained(1) as session:
        await fe.train.Saver().save(session, tmp_path / "m")
    assert files_in(tmp_path) == sorted([*strangers, "checkpoint", "m.index", "m.data-00000-of-00001"])


async def test_variables_on_several_devices(tmp_path: Path) -> None:
    def spread() -> fe.Graph:
        graph = fe.Graph()
        for number in range(2):
            with graph.device(f"/cpu:{number}"):
                w = graph.ops.VariableV2(shape=[3], dtype="float32", name=f"w{number}")
                graph.ops.Assign(w, np.full(3, number, np.float32), name=f"init{number}")
                graph.ops.AssignAdd(w, np.ones(3, np.float32), name=f"train{number}")
        return graph

    saver = fe.train.Saver()
    config = fe.Config(device_count={"CPU": 2})
    async with fe.Session(spread(), config=config) as session:
        await session.run((), targets=["init0", "init1"])
        await session.run((), targets=["train0", "train1"])
        prefix = await saver.save(session, tmp_path / "m", at_boundary=True)
    async with fe.Session(spread(), config=config) as session:
        await saver.restore(session, prefix)
        w0, w1 = await session.run(["w0:0", "w1:0"])
        assert w0.tolist() == [1, 1, 1]
        assert w1.tolist() == [2, 2, 2]


async def test_what_is_left_is_removed_once_and_when_asked_for(tmp_path: Path) -> None:
    """A temporary file that comes later may belong to another process that is saving just now."""
    saver = fe.train.Saver()
    async with await trained(1) as session:
        await saver.save(session, tmp_path / "m")
        (tmp_path / "m-3.index.tempstate1").write_bytes(b"")
        await saver.save(session, tmp_path / "m", global_step=4)
        assert (tmp_path / "m-3.index.tempstate1").exists()
        await saver.remove_leftovers(tmp_path / "m")
    assert not (tmp_path / "m-3.index.tempstate1").exists()
