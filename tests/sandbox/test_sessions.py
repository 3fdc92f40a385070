"""Sessions in a box: the same values as without, and what its bounds, its death and its state mean."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.sandbox import confine
from flowengine.testing.control import while_loop
from tests.system_tasks import system_tasks

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 200_000_000, "seconds": 20.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


def _counter() -> fe.Graph:
    g = fe.Graph()
    v = g.variable(0, name="v", dtype=fe.dtypes.int32, use_resource=True)
    g.ops.AssignAddVariableOp(v.handle, 1, name="more")
    g.ops.ReadVariableOp(v.handle, dtype=fe.dtypes.int32, name="value")
    return g


def _process(session: fe.Session) -> int:
    """The number of the process that a session's graph runs in."""
    pid: int = session._remote._process.pid
    return pid


async def test_values_come_back_as_without_a_box() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None, 2], name="x")
    s = g.placeholder("string", None, name="s")
    g.ops.MatMul(x, x, transpose_b=True, name="product")
    g.ops.StringJoin([s, s], separator="-", name="joined")
    g.ops.Unique(g.ops.Reshape(x, [-1]), name="unique")
    g.ops.NoOp(name="nothing")
    feeds = {"x:0": [[1, 2], [3, 4]], "s:0": [["a"], [b"\xff"]]}
    fetches = {
        "p": "product:0",
        "rest": ["joined:0", ("unique:0", "unique:1"), "nothing"],
        "again": "product:0",
    }
    async with fe.Session(g) as near, fe.Session(_bytes(g), config=_config()) as far:
        expected = await near.run(fetches, feeds)
        found = await far.run(fetches, feeds)
        call = far.make_callable(["product", "nothing"], ["x"])
        called = await call(np.ones((3, 2), np.float32))
        assert await far.run("s:0", {"s:0": "one"}) == b"one"
        assert (await far.run("x:0", {"x:0": np.zeros((0, 2))})).shape == (0, 2)
        large = np.arange(2_000_000, dtype=np.float32).reshape(-1, 2)
        back = await far.run("x:0", {"x:0": large})
        assert back.flags.writeable
        np.testing.assert_array_equal(back, large)
    np.testing.assert_array_equal(found["p"], expected["p"])
    assert found["p"].dtype == expected["p"].dtype
    np.testing.assert_array_equal(found["again"], expected["p"])
    np.testing.assert_array_equal(found["rest"][0], expected["rest"][0])
    np.testing.assert_array_equal(found["rest"][1][1], expected["rest"][1][1])
    assert found["rest"][2] is None
    np.testing.assert_array_equal(called[0], np.full((3, 3), 2))
    assert called[1] is None


async def test_wrong_requests_are_the_errors_that_they_are_elsewhere() -> None:
    g = fe.Graph()
    g.placeholder("float32", [2], name="x")
    g.ops.VarHandleOp(dtype=fe.dtypes.float32, shape=[], name="handle")
    async with fe.Session(_bytes(g), config=_config()) as session:
        with pytest.raises(NotFoundError, match="'y:0'"):
            await session.run("y:0")
        with pytest.raises(InvalidArgumentError, match=r"shape \[3\] for 'x:0'"):
            await session.run("x:0", {"x:0": [1, 2, 3]})
        with pytest.raises(InvalidArgumentError, match="dtype float32"):
            await session.run("x:0", {"x:0": ["text", "text"]})
        with pytest.raises(InvalidArgumentError, match="resource"):
            await session.run("handle:0")
        np.testing.assert_array_equal(await session.run("x:0", {"x:0": [1, 2]}), [1, 2])
    async with fe.Session(fe.GraphBytes(b"\x00 no graph"), config=_config()) as session:
        with pytest.raises(InvalidArgumentError):
            await session.run("x:0")
    with pytest.raises(FailedPreconditionError, match="closed"):
        await session.run("x:0")


async def test_a_graph_that_was_read_here_is_refused_unless_it_is_trusted() -> None:
    with pytest.raises(InvalidArgumentError, match="GraphBytes"):
        fe.Session(_counter(), config=_config())
    with pytest.raises(InvalidArgumentError, match="takes no target"):
        fe.Session(_bytes(_counter()), target="flow://localhost:1", config=_config())
    graph = _counter()
    async with fe.Session(graph, config=_config(trusted_graph=True, init="v/Assign")) as session:
        await session.run(["more"])
        tensor = graph.tensor("value:0")
        assert await session.run(tensor) == 1
        # The graph grows; what variables hold stays.
        doubled = tensor + tensor
        assert await session.run(doubled) == 2


async def test_state_dies_with_its_process_and_the_next_step_has_a_new_one() -> None:
    async with fe.Session(_bytes(_counter()), config=_config(init="v/Assign", spare=True)) as session:
        for expected in (1, 2):
            await session.run(["more"])
            assert await session.run("value:0") == expected
        first = session.incarnation
        os.kill(_process(session), signal.SIGKILL)
        with pytest.raises(UnavailableError, match="SIGKILL"):
            await session.run("value:0")
        await session.run(["more"])
        assert await session.run("value:0") == 1
        assert session.incarnation not in (0, first)


@pytest.mark.parametrize("is_soon", [True, False])
async def test_a_process_that_dies_again_and_again_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, is_soon: bool
) -> None:
    # However long this machine takes for three processes.
    monkeypatch.setattr("flowengine.sandbox.session._DEATHS_SECONDS", 1e6 if is_soon else 0.0)
    async with fe.Session(_bytes(_counter()), config=_config(init="v/Assign")) as session:
        for _ in range(3):
            await session.run(["more"])
            os.kill(_process(session), signal.SIGSEGV)
            with pytest.raises(UnavailableError):
                await session.run("value:0")
        if not is_soon:
            assert await session.run("value:0") == 0
            return
        with pytest.raises(FailedPreconditionError, match="died 3 times"):
            await session.run("value:0")


def _endless() -> fe.Graph:
    g = fe.Graph()
    while_loop(g, lambda i: g.ops.Less(i, 10**9), lambda i: [g.ops.Add(i, 1)], [g.constant(0)], name="loop")
    return g


async def test_a_step_ends_at_its_deadline_and_the_next_one_runs() -> None:
    g = _endless()
    exit_name = next(node.name for node in g.nodes.values() if node.op == "Exit")
    g.constant(1.0, name="one")
    async with fe.Session(_bytes(g), config=_config(seconds=0.5)) as session:
        with pytest.raises(DeadlineExceededError):
            await session.run(f"{exit_name}:0")
        assert await session.run("one:0") == 1
        with pytest.raises(DeadlineExceededError):
            await session.run(f"{exit_name}:0", options=fe.RunOptions(timeout_seconds=0.1))
        with trio.move_on_after(0.1) as scope:
            await session.run(f"{exit_name}:0")
        assert scope.cancelled_caught
        assert await session.run("one:0") == 1


@pytest.mark.parametrize("containers", [[], [""]])
async def test_containers_are_cleared(containers: list[str]) -> None:
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, 3.0, name="assign")
    async with fe.Session(_bytes(g), config=_config()) as session:
        assert await session.run("assign:0") == 3
        assert await session.run("v:0") == 3
        await session.reset(containers)
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            await session.run("v:0")
        assert await session.run("assign:0") == 3


async def test_memory_is_bounded_inside_before_it_is_outside() -> None:
    g = fe.Graph()
    n = g.placeholder("int32", [], name="n")
    g.ops.Sum(g.ops.Fill(g.ops.Reshape(n, [1]), 1.0), 0, name="sum")
    async with fe.Session(_bytes(g), config=_config(memory_bytes=10_000_000)) as session:
        with pytest.raises(ResourceExhaustedError, match="Fill"):
            await session.run("sum:0", {"n:0": 100_000_000})
        assert await session.run("sum:0", {"n:0": 10}) == 10


async def test_steps_beside_the_one_that_ended_the_process_are_aborted() -> None:
    g = _endless()
    exit_name = next(node.name for node in g.nodes.values() if node.op == "Exit")
    errors: list[OpError] = []
    async with fe.Session(_bytes(g), config=_config(max_steps=3)) as session:

        async def step() -> None:
            try:
                await session.run(f"{exit_name}:0")
            except OpError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(step)
            while len(session._remote.running) < 3:
                await trio.lowlevel.checkpoint()
            os.kill(_process(session), signal.SIGKILL)
    kinds = [type(error) for error in errors]
    assert sorted(kind.__name__ for kind in kinds) == ["AbortedError", "AbortedError", "UnavailableError"]
    assert AbortedError in kinds


@pytest.mark.parametrize("by", ["closed", "cancelled"])
async def test_a_session_that_ends_while_its_process_comes_up_leaves_none(by: str) -> None:
    g = fe.Graph()
    g.constant(1.0, name="one")
    told: list[str] = []

    async def step(session: fe.Session) -> None:
        try:
            told.append(str(await session.run("one:0")))
        except OpError as error:
            told.append(f"{type(error).__name__}: {error.message}")

    # A process comes up within some hundred passes of the event loop.
    for turns in [0, 1, 2, 3, 10, 100, *range(200, 1000, 200), 10_000]:
        session = fe.Session(_bytes(g), config=_config())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step, session)
            nursery.start_soon(step, session)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            if by == "closed":
                await session.close()
            else:
                nursery.cancel_scope.cancel()
        await session.close()
        with trio.fail_after(60):
            while system_tasks("flowengine sandbox"):
                await trio.lowlevel.checkpoint()
    closed = "CancelledError: the session was closed while this step was running"
    assert set(told) <= {
        closed,
        "CancelledError: the session was closed while this step was waiting to begin",
        "FailedPreconditionError: this session is closed: open another",
        "1.0",
    }
    assert by == "cancelled" or closed in told


#: As a machine on which oneDNN is not where it usually is, and first looked for when it is wanted.
_WITHOUT_ONEDNN = """
import sys; sys.path[:0] = sys.argv[2:]
from flowengine.sandbox import child
begin = child._begin
def locked(orders, descriptor):
    levels = begin(orders, descriptor)
    sys.prefix = "/nonexistent"
    return levels
child._begin = locked
child.main()
"""


async def test_libraries_that_are_missing_are_looked_for_without_another_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flowengine.sandbox.startup._BEGIN", _WITHOUT_ONEDNN)
    g = fe.Graph()
    x = g.placeholder("float32", [None, None], name="x")
    g.ops.MatMul(x, x, name="product")
    async with fe.Session(_bytes(g), config=_config()) as session:
        found = await session.run("product:0", {"x:0": np.ones((400, 400), np.float32)})
    np.testing.assert_array_equal(found, np.full((400, 400), 400))


async def test_what_is_required_and_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowengine.sandbox.startup._BEGIN", _WITHOUT_LANDLOCK)
    async with fe.Session(_bytes(_counter()), config=_config()) as session:
        with pytest.raises(FailedPreconditionError, match="landlock: this kernel has no Landlock"):
            await session.run("value:0")
    levels = ("limits", "seccomp")
    async with fe.Session(_bytes(_counter()), config=_config(require=levels, init="v/Assign")) as session:
        assert await session.run("value:0") == 0
        assert set(session._remote.levels) == set(levels)


#: As a machine whose kernel has no Landlock.
_WITHOUT_LANDLOCK = """
import sys; sys.path[:0] = sys.argv[2:]
from flowengine.sandbox import confine
confine.landlock_version = lambda: 0
from flowengine.sandbox.child import main
main()
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory_bytes": 0}, "memory_bytes is 0"),
        ({"seconds": -1}, "seconds is -1"),
        ({"require": ["walls"]}, "'walls'"),
        ({"read": "/no/such/folder"}, "/no/such/folder"),
        ({"write": "/tmp"}, "write_bytes"),
        ({"file_access": "all"}, "file_access"),
        ({"init": [1]}, "init"),
    ],
)
def test_bounds_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _config(**given)
