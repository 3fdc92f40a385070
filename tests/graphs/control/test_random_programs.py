"""Random programs: what a graph computes is what Python does with NumPy, in both tiers.

A program is drawn as a tree of statements, once; it is then run twice, by `Eager` on arrays and by `Building`
as nodes. Statements work on a dictionary of values: arithmetic, conditionals, bounded loops, nests of both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe

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


class Eager:
    """Python itself."""

    def cond(self, flag: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        return then() if flag else other()

    def loop(self, count: int, start: Values, body: Callable[[Any, Values], Values]) -> Values:
        values = start
        for index in range(count):
            values = body(np.float64(index), values)
        return values

    def total(self, x: Any) -> Any:
        return x.sum()


class Building:
    """Nodes of a graph."""

    def __init__(self, graph: fe.Graph) -> None:
        self.graph = graph

    def cond(self, flag: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        return self.graph.cond(flag, then, other)

    def loop(self, count: int, start: Values, body: Callable[[Any, Values], Values]) -> Values:
        def step(i: Any, values: Values) -> Any:
            return i + 1, body(fe.cast(i, "float64"), values)

        found: Values = self.graph.while_loop(lambda i, values: i < count, step, (0, start))[1]
        return found

    def total(self, x: Any) -> Any:
        return fe.reduce_sum(x)


def statements(depth: int) -> st.SearchStrategy[list[Statement]]:
    names = st.sampled_from(NAMES)
    simple = st.tuples(st.just("set"), names, st.sampled_from(sorted(BINARY)), names, names)
    kinds: list[st.SearchStrategy[Statement]] = [simple, simple]
    if depth:
        inner = statements(depth - 1)
        kinds.append(st.tuples(st.just("if"), names, st.integers(-3, 3), inner, inner))
        kinds.append(st.tuples(st.just("for"), st.integers(0, 3), inner))
    return st.lists(st.one_of(kinds), min_size=1, max_size=3)


def execute(how: Eager | Building, program: list[Statement], values: Values) -> Values:
    values = dict(values)
    for statement in program:
        if statement[0] == "set":
            _, target, sign, left, right = statement
            values[target] = BINARY[sign](values[left], values[right])
        elif statement[0] == "if":
            _, name, bound, then, other = statement
            flag = how.total(values[name]) > bound
            values = how.cond(flag, partial(execute, how, then, values), partial(execute, how, other, values))
        else:
            _, count, inner = statement

            def body(i: Any, inside: Values, inner: list[Statement] = inner) -> Values:
                return execute(how, inner, {**inside, "c": inside["c"] + i})

            values = how.loop(count, values, body)
    return values


@given(statements(2), st.lists(st.integers(-4, 4), min_size=9, max_size=9))
@settings(max_examples=40)
def test_a_graph_computes_what_python_does(program: list[Statement], numbers: list[int]) -> None:
    arrays = {name: np.array(numbers[3 * i : 3 * i + 3], np.float64) for i, name in enumerate(NAMES)}
    expected = execute(Eager(), program, arrays)
    graph = fe.Graph()
    fed = {name: graph.placeholder("float64", [3]) for name in NAMES}
    found = execute(Building(graph), program, dict(fed))
    feeds = {fed[name]: arrays[name] for name in NAMES}
    for compiled in (False, True):
        with fe.blocking.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            # The third step of a hot plan is compiled.
            for _ in range(4 if compiled else 1):
                got = session.run(found, feeds)
                for name in NAMES:
                    np.testing.assert_allclose(got[name], expected[name], rtol=1e-12, atol=1e-9)
