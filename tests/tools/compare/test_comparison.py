"""A comparison finds a planted change, and takes rounding for none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.testing.strategies import GraphCase, graphs
from flowengine.tools.compare import (
    NameMap,
    StepComparison,
    StepRecord,
    compare_records,
    plain_config,
    record_step,
)
from flowengine.tools.compare.tensors import record_of
from flowengine.transport.wire.identity import new_key
from tests.tools.compare.planted import WIDTH, changed, feeds, network, recorded, with_weight

CHANGES = ("weight", "attribute", "op")


def planted(graph: fe.Graph, kind: str, layer: int, place: int = 0) -> tuple[fe.Graph, str]:
    """Return a copy with a change in one layer, and the tensor that has it first."""
    scope = f"layer_{layer}"
    if kind == "weight":
        return with_weight(graph, f"{scope}/weights", place), f"{scope}/weights:0"
    if kind == "attribute":
        return changed(graph, f"{scope}/product", transpose_b=True), f"{scope}/product:0"
    return changed(graph, f"{scope}/squashed", op="Sigmoid"), f"{scope}/squashed:0"


def compared(one: fe.Graph, other: fe.Graph, fed: Any = None, **options: Any) -> StepComparison:
    async def main() -> StepComparison:
        given = feeds() if fed is None else fed
        return compare_records(await recorded(one, given), await recorded(other, given), **options)

    return trio.run(main)


def first_of(comparison: StepComparison) -> str:
    assert comparison.first is not None
    return comparison.first.one.name


@given(
    kind=st.sampled_from(CHANGES),
    layer=st.integers(0, 7),
    place=st.integers(0, WIDTH * WIDTH - 1),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40)
def test_a_planted_change_is_the_first_difference(kind: str, layer: int, place: int, seed: int) -> None:
    graph = network(8, seed)
    other, tensor = planted(graph, kind, layer, place)
    found = compared(graph, other, feeds(seed + 1, rows=8))
    assert first_of(found) == tensor
    assert found.origins == [found.first]
    assert next(each.one.name for each in found.growth()) == tensor


@pytest.mark.parametrize(("layers", "nodes"), [(8, 50), (110, 700), (1106, 7000)])
def test_in_graphs_of_any_size(layers: int, nodes: int) -> None:
    graph = network(layers)
    assert abs(len(graph) - nodes) < 0.02 * nodes + 5
    one = trio.run(recorded, graph, feeds())
    for kind in CHANGES:
        other, tensor = planted(graph, kind, layers // 2)
        found = compare_records(one, trio.run(recorded, other, feeds()))
        assert first_of(found) == tensor
        names = [each.name for each in found.built]
        assert names == ([] if kind == "weight" else [tensor.removesuffix(":0")])
    found = compare_records(one, trio.run(recorded, network(layers, dtype="float64"), feeds()))
    assert found.first is None, str(found.first)
    assert 0 < found.largest < 1e-3
    assert not found.only_in_one


def test_half_precision_has_a_tolerance_of_its_own() -> None:
    # Constants that were rounded to fewer bits differ by this, which a tolerance has to allow.
    found = compared(network(8), network(8, dtype="float16"))
    assert first_of(found) == "layer_0/weights:0"
    found = compared(network(8), network(8, dtype="float16"), tolerance=1.0)
    assert found.first is None


@given(case=graphs())
@settings(max_examples=30)
def test_a_random_graph_equals_itself(case: GraphCase) -> None:
    async def main() -> list[StepRecord]:
        records = []
        for _ in range(2):
            async with fe.Session(case.graph, config=plain_config()) as session:
                await session.run([], targets=case.setup)
                fetches, fed = case.runs[0]
                records.append((await record_step(session, list(fetches), fed, targets=case.targets))[1])
        return records

    one, other = trio.run(main)
    found = compare_records(one, other)
    assert found.first is None, str(found.first)
    assert not found.only_in_one
    assert not found.only_in_other
    assert found.equal == len(one.tensors)
    assert len(one.by_key()) == len(one.tensors)


def test_names_of_another_scope() -> None:
    graph, scoped = network(2), fe.Graph()
    text = graph.to_graph_def()
    scoped.import_graph_def(text, prefix="model")
    fed = feeds()

    async def main() -> StepComparison:
        other = await recorded(scoped, {"model/x:0": fed["x:0"]}, ["model/y:0"])
        one = await recorded(graph, fed)
        with pytest.raises(
            fe.errors.InvalidArgumentError, match="no tensor in common: one has layer_0/weights:0"
        ):
            compare_records(one, other)
        return compare_records(one, other, names=NameMap.parse(["=model"]))

    found = trio.run(main)
    assert found.first is None
    assert found.equal == len(graph)


async def test_a_loop_differs_in_the_iteration_in_which_it_does() -> None:
    def loop(limit: float) -> fe.Graph:
        g = fe.Graph()
        x = g.placeholder("float32", [], name="x")
        _, grown = g.while_loop(
            lambda i, v: g.ops.Less(i, g.constant(5)),
            lambda i, v: [
                g.ops.AddV2(i, g.constant(1)),
                g.ops.Minimum(g.ops.Mul(v, g.constant(2.0), name="double"), g.constant(limit), name="cut"),
            ],
            [g.constant(0), x],
        )
        g.ops.Identity(grown, name="y")
        return g

    one, other = await recorded(loop(100.0), {"x:0": 1.0}), await recorded(loop(10.0), {"x:0": 1.0})
    found = compare_records(one, other)
    of_loop = [each for each in found.differences if each.one.iteration]
    assert of_loop[0].one.name.endswith("cut:0")
    assert of_loop[0].one.iteration.endswith("=3")
    assert "16 against 10" in of_loop[0].reason


async def test_chance_without_a_seed_is_left_out_and_named() -> None:
    def noisy(seed: int) -> fe.Graph:
        g = fe.Graph()
        noise = g.ops.RandomUniform([WIDTH], dtype="float32", seed=seed, name="noise")
        g.ops.Add(noise, g.placeholder("float32", [WIDTH], name="x"), name="y")
        return g

    fed = {"x:0": np.zeros(WIDTH, np.float32)}
    found = compare_records(await recorded(noisy(0), fed), await recorded(noisy(0), fed))
    assert found.first is None
    assert found.chance == ["noise"]
    assert {each.one.name for each in found.by_chance} == {"noise:0", "y:0"}
    found = compare_records(await recorded(noisy(7), fed), await recorded(noisy(7), fed))
    assert found.first is None
    assert not found.by_chance
    found = compare_records(await recorded(noisy(7), fed), await recorded(noisy(8), fed))
    assert first_of(found) == "noise:0"


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ([1.0, np.nan], [1.0, np.nan], None),
        ([1.0, np.inf], [1.0, np.inf], None),
        ([1.0, np.nan], [1.0, 2.0], "1 NaN and 0 infinities against 0 NaN and 0 infinities"),
        ([1.0, np.inf], [1.0, -np.inf], "0 NaN and 1 infinities against 0 NaN and 1 infinities (1 negative)"),
        ([np.nan, 1.0], [1.0, np.nan], "NaN or infinities at other places"),
        ([1.0, 2.0], [[1.0, 2.0]], "shape [2] against [1, 2]"),
        ([], [], None),
        ([0.0, 0.0], [0.0, 0.0], None),
        ([b"a", b"b"], [b"a", b"b"], None),
        ([b"a", b"b"], [b"a", b"c"], "1 of 2 elements differ: 'b' against 'c' at [1]"),
        ([b"a"], [1.0], "type string against float64"),
        ([1, 2], [1, 3], "1 of 2 elements differ: 2 against 3 at [1]"),
        ([True, False], [True, True], "1 of 2 elements differ: 0 against 1 at [1]"),
        ([1.0 + 2.0j], [1.0 + 2.0j], None),
        (
            [1.0 + 2.0j],
            [1.0 - 2.0j],
            "1 of 1 elements differ, by 1.79 of its size: (1+2j) against (1-2j) at [0]",
        ),
    ],
)
def test_values_of_any_kind(one: Any, other: Any, reason: str | None) -> None:
    sides = [
        StepRecord(
            [
                record_of(
                    "y:0",
                    "",
                    np.array(value, object if value and isinstance(value[0], bytes) else None),
                    is_kept=True,
                )
            ]
        )
        for value in (one, other)
    ]
    found = compare_records(*sides)
    assert (None if found.first is None else found.first.reason) == reason


@given(
    size=st.integers(65, 5000),
    place=st.integers(0, 4999),
    shape=st.sampled_from([(-1,), (1, -1)]),
)
def test_one_element_of_a_constant_that_was_not_kept(size: int, place: int, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(size)
    value = random.standard_normal(size).astype(np.float32)
    other = value.copy()
    other[place % size] *= 1.01

    async def main() -> StepComparison:
        sides = []
        for each in (value, other):
            graph = fe.Graph()
            graph.ops.Neg(graph.constant(each.reshape(shape), name="c"), name="y")
            sides.append(await recorded(graph, {}, value_bytes=0))
        assert all(tensor.value is None for tensor in sides[0].tensors)
        return compare_records(*sides)

    assert first_of(trio.run(main)) == "c:0"


async def test_after_several_steps_variables_differ_by_rounding() -> None:
    def graph(value: float) -> fe.Graph:
        g = fe.Graph()
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, np.float32(value), name="init")
        g.ops.Neg(g.ops.Identity(v, name="read"), name="y")
        return g

    async def record(value: float, steps: int) -> StepRecord:
        made = graph(value)
        async with fe.Session(made, config=plain_config()) as session:
            await session.run([], targets=["init"])
            return (await record_step(session, ["y:0"], {}, steps=steps))[1]

    assert first_of(compare_records(await record(1.0, 1), await record(1.0001, 1))) == "v:0"
    assert compare_records(await record(1.0, 3), await record(1.0001, 3)).first is None


@pytest.mark.parametrize("opens", [True, False])
async def test_bodies_of_functions_are_recorded(opens: bool) -> None:
    def called(rate: float) -> fe.Graph:
        g = fe.Graph()

        @fe.function(g, ["float32"])
        def body(v: fe.Tensor) -> fe.Tensor:
            return v.graph.ops.Neg(v.graph.ops.Mul(v, v.graph.constant(rate), name="inner"), name="out")

        g.ops.Identity(body(g.placeholder("float32", [2], name="x")), name="y")
        return g

    records = []
    for rate in (1.0, 2.0):
        async with fe.Session(called(rate), config=plain_config(fe.Config(open_calls=opens))) as session:
            records.append((await record_step(session, ["y:0"], {"x:0": [1.0, 2.0]}))[1])
    found = compare_records(*records)
    names = [each.one.name for each in found.differences]
    assert any(name.endswith("inner:0") for name in names)
    assert "y:0" in names


async def test_a_session_elsewhere_records_what_it_can_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    graph = network(3)
    x = graph.tensor("x:0")
    chosen = graph.cond(
        graph.ops.Less(graph.ops.Sum(x, [0, 1]), 0.0),
        lambda: graph.ops.Neg(x, name="then"),
        lambda: graph.ops.Exp(x, name="other"),
    )
    graph.ops.Add(chosen, graph.tensor("y:0"), name="z")
    here = await recorded(graph, feeds(), ["z:0"])
    cluster = fe.ClusterSpec.of({"worker": ["127.0.0.1:0"]})
    async with fe.Server(cluster, "worker", 0) as server:
        target = server.target
        async with fe.Session(graph, target=target, config=plain_config()) as session:
            _, there = await record_step(session, ["z:0"], feeds())
    found = compare_records(here, there)
    assert found.first is None
    assert found.equal > len(network(3))
    missing = [name for name in found.only_in_one if "layer" in name]
    assert not missing
    assert any("then" in name or "other" in name for name in found.only_in_one)


@pytest.mark.parametrize("empty", ["first", "second"])
async def test_a_session_elsewhere_records_the_variables_that_have_a_value(
    monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    """There, no handle is seen while the step runs: the value before the step is the only one."""
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    graph = fe.Graph()
    variables = {name: graph.variable(np.float32(2), name=name) for name in ("first", "second")}
    full = "second" if empty == "first" else "first"
    y = graph.ops.Neg(variables[full], name="y")
    with graph.control_dependencies([y]):
        set_now = variables[empty].assign(3.0)
    cluster = fe.ClusterSpec.of({"worker": ["127.0.0.1:0"]})
    async with (
        fe.Server(cluster, "worker", 0) as server,
        fe.Session(graph, target=server.target, config=plain_config()) as session,
    ):
        await session.run([], targets=[variables[full].initializer])
        _, record = await record_step(session, ["y:0"], targets=[set_now.name.partition(":")[0]])
    values = {each.name: each.samples.tolist() for each in record.tensors}
    assert values[f"{full}:0"] == [2.0]
    assert f"{empty}:0" not in values
