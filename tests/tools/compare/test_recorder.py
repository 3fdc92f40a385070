"""A recorder keeps each value once, whole ones as far as they fit; a rule names whole parts of names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.tools.compare import NameMap, StepRecord, compare_records, plain_config, record_step
from flowengine.tools.compare.recorder import StepRecorder
from flowengine.tools.compare.records import NodeRecord
from flowengine.tools.compare.tensors import record_of


def test_a_source_in_a_loop_has_a_value_for_each_iteration() -> None:
    recorder = StepRecorder()
    value = np.ones(2, np.float32)
    recorder.add_source("c:0", value)
    recorder.observe("c", (), [value])
    for number in range(2):
        recorder.observe("c", (("loop", number),), [value])
    assert [each.key for each in recorder.tensors] == [("c:0", ""), ("c:0", "loop=0"), ("c:0", "loop=1")]


def test_whole_values_are_kept_as_far_as_they_fit() -> None:
    recorder = StepRecorder(value_bytes=20, keep=["named*"])
    for name, size in (("a", 3), ("b", 3), ("named", 9), ("c", 2), ("d", 1)):
        recorder.observe(name, (), [np.ones(size, np.float32)])
    kept = [each.name for each in recorder.tensors if each.value is not None]
    assert kept == ["a:0", "named:0", "c:0"]


def test_tensors_beyond_the_most_are_counted() -> None:
    recorder = StepRecorder(tensors_max=2)
    for number in range(5):
        recorder.observe(f"n{number}", (), [np.float32(0)])
    assert ([each.name for each in recorder.tensors], recorder.dropped) == (["n0:0", "n1:0"], 3)


@pytest.mark.parametrize("empty", ["first", "second"])
def test_variables_are_recorded_beside_one_that_has_no_value_yet(empty: str) -> None:
    graph = fe.Graph()
    variables = {name: graph.variable(np.float32(2), name=name) for name in ("first", "second")}
    full = "second" if empty == "first" else "first"
    y = graph.ops.Neg(variables[full], name="y")
    with graph.control_dependencies([y]):
        set_now = variables[empty].assign(3.0)

    async def main() -> StepRecord:
        async with fe.Session(graph, config=plain_config()) as session:
            await session.run([], targets=[variables[full].initializer])
            return (await record_step(session, ["y:0"], targets=[set_now.name.partition(":")[0]]))[1]

    values = {each.name: each.samples.tolist() for each in trio.run(main).tensors}
    assert values[f"{full}:0"] == [2.0]
    assert values["y:0"] == [-2.0]


@pytest.mark.parametrize(("steps", "differ"), [((1, 1), True), ((1, 2), False), ((2, 1), False)])
def test_variables_may_differ_by_rounding_after_the_first_step(steps: tuple[int, int], differ: bool) -> None:
    async def recorded(value: float) -> StepRecord:
        graph = fe.Graph()
        v = graph.variable(np.float32(value), name="v")
        graph.ops.Neg(v, name="y")
        async with fe.Session(graph, config=plain_config()) as session:
            await session.initialize()
            return (await record_step(session, ["y:0"]))[1]

    records = [
        replace(trio.run(recorded, value), steps=number)
        for value, number in zip((1.0, 1.0001), steps, strict=True)
    ]
    assert bool(compare_records(*records).differences) is differ


@given(st.text("ab_", min_size=1), st.text("ab_", min_size=1), st.sampled_from(["", "/x", "/x/y"]))
def test_a_rule_means_a_whole_part_of_a_name(old: str, name: str, rest: str) -> None:
    expected = f"new{rest}:0" if name == old else f"{name}{rest}:0"
    assert NameMap.parse([f"{old}=new"])(f"{name}{rest}:0") == expected


@pytest.mark.parametrize("size", [64, 65, 1000])
def test_a_whole_value_comes_back(size: int) -> None:
    value = np.arange(size, dtype=np.float32).reshape(1, size)
    found = record_of("a:0", "", value, is_kept=True).array()
    assert found is not None
    np.testing.assert_array_equal(found, value)


def test_figures_are_those_of_all_elements_of_a_large_tensor() -> None:
    value = np.full((1 << 20) + 3, 2.0, np.float32)
    value[[0, 1]] = np.nan, np.inf
    value[-1] = 5.0
    found = record_of("a:0", "", value)
    assert found.counts == (1, 1, 0)
    finite = value[2:].astype(np.float64)
    expected = (2.0, 5.0, finite.mean(), np.linalg.norm(finite))
    assert found.figures == pytest.approx(expected)


def test_iterations_of_loops_in_another_scope_are_compared() -> None:
    one = StepRecord([record_of("w/y:0", f"w/loop={number}", np.float32(number)) for number in range(3)])
    other = StepRecord(
        [record_of("model/w/y:0", f"model/w/loop={number}", np.float32(number)) for number in range(3)]
    )
    found = compare_records(one, other, names=NameMap.parse(["=model"]))
    assert (found.equal, found.first) == (3, None)
    assert found.only_in_one == found.only_in_other == []


def test_rounding_of_an_input_counts_in_its_own_iteration() -> None:
    nodes = {"y": NodeRecord("Sub", ("x:0",))}

    def recorded(y: float, large: int) -> StepRecord:
        tensors = []
        for number in range(2):
            x = 1e8 if number == large else 1.0
            tensors.append(record_of("x:0", f"loop={number}", np.array([x], np.float32)))
            value = y if number == 1 else 1.0
            tensors.append(record_of("y:0", f"loop={number}", np.array([value], np.float32)))
        return StepRecord(tensors, nodes)

    assert compare_records(recorded(1.0, 1), recorded(2.0, 1)).first is None
    found = compare_records(recorded(1.0, 0), recorded(2.0, 0)).first
    assert found is not None
    assert found.one.key == ("y:0", "loop=1")
