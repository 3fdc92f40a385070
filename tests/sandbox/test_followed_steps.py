"""Steps in a box that are traced, or run under the guard: as without a box, however the step ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from flowengine.sandbox import confine, messages

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 200_000_000, "seconds": 20.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


def _model() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [None, 4], name="x")
    hidden = g.ops.Tanh(g.ops.MatMul(x, g.constant(np.full((4, 4), 0.1, np.float32))), name="hidden")
    g.ops.Sum(g.ops.Log(hidden, name="log"), [0, 1], name="y")
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="empty")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="never")
    return g


X = {"x:0": np.ones((3, 4), np.float32)}


@pytest.mark.parametrize("level", ["blocks", "nodes"])
async def test_a_step_in_a_box_is_traced(level: Literal["blocks", "nodes"]) -> None:
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        plain = await session.run("y:0", X)
        metadata = fe.RunMetadata()
        for _ in range(4):
            metadata = fe.RunMetadata()
            options = fe.RunOptions(trace=level)
            assert await session.run("y:0", X, options=options, run_metadata=metadata) == plain
        (part,) = metadata.traced_tasks.values()
        assert part.outcome == "ended"
        assert part.events == len(metadata.events)
        # Both processes have the clock of one machine.
        assert abs(part.clock_offset) <= part.clock_error + 1e-3
        assert {"hidden", "log", "y"} <= {
            name for event in metadata.events for name in (event.name, *event.members)
        }
        assert "turn" in {event.kind for event in metadata.events}
        assert all(0 <= event.began <= event.ended for event in metadata.events)
        assert json.loads(metadata.timeline())["otherData"]["tasks"].keys() == {"sandbox"}
        assert metadata.profile("node").entries
        assert await session.run("y:0", X) == plain
        with pytest.raises(InvalidArgumentError, match="give `run_metadata"):
            await session.run("y:0", X, options=fe.RunOptions(trace=level))


async def test_a_step_that_is_late_has_the_part_that_ran() -> None:
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        await session.run("y:0", X)
        metadata = fe.RunMetadata()
        options = fe.RunOptions(trace="nodes", timeout_seconds=0.3)
        with pytest.raises(DeadlineExceededError):
            await session.run(["never:0", "y:0"], X, options=options, run_metadata=metadata)
        assert metadata.traced_tasks["sandbox"].outcome == "cancelled"
        assert any("empty" in event.name for event in metadata.events if event.kind == "wait")
        assert "log" in {name for event in metadata.events for name in (event.name, *event.members)}


async def test_a_step_that_is_cancelled_has_the_part_that_ran() -> None:
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        await session.run("y:0", X)
        metadata = fe.RunMetadata()
        with trio.move_on_after(0.3) as scope:
            options = fe.RunOptions(trace="nodes")
            await session.run(["never:0", "y:0"], X, options=options, run_metadata=metadata)
        assert scope.cancelled_caught
        assert metadata.traced_tasks["sandbox"].outcome == "cancelled"
        assert metadata.events
        assert await session.run("y:0", X)


async def test_a_process_that_is_ended_is_lost() -> None:
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        await session.run("y:0", X)
        metadata = fe.RunMetadata()

        async def end() -> None:
            while metadata.trace is None:
                await trio.lowlevel.checkpoint()
            os.kill(session._remote._process.pid, signal.SIGKILL)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            options = fe.RunOptions(trace="blocks")
            with pytest.raises(UnavailableError):
                await session.run("never:0", options=options, run_metadata=metadata)
        assert metadata.traced_tasks["sandbox"].outcome.startswith("lost: ")
        assert metadata.events == ()
        assert await session.run("y:0", X)


async def test_the_guard_writes_its_file_outside(tmp_path: Path) -> None:
    kept = tmp_path / "found.npz"
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        options = fe.RunOptions(guard=True, guard_file=str(kept))
        assert await session.run("y:0", X, options=options) == await session.run("y:0", X)
        assert not kept.exists()
        with pytest.raises(InvalidArgumentError, match="guard: output 0 has 0 NaN and 12 inf") as caught:
            await session.run("y:0", {"x:0": np.zeros((3, 4), np.float32)}, options=options)
        assert caught.value.node_name == "log"
        assert str(kept) in str(caught.value.__notes__)
        with np.load(kept) as values:
            assert values["input_0"].tolist() == np.zeros((3, 4)).tolist()


async def test_a_trace_that_a_process_makes_up_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process in the box says what it likes; the step's values are judged as ever."""
    async with fe.Session(_bytes(_model()), config=_config()) as session:
        process = await session._remote._open()
        call = process.peer.call

        async def lies(method: str, *arguments: Any) -> Any:
            reply = await call(method, *arguments)
            if method == messages.TAKE_PART:
                return reply._replace(tensors=[np.frombuffer(b"no events", np.uint8)] * len(reply.tensors))
            return reply

        monkeypatch.setattr(process.peer, "call", lies)
        metadata = fe.RunMetadata()
        options = fe.RunOptions(trace="nodes")
        assert await session.run("y:0", X, options=options, run_metadata=metadata)
        assert metadata.traced_tasks["sandbox"].outcome.startswith("lost: these are no events of a trace")
        assert metadata.events == ()
