"""The recorder of a step: whose time a mark is, on which thread, and when the step began."""

from __future__ import annotations

import threading
from collections.abc import Generator
from time import perf_counter, time
from typing import Any

import pytest

from flowengine.ir.graph import Node
from flowengine.passes.blocks.compiled_regions import CompiledRegion, Line
from flowengine.runtime.tracing.recorder import Recorder

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
BLOCK = Node("block", "_Region")
SOURCE = """def make(constants):
    def region(args, ctx):
        a0, = args
        a0 = a0 + 1
        a0 = yield a0
        a0 = a0 * 2
        return a0
    return region"""


def paused_region() -> CompiledRegion:
    """Return a region of two nodes with a pause between them."""
    nodes = {"        a0 = a0 + 1": Node("before", "AddV2"), "        a0 = a0 * 2": Node("after", "Mul")}
    lines = [Line(text, nodes.get(text), ("a0",)) for text in SOURCE.splitlines()]
    return CompiledRegion(lines, (), is_generator=True, takes_context=False)


def test_the_thread_that_ends_a_pause_has_the_nodes_behind_it() -> None:
    recorder = Recorder(100, has_nodes=True)
    region = paused_region().clocked()
    mark = recorder.marks_of(BLOCK, region, DEVICE, threading.current_thread().name, ())
    body: Generator[int, int, int] = region.call([3], None, mark)
    value, results = next(body), []

    def finish() -> None:
        try:
            body.send(value)
        except StopIteration as end:
            results.append(end.value)

    thread = threading.Thread(target=finish, name="other")
    thread.start()
    thread.join()
    assert results == [8]
    threads = {event.name: event.thread for event in recorder.events()}
    assert threads == {"before": threading.current_thread().name, "after": "other"}


@pytest.mark.parametrize(("waited", "admission"), [(3.0, 0.0), (3.0, 2.0), (0.0, 0.0)])
def test_the_two_clocks_of_a_step_that_waited_agree(waited: float, admission: float) -> None:
    recorder = Recorder(100, has_nodes=False)
    recorder.begin_earlier(waited, admission, DEVICE)
    assert recorder.epoch - recorder.began == pytest.approx(time() - perf_counter(), abs=0.5)
    found: dict[str, Any] = {event.kind: event.seconds for event in recorder.events()}
    assert found.get("wait", 0.0) == pytest.approx(admission)
    assert found.get("plan", 0.0) == pytest.approx(waited - admission)
