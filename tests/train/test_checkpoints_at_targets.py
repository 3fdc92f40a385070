"""Checkpoints of sessions whose variables are not in this process's memory: at a target, or on a device."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint import BundleReader
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key
from tests.devices.on_gpu import GPU, opened

Open = Callable[[fe.Graph], Any]
PLACES = ["here", "target", "device"]


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Open]:
    """Return how a session is opened at a place: each time on new servers, or a new device."""
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())

    @asynccontextmanager
    async def at_target(graph: fe.Graph) -> AsyncIterator[fe.Session]:
        ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
        spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
        async with (
            fe.Server(spec, "ps", 0),
            fe.Server(spec, "worker", 0) as server,
            fe.Session(graph, target=server.target) as session,
        ):
            yield session

    @asynccontextmanager
    async def on_device(graph: fe.Graph) -> AsyncIterator[fe.Session]:
        async with opened(graph) as (session, _):
            yield session

    return {"here": lambda graph: fe.Session(graph), "target": at_target, "device": on_device}.__getitem__


def counting(place: str) -> tuple[fe.Graph, Any, Any]:
    """Return a graph with variables at a place, what a step runs, and their values."""
    graph = fe.Graph()
    with graph.device({"target": "/job:ps/task:0", "device": GPU}.get(place)):
        total = graph.variable(np.zeros(2, np.float32), name="total")
        slow = graph.variable(np.float32(1), name="slow")
        steps = [total.assign_add(np.ones(2, np.float32)).op, slow.assign_add(np.float32(0.5)).op]
    return graph, steps, [total.value(), slow.value()]


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.index"))


async def trained(session: fe.Session, made: Any, folder: Path, steps: int, **options: Any) -> list[Any]:
    _, step, values = made
    hook = fe.train.Checkpoints(folder, **options)
    result = await fe.train.loop(session, step, steps=steps, hooks=[hook])
    assert result.steps == steps
    assert hook.latest == str(folder / f"model.ckpt-{steps}")
    return [np.asarray(each).tolist() for each in await session.run(values)]


@pytest.mark.parametrize("place", PLACES)
async def test_a_loop_saves_and_goes_on_wherever_its_variables_are(
    place: str, opening: Callable[[str], Open], tmp_path: Path
) -> None:
    for steps in (3, 5):
        made = counting(place)
        async with opening(place)(made[0]) as session:
            assert await trained(session, made, tmp_path, steps) == [[steps, steps], 1 + steps / 2]
    assert checkpoints(tmp_path) == ["model.ckpt-0", "model.ckpt-3", "model.ckpt-5"]
    with BundleReader(str(tmp_path / "model.ckpt-0")) as reader:
        assert reader.read(b"slow") == 1


@pytest.mark.parametrize("place", PLACES)
async def test_one_session_and_graph_serve_several_loops(
    place: str, opening: Callable[[str], Open], tmp_path: Path
) -> None:
    """The graph has run steps before, and gets nodes once."""
    made = graph, steps, values = counting(place)
    async with opening(place)(graph) as session:
        await session.initialize()
        await session.run((), targets=steps)
        await trained(session, made, tmp_path, 2, every_steps=1)
        size = len(graph)
        assert await trained(session, made, tmp_path, 4, every_steps=1) == [[5, 5], 3.5]
        assert len(graph) == size
        await fe.train.Saver().restore(session, tmp_path / "model.ckpt-2")
        assert np.asarray((await session.run(values))[1]) == 2.5
        assert len(graph) == size


async def test_variables_that_are_made_later_are_saved_too(
    opening: Callable[[str], Open], tmp_path: Path
) -> None:
    graph, steps, _ = counting("target")
    saver = fe.train.Saver()
    async with opening("target")(graph) as session:
        await session.initialize()
        first = await saver.save(session, tmp_path / "first")
        assert saver.names(session) == ["total", "slow"]
        assert saver.runs_nodes(session)
        with graph.device("/job:worker/task:0"), graph.name_scope("late"):
            late = graph.variable(np.float32(4), name="late")
            await session.initialize()
            await session.run((), targets=steps)
            second = await saver.save(session, tmp_path / "second")
        assert not [node.name for node in graph if "save" in node.name and node.name.startswith("late/")]
        await session.run((), targets=[late.assign_op(5.0)])
        await saver.restore(session, second)
        assert await session.run(late.value()) == 4
    for path, names in ((first, ["slow", "total"]), (second, ["late/late", "slow", "total"])):
        with BundleReader(path) as reader:
            assert sorted(reader.names()) == [name.encode() for name in names]


async def test_periodic_saves_at_a_target(opening: Callable[[str], Open], tmp_path: Path) -> None:
    graph, steps, _ = counting("target")
    async with opening("target")(graph) as session:
        await session.initialize()
        async with fe.train.save_every(fe.train.Saver(), session, tmp_path / "m", steps=2) as saves:
            size = len(graph)
            for _ in range(3):
                await session.run((), targets=steps)
                await saves.after_step()
        assert len(graph) == size, "the nodes are there before the first step"
    assert checkpoints(tmp_path) == ["m-2", "m-3"]


async def test_a_folder_that_only_the_tasks_see_is_refused_before_a_step(
    opening: Callable[[str], Open], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that the client cannot find would be missed when the run is to go on."""
    graph, steps, _ = counting("target")
    ran = itertools.count()

    class Counts(fe.train.Hook):
        async def before_step(self, state: fe.train.LoopState) -> None:
            next(ran)

    async with opening("target")(graph) as session:
        monkeypatch.setattr("flowengine.train.saver.exists", lambda prefix: False)
        with pytest.raises(fe.errors.FailedPreconditionError, match="must see the same directory"):
            await fe.train.loop(session, steps, steps=9, hooks=[Counts(), fe.train.Checkpoints(tmp_path)])
    assert next(ran) == 0
    assert fe.train.latest_checkpoint(str(tmp_path)) is None


@pytest.mark.parametrize("place", ["here", "target"])
async def test_a_loop_with_nothing_to_save_is_refused_before_a_step(
    place: str, opening: Callable[[str], Open], tmp_path: Path
) -> None:
    graph = fe.Graph()
    made: list[int] = []

    async def step(session: fe.Session, number: int) -> None:
        made.append(number)

    async with opening(place)(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="no variable to save"):
            await fe.train.loop(session, step, steps=9, hooks=[fe.train.Checkpoints(tmp_path)])
    assert not made


async def test_a_graph_that_nothing_can_be_added_to_is_refused(
    opening: Callable[[str], Open], tmp_path: Path
) -> None:
    from flowengine.ir.graph import NodeGraph

    graph, steps, _ = counting("target")
    bare = NodeGraph()
    for node in graph:
        bare.add(node)
    async with opening("target")(bare) as session:  # type: ignore[arg-type]
        hooks = [fe.train.Checkpoints(tmp_path)]
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"`Saver\.of_nodes"):
            await fe.train.loop(session, [each.name for each in steps], steps=1, hooks=hooks)


@pytest.mark.parametrize("is_local", [True, False], ids=["here", "target"])
async def test_a_table_that_nodes_restore_is_not_filled_anew(
    is_local: bool, opening: Callable[[str], Open], tmp_path: Path
) -> None:
    """Nodes that a graph lists as "table_initializer" run before a restore."""
    graph = fe.Graph()
    ops = graph.ops
    total = graph.variable(np.float32(0), name="total")
    kinds: dict[str, Any] = {"key_dtype": "int64", "value_dtype": "float32"}
    table = ops.MutableHashTableV2(**kinds, shared_name="table")
    key = np.array([1], np.int64)
    graph.add_to_collection(
        "table_initializer", ops.LookupTableInsertV2(table, key, np.array([1], np.float32))
    )
    filled = ops.LookupTableInsertV2(table, key, np.array([9], np.float32), name="changed")
    look = ops.LookupTableFindV2(table, key, np.float32(0))
    prefix = graph.placeholder("string", [], name="prefix")
    exported = ops.LookupTableExportV2(table, Tkeys="int64", Tvalues="float32")
    values = [total.value(), *exported]
    written = ops.SaveV2(prefix, ["total", "keys", "values"], [""] * 3, values)
    with graph.control_dependencies([written]):
        ops.Identity(prefix, name="saved")
    stored = ops.RestoreV2(
        prefix, ["total", "keys", "values"], [""] * 3, dtypes=["float32", "int64", "float32"]
    )
    put = ops.LookupTableImportV2(table, *stored[1:])
    graph.group(total.assign_op(stored[0]), put, name="restored")

    def hook() -> fe.train.Checkpoints:
        return fe.train.Checkpoints(
            tmp_path, saver=fe.train.Saver.of_nodes("prefix:0", "saved:0", "restored")
        )

    for steps in (1, 2):
        async with opening("here" if is_local else "target")(graph) as session:
            step = [total.assign_add_op(1.0), *([filled] if steps == 1 else [])]
            await fe.train.loop(session, step, steps=steps, hooks=[hook()])
            assert [float(x) for x in await session.run([total.value(), look[0]])] == [steps, 9]


def test_adding_nodes_returns_the_saver(tmp_path: Path) -> None:
    graph, *_ = counting("here")
    saver = fe.train.Saver()
    assert saver.add_to(graph) is saver
    assert "save/restore_all" in graph


def test_a_folder_that_cannot_be_written_shows_before_a_step(tmp_path: Path) -> None:
    """By default the first save on the way comes after ten minutes."""
    graph, steps, values = counting("here")
    (tmp_path / "model.ckpt-0.index").mkdir()
    with fe.blocking.Session(graph) as session:
        with pytest.raises(fe.errors.OpError):
            session.call(fe.train.loop, steps, steps=5, hooks=[fe.train.Checkpoints(tmp_path)])
        assert session.run(values[1]) == 1
