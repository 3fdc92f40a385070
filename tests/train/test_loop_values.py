"""Hooks that ask for values by name: StopAtNaN, EarlyStopping, ProgressReports, Checkpoints' metric."""

from __future__ import annotations

import logging
from collections import namedtuple
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.train.hooks.step_values import leaves
from tests.effort import examples

InvalidArgumentError = fe.errors.InvalidArgumentError
Pair = namedtuple("Pair", ["first", "second"])


def run(fetches: Any, *hooks: Any, graph: fe.Graph | None = None, steps: int = 3) -> Any:
    """Make steps that fetch this; `fetches` is a structure, or a function of the graph that gives one."""
    graph = fe.Graph() if graph is None else graph
    fetches = fetches(graph) if callable(fetches) else fetches
    step = graph.variable(0, name="steps").assign_add_op(1)
    with fe.blocking.Session(graph) as session:
        return session.call(fe.train.loop, step, steps=steps, fetches=fetches, hooks=hooks)


class Counted(fe.train.Hook):
    """Counts steps."""

    def __init__(self) -> None:
        self.steps = 0

    async def after_step(self, state: fe.train.LoopState) -> None:
        self.steps += 1


# -- names of values --------------------------------------------------------------------------------


def test_values_are_named_by_their_path() -> None:
    values = {"a": 1, "b": [2, {"c": 3, "d": None}], "e": Pair(4, (5,))}
    assert leaves(values) == {"a": 1, "b/0": 2, "b/1/c": 3, "e/first": 4, "e/second/0": 5}
    assert leaves(6) == {"": 6}
    assert leaves(None) == {}


# -- StopAtNaN --------------------------------------------------------------------------------------

SOUND = [1.0, np.float32(2), np.ones(3, np.float16), np.array(7), b"text", np.ones((2, 2), np.complex64)]
FAULTS = [
    np.float32("nan"),
    np.array([[1.0, -np.inf], [2.0, 3.0]]),
    np.array([1.0, np.nan], ml_dtypes.bfloat16),
    np.array(complex(0, np.nan), np.complex64),
]


def structures(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        kinds,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
            st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
        ),
        max_leaves=5,
    )


@given(structures(st.sampled_from(range(len(SOUND) + len(FAULTS)))))
@settings(max_examples=examples(60), deadline=None)
def test_without_names_every_floating_value_of_any_structure_is_checked(drawn: Any) -> None:
    everything = [*SOUND, *FAULTS]
    chosen = leaves(drawn)
    graph = fe.Graph()

    def fetched(structure: Any) -> Any:
        if isinstance(structure, dict):
            return {key: fetched(each) for key, each in structure.items()}
        if isinstance(structure, Pair):
            return Pair(*map(fetched, structure))
        return [fetched(each) for each in structure] if isinstance(structure, list) else constants[structure]

    constants = [graph.constant(each, name=f"value{place}") for place, each in enumerate(everything)]
    bad = [path for path, place in chosen.items() if place >= len(SOUND)]
    floating = [path for path, place in chosen.items() if np.asarray(everything[place]).dtype.kind in "fcV"]
    counted = Counted()
    if not floating:
        with pytest.raises(InvalidArgumentError, match="no floating-point value to check"):
            run(fetched(drawn), fe.train.StopAtNaN(), counted, graph=graph)
        assert counted.steps == 0
    elif not bad:
        assert run(fetched(drawn), fe.train.StopAtNaN(), counted, graph=graph).steps == 3
    else:
        with pytest.raises(InvalidArgumentError, match="after step 1: lower the rate") as raised:
            run(fetched(drawn), fe.train.StopAtNaN(), counted, graph=graph)
        place = chosen[bad[0]]
        assert any(f"'{name}'" in raised.value.message for name in (bad[0], f"value{place}:0"))


def test_an_array_says_where_it_is_not_finite() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'x' has 2 of 4 elements .*, as inf at \[0, 1\], after"):
        run(lambda g: {"x": g.constant([[1.0, np.inf], [np.nan, 2.0]])}, fe.train.StopAtNaN("x"))


@pytest.mark.parametrize(
    ("fetches", "names", "text"),
    [
        (None, (), "the steps return no value"),
        ({"count": 3}, (), "the steps return only 'count'"),
        ([3], (), "the steps return only 'Const:0'"),
        ({"loss": 1.0}, ("los",), "no step fetches 'los' .*did you mean loss"),
        ({"loss": 1.0, "count": 3}, ("loss", "count"), "'count' is int32, not floating-point"),
        ({"parts": {"one": 1.0}}, ("parts/two",), r"did you mean parts/one\?"),
        (None, ("loss",), r"there are \[\]"),
    ],
)
def test_nothing_to_check_is_refused_before_a_step(fetches: Any, names: Any, text: str) -> None:
    counted = Counted()

    def constants(graph: fe.Graph, structure: Any = fetches) -> Any:
        if isinstance(structure, dict):
            return {key: constants(graph, each) for key, each in structure.items()}
        if isinstance(structure, list):
            return [constants(graph, each) for each in structure]
        return None if structure is None else graph.constant(structure)

    with pytest.raises(InvalidArgumentError, match=text):
        run(constants, fe.train.StopAtNaN(*names), counted)
    assert counted.steps == 0


def test_a_node_is_told_from_its_output() -> None:
    for hook in (fe.train.StopAtNaN("loss"), fe.train.EarlyStopping("loss", patience=1)):
        with pytest.raises(InvalidArgumentError, match="node"):
            run(lambda g: {"loss": g.constant(1.0).op}, hook)


@pytest.mark.parametrize(("name", "is_found"), [("losses", True), ("losses/1", True), ("losses/0", False)])
def test_a_name_may_be_of_a_structure_or_in_one(name: str, is_found: bool) -> None:
    def fetches(graph: fe.Graph) -> Any:
        return {"losses": [graph.constant(1.0), graph.constant(np.nan)]}

    if is_found:
        with pytest.raises(InvalidArgumentError, match="'losses/1' is nan after step 1"):
            run(fetches, fe.train.StopAtNaN(name))
    else:
        assert run(fetches, fe.train.StopAtNaN(name)).steps == 3


@pytest.mark.parametrize("name", ["loss", "loss:0"])
def test_a_tensor_without_a_key_has_its_own_name(name: str) -> None:
    def fetches(graph: fe.Graph) -> Any:
        return [graph.constant(2.0, name="loss")]

    stopping = fe.train.EarlyStopping(name, patience=2)
    assert run(fetches, stopping, fe.train.StopAtNaN(name), steps=9).steps == 3
    assert stopping.best == 2
    stopping = fe.train.EarlyStopping(name, patience=2)
    assert run(lambda graph: graph.constant(2.0, name="loss"), stopping, steps=9).steps == 3


def test_values_of_a_function_are_looked_at_when_they_come() -> None:
    def steps(*values: Any) -> Any:
        async def step(session: fe.Session, number: int) -> Any:
            return values[number]

        return step

    def run(step: Any, *hooks: Any, steps: int) -> Any:
        with fe.blocking.Session(fe.Graph()) as session:
            return session.call(fe.train.loop, step, steps=steps, hooks=hooks)

    with pytest.raises(InvalidArgumentError, match="the value is nan after step 2"):
        run(steps(1.0, float("nan")), fe.train.StopAtNaN(), steps=2)
    with pytest.raises(InvalidArgumentError, match="the steps return only 'a'"):
        run(steps({"a": 1}), fe.train.StopAtNaN(), steps=1)
    with pytest.raises(InvalidArgumentError, match="no step fetches 'b'"):
        run(steps({"a": 1.0}), fe.train.StopAtNaN("b"), steps=1)
    with pytest.raises(InvalidArgumentError, match="'a' is inf after step 3"):
        run(steps({"a": 1.0}, {"b": 1.0}, {"a": np.inf}), fe.train.StopAtNaN(), steps=3)
    # A function may return a number now and then. One that it has not returned for so long never comes.
    stopping = fe.train.EarlyStopping("a", patience=3)
    assert run(steps({}, {}, {"a": 1.0}, {}, {}), stopping, steps=5).steps == 5
    with pytest.raises(InvalidArgumentError, match="no step fetches 'a'"):
        run(steps({}, {}, {}, {"a": 1.0}), fe.train.EarlyStopping("a", patience=3), steps=4)


# -- other hooks ------------------------------------------------------------------------------------


def hooks_of(name: str, folder: Path) -> list[fe.train.Hook]:
    saver = fe.train.Saver(keep_best=1)
    return [
        fe.train.StopAtNaN(name),
        fe.train.EarlyStopping(name, patience=9),
        fe.train.ProgressReports(names=(name,), report=print),
        fe.train.Checkpoints(folder, saver=saver, metric=name),
    ]


@pytest.mark.parametrize("which", range(4))
def test_a_misspelt_name_is_refused_before_a_step(which: int, tmp_path: Path) -> None:
    counted = Counted()

    async def evaluate(session: fe.Session) -> float:
        return 1.0

    for others in ([], [fe.train.Evaluation(evaluate, every_steps=1, name="accuracy")]):
        with pytest.raises(InvalidArgumentError, match=r"no step fetches 'los' .* did you mean loss\?"):
            run(lambda g: {"loss": g.constant(1.0)}, *others, hooks_of("los", tmp_path)[which], counted)
    assert counted.steps == 0


@pytest.mark.parametrize("which", range(4))
def test_a_name_that_no_evaluation_gives_is_refused_when_it_has_run(which: int, tmp_path: Path) -> None:
    """The names that a function returns are known only when it has returned."""

    async def evaluate(session: fe.Session) -> dict[str, float]:
        return {"accuracy": 1.0}

    counted = Counted()
    hooks = [fe.train.Evaluation(evaluate, every_steps=2), hooks_of("acuracy", tmp_path)[which]]
    if which == 3:
        hooks.append(fe.train.Checkpoints(tmp_path / "other", every_steps=1, metric="acuracy"))
    if which == 2:
        hooks.append(fe.train.ProgressReports(every_steps=1, names=("acuracy",), report=print))
    with pytest.raises(InvalidArgumentError, match=r"'acuracy' .* did you mean accuracy\?"):
        run(lambda g: {"loss": g.constant(1.0)}, *hooks, counted, steps=5)
    assert counted.steps == 1


@pytest.mark.parametrize("which", range(4))
def test_a_number_of_an_evaluation_is_waited_for(which: int, tmp_path: Path) -> None:
    async def evaluate(session: fe.Session) -> dict[str, float]:
        return {"accuracy": 1.0}

    lines: list[str] = []
    more = [
        fe.train.ProgressReports(every_steps=1, names=("accuracy",), report=lines.append),
        fe.train.Checkpoints(tmp_path / "other", every_steps=1, metric="accuracy"),
    ]
    hooks = [fe.train.Evaluation(evaluate, every_steps=2), hooks_of("accuracy", tmp_path)[which], *more]
    assert run(lambda g: {"loss": g.constant(1.0)}, *hooks, steps=3).steps == 3
    assert [line.count("accuracy") for line in lines] == [0, 1, 1]


class Scores(fe.train.Hook):
    """Sets a metric."""

    async def after_step(self, state: fe.train.LoopState) -> None:
        state.metrics["score"] = 1.0


def test_a_hook_of_ones_own_lists_what_it_sets() -> None:
    stopping = fe.train.EarlyStopping("score", patience=1)
    with pytest.raises(InvalidArgumentError, match="must list the names it sets in its `metric_names`"):
        run(None, Scores(), stopping)

    class Listed(Scores):
        metric_names = ("score",)

    assert run(None, Listed(), stopping).steps == 2


def test_a_number_that_came_too_late_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def evaluate(session: fe.Session) -> float:
        return 1.0

    early = fe.train.EarlyStopping("score", patience=1)
    with caplog.at_level(logging.WARNING, "flowengine.train"):
        run(None, early, fe.train.Evaluation(evaluate, every_steps=100, name="score"))
    assert "EarlyStopping('score') has looked at nothing" in caplog.text


@pytest.mark.parametrize("given", [None, "high", np.ones(2), {"a": [1.0, 2.0]}], ids=repr)
def test_an_evaluation_that_is_no_number_is_refused(given: Any) -> None:
    async def evaluate(session: fe.Session) -> Any:
        return given

    with pytest.raises(InvalidArgumentError, match="must return a number"):
        run(None, fe.train.Evaluation(evaluate, every_steps=1))


def test_several_numbers_are_no_number_to_stop_by() -> None:
    counted = Counted()
    with pytest.raises(InvalidArgumentError, match=r"'x' is no single number, but of shape \[2\]"):
        run(
            lambda g: {"x": g.constant([1.0, 2.0])},
            counted,
            fe.train.EarlyStopping("x", patience=1, every_steps=50),
            steps=100,
        )
    assert counted.steps == 1
