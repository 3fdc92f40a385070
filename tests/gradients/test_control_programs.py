"""Control dependencies, devices and colocation around conditionals, loops and gradients change no value.

What TensorFlow 1.15 computed of 300 programs is kept in `control_programs.json`, written by

    python -m tests.gradients.record_control_programs PYTHON_WITH_TENSORFLOW
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.effort import IS_NIGHTLY
from tests.gradients import control_programs
from tests.gradients.control_engines import Engine

_RECORDED: Final = Path(__file__).with_name("control_programs.json")


def check(got: dict[str, Any], want: dict[str, Any], tolerance: float) -> None:
    for mine, said in zip(got["gradients"], want["gradients"], strict=True):
        assert (mine is None) == (said is None)
        if said is not None:
            np.testing.assert_allclose(mine, said, rtol=tolerance, atol=tolerance)
    for key in ("losses", "v", "w"):
        np.testing.assert_allclose(got[key], want[key], rtol=tolerance, atol=tolerance, err_msg=key)


@given(st.integers(0, 2**40), st.booleans())
@settings(max_examples=2000 if IS_NIGHTLY else 25)
def test_scopes_around_control_flow_change_no_value(seed: int, use_resource: bool) -> None:
    program = control_programs.draw(seed)
    plain = control_programs.play(Engine(use_resource=use_resource), program, waits=False)
    check(control_programs.play(Engine(use_resource=use_resource), program), plain, 1e-10)


class RecomputingEngine(Engine):
    """The engine with `graph.recompute()` for name scopes and devices."""

    def on(self, device: str) -> AbstractContextManager[None]:
        return self.graph.recompute()

    def within(self, name: str) -> AbstractContextManager[Any]:
        return self.graph.recompute()


@given(st.integers(0, 2**40))
@example(1015)  # A conditional in a segment had loops that counted under its predicate as computed again.
@settings(max_examples=500 if IS_NIGHTLY else 5)
def test_segments_that_are_computed_again_change_no_value(seed: int) -> None:
    program = control_programs.draw(seed)
    plain = control_programs.play(Engine(), program, waits=False)
    check(control_programs.play(RecomputingEngine(), program), plain, 1e-9)


def recorded() -> list[Any]:
    """Every tenth recorded program; all of them at night."""
    seeds = list(json.loads(_RECORDED.read_text(encoding="utf-8")))
    return seeds if IS_NIGHTLY else seeds[::10]


@pytest.mark.conformance
def test_programs_compute_what_tensorflow_computes(record_property: Any) -> None:
    said = json.loads(_RECORDED.read_text(encoding="utf-8"))
    assert len(said) == 300
    seeds = recorded()
    for seed in seeds:
        check(control_programs.play(Engine(), control_programs.draw(int(seed))), said[seed], 1e-7)
    record_property("conformance_cases", len(seeds))


@pytest.mark.parametrize(("taken", "gradient"), [(True, [2.0, 2.0]), (False, [3.0, 3.0])])
def test_a_branch_that_is_not_taken_adds_no_zeros_under_control_dependencies(
    taken: bool, gradient: list[float]
) -> None:
    graph = fe.Graph()
    p, x = graph.placeholder("bool", []), graph.placeholder("float32", [2])
    y = graph.cond(p, lambda: x * 2.0, lambda: x * 3.0)
    with graph.control_dependencies([fe.identity(p)]):
        (found,) = fe.gradients(y, x)
    with fe.blocking.Session(graph) as session:
        assert session.run(found, {p: taken, x: [1.0, 2.0]}).tolist() == gradient


def test_a_branch_in_a_loop_keeps_the_rows_of_its_own_gather() -> None:
    # The indices are constants of the loop, alive in each iteration; the values are those of one branch.
    graph = fe.Graph()
    x = graph.placeholder("float64", [3])
    rows = graph.constant([2, 0, 2, 1])

    def body(i: Any, y: Any) -> Any:
        z = graph.cond(
            i < 2,
            lambda: fe.reduce_sum(fe.gather(x, rows)) + y,
            lambda: fe.reduce_sum(fe.gather(x, [1])) * 2.0 + y,
        )
        return i + 1, z

    y = graph.while_loop(lambda i, y: i < 3, body, (0, graph.constant(0.0, "float64")))[1]
    (found,) = fe.gradients(y, x)
    with fe.blocking.Session(graph) as session:
        gradient = session.run(found, {x: [1.0, 2.0, 3.0]})
    total = np.zeros(3)
    np.add.at(total, gradient.indices, gradient.values)
    assert total.tolist() == [2.0, 4.0, 4.0]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["branch", "body", "condition", "loop"])
def test_a_loop_waits_for_what_is_outside_of_it(kind: str, nested: bool) -> None:
    # An assignment that has no output, which only a control edge can wait for.
    graph = fe.Graph()
    count = graph.placeholder("int32", [])
    variable = graph.variable(1.0, name="v")
    slow = graph.while_loop(lambda i, y: i < 200, lambda i, y: (i + 1, y * 1), (0, count))[1]
    changed = graph.ops.AssignVariableOp(variable.handle, fe.cast(slow, "float32") + 4.0)

    def seen() -> Any:
        with graph.control_dependencies([changed]):
            if kind == "branch":
                return graph.cond(count > 0, lambda: variable.value(), lambda: graph.constant(0.0))
            if kind == "loop":
                return graph.while_loop(
                    lambda i, y: i < 1, lambda i, y: (i + 1, variable.value()), (0, graph.constant(0.0))
                )[1]
            return variable.value()

    def goes_on(i: Any, y: Any) -> Any:
        return fe.logical_and(i < count, seen() > 2.0) if kind == "condition" else i < count

    def body(i: Any, y: Any) -> Any:
        return i + 1, y + (graph.constant(7.0) if kind == "condition" else seen())

    def loop(start: Any) -> Any:
        return graph.while_loop(goes_on, body, (0, start))[1]

    start = graph.constant(0.0)
    total = (
        graph.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, loop(y)), (0, start))[1]
        if nested
        else loop(start)
    )
    for config in (fe.Config(), fe.Config(compile_hot_plans=False)):
        with fe.blocking.Session(graph, config=config) as session:
            for _ in range(4):
                session.run([], targets=[variable.initializer])
                assert session.run(total, {count: 3}) == 21.0 * (2 if nested else 1)


def test_waiting_for_the_inside_of_another_loop_is_refused() -> None:
    graph = fe.Graph()
    inner: list[Any] = []

    def body(i: Any) -> Any:
        inner.append(fe.identity(i, name="inner"))
        return i + 1

    graph.while_loop(lambda i: i < 2, body, 0)

    def waits(i: Any) -> Any:
        with graph.control_dependencies([inner[0]]):
            return i + 1

    with pytest.raises(ValueError, match=r"'while/inner' is inside of the loop .* not around here"):
        graph.while_loop(lambda i: i < 2, waits, 0)
