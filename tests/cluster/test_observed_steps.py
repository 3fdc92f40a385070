"""Steps over several tasks under the guard, and observed steps that a task refuses, fails or forgets."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.cluster.following import from_table, known_to
from flowengine.core import errors
from tests.cluster.test_traced_steps import X, four_tasks, training_graph


@pytest.mark.parametrize("options", [{"trace": "nodes"}, {"guard": True}], ids=str)
@pytest.mark.parametrize("old", ["/job:worker/task:0", "/job:ps/task:1"])
async def test_a_task_of_an_older_version_is_named(tmp_path: Path, options: Any, old: str) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(training_graph(), target=target) as session,
    ):
        await session.run([], targets=["init0", "init1"])
        service = servers[old].links.service
        assert service is not None
        for method in (m.READ_CLOCK, m.RUN_FOLLOWED, m.TAKE_TRACE, m.FOLLOW_STEP, m.TAKE_PART):
            del service._handlers[method]
        who = "the master" if old.startswith("/job:worker") else old
        with pytest.raises(errors.UnimplementedError, match=f"{who} has a version of FlowEngine that"):
            await session.run("y:0", X, options=fe.RunOptions(**options), run_metadata=fe.RunMetadata())
        assert (await session.run("y:0", X)).shape == (2, 8)
        assert not any(server.worker.followed for server in servers.values())


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
async def test_the_guard_names_the_task(tmp_path: Path, bad: float) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    with g.device("/job:ps/task:1"):
        found = g.ops.Log(x, name="log") if bad == np.inf else g.ops.Sqrt(x, name="log")
    with g.device("/job:worker/task:1"):
        g.ops.Neg(g.ops.Exp(found), name="y")
    kept = tmp_path / "found.npz"
    async with four_tasks(tmp_path) as (servers, target), fe.Session(g, target=target) as session:
        options = fe.RunOptions(guard=True, guard_file=str(kept))
        good = {"x:0": [1.0, 2.0]}
        assert np.array_equal(await session.run("y:0", good, options=options), await session.run("y:0", good))
        assert not kept.exists()
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has") as caught:
            await session.run("y:0", {"x:0": [1.0, 0.0 if bad == np.inf else -1.0]}, options=options)
        error = caught.value
        assert error.node_name == "log"
        assert error.op_type in {"Log", "Sqrt"}
        assert error.device == "/job:ps/replica:0/task:1/device:CPU:0"
        assert "input 0: float32 [2] from" in error.message
        assert "test_observed_steps.py" in str(error)
        assert f"its inputs and outputs are in {kept}" in str(error.__notes__)
        with np.load(kept) as values:
            assert values["input_0"].tolist() == [1.0, 0.0 if bad == np.inf else -1.0]
            assert not np.isfinite(values["output_0"]).all()
        with pytest.raises(errors.InvalidArgumentError, match=r"outside \[0, 1\]"):
            await session.run("y:0", {"x:0": [9.0, 9.0]}, options=fe.RunOptions(guard={"lo*": (0, 1)}))
        assert not any(server.worker.followed for server in servers.values())


@pytest.mark.parametrize("kind", ["name", "open file"])
async def test_the_inputs_that_the_guard_keeps_are_where_numpy_would_put_them(
    tmp_path: Path, kind: str
) -> None:
    """NumPy adds .npz to a name without it, and writes to an open file as it is."""
    g = fe.Graph()
    with g.device("/job:ps/task:1"):
        g.ops.Log(g.placeholder("float32", [2], name="x"), name="log")
    kept = io.BytesIO() if kind == "open file" else str(tmp_path / "found")
    async with four_tasks(tmp_path) as (_, target), fe.Session(g, target=target) as session:
        with pytest.raises(errors.InvalidArgumentError, match="guard: output 0 has"):
            await session.run(
                "log:0", {"x:0": [1.0, 0.0]}, options=fe.RunOptions(guard=True, guard_file=kept)
            )
    where = io.BytesIO(kept.getvalue()) if isinstance(kept, io.BytesIO) else f"{kept}.npz"
    with np.load(where) as values:
        assert values["input_0"].tolist() == [1.0, 0.0]


async def test_another_error_of_a_task_does_not_make_it_an_older_version() -> None:
    async def call() -> None:
        raise errors.NotFoundError("session 3 has ended")

    with pytest.raises(errors.NotFoundError, match="session 3 has ended"):
        await known_to("the master", call)


async def test_a_remote_error_has_the_line_of_its_node(tmp_path: Path) -> None:
    g = fe.Graph()
    with g.device("/job:ps/task:1"):
        x = g.placeholder("int32", [], name="x")
        g.ops.FloorDiv(x, x, name="y")
    async with four_tasks(tmp_path) as (_, target), fe.Session(g, target=target) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"created at .*test_observed_steps\.py"):
            await session.run("y:0", {"x:0": 0})


async def test_observed_steps_go_with_the_session_of_a_client_that_does_not_take_them(tmp_path: Path) -> None:
    async with four_tasks(tmp_path) as (servers, target):
        async with fe.Session(training_graph(), target=target) as session:
            await session.run([], targets=["init0", "init1"])
            master = servers["/job:worker/task:0"].master
            (own,) = master._sessions.values()
            prepared = max(number for number in range(99) if master.knows(own, number))
            options = {"trace": "nodes", "trace_events": 9, "guard": False, "bounds": {}, "keep": False}
            await master.run_followed(own, m.RunFollowed(own.number, prepared, None, False, 1, options), [])
            assert any(server.worker.followed for server in servers.values())
        with trio.fail_after(20):
            await master.notices.notify("/job:ps/task:0")
            while any(server.worker.followed for server in servers.values()):
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"trace": "all"},
        {"trace_events": 0},
        {"trace_events": "many"},
        {"bounds": []},
        {"bounds": {"a": 3}},
        {"bounds": {"a": [1, 0]}, "guard": True},
        {"bounds": {"a": ["x", "y"]}, "guard": True},
        {"trace": "nodes", "guard": True},
    ],
    ids=str,
)
async def test_unreadable_options_are_refused(tmp_path: Path, table: dict[str, Any]) -> None:
    good = {"trace": "", "trace_events": 9, "guard": False, "bounds": {}, "keep": False}
    from_table(good)
    with pytest.raises(errors.InvalidArgumentError):
        from_table({**good, **table} if table else {})
