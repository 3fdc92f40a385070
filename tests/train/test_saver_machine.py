"""A saver against a model: drawn runs of training, saving and restoring while the graph grows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.checkpoint import BundleReader, FileLayer
from flowengine.checkpoint.state import latest_checkpoint, read_state
from flowengine.resources.variable import Variable


def add_variable(graph: fe.Graph, name: str, by_handle: bool) -> None:
    """A counter of steps, with `init/NAME`, `train/NAME` and `read/NAME`."""
    if by_handle:
        handle = graph.ops.VarHandleOp(shape=[2], dtype="int64", shared_name=name, name=name)
        graph.ops.AssignVariableOp(handle, np.zeros(2, np.int64), name=f"init/{name}")
        graph.ops.AssignAddVariableOp(handle, np.ones(2, np.int64), name=f"train/{name}")
        graph.ops.ReadVariableOp(handle, dtype="int64", name=f"read/{name}")
    else:
        variable = graph.ops.VariableV2(shape=[2], dtype="int64", name=name)
        graph.ops.Assign(variable, np.zeros(2, np.int64), name=f"init/{name}")
        graph.ops.AssignAdd(variable, np.ones(2, np.int64), name=f"train/{name}")
        graph.ops.Identity(variable, name=f"read/{name}")


def stored(prefix: str) -> dict[str, int]:
    """The counters in a checkpoint; both elements of each must agree."""
    with BundleReader(prefix) as reader:
        values = {name.decode(): set(reader.read(name).tolist()) for name in reader.names()}
    return {name: value for name, (value,) in values.items()}


@dataclass
class _Run:
    """A session, its saver, and what both should be: one value a variable."""

    folder: Path
    saver: fe.train.Saver
    graph: fe.Graph = field(default_factory=fe.Graph)
    values: dict[str, int] = field(default_factory=dict)
    #: {prefix: what it holds}, the oldest first.
    kept: dict[str, dict[str, int]] = field(default_factory=dict)

    async def do(self, session: fe.Session, action: tuple[Any, ...]) -> None:
        kind, *arguments = action
        if kind == "grow":
            name = f"v{len(self.values)}"
            add_variable(self.graph, name, arguments[0])
            await session.run((), targets=[f"init/{name}"])
            self.values[name] = 0
        elif kind == "train":
            await session.run((), targets=[f"train/{name}" for name in self.values])
            self.values = {name: value + 1 for name, value in self.values.items()}
        elif kind == "save":
            number, boundary = arguments
            prefix = await self.saver.save(
                session, self.folder / "m", global_step=number, at_boundary=boundary
            )
            self.kept.pop(prefix, None)
            self.kept[prefix] = dict(self.values)
            while len(self.kept) > 2:
                del self.kept[next(iter(self.kept))]
        elif self.kept:
            place, strict = arguments
            prefix = list(self.kept)[place % len(self.kept)]
            held = self.kept[prefix]
            if strict and self.values.keys() - held.keys():
                with pytest.raises(fe.errors.NotFoundError, match="not found in checkpoint"):
                    await self.saver.restore(session, prefix)
                return
            assert set(await self.saver.restore(session, prefix, strict=False)) == held.keys()
            self.values |= held

    async def check(self, session: fe.Session) -> None:
        assert self.saver.checkpoints == list(self.kept)
        for prefix, values in self.kept.items():
            assert stored(prefix) == values
        names = {path.stem for path in self.folder.glob("*.index")}
        assert names == {Path(prefix).name for prefix in self.kept}
        if self.kept:
            latest = list(self.kept)[-1]
            assert latest_checkpoint(str(self.folder)) == latest
            state = read_state(str(self.folder))
            assert state is not None
            assert list(state.all) == list(self.kept)
        fetched = await session.run([f"read/{name}:0" for name in self.values])
        assert [value.tolist() for value in fetched] == [[value] * 2 for value in self.values.values()]


_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.booleans()),
        st.tuples(st.just("train")),
        st.tuples(st.just("save"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("restore"), st.integers(0, 1), st.booleans()),
    ),
    max_size=12,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_ACTIONS)
def test_a_run_of_drawn_actions(tmp_path_factory: pytest.TempPathFactory, actions: list[Any]) -> None:
    """Saved values are those of the variables; the two newest checkpoints stay; added variables count."""

    async def main() -> None:
        folder = tmp_path_factory.mktemp("machine")
        run = _Run(folder, fe.train.Saver(max_to_keep=2, sync=False))
        async with fe.Session(run.graph) as session:
            await run.do(session, ("grow", False))
            for action in actions:
                await run.do(session, action)
                await run.check(session)

    trio.run(main)


async def test_variables_that_come_later_are_saved_and_restored(tmp_path: Path) -> None:
    graph = fe.Graph()
    add_variable(graph, "a", False)
    saver = fe.train.Saver(sync=False)
    async with fe.Session(graph) as session:
        await session.run((), targets=["init/a"])
        assert stored(await saver.save(session, tmp_path / "m", global_step=1)) == {"a": 0}
        add_variable(graph, "b", True)
        assert saver.names(session) == ["a", "b"]
        await session.run((), targets=["init/b", "train/b"])
        assert stored(await saver.save(session, tmp_path / "m", global_step=2)) == {"a": 0, "b": 1}
    async with fe.Session(graph) as session:
        assert await saver.restore(session, tmp_path) == ["a", "b"]


class _Held(FileLayer):
    """Holds the thread that makes the first file until it is let go, and counts the threads that write."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.reached = threading.Event()
        self.lock = threading.Lock()
        self.writing: set[int] = set()
        self.most = 0

    def create(self, path: str) -> Any:
        with self.lock:
            self.writing.add(threading.get_ident())
            self.most = max(self.most, len(self.writing))
        self.reached.set()
        assert self.let_go.wait(30), "nobody let go"
        return super().create(path)

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        with self.lock:
            self.writing.discard(threading.get_ident())


async def test_one_save_writes_while_the_others_wait(tmp_path: Path) -> None:
    graph = fe.Graph()
    add_variable(graph, "a", False)
    files = _Held()
    saver = fe.train.Saver(max_to_keep=0, sync=True, files=files)
    async with fe.Session(graph) as session, trio.open_nursery() as nursery:
        await session.run((), targets=["init/a"])
        for number in range(3):
            nursery.start_soon(lambda n: saver.save(session, tmp_path / "m", global_step=n), number)
        await trio.to_thread.run_sync(files.reached.wait, 30)
        # Two of the three stand before the lock, and the third one in its thread.
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(files.writing) == 1
        files.let_go.set()
    assert files.most == 1
    assert len(saver.checkpoints) == 3


@pytest.mark.parametrize("by_handle", [False, True])
async def test_saving_and_restoring_wait_for_a_write_on_another_thread(
    tmp_path: Path, by_handle: bool
) -> None:
    graph = fe.Graph()
    add_variable(graph, "a", by_handle)
    saver = fe.train.Saver(sync=False)
    async with fe.Session(graph) as session:
        await session.run((), targets=["init/a"])
        variable = session.resources.lookup("", "a", Variable)
        owner = object()
        done: list[str] = []

        async def save() -> None:
            done.append(await saver.save(session, tmp_path / "m"))

        async def restore() -> None:
            await saver.restore(session, tmp_path / "m")
            done.append("restored")

        # Whoever is cancelled meanwhile leaves nobody behind who would be woken in its place.
        assert variable.acquire(owner)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(save)
                await trio.testing.wait_all_tasks_blocked(0.02)
                assert variable._parked
                scope.cancel()
        assert not variable._parked
        variable.release()
        assert done == []
        for action, value in ((save, 7), (restore, 9)):
            assert variable.acquire(owner)
            with pytest.raises(fe.errors.FailedPreconditionError, match="a step is writing value 'a'"):
                saver.snapshot(session)
            async with trio.open_nursery() as nursery:
                before = len(done)
                nursery.start_soon(action)
                await trio.testing.wait_all_tasks_blocked(0.02)
                assert len(done) == before
                # What the kernel wrote last is what is saved; what is restored is not written over by it.
                variable.assign(np.full(2, value, np.int64))
                variable.release()
            assert len(done) == before + 1
            assert stored(str(tmp_path / "m")) == {"a": 7}
        assert variable.read().tolist() == [7, 7]
