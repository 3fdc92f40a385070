"""Costs: estimates from shapes, measurements that correct them, and their file."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine.kernels.load
from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.core.names import DeviceName
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.passes.place.calibrate import calibrate
from flowengine.passes.place.costs import SAMPLES_MAX, CostModel
from flowengine.passes.place.device_profiles import EvenLinks, Offer, UsualLinks, cpu_offers
from flowengine.passes.place.estimates import USUAL_DIMENSION, Estimator, bytes_of
from flowengine.passes.place.placer import runs_rarely
from flowengine.passes.place.problem_graph import problem_of

KERNELS = flowengine.kernels.load.load_all()


def names(offers: Sequence[Offer]) -> list[str]:
    return [str(offer.name) for offer in offers]


def test_a_product_costs_by_its_multiplications() -> None:
    g = Graph()
    small = g.ops.MatMul(g.placeholder("float32", [64, 64]), g.placeholder("float32", [64, 64]), name="small")
    large = g.ops.MatMul(g.placeholder("float32", [640, 640]), g.placeholder("float32", [640, 640]))
    view = g.ops.Reshape(large, [-1])
    estimator = Estimator(g, KERNELS)
    costs = [estimator.microseconds(g[each.port.node]) for each in (view, small, large)]
    assert costs[0] < costs[1] < costs[2]
    assert costs[2] > 100 * costs[1]
    assert estimator.output_bytes(g[large.port.node]) == (640 * 640 * 4,)


def test_memory_is_shared_by_the_cpus_of_a_task_however_they_are_written() -> None:
    links = UsualLinks()
    here, there = (
        Offer(DeviceName("worker", 0, 0).merge_with(DeviceName.parse(text)))
        for text in ("/cpu:0", "/device:CPU:1")
    )
    assert links.bandwidth(here, there) == math.inf
    card = Offer(DeviceName("worker", 0, 0).merge_with(DeviceName.parse("/gpu:0")))
    away = Offer(DeviceName("worker", 0, 1).merge_with(DeviceName.parse("/cpu:0")))
    assert math.inf > links.bandwidth(here, card) > links.bandwidth(here, away) > 0
    assert links.latency(here, there) < links.latency(here, card) < links.latency(here, away)


def test_what_only_leads_to_bookkeeping_runs_rarely_however_far_before_it() -> None:
    g = Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[2], name="v")
    start = g.ops.Neg(g.placeholder("float32", [2], name="x"), name="start")
    doubled = g.ops.Add(start, start, name="doubled")
    g.ops.Assign(v, g.ops.Exp(doubled, name="value"), name="assign")
    g.ops.Neg(v, name="step")
    g.ops.Neg(g.tensor("x:0"), name="other")
    assert runs_rarely(g) == {"start", "doubled", "value", "assign"}


def test_an_unknown_dimension_is_as_it_usually_is() -> None:
    g = Graph()
    x = g.placeholder("float32", [None, 10], name="x")
    estimator = Estimator(g, KERNELS)
    assert estimator.output_bytes(g["x"]) == (USUAL_DIMENSION * 10 * 4,)
    assert bytes_of(TensorShape(None), x.dtype) > 0


def test_every_op_that_can_run_here_has_an_estimate_of_its_inputs() -> None:
    """Whatever a kernel's own estimate stumbles over, there is one."""
    g = Graph()
    for shape in (None, [], [None], [3, None], [2, 3, 4, 5]):
        x = g.placeholder("float32", shape)
        y = g.placeholder("int32", shape)
        g.ops.Exp(x)
        if shape != []:
            g.ops.Gather(x, y)
        if shape is None or len(shape) == 1:
            g.ops.Sum(x, y)
            g.ops.Fill(y, 1.0)
            g.ops.Tile(x, y)
        g.ops.Range(0, g.placeholder("int32", []), 1)
    estimator = Estimator(g, KERNELS)
    assert all(0 <= estimator.microseconds(node) < math.inf for node in g)


def test_what_is_in_a_loop_costs_more() -> None:
    g = Graph()
    entered = g.ops.Enter(g.constant(1.0), frame_name="loop", name="enter")
    g.ops.Neg(entered, name="inside")
    g.ops.Neg(g.constant(1.0), name="outside")
    estimator = Estimator(g, KERNELS)
    assert estimator.iterations(g["inside"]) > estimator.iterations(g["outside"]) == 1


def test_the_median_of_the_latest_steps_counts() -> None:
    model = CostModel()
    device = names(cpu_offers(1))[0]
    model.record("a", device, 100_000.0)  # the first step finds modules to import
    for _ in range(SAMPLES_MAX):
        model.record("a", device, 10.0, [400.0], iterations=3)
    assert model.microseconds("a", cpu_offers(1), [1.0]) == [10.0]
    assert model.nodes["a"].output_bytes == (400.0,)
    assert model.microseconds("b", cpu_offers(1), [1.0]) is None


def test_another_device_costs_by_the_ratio_of_speeds() -> None:
    offers = cpu_offers(2, [1.0, 4.0])
    model = CostModel()
    model.record("a", names(offers)[0], 100.0)
    assert model.microseconds("a", offers, [1.0, 4.0]) == [100.0, 25.0]


@given(st.integers(2, 5), st.integers(0, 2**32))
def test_speeds_and_misjudged_ops_are_told_apart(devices: int, seed: int) -> None:
    """Every measurement is estimate x factor of the op / speed of the device: both are found again."""
    rng = random.Random(seed)
    offers = cpu_offers(devices)
    speeds = [math.exp(rng.uniform(-1, 1)) for _ in offers]
    factors = {f"op{i}": math.exp(rng.gauss(0, 1)) for i in range(12)}
    measured = []
    for op, factor in factors.items():
        for device in range(devices):
            estimate = rng.uniform(1, 1000)
            measured.append((op, names(offers)[device], estimate, estimate * factor / speeds[device]))
    found = calibrate(offers, measured)
    for op, factor in factors.items():
        for got, speed in zip(found.microseconds(op, 100.0), speeds, strict=True):
            assert got == pytest.approx(100.0 * factor / speed, rel=0.05)


def test_what_ran_on_one_device_only_says_nothing_of_its_speed() -> None:
    offers = cpu_offers(2, [1.0, 2.0])
    found = calibrate(
        offers, [("MatMul", names(offers)[0], 10.0, 50.0), ("Exp", names(offers)[1], 10.0, 10.0)]
    )
    assert found.speeds == pytest.approx((1.0, 2.0))
    assert found.microseconds("MatMul", 10.0) == pytest.approx([50.0, 25.0])


def test_a_device_that_shares_no_op_is_unknown() -> None:
    offers = cpu_offers(4)
    first, second, third, _ = names(offers)
    ops = {"a": "MatMul", "b": "Exp", "c": "Exp", "d": "Neg", "e": "Exp"}
    model = CostModel()
    assert model.unknown(offers, ops) == []
    for node in ("a", "b", "e"):
        model.record(node, first, 10.0)
    assert model.unknown(offers, ops) == [1, 2, 3]
    model.record("d", second, 10.0)
    assert model.unknown(offers, ops) == [1, 2, 3]
    model.record("c", third, 10.0)
    assert model.unknown(offers, ops) == [1, 3]
    model.record("d", third, 10.0)
    assert model.unknown(offers, ops) == [3]
    model.record("a", names(offers)[3], 0.4)
    assert model.unknown(offers, ops) == [3], "what a clock can hardly tell says nothing of speed"


def test_what_ran_more_often_than_was_thought_says_nothing_of_speed() -> None:
    """Two loops of like bodies on devices of one speed; one of them goes round a hundred times as often."""
    g = Graph()
    for name in ("short", "long"):
        x = g.ops.Enter(g.placeholder("float32", [100, 100]), frame_name=name)
        g.ops.Exp(g.ops.Add(x, x), name=name)
    offers = cpu_offers(2)
    model = CostModel()
    for name, device, rounds in (("short", 0, 2.0), ("long", 1, 200.0)):
        model.record(name, names(offers)[device], 30.0 * rounds, (40_000.0,), rounds)
    count = len(g)
    problem = problem_of(
        g,
        offers,
        group_of=list(range(count)),
        masks=[3] * count,
        kernels=KERNELS,
        links=EvenLinks(15.0, 10_000.0),
        costs=model,
    )
    index = list(g.nodes).index("short")
    assert problem.costs[index] == pytest.approx([60.0, 60.0])


def test_a_model_goes_through_json() -> None:
    model = CostModel()
    device = names(cpu_offers(1))[0]
    model.record("scope/a", device, 12.5, [8.0, 0.0], iterations=10)
    model.record("scope/a", device, 13.5, [8.0, 0.0], iterations=10)
    model.record("b", device, 0.0)
    read = CostModel.from_json(model.to_json())
    assert read.nodes == model.nodes
    assert len(read) == 2
    other = CostModel()
    other.update(read)
    assert other.nodes == model.nodes


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("not json", DataLossError, "not JSON"),
        ("[1]", DataLossError, "holds no measured costs"),
        ('{"format": "flowengine-costs", "version": 99, "nodes": {}}', InvalidArgumentError, "version 99"),
        ('{"format": "flowengine-costs", "version": 1}', DataLossError, "damaged"),
        ('{"format": "flowengine-costs", "version": 1, "nodes": {"a": 3}}', DataLossError, "damaged"),
        (
            '{"format": "flowengine-costs", "version": 1, "nodes": {"a": {"microseconds": {"d": [-1]}, '
            '"output_bytes": [], "iterations": 1}}}',
            DataLossError,
            "negative",
        ),
    ],
)
def test_a_file_that_is_none(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CostModel.from_json(text)
