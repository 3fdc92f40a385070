"""Kernels on threads that a step abandons are in its trace: once, and marked if they had not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core import errors
from flowengine.ir.graph import Node
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime import lanes
from flowengine.runtime.planning import signatures
from flowengine.runtime.planning.items import Kind
from flowengine.runtime.threads import POOL, Job
from flowengine.runtime.tracing.clocked_blocks import ClockedBlocks
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.tracing.thread_jobs import TracedJobs
from tests.runtime.tracing.test_unfinished_events import cancelled, unfinished


def on_threads(monkeypatch: pytest.MonkeyPatch, product: Callable[[Any, Any], Any]) -> KernelRegistry:
    """Kernels whose MatMul runs on a thread."""
    for name in ("HEAVY_MICROSECONDS", "ALONE_MICROSECONDS"):
        monkeypatch.setattr(lanes, name, -1.0)
    monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
    monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)
    kernels = KernelRegistry(parent=load_all())
    kernels.kernel("MatMul", heavy=lambda a, b: 50_000.0)(product)
    return kernels


async def test_a_kernel_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that only computes is abandoned, and its end does not enter the trace."""
    token = trio.lowlevel.current_trio_token()
    reached, let, left = trio.Event(), threading.Event(), threading.Event()

    def product(a: Any, b: Any) -> Any:
        token.run_sync_soon(reached.set)
        assert let.wait(30)
        left.set()
        return a @ b

    kernels = on_threads(monkeypatch, product)
    g = fe.Graph()
    x = g.placeholder("float32", [8, 8], name="x")
    y = g.ops.MatMul(x, x, name="slow")
    metadata = fe.RunMetadata()
    config = fe.Config(compile_hot_plans=False)
    async with fe.Session(g, config=config, kernels=kernels) as session:
        async with cancelled(session, y, metadata, feeds={"x:0": np.eye(8)}):
            await reached.wait()
        let.set()
        await trio.to_thread.run_sync(left.wait)
    events = [event for event in metadata.events if event.name == "slow"]
    assert [(event.kind, event.detail) for event in events] == [("kernel", {"unfinished": True})]
    assert events[0].thread.startswith("flowengine-")
    assert [*unfinished(metadata, "wait")] == ["kernel 'slow' on a thread"]


async def test_a_kernel_that_has_ended_on_its_thread_is_recorded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = on_threads(monkeypatch, lambda a, b: a @ b)
    g = fe.Graph()
    x = g.placeholder("float32", [None, 8], name="x")
    y = g.ops.Reshape(g.ops.MatMul(x, x, name="product"), [7], name="bad")
    metadata = fe.RunMetadata()
    config = fe.Config(compile_hot_plans=False)
    async with fe.Session(g, config=config, kernels=kernels) as session:
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            await session.run(
                y, {"x:0": np.eye(8)}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
            )
    events = [event for event in metadata.events if event.name == "product" and event.kind == "kernel"]
    assert len(events) == 1
    assert "unfinished" not in events[0].detail


@pytest.fixture
def one_job(monkeypatch: pytest.MonkeyPatch) -> tuple[TracedJobs, Recorder, Job]:
    """A kernel that was handed over to the threads, which leave it alone."""
    recorder = Recorder(100, has_nodes=False)
    jobs = TracedJobs(recorder, "CPU:0", ClockedBlocks(recorder, "CPU:0"), lambda item, iteration: None)
    node = Node("product", "MatMul")
    item: Any = SimpleNamespace(kind=Kind.GENERAL, node=node, name=node.name, is_product=False)
    iteration: Any = SimpleNamespace(serial=0)
    inbox: Any = None  # no step waits for its end
    job = Job(lambda: 3, (), {}, lambda job: None, inbox)
    monkeypatch.setattr(POOL, "submit", lambda job: None)
    jobs.submit(job, item, iteration)
    return jobs, recorder, job


def kinds_of(recorder: Recorder) -> list[tuple[str, str, bool]]:
    return [(event.kind, event.name, "unfinished" in event.detail) for event in recorder.events()]


def test_a_kernel_that_has_no_thread_yet_waits_for_one(one_job: tuple[TracedJobs, Recorder, Job]) -> None:
    jobs, recorder, _ = one_job
    jobs.note_unfinished(perf_counter())
    assert kinds_of(recorder) == [("wait", "lane: 'product' for a thread", True)]


def test_a_kernel_that_nobody_took_is_recorded_once(one_job: tuple[TracedJobs, Recorder, Job]) -> None:
    """Its thread was done, and the step ended before it took the value."""
    jobs, recorder, job = one_job
    job.function()
    jobs.note_unfinished(perf_counter())
    assert kinds_of(recorder)[1:] == [("kernel", "product", False)]


def test_a_kernel_that_ends_after_its_step_is_recorded_once(
    one_job: tuple[TracedJobs, Recorder, Job],
) -> None:
    """Other parts of the step run on, so that the recorder is open."""
    jobs, recorder, job = one_job
    function: Any = job.function

    def ends_late() -> int:
        jobs.note_unfinished(perf_counter())
        return 3

    timed, (_, *rest) = function.func, function.args
    assert timed(ends_late, *rest) == 3
    assert kinds_of(recorder)[1:] == [("kernel", "product", True)]
