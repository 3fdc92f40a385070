"""Sessions with several devices: constraints are obeyed when steps run, state stays, costs are measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName
from flowengine.devices.device import LOCAL_TASK
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.load import registry
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.context import PassContext
from flowengine.passes.place.colocate import colocate
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.place import Placement
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.measuring import MEASURED_STEPS, Measure, PlacementMeasurement
from flowengine.runtime.planning.placing import SessionPlacer
from flowengine.testing.reference import evaluate
from flowengine.testing.strategies import GraphCase, graphs
from tests.effort import examples


class Watching(KernelRegistry):
    """Kernels that note on which device they ran: {node name: devices}."""

    def __init__(self) -> None:
        super().__init__(parent=registry("numpy"))
        self._source = registry("numpy")
        self.ran: dict[str, set[str]] = {}

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        return self._source.candidates(op, device)

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        kernel = self._source.find(node, device)
        if kernel.is_async or node.op.startswith("_"):
            return kernel

        def call(*values: Any, ctx: Any, **keywords: Any) -> Any:
            self.ran.setdefault(node.name, set()).add(ctx.device)
            if kernel.takes_context:
                keywords["ctx"] = ctx
            return kernel.function(*values, **keywords)

        return replace(kernel, function=call, takes_context=True, inline=None, nowait=None)


DEMANDS = st.sampled_from(["", "", "/cpu:0", "/device:CPU:1", "/device:CPU:2", "/device:CPU:*", LOCAL_TASK])


@st.composite
def constrained(draw: st.DrawFn) -> tuple[GraphCase, dict[str, str]]:
    """A graph with random constraints that can be met: one for each group of what must be together."""
    case = draw(graphs())
    groups = colocate(case.graph)
    by_group: dict[int, str] = {}
    asked: dict[str, str] = {}
    for index, name in enumerate(groups.names):
        group = groups.find(index)
        if group not in by_group:
            by_group[group] = draw(DEMANDS)
        asked[name] = by_group[group]
    nodes = [replace(node, device=asked[node.name]) for node in case.graph]
    graph = fe.Graph()
    for node in nodes:
        graph.add(node)
    graph.library = case.graph.library
    return replace(case, graph=graph), asked


@settings(max_examples=examples(50))
@given(constrained())
def test_random_constraints_are_obeyed_and_values_stay(drawn: tuple[GraphCase, dict[str, str]]) -> None:
    case, asked = drawn
    kernels = Watching()

    async def play() -> list[list[Any]]:
        config = fe.Config(device_count={"CPU": 3}, compile_hot_plans=False)
        async with fe.Session(case.graph, config=config, kernels=kernels) as session:
            with trio.fail_after(120):
                await session.run([], targets=case.setup)
                return [
                    list(await session.run(list(fetches), feeds, targets=case.targets))
                    for fetches, feeds in case.runs
                ]

    got = trio.run(play)
    for name, devices in kernels.ran.items():
        demand = DeviceName.parse(asked.get(name, ""))
        assert all(demand.matches(DeviceName.parse(device)) for device in devices), name
    resources = ResourceManager()
    evaluate(case.graph, [], {}, case.setup, resources=resources)
    for (fetches, feeds), have in zip(case.runs, got, strict=True):
        want = evaluate(case.graph, fetches, feeds, case.targets, resources=resources)
        for a, b in zip(have, want, strict=True):
            np.testing.assert_array_equal(to_array(a), to_array(b))


# -- state, demands, logs -------------------------------------------------------------------------------


def counting() -> fe.Graph:
    """`init` sets v and w, `step` adds to both, `sum` reads both; w is on CPU:2 by demand."""
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[4], dtype="float32", name="v")
    with g.device("/cpu:2"):
        w = g.ops.VariableV2(shape=[4], dtype="float32", name="w")
    inits = [g.ops.Assign(v, np.zeros(4, "f")), g.ops.Assign(w, np.zeros(4, "f"))]
    with g.control_dependencies([each.op for each in inits]):
        g.ops.NoOp(name="init")
    steps = [g.ops.AssignAdd(v, np.ones(4, "f")), g.ops.AssignAdd(w, np.full(4, 2.0, "f"))]
    with g.control_dependencies([each.op for each in steps]):
        g.ops.NoOp(name="step")
    g.ops.Add(v, w, name="sum")
    return g


async def test_state_stays_where_it_is() -> None:
    g = counting()
    kernels = Watching()
    config = fe.Config(device_count={"CPU": 3}, compile_hot_plans=False)
    async with fe.Session(g, config=config, kernels=kernels) as session:
        await session.run([], targets=["init"])
        for _ in range(6):
            await session.run([], targets=["step"])
        assert (await session.run("sum:0")).tolist() == [18.0] * 4
    assert kernels.ran["w"] == {f"{LOCAL_TASK}/device:CPU:2"}
    assert len(kernels.ran["v"]) == 1
    assert kernels.ran["AssignAdd"] == kernels.ran["v"]
    assert kernels.ran["AssignAdd_1"] == kernels.ran["w"]


async def test_what_one_step_keeps_has_no_home() -> None:
    """A stack or TensorArray begins anew in each step: where it was in the last one binds nothing."""
    g = counting()
    with g.control_dependencies(["step"]):
        stack = g.ops.StackV2(-1, elem_type="float32")
        pushed = g.ops.StackPushV2(stack, g.constant(2.0))
        with g.control_dependencies([pushed]):
            g.ops.StackPopV2(stack, elem_type="float32", name="popped")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 3})) as session:
        await session.run([], targets=["init"])
        assert await session.run("popped:0") == 2.0
        assert isinstance(session._placer, SessionPlacer)
        assert session._placer.placer.homes.keys() == {"v", "w"}


async def test_what_is_impossible_in_a_part_that_never_runs_is_no_matter() -> None:
    g = counting()
    with g.device("/device:GPU:0"):
        g.ops.Exp(g.tensor("sum:0"), name="never")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 3})) as session:
        await session.run([], targets=["init"])
        assert (await session.run("sum:0")).tolist() == [0.0] * 4
        with pytest.raises(InvalidArgumentError, match="'never' asks for /device:GPU:0"):
            await session.run("never:0")


async def test_one_device_is_soft_unless_told_otherwise() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/device:GPU:0"):
        g.ops.Neg(x, name="y")
    async with fe.Session(g) as session:
        assert await session.run("y:0", {"x:0": 1.0}) == -1
    async with fe.Session(g, config=fe.Config(allow_soft_placement=False)) as session:
        with pytest.raises(InvalidArgumentError, match="'y' asks for /device:GPU:0"):
            await session.run("y:0", {"x:0": 1.0})
    soft = fe.Config(device_count={"CPU": 2}, allow_soft_placement=True)
    async with fe.Session(g, config=soft) as session:
        assert await session.run("y:0", {"x:0": 1.0}) == -1


async def test_rules_come_before_what_the_graph_asks(caplog: pytest.LogCaptureFixture) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/cpu:1"):
        a = g.ops.Neg(x, name="tower/a")
    b = g.ops.Neg(a, name="tower/b")
    g.ops.Neg(b, name="c")
    config = fe.Config(
        device_count={"CPU": 3},
        place={"tower/*": "CPU:2", "*/b": "/cpu:0", "c": "@tower/a"},
        log_device_placement=True,
    )
    with caplog.at_level(logging.INFO, "flowengine.placement"):
        async with fe.Session(g, config=config) as session:
            assert await session.run("c:0", {"x:0": 1.0}) == -1
            report = session.explain("c:0", ["x:0"], placement=True)
    lines = [record.getMessage() for record in caplog.records]
    assert f"tower/a: (Neg): {LOCAL_TASK}/device:CPU:2" in lines
    assert f"tower/b: (Neg): {LOCAL_TASK}/device:CPU:0" in lines
    assert f"c: (Neg): {LOCAL_TASK}/device:CPU:2" in lines
    assert "c (Neg): is asked to be with 'tower/a'" in report


async def test_a_rule_that_names_nobody() -> None:
    g = fe.Graph()
    g.ops.Neg(1.0, name="y")
    with pytest.raises(InvalidArgumentError, match="names no node"):
        fe.Session(g, config=fe.Config(place={"y": "@"}))
    async with fe.Session(g, config=fe.Config(place={"y": "@nobody"})) as session:
        with pytest.raises(InvalidArgumentError, match="no node of that name"):
            await session.run("y:0")


async def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_DEVICE_COUNT", "CPU=2")
    monkeypatch.setenv("FLOWENGINE_PLACE", "y=CPU:1")
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Neg(x, name="y")
    kernels = Watching()
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False), kernels=kernels) as session:
        await session.run("y:0", {"x:0": 1.0})
    assert kernels.ran == {"y": {f"{LOCAL_TASK}/device:CPU:1"}}


# -- measuring ------------------------------------------------------------------------------------------


async def test_the_first_steps_are_measured_and_then_no_more() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [64, 64], name="x")
    g.ops.AddV2(g.ops.MatMul(x, x, name="a"), g.ops.Tanh(x, name="b"), name="y")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        feed = {"x:0": np.eye(64, dtype="f")}
        want = np.eye(64) + np.tanh(np.eye(64))
        for step in range(12):
            np.testing.assert_allclose(await session.run("y:0", feed), want, rtol=1e-6)
            if step == 0:
                assert not len(session.costs)  # the first step is no measure
        cost = session.costs.nodes["a"]
        assert cost.output_bytes == (64 * 64 * 4,)
        assert cost.iterations == 1
        version = session.costs.version
        for _ in range(5):
            await session.run("y:0", feed)
        assert session.costs.version == version


async def test_without_measuring_nothing_is_recorded() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    g.ops.Neg(x, name="y")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2}, measure_costs=False)) as session:
        for _ in range(5):
            await session.run("y:0", {"x:0": [1.0] * 4})
        assert not len(session.costs)


async def test_steps_at_the_same_time_and_steps_that_fail_do_not_count() -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [2], name="x")
    y = g.placeholder("int32", [2], name="y")
    g.ops.Add(g.ops.Neg(x, name="n"), g.ops.Div(x, y, name="q"), name="z")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        await session.run("z:0", {"x:0": [1, 2], "y:0": [1, 1]})
        for _ in range(4):
            with pytest.raises(InvalidArgumentError):
                await session.run("z:0", {"x:0": [1, 2], "y:0": [0, 1]})
        assert not len(session.costs)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(session.run, "z:0", {"x:0": [1, 2], "y:0": [1, 1]})
        await session.run("z:0", {"x:0": [1, 2], "y:0": [1, 1]})
        assert all(cost.iterations == 1 for cost in session.costs.nodes.values())


class FakePlacer:
    """Stands in for a session's placer: gives what a test says, in turn."""

    def __init__(
        self,
        placements: Sequence[tuple[str, float, float]],
        untried: Sequence[int | None],
        together: str | None = None,
    ) -> None:
        self._together = together
        self.kept_together = False
        self._placements = iter(placements)
        self._untried: Iterator[int | None] = iter(untried)
        self.costs = CostModel()
        self.placer = self
        self.trials: list[int | None] = []

    def untried(self, graph: NodeGraph) -> int | None:
        return next(self._untried)

    def together(
        self, graph: NodeGraph, context: PassContext, placement: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        return None if self._together is None else {"n": self._together}

    def keep_together(self, context: PassContext) -> None:
        self.kept_together = True

    def place(
        self,
        graph: NodeGraph,
        context: PassContext,
        *,
        present: Mapping[str, str] | None = None,
        trial: int | None = None,
    ) -> Placement:
        self.trials.append(trial)
        device, makespan, before = next(self._placements)
        return Placement({"n": device}, {}, {}, frozenset(), True, makespan, before, {})


def steps(measuring: PlacementMeasurement[tuple[str, bool]], count: int) -> list[tuple[str, bool]]:
    ran = []
    for _ in range(count):
        plan = measuring.begin()
        measuring.end(plan, succeeded=True)
        ran.append(plan)
    return ran


def measuring_with(placer: FakePlacer) -> PlacementMeasurement[tuple[str, bool]]:
    def build(placement: Mapping[str, str], measure: Measure | None) -> tuple[str, bool]:
        return placement["n"], measure is not None

    given: Any = placer
    real: SessionPlacer = given
    make: Callable[[Mapping[str, str], Measure | None], tuple[str, bool]] = build
    return PlacementMeasurement(
        NodeGraph([Node("n", "NoOp")]), PassContext(), real, {"n": "A"}, ("A", False), make
    )


def test_what_promises_enough_is_taken_and_measured_again() -> None:
    placer = FakePlacer([("B", 50.0, 100.0), ("C", 49.0, 50.0)], [None, None])
    measuring = measuring_with(placer)
    ran = steps(measuring, 2 * MEASURED_STEPS + 3)
    assert ran[: 1 + MEASURED_STEPS] == [("A", False), *[("A", True)] * MEASURED_STEPS]
    assert ran[1 + MEASURED_STEPS :] == [*[("B", True)] * MEASURED_STEPS, ("B", False), ("B", False)]
    assert measuring.done


def test_a_kind_of_device_that_nothing_ran_on_is_tried_once() -> None:
    placer = FakePlacer([("B", 0.0, 0.0), ("B", 40.0, 100.0), ("B", 40.0, 40.0)], [1, 1, None])
    measuring = measuring_with(placer)
    steps(measuring, 12)
    assert placer.trials == [1, None, None]
    assert measuring.plan == ("B", False)


@pytest.mark.parametrize(("seconds", "kept"), [(0.9, True), (0.99, False), (2.0, False)])
def test_what_shares_a_host_is_run_together_if_the_clock_says_so(seconds: float, kept: bool) -> None:
    placer = FakePlacer([("B", 50.0, 100.0), ("B", 50.0, 50.0)], [None, None], together="one")
    measuring = measuring_with(placer)
    while not measuring.done:
        plan = measuring.begin()
        measuring.end(plan, succeeded=True, seconds=seconds if plan[0] == "one" else 1.0)
    assert measuring.plan == ("one" if kept else "B", False)
    assert placer.kept_together == kept


async def test_small_nodes_on_one_host_end_on_one_device() -> None:
    """In the simulation two lanes of small nodes gain by a second CPU; on one event loop they do not."""
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    lanes = []
    for _ in range(2):
        y = x
        for _ in range(150):
            y = g.ops.Neg(y)
        lanes.append(y)
    g.ops.AddV2(*lanes, name="y")
    config = fe.Config(device_count={"CPU": 2}, compile_hot_plans=False, merge_common_subexpressions=False)
    async with fe.Session(g, config=config) as session:
        assert "CPU:1" in session.explain("y:0", ["x:0"], placement=True)
        for _ in range(16):
            assert (await session.run("y:0", {"x:0": [1.0] * 4})).tolist() == [2.0] * 4
        report = session.explain("y:0", ["x:0"], placement=True)
    if "CPU:1" not in report:  # unless this machine was busy with something else just then
        assert "measured: the step ends sooner on one device of the host" in report


def test_measuring_ends() -> None:
    endless = [(name, 1.0, 100.0) for name in "BCDEFGHIJK"]
    measuring = measuring_with(FakePlacer(endless, [None] * 10))
    ran = steps(measuring, 40)
    assert ran[-1] == ran[-10]
    assert not ran[-1][1]
