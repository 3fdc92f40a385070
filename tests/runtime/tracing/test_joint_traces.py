"""Traces of several tasks: as bytes and back, on one clock, with the outcome of each part."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import errors
from flowengine.core.work_pieces import at_once
from flowengine.runtime.tracing.clock_alignment import ClockOffset
from flowengine.runtime.tracing.critical_path import critical_path
from flowengine.runtime.tracing.event_encoding import decoded, encoded
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.joint_trace import JointTrace
from flowengine.runtime.tracing.profile import undivided
from flowengine.runtime.tracing.timeline import read_tasks, timeline

_TEXTS = st.text(max_size=5)
_TIMES = st.floats(-10, 10)
_OUTPUTS = st.none() | st.tuples(
    _TEXTS, st.lists(st.integers(0, 9), max_size=3).map(tuple), st.integers(0, 99)
)
EVENTS = st.builds(
    TraceEvent,
    kind=st.sampled_from(["kernel", "wait", ""]),
    name=_TEXTS,
    op=_TEXTS,
    device=_TEXTS,
    thread=_TEXTS,
    began=_TIMES,
    ended=_TIMES,
    ready=st.none() | _TIMES,
    tag=st.lists(st.tuples(_TEXTS, st.integers(0, 99)), max_size=2).map(tuple),
    members=st.lists(_TEXTS, max_size=2).map(tuple),
    outputs=st.lists(_OUTPUTS, max_size=2).map(tuple),
    line=_TEXTS,
    detail=st.dictionaries(_TEXTS, _TEXTS | st.booleans() | st.integers() | _TIMES, max_size=2),
)
PLACE = "/job:worker/replica:0/task:{}/device:CPU:0"


def _decoded(chunks: list[bytes]) -> list[TraceEvent]:
    return [event for chunk in chunks for event in decoded(chunk)]


@given(st.lists(EVENTS, max_size=5))
def test_events_come_back(events: list[TraceEvent]) -> None:
    assert _decoded(at_once(encoded(events))) == events


def test_details_of_other_types_come_as_text() -> None:
    detail = {"bytes": np.int64(3), "type": np.dtype("float32")}
    (again,) = _decoded(at_once(encoded([event("kernel", "a", 0, 0, 1, detail=detail)])))
    assert again.detail == {"bytes": "3", "type": "float32"}


def test_long_traces_come_in_chunks() -> None:
    events = [event("kernel", str(number), 0, number, number + 0.5) for number in range(2500)]
    chunks = at_once(encoded(events))
    assert len(chunks) == 3
    assert _decoded(chunks) == events


GOOD: list[Any] = ["kernel", "a", "Neg", "/cpu", "main", 0.0, 1.0, None, [], [], [], "", {}]


def row(position: int, value: Any) -> bytes:
    return zlib.compress(json.dumps([[*GOOD[:position], value, *GOOD[position + 1 :]]]).encode())


def test_the_row_that_others_are_made_of_is_good() -> None:
    assert [each.name for each in decoded(row(0, "kernel"))] == ["a"]


@pytest.mark.parametrize(
    "chunk",
    [
        b"",
        b"no zlib",
        zlib.compress(b"no json"),
        zlib.compress(b"3"),
        zlib.compress(b"[3]"),
        zlib.compress(b"[[]]"),
        zlib.compress(b'{"a": 1}'),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * ((64 << 20) + 1) + b"[]"),
        row(0, 3),
        row(5, "soon"),
        row(6, None),
        row(7, "1"),
        row(8, [["frame"]]),
        row(9, [3]),
        row(10, [[1]]),
        row(11, None),
        row(12, []),
        row(5, float("nan")),
        row(6, float("inf")),
        row(7, 10**400),
        row(0, "send"),
        row(0, "recv"),
        row(0, "node"),
        row(8, [["frame", "first"]]),
        row(10, [["float32", ["wide"], 4]]),
        row(10, [["float32", [1], "large"]]),
        row(12, {"from": 3}),
        row(12, {"waits_for": 3}),
    ],
    ids=lambda chunk: str(zlib.crc32(chunk)),
)
def test_other_bytes_are_refused(chunk: bytes) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no events of a trace"):
        decoded(chunk)


def event(kind: str, name: str, task: int, began: float, ended: float, **rest: Any) -> TraceEvent:
    rest = {"op": "Neg", "device": PLACE.format(task), "thread": "main", **rest}
    return TraceEvent(kind=kind, name=name, began=began, ended=ended, **rest)


def ends_of(
    number: int, source: int, target: int, sent: float, taken: float
) -> tuple[TraceEvent, TraceEvent]:
    """Return the Send and the Recv of a transfer from task to task."""
    detail = {"edge": f"edge {number}", "to": PLACE.format(target), "is_dead": False, "step": 7}
    return (
        event("send", f"send {number}", source, sent, sent + 0.001, detail=detail),
        event("recv", f"recv {number}", target, 0.0, taken, detail=detail, thread=""),
    )


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[TraceEvent], list[tuple[float, float]]]:
    """Return transfers between three tasks at true times, and (offset, mistake in it) of each clock."""
    events: list[TraceEvent] = []
    for number in range(draw(st.integers(1, 6))):
        source, target = draw(st.permutations(range(3)))[:2]
        sent = draw(st.floats(0, 1))
        events += ends_of(number, source, target, sent, sent + draw(st.floats(0.001, 0.5)))
    clocks = st.tuples(st.floats(-1e3, 1e3), st.floats(-0.01, 0.01))
    return events, draw(st.lists(clocks, min_size=3, max_size=3))


@given(steps())
def test_no_recv_comes_before_its_send_by_more_than_the_stated_error(
    step: tuple[list[TraceEvent], list[tuple[float, float]]],
) -> None:
    events, clocks = step
    metadata = fe.RunMetadata(trace=JointTrace(0.0, 100))
    assert isinstance(metadata.trace, JointTrace)
    for task, (offset, mistake) in enumerate(clocks):
        mine = [each for each in events if each.device == PLACE.format(task)]
        # The part began by its own clock at `offset`, and was measured with a mistake.
        measured = ClockOffset(offset + mistake, abs(mistake))
        metadata.trace.add(PLACE.format(task), "ended", measured, offset, mine)
    sends = {each.detail["edge"]: each for each in metadata.events if each.kind == "send"}
    receives = [each for each in metadata.events if each.kind == "recv"]
    assert len(receives) == len(sends) == len(events) // 2
    for each in receives:
        sent = sends[each.detail["edge"]]
        error = sum(metadata.traced_tasks[at.device].clock_error for at in (each, sent))
        assert each.ended >= sent.ended - error - 1e-8
    assert min(each.began for each in metadata.events) >= 0
    rows = json.loads(metadata.timeline())["traceEvents"]
    assert sum(1 for each in rows if each["ph"] == "s") == len(receives)
    path = critical_path(metadata.events)
    end = max(each.ended for each in metadata.events)
    assert sum(part.seconds for part in path) == pytest.approx(end, rel=0.03)


def test_the_critical_path_goes_from_a_recv_to_its_send() -> None:
    """Task 0 sends at 20 ms, which wakes task 1. Task 2 works for longer, and nobody waits for it."""
    sent, received = ends_of(1, 0, 1, 0.020, 0.025)
    events = [
        event("kernel", "slow", 0, 0.001, 0.020, ready=0.001),
        sent,
        received,
        event("wait", "Recv of edge 1", 1, 0.002, 0.0255, op="wait", thread=""),
        event("kernel", "aside", 2, 0.0, 0.024, ready=0.0),
        event("kernel", "last", 1, 0.026, 0.030, ready=0.025),
    ]
    path = critical_path(events)
    assert [(part.kind, part.name, part.device[-14]) for part in path] == [
        ("engine", "before the first node", "0"),
        ("work", "slow", "0"),
        ("work", "send 1", "0"),
        ("wait", f"Recv of edge 1 from {PLACE.format(0)}", "1"),
        ("wait", "Recv of edge 1", "1"),
        ("queued", "last", "1"),
        ("work", "last", "1"),
    ]
    assert sum(part.seconds for part in path) == pytest.approx(0.030)


def unfinished_recv(at: int, source: int, began: float, ended: float) -> TraceEvent:
    """Return a Recv whose value was not there when the step ended."""
    detail = {"edge": f"edge {source}", "to": PLACE.format(at), "from": PLACE.format(source)}
    detail |= {"unfinished": "yes", "waits_for": f"Recv of edge {source}"}
    return event("recv", f"recv {source}", at, began, ended, detail=detail, thread="")


def test_the_path_of_a_step_that_hung_ends_at_a_recv_of_a_circle() -> None:
    """Two tasks that wait for each other: neither is the cause."""
    events = [unfinished_recv(0, 1, 0.0, 0.5), unfinished_recv(1, 0, 0.0, 0.5)]
    path = critical_path(events)
    assert [(part.kind, part.name) for part in path[-1:]] == [("wait", "Recv of edge 0")]
    assert sum(part.seconds for part in path) == pytest.approx(0.5)


def test_a_value_that_has_not_come_has_no_arrow() -> None:
    sent = ends_of(1, 1, 0, 0.1, 0.2)[0]
    late = unfinished_recv(0, 1, 0.0, 0.5)
    rows = json.loads(timeline([late, sent]))["traceEvents"]
    assert [row for row in rows if row["ph"] in ("s", "f")] == []
    path = critical_path([sent, late])
    assert (path[-1].kind, path[-1].name) == ("wait", f"Recv of edge 1 from {PLACE.format(1)}")


def test_a_wait_before_a_member_of_a_block_leads_to_the_send() -> None:
    """Members of blocks do not say when their inputs came: the wait before them does, and what ended it."""
    sent, received = ends_of(1, 0, 1, 0.020, 0.025)
    events = [
        event("kernel", "slow", 0, 0.001, 0.020, ready=0.0),
        sent,
        received,
        event("wait", "Recv of edge 1", 1, 0.002, 0.0255, op="wait", thread=""),
        event("node", "member", 1, 0.0255, 0.030, detail={"block": "_region/0"}),
    ]
    path = critical_path(events)
    assert [(part.kind, part.name) for part in path] == [
        ("queued", "slow"),
        ("work", "slow"),
        ("work", "send 1"),
        ("wait", f"Recv of edge 1 from {PLACE.format(0)}"),
        ("work", "member"),
    ]
    assert sum(part.seconds for part in path) == pytest.approx(0.030)


def test_a_dequeue_that_ended_a_wait_is_what_was_waited_for() -> None:
    """The Recv came earlier: the step went on waiting."""
    sent, received = ends_of(1, 0, 1, 0.002, 0.004)
    events = [
        sent,
        received,
        event("wait", "queue 'q'; Recv of edge 1", 1, 0.001, 0.0200, op="wait", thread=""),
        event("async", "take", 1, 0.001, 0.0199, thread="", detail={"waits_for": "queue 'q'"}),
        event("node", "member", 1, 0.0200, 0.030, detail={"block": "_region/0"}),
    ]
    path = critical_path(events)
    assert [(part.kind, part.name, part.device[-14]) for part in path[-2:]] == [
        ("wait", "queue 'q'; Recv of edge 1", "1"),
        ("work", "member", "1"),
    ]


def test_blocks_of_one_name_at_two_tasks_are_two() -> None:
    """Each task numbers its blocks from 0, and each has a thread "main"."""
    events = [
        event("block", "_region/0", 0, 0.0, 0.010),
        event("node", "a", 0, 0.001, 0.009, detail={"block": "_region/0"}),
        event("block", "_region/0", 1, 0.0, 0.010),
    ]
    assert [each.device[-14] for each in undivided(events)] == ["0", "1"]


def test_the_tasks_of_a_timeline_are_read_back() -> None:
    trace = JointTrace(0.0, 10)
    for task, offset in enumerate((0.25, -3.0)):
        found = [event("kernel", "a", task, number, number + 1) for number in range(task + 1)]
        trace.add(f"/job:worker/task:{task}", f"failed: {task}", ClockOffset(offset, 0.001), 0, found)
    text = timeline(trace.events(), 0, trace.tasks)
    assert read_tasks(text) == trace.tasks
    assert [part.events for part in read_tasks(text).values()] == [1, 2]


def test_more_events_than_there_is_room_for_are_counted() -> None:
    trace = JointTrace(0.0, 3)
    for task in range(2):
        found = [event("kernel", "a", task, number, number + 1) for number in range(2)]
        trace.add(PLACE.format(task), "ended", ClockOffset(0, 0), 0, found, dropped=5)
    assert trace.dropped == 11
    assert len(trace.events()) == 3
    assert trace.dropped == 11


def test_a_line_that_only_the_task_knows_stays() -> None:
    trace = JointTrace(0.0, 9, lambda name, op: f"client.py:{op}" if name == "known" else "")
    found = [event("kernel", name, 0, 0.0, 1.0, line="task.py:1") for name in ("known", "of a dataset")]
    trace.add(PLACE.format(0), "ended", ClockOffset(0, 0), 0, found)
    assert {each.name: each.line for each in trace.events()} == {
        "known": "client.py:Neg",
        "of a dataset": "task.py:1",
    }


def test_the_start_of_a_joint_trace_is_the_earliest_of_the_step_and_its_events() -> None:
    trace = JointTrace(5.0, 9)
    trace.add(PLACE.format(0), "ended", ClockOffset(100.0, 0), 107.0, [event("kernel", "a", 0, 0.5, 1.0)])
    assert [(each.began, each.ended) for each in trace.events()] == [(2.5, 3.0)]
    assert trace.began == 5.0
