"""When a step of the kit counts as standing still: never while a kernel works on a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.session import Session
from tests.tools.fuzz import playing
from tests.tools.fuzz.playing import play

#: Longer than a test may take: a step that ends by it was hastened.
_LONG = 3600.0
#: So often the process's clock of work is looked at before a kernel ends.
_LOOKS = 12


def _with_clock(monkeypatch: pytest.MonkeyPatch, process_time: Callable[[], float]) -> list[float]:
    """Let the kit look at another clock of work, and not wait between two looks: how long it would have."""
    waited: list[float] = []
    monkeypatch.setattr(playing, "time", SimpleNamespace(process_time=process_time, sleep=waited.append))
    return waited


def _negated() -> bytes:
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [2], name="x"), name="y")
    return bytes(graph.to_graph_def().SerializeToString())


def test_a_kernel_on_a_thread_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's clock goes on while it works, and every task of the step waits."""
    kernels = fe.KernelRegistry(parent=load_all())
    enough = threading.Event()
    looks = 0

    @kernels.kernel("Neg", heavy=lambda x: 1e6)
    def negative(x: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        assert enough.wait(60)
        return -np.asarray(x)

    def process_time() -> float:
        nonlocal looks
        looks += 1
        if looks == _LOOKS:
            enough.set()
        return float(min(looks, 100 * _LOOKS))  # else a step that was hastened is waited for without end

    _with_clock(monkeypatch, process_time)
    monkeypatch.setattr(playing, "Session", partial(Session, kernels=kernels))
    assert play("calls", _negated(), seconds=_LONG) == "value"
    assert looks >= _LOOKS


def test_a_step_that_stands_still_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]])
    graph.ops.QueueDequeueV2(queue, component_types=["float32"])
    waited = _with_clock(monkeypatch, lambda: 0.0)
    data = bytes(graph.to_graph_def().SerializeToString())
    assert play("calls", data, seconds=_LONG) == "DeadlineExceededError"
    assert len(waited) == 1


def test_what_a_step_left_to_a_thread_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Till the clock of work stands still between two looks."""
    times = iter([0.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    waited = _with_clock(monkeypatch, lambda: next(times))
    playing._wait_for_threads()
    assert len(waited) == 3
    assert not list(times)
