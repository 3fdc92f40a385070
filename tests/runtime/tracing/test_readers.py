"""The readers of a trace: the timeline, the profile, the critical path, TensorFlow's form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import errors
from flowengine.ir.proto.step_stats_pb2 import RunMetadata as StepStatsProto
from flowengine.runtime.tracing.critical_path import critical_path
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.profile import profile_of, undivided
from flowengine.runtime.tracing.step_stats import step_stats
from flowengine.runtime.tracing.timeline import read_timeline, timeline

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def event(kind: str, name: str, began: float, ended: float, **rest: Any) -> TraceEvent:
    rest = {"op": "Neg", "device": DEVICE, "thread": "main", **rest}
    return TraceEvent(kind=kind, name=name, began=began, ended=ended, **rest)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceEvent]:
    """Turns on two threads with kernels in them, and waits that overlap freely."""
    found = []
    for thread in ("main", "flowengine-0"):
        now = 0.0
        for turn in range(draw(st.integers(0, 3))):
            began = now = now + draw(st.integers(0, 5)) * 1e-3
            for number in range(draw(st.integers(0, 4))):
                before = now + draw(st.integers(0, 2)) * 1e-3
                now = before + draw(st.integers(1, 4)) * 1e-3
                queued = draw(st.none() | st.integers(0, 9))
                ready = None if queued is None else max(0.0, before - queued * 1e-3)
                name = f"{thread}/{turn}/{number}"
                found.append(event("kernel", name, before, now, thread=thread, ready=ready))
            found.append(event("turn", "turn", began, now, op="turn", thread=thread))
    for number in range(draw(st.integers(0, 4))):
        began = draw(st.integers(0, 20)) * 1e-3
        ended = began + draw(st.integers(1, 9)) * 1e-3
        found.append(event("wait", f"reason {number}", began, ended, op="wait", thread=""))
    return sorted(found, key=lambda each: (each.began, -each.ended))


@given(traces())
def test_slices_of_a_track_nest(events: list[TraceEvent]) -> None:
    rows = [row for row in json.loads(timeline(events))["traceEvents"] if row["ph"] == "X"]
    assert len(rows) == len(events)
    around: dict[Any, list[float]] = {}
    for row in rows:
        ends = around.setdefault((row["pid"], row["tid"]), [])
        while ends and ends[-1] <= row["ts"] + 1e-6:
            ends.pop()
        assert not ends or row["ts"] + row["dur"] <= ends[-1] + 1e-3
        ends.append(row["ts"] + row["dur"])


@given(traces())
def test_a_timeline_is_read_back(events: list[TraceEvent]) -> None:
    again = read_timeline(timeline(events))
    # Times are rounded to a nanosecond, so that events of one moment may change places.
    mine_by_name = sorted(events, key=lambda each: (each.kind, each.name, each.thread, each.began))
    again.sort(key=lambda each: (each.kind, each.name, each.thread, each.began))
    for mine, theirs in zip(mine_by_name, again, strict=True):
        assert (theirs.kind, theirs.name, theirs.op) == (mine.kind, mine.name, mine.op)
        assert theirs.device == mine.device
        assert theirs.began == pytest.approx(mine.began, abs=1e-8)
        assert theirs.seconds == pytest.approx(mine.seconds, abs=1e-8)
        assert theirs.queued == pytest.approx(mine.queued, abs=1e-8)


@given(traces())
def test_the_critical_path_has_no_gap(events: list[TraceEvent]) -> None:
    end = max((each.ended for each in events), default=0.0)
    path = critical_path(events)
    assert sum(link.seconds for link in path) == pytest.approx(end, abs=1e-6)
    now = 0.0
    for link in path:
        assert link.began == pytest.approx(now, abs=1e-6)
        now = link.ended


def test_the_critical_path_goes_by_last_inputs() -> None:
    events = [
        event("kernel", "a", 0.000, 0.010),
        event("kernel", "aside", 0.000, 0.004, thread="flowengine-0"),
        event("kernel", "b", 0.012, 0.020, ready=0.010),
        event("kernel", "other", 0.010, 0.012, ready=0.004),
    ]
    path = critical_path(events)
    assert [(link.kind, link.name) for link in path] == [("work", "a"), ("queued", "b"), ("work", "b")]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"traceEvents": 3}', '{"traceEvents": [{"ph": "X"}]}', "\xff"]
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no timeline of a step"):
        read_timeline(text)


def test_arrows_go_from_each_send_to_its_recv() -> None:
    """One tensor goes to two devices in each iteration; the Recvs come in another order."""
    others = [DEVICE[:-1] + "1", DEVICE[:-1] + "2"]
    events = []
    for number in (2, 0, 1):
        tag = (("loop", number),)
        for place, other in enumerate(others):
            detail = {"edge": "x:0", "to": other}
            at = 0.01 * number + 0.001 * place
            events.append(event("send", "s", at, at + 0.0005, tag=tag, detail=detail))
            events.append(
                event("recv", "r", 0.0, at + 0.005, tag=tag, detail=detail, device=other, thread="")
            )
    events.sort(key=lambda each: (each.began, -each.ended))
    rows = json.loads(timeline(events))["traceEvents"]
    starts = {row["id"]: row for row in rows if row["ph"] == "s"}
    ends = {row["id"]: row for row in rows if row["ph"] == "f"}
    assert len(starts) == len(ends) == 6
    for number, row in starts.items():
        assert ends[number]["ts"] - row["ts"] == pytest.approx(5000)
        assert ends[number]["pid"] == row["pid"]
        assert ends[number]["tid"] != row["tid"]


def test_a_tensor_that_is_sent_again_has_an_arrow_of_its_own() -> None:
    """Two calls of a function send along one edge, outside of any loop."""
    other = DEVICE[:-1] + "1"
    detail = {"edge": "x:0", "to": other}
    events = []
    for at in (0.0, 0.010):
        events.append(event("send", "s", at, at + 0.001, detail=detail))
        events.append(event("recv", "r", at + 0.002, at + 0.005, detail=detail, device=other, thread=""))
    rows = json.loads(timeline(events))["traceEvents"]
    assert [row["ts"] for row in rows if row["ph"] == "s"] == [0.0, 10_000.0]
    assert [row["ts"] for row in rows if row["ph"] == "f"] == [5000.0, 15_000.0]


def test_every_process_and_track_has_a_title() -> None:
    """Planning has no thread, and a step that was never admitted no device."""
    events = [event("plan", "planning", 0.0, 0.1, thread=""), event("wait", "admission", 0.0, 0.1, device="")]
    rows = json.loads(timeline(events))["traceEvents"]
    titles = {(row["name"], row["args"]["name"]) for row in rows if row["ph"] == "M"}
    assert titles == {
        ("process_name", "job:localhost replica:0 task:0"),
        ("process_name", "step"),
        ("thread_name", "CPU:0 step"),
        ("thread_name", "waits"),
    }


@pytest.mark.parametrize("began", [0.0, 0.002, 0.003, 0.004])
def test_an_arrow_leads_to_what_begins_after_its_send(began: float) -> None:
    """Perfetto turns an arrow round whose target begins before its source."""
    other = DEVICE[:-1] + "1"
    detail = {"edge": "x:0", "to": other}
    events = [
        event("send", "s", 0.003, 0.008, detail=detail),
        event("recv", "r", began, 0.006, detail=detail, device=other, thread=""),
    ]
    rows = json.loads(timeline(events))["traceEvents"]
    (start,) = (row for row in rows if row["ph"] == "s")
    (end,) = (row for row in rows if row["ph"] == "f")
    track = [row for row in rows if row["ph"] == "X" and (row["pid"], row["tid"]) == (end["pid"], end["tid"])]
    # Of the slices around a time Perfetto takes the innermost.
    target = max((row for row in track if row["ts"] + row["dur"] >= end["ts"]), key=lambda row: row["ts"])
    assert start["ts"] < target["ts"] <= end["ts"]
    assert [each.kind for each in read_timeline(json.dumps({"traceEvents": rows}))].count("recv") == 1


def test_a_process_has_a_name_that_perfetto_shows_whole() -> None:
    """It shows only what follows the last slash, which is the same on every task."""
    rows = json.loads(timeline([event("kernel", "a", 0.0, 0.1)]))["traceEvents"]
    (name,) = (row["args"]["name"] for row in rows if row["name"] == "process_name")
    assert name == "job:localhost replica:0 task:0"


def test_a_process_is_a_task_with_tracks_of_each_device() -> None:
    tasks = ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"]
    devices = [f"{task}/device:CPU:{number}" for task in tasks for number in range(2)]
    events = [event("kernel", device, 0.0, 0.1, device=device, thread="main") for device in devices]
    rows = json.loads(timeline(events))["traceEvents"]
    processes = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    tracks = {(row["pid"], row["tid"]): row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    places = [(row["name"], row["pid"], row["tid"]) for row in rows if row["ph"] == "X"]
    assert [(name, processes[pid], tracks[pid, tid]) for name, pid, tid in places] == [
        (device, f"job:ps replica:0 task:{number // 2}", f"CPU:{number % 2} main")
        for number, device in enumerate(devices)
    ]
    assert [each.device for each in read_timeline(json.dumps({"traceEvents": rows}))] == devices


def test_what_an_item_waited_for_is_no_queueing() -> None:
    events = [
        event("kernel", "a", 0.000, 0.010),
        event("wait", "variable 'v'", 0.012, 0.020, op="wait", detail={"node": "b"}),
        event("wait", "lane: 'c'", 0.013, 0.022, op="wait", detail={"node": "c"}),
        event("wait", "turn of other work", 0.021, 0.024, op="wait"),
        event("kernel", "b", 0.025, 0.030, ready=0.010),
    ]
    path = [(part.kind, part.name, round(part.began, 6)) for part in critical_path(events)]
    assert path == [
        ("work", "a", 0.0),
        ("queued", "b", 0.01),
        ("wait", "variable 'v'", 0.012),
        ("queued", "b", 0.02),
        ("wait", "turn of other work", 0.021),
        ("queued", "b", 0.024),
        ("work", "b", 0.025),
    ]


def test_a_call_of_a_block_without_members_counts_itself() -> None:
    events = [
        event("block", "b", 0.0, 0.01, op="block"),
        event("node", "x", 0.0, 0.004, op="Tanh", detail={"block": "b"}),
        event("block", "b", 0.02, 0.03, op="block"),
    ]
    assert [(each.kind, each.began) for each in undivided(events)] == [("node", 0.0), ("block", 0.02)]


def test_a_block_without_members_counts_beside_one_with_them_on_another_thread() -> None:
    events = [
        event("block", "b", 0.0, 0.01, op="block"),
        event("block", "b", 0.0, 0.01, op="block", thread="flowengine-0"),
        event("node", "x", 0.0, 0.004, op="Tanh", detail={"block": "b"}),
    ]
    assert [(each.kind, each.thread) for each in undivided(events)] == [
        ("block", "flowengine-0"),
        ("node", "main"),
    ]


@given(st.floats(0, 10), st.floats(0, 1e-3), st.floats(0, 1e-3))
def test_a_rounded_slice_does_not_outlast_its_parent(began: float, more: float, rest: float) -> None:
    inner = event("kernel", "inner", began + more, began + more + rest)
    outer = event("turn", "outer", began, inner.ended, op="turn")
    rows = {row["name"]: row for row in json.loads(timeline([outer, inner]))["traceEvents"]}
    ends = {name: round(rows[name]["ts"] + rows[name]["dur"], 3) for name in ("inner", "outer")}
    assert ends["inner"] <= ends["outer"]
    assert rows["outer"]["ts"] <= rows["inner"]["ts"]


def test_members_count_instead_of_their_block() -> None:
    events = [
        event("block", "b", 0.0, 0.01, op="block", members=("x", "s/y")),
        event("node", "x", 0.0, 0.004, op="Tanh", detail={"block": "b"}),
        event("node", "s/y", 0.004, 0.006, op="Neg", detail={"block": "b"}),
        event("kernel", "s/z", 0.01, 0.02, op="Neg", outputs=(("float32", (2,), 8),), line="a.py:3"),
        event("turn", "turn", 0.0, 0.02, op="turn"),
        event("wait", "q", 0.0, 0.02, op="wait"),
    ]
    assert [each.name for each in undivided(events)] == ["x", "s/y", "s/z"]
    by_op = profile_of(events, "op")
    assert [(each.name, round(each.seconds, 6), each.calls) for each in by_op.entries] == [
        ("Neg", 0.012, 2),
        ("Tanh", 0.004, 1),
    ]
    assert sum(each.share for each in by_op.entries) == pytest.approx(1)
    assert [each.name for each in profile_of(events, "scope").entries] == ["s", "(no scope)"]
    assert [each.name for each in profile_of(events, "line").entries] == ["a.py:3", "(not known)"]
    assert profile_of(events, "node").entries[0].bytes == 8
    assert str(by_op).splitlines()[1].split() == ["12.000", "ms", "75.0%", "2", "8", "Neg"]
    with pytest.raises(errors.InvalidArgumentError, match="by is 'colour'"):
        profile_of(events, "colour")  # type: ignore[arg-type]


def test_an_empty_profile_prints_its_head() -> None:
    assert str(profile_of([], "op")).split() == ["time", "share", "calls", "bytes", "op"]


def test_tensorflows_form_has_each_node_with_a_shape() -> None:
    events = [
        event("kernel", "y", 0.001, 0.003, ready=0.0005, outputs=(("float32", (2, 3), 24),)),
        event("kernel", "claimed", 0.003, 0.005, members=("p", "q")),
        event("kernel", "odd", 0.005, 0.005, outputs=(("no such type", (), 1),)),
        event("kernel", "switch", 0.006, 0.007, outputs=(None, ("int32", (), 4))),
        event("kernel", "q2", 0.007, 0.008, members=("p2", "q2"), outputs=(("int32", (5,), 20),)),
        event("call", "function", 0.008, 0.009, op="PartitionedCall", thread=""),
        event("wait", "q", 0.0, 0.02, op="wait"),
    ]
    found = StepStatsProto.FromString(step_stats(events, 1000.0).SerializeToString())
    (device,) = found.step_stats.dev_stats
    assert device.device == DEVICE
    nodes = {node.node_name: node for node in device.node_stats}
    assert sorted(nodes) == ["function", "odd", "p", "p2", "q", "q2", "switch", "y"]
    assert [each.slot for each in nodes["switch"].output] == [1]
    assert [dim.size for dim in nodes["q2"].output[0].tensor_description.shape.dim] == [5]
    assert not nodes["p2"].output[0].tensor_description.shape.dim
    assert nodes["y"].all_start_micros == 1_000_001_000
    assert nodes["y"].scheduled_micros == 1_000_000_500
    assert nodes["y"].all_end_rel_micros == 2000
    assert nodes["y"].timeline_label == "y = Neg()"
    (output,) = nodes["y"].output
    assert [dim.size for dim in output.tensor_description.shape.dim] == [2, 3]
    assert output.tensor_description.dtype == 1
    assert nodes["p"].all_end_rel_micros == nodes["q"].all_end_rel_micros == 1000
    for node in nodes.values():
        assert node.all_end_rel_micros >= 1
        assert all(each.tensor_description.HasField("shape") for each in node.output)


async def test_every_reader_of_a_real_step() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.Tanh(g.ops.Neg(x, name="layer/neg"), name="layer/y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        for _ in range(6):
            metadata = fe.RunMetadata()
            options = fe.RunOptions(trace="nodes")
            await session.run("layer/y:0", {"x:0": [1.0, 2.0]}, options=options, run_metadata=metadata)
    assert {each.name for each in metadata.profile("op").entries} == {"Neg", "Tanh"}
    assert [each.name for each in metadata.profile("scope").entries] == ["layer"]
    assert all(__file__ in each.name for each in metadata.profile("line").entries)
    proto = StepStatsProto.FromString(metadata.step_stats())
    assert {node.node_name for each in proto.step_stats.dev_stats for node in each.node_stats} == {
        "layer/neg",
        "layer/y",
    }
    assert "Tanh" in metadata._repr_html_()
    path = critical_path(read_timeline(metadata.timeline()))
    assert {link.name for link in path if link.kind == "work"} == {"layer/neg", "layer/y"}
