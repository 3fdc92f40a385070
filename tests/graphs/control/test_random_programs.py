"""Random programs: what a graph computes is what Python does with NumPy, in both tiers and on three tasks.

A program is drawn as a tree of statements, once; it is then run by `Eager` on arrays and by `Building` as
nodes. Statements work on a dictionary of values: arithmetic, conditionals and choices among several, bounded
loops that carry a nested structure, functions of each row, and nests of them. Each has a number, by which a
graph on several tasks has it on one of them.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.cluster.test_sessions import cluster
from tests.effort import examples

Values: TypeAlias = dict[str, Any]
Statement: TypeAlias = tuple[Any, ...]

NAMES = ("a", "b", "c")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y * 0.25,
    "slice": lambda x, y: x[::-1] - y,
    "clip": lambda x, y: x * 0.5 + y,
}


TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")


class State(NamedTuple):
    """The values that a loop carries a second time, as a structure of structures."""

    first: Any
    others: list[dict[str, Any]]


def packed(values: Values) -> State:
    return State(values["a"], [{"b": values["b"]}, {"c": values["c"]}])


def unpacked(state: State) -> Values:
    return {"a": state.first, **state.others[0], **state.others[1]}


class Eager:
    """Python itself."""

    def at(self, place: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def cond(self, flag: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        return then() if flag else other()

    def choose(self, index: Any, functions: Sequence[Callable[[], Any]]) -> Any:
        # As of TensorFlow: what is out of range takes the last.
        return functions[index if 0 <= index < len(functions) else -1]()

    def rows(self, kind: str, fn: Callable[..., Any], x: Any) -> Any:
        if kind == "map":
            return np.array([fn(row) for row in x])
        found = [np.float64(1.0)]
        for row in x:
            found.append(fn(found[-1], row))
        return np.array(found[1:]) if kind == "scan" else found[-1] * np.ones(3)

    def number(self, flag: Any) -> Any:
        return int(flag)

    def loop(self, count: int, start: Values, body: Callable[[Any, Values], Values]) -> Values:
        values = start
        for index in range(count):
            values = body(np.float64(index), values)
        return values

    def total(self, x: Any) -> Any:
        return x.sum()


class Building:
    """Nodes of a graph."""

    def __init__(self, graph: fe.Graph, tasks: Sequence[str] = ()) -> None:
        self.graph = graph
        self.tasks = tasks

    def at(self, place: int) -> contextlib.AbstractContextManager[None]:
        return self.graph.device(self.tasks[place % len(self.tasks)] if self.tasks else "")

    def choose(self, index: Any, functions: Sequence[Callable[[], Any]]) -> Any:
        return self.graph.switch_case(index, functions)

    def rows(self, kind: str, fn: Callable[..., Any], x: Any) -> Any:
        if kind == "map":
            return self.graph.map(fn, x)
        if kind == "scan":
            return self.graph.scan(fn, x, np.float64(1.0))
        return self.graph.fold(fn, x, np.float64(1.0)) * np.ones(3)

    def number(self, flag: Any) -> Any:
        return fe.cast(flag, "int32")

    def cond(self, flag: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        return self.graph.cond(flag, then, other)

    def loop(self, count: int, start: Values, body: Callable[[Any, Values], Values]) -> Values:
        def step(i: Any, state: State) -> Any:
            return i + 1, packed(body(fe.cast(i, "float64"), unpacked(state)))

        found: State = self.graph.while_loop(lambda i, state: i < count, step, (0, packed(start)))[1]
        return unpacked(found)

    def total(self, x: Any) -> Any:
        return fe.reduce_sum(x)


def statements(depth: int) -> st.SearchStrategy[list[Statement]]:
    names, places = st.sampled_from(NAMES), st.integers(0, 2)
    simple = st.tuples(st.just("set"), places, names, st.sampled_from(sorted(BINARY)), names, names)
    rows = st.tuples(st.sampled_from(["map", "scan", "fold"]), places, names, names, names)
    kinds: list[st.SearchStrategy[Statement]] = [simple, simple, rows]
    if depth:
        inner = statements(depth - 1)
        kinds.append(st.tuples(st.just("if"), places, names, st.integers(-3, 3), inner, inner))
        kinds.append(st.tuples(st.just("for"), places, st.integers(0, 3), inner))
        kinds.append(st.tuples(st.just("choose"), places, names, st.lists(inner, min_size=1, max_size=3)))
    return st.lists(st.one_of(kinds), min_size=1, max_size=3)


def execute(how: Eager | Building, program: list[Statement], values: Values) -> Values:
    values = dict(values)
    for statement in program:
        with how.at(statement[1]):
            values = executed(how, statement, values)
    return values


def executed(how: Eager | Building, statement: Statement, values: Values) -> Values:
    kind, _, *parts = statement
    if kind == "set":
        target, sign, left, right = parts
        return {**values, target: BINARY[sign](values[left], values[right])}
    if kind == "if":
        name, bound, *branches = parts
        then, other = (partial(execute, how, each, values) for each in branches)
        found: Values = how.cond(how.total(values[name]) > bound, then, other)
        return found
    if kind == "choose":
        name, choices = parts
        total = how.total(values[name])
        index = how.number(total > -2) + how.number(total > 2)
        found = how.choose(index, [partial(execute, how, each, values) for each in choices])
        return found
    if kind == "for":
        count, inner = parts

        def body(i: Any, inside: Values) -> Values:
            return execute(how, inner, {**inside, "c": inside["c"] + i})

        return how.loop(count, values, body)
    target, left, right = parts
    part = how.total(values[right]) * 0.125
    fns: dict[str, Callable[..., Any]] = {
        "map": lambda row: row * 0.5 + part,
        "scan": lambda so_far, row: so_far * 0.25 + row,
        "fold": lambda so_far, row: so_far * 0.5 + row - part,
    }
    return {**values, target: how.rows(kind, fns[kind], values[left])}


def computed(program: list[Statement], numbers: list[int]) -> tuple[Values, Values]:
    """The arrays to begin with, and what Python computes of them."""
    arrays = {name: np.array(numbers[3 * i : 3 * i + 3], np.float64) for i, name in enumerate(NAMES)}
    return arrays, execute(Eager(), program, arrays)


def built(program: list[Statement], tasks: Sequence[str] = ()) -> tuple[fe.Graph, Values, Values]:
    """The graph, what it is fed, and what it computes."""
    graph = fe.Graph()
    fed = {name: graph.placeholder("float64", [3], name=name) for name in NAMES}
    return graph, fed, execute(Building(graph, tasks), program, dict(fed))


def check(got: Values, expected: Values) -> None:
    for name in NAMES:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-12, atol=1e-9)


SOME_NUMBERS = st.lists(st.integers(-4, 4), min_size=9, max_size=9)


@given(statements(2), SOME_NUMBERS)
@settings(max_examples=examples(40))
def test_a_graph_computes_what_python_does(program: list[Statement], numbers: list[int]) -> None:
    arrays, expected = computed(program, numbers)
    graph, fed, found = built(program)
    feeds = {fed[name]: arrays[name] for name in NAMES}
    for compiled in (False, True):
        with fe.blocking.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            # The third step of a hot plan is compiled.
            for _ in range(4 if compiled else 1):
                check(session.run(found, feeds), expected)


@given(statements(1), SOME_NUMBERS)
@settings(max_examples=12)
def test_so_do_three_tasks(program: list[Statement], numbers: list[int]) -> None:
    arrays, expected = computed(program, numbers)
    graph, fed, found = built(program, TASKS)

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with (
                cluster(Path(folder), ps=1, worker=2) as (servers, query),
                fe.Session(graph, target=servers[TASKS[1]].target + query) as session,
            ):
                for _ in range(3):
                    check(await session.run(found, {fed[name]: arrays[name] for name in NAMES}), expected)

    trio.run(run)
