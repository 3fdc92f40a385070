"""Small programs of calls, conditionals, loops and effects, as graphs in two forms and as plain Python.

A program is a block: statements that each give one float32, of two variables and what was before. An effect
sets `v = v * 0.5 + x`, so that its value tells the order of all effects; it gives what it has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

import flowengine as fe

VARIABLES = 2


@dataclass(frozen=True)
class Add:
    left: int
    right: int


@dataclass(frozen=True)
class Effect:
    variable: int
    value: int


@dataclass(frozen=True)
class Call:
    body: Block


@dataclass(frozen=True)
class If:
    condition: int
    then: Block
    other: Block


@dataclass(frozen=True)
class While:
    rounds: int
    body: Block


Statement: TypeAlias = Add | Effect | Call | If | While


@dataclass(frozen=True)
class Block:
    """Statements; each may use the value given to the block (0) and those before it, counted modulo."""

    statements: tuple[Statement, ...]


_NUMBER = st.integers(0, 5)


def _blocks(inner: st.SearchStrategy[Block] | None) -> st.SearchStrategy[Block]:
    simple = st.builds(Add, _NUMBER, _NUMBER) | st.builds(Effect, st.integers(0, VARIABLES - 1), _NUMBER)
    if inner is None:
        return st.builds(Block, st.lists(simple, min_size=1, max_size=3).map(tuple))
    calls = (
        st.builds(Call, inner)
        | st.builds(If, _NUMBER, inner, inner)
        | st.builds(While, st.integers(0, 3), inner)
    )
    return st.builds(Block, st.lists(calls | simple, min_size=1, max_size=4).map(tuple))


#: Programs in which calls stand three deep.
PROGRAMS = _blocks(_blocks(_blocks(None)))


# ------------------------------------------------------------------ as plain Python


def evaluated(block: Block, given: np.float32, variables: list[np.float32]) -> np.float32:
    """Return the value of a block, and apply its effects to `variables`."""
    values = [given]
    for statement in block.statements:
        values.append(_value(statement, values, variables))
    return values[-1]


def _value(statement: Statement, values: list[np.float32], variables: list[np.float32]) -> np.float32:
    if isinstance(statement, Add):
        left, right = (values[i % len(values)] for i in (statement.left, statement.right))
        return np.float32(left * np.float32(0.5) + right)
    if isinstance(statement, Effect):
        value = values[statement.value % len(values)]
        variables[statement.variable] = np.float32(variables[statement.variable] * np.float32(0.5) + value)
        return variables[statement.variable]
    if isinstance(statement, Call):
        return evaluated(statement.body, values[-1], variables)
    if isinstance(statement, If):
        is_taken = values[statement.condition % len(values)] > 0.5
        return evaluated(statement.then if is_taken else statement.other, values[-1], variables)
    value = values[-1]
    for _ in range(statement.rounds):
        value = evaluated(statement.body, value, variables)
    return value


# ------------------------------------------------------------------ as graphs


class Writer:
    """Writes programs into a graph.

    is_functional   with calls, `If` and `While`; else with Switch, Merge, Enter, ... and calls written out
    devices         of nodes that have no effect, by turns
    """

    def __init__(self, is_functional: bool, devices: Sequence[str] = (), homes: Sequence[str] = ()) -> None:
        self.graph = fe.Graph()
        self.is_functional = is_functional
        self._devices = devices
        self._nodes = 0
        self.variables = []
        for number in range(VARIABLES):
            with self.graph.device(homes[number] if homes else None):
                self.variables.append(self.graph.variable(np.float32(number + 1), name=f"v{number}"))

    def write(self, block: Block) -> None:
        """x -> y, after all effects of the block."""
        x = self.graph.placeholder("float32", [], name="x")
        handles = [variable.handle for variable in self.variables]
        result, last = self._block(self.graph, block, x, handles, [])
        with self.graph.control_dependencies(last):
            self.graph.ops.Identity(result, name="y")

    def _device(self, graph: fe.Graph) -> Any:
        self._nodes += 1
        return graph.device(self._devices[self._nodes % len(self._devices)] if self._devices else None)

    def _block(
        self, graph: fe.Graph, block: Block, given: fe.Tensor, handles: list[fe.Tensor], last: list[Any]
    ) -> tuple[fe.Tensor, list[Any]]:
        """(what the block gives, what to wait for so that all its effects have been)."""
        values = [given]
        for statement in block.statements:
            value, last = self._statement(graph, statement, values, handles, last)
            values.append(value)
        return values[-1], last

    def _statement(
        self,
        graph: fe.Graph,
        statement: Statement,
        values: list[fe.Tensor],
        handles: list[fe.Tensor],
        last: list[Any],
    ) -> tuple[fe.Tensor, list[Any]]:
        if isinstance(statement, Add):
            left, right = (values[i % len(values)] for i in (statement.left, statement.right))
            with self._device(graph):
                return graph.ops.AddV2(graph.ops.Mul(left, graph.constant(0.5)), right), last
        if isinstance(statement, Effect):
            return self._effect(graph, statement, values, handles, last)
        if isinstance(statement, Call) and not self.is_functional:
            return self._block(graph, statement.body, values[-1], handles, last)
        with graph.control_dependencies(last):
            if self.is_functional:
                result = self._called(graph, statement, values, handles)
            else:
                result = self._written_out(graph, statement, values, handles)
        return result, [result]

    def _effect(
        self,
        graph: fe.Graph,
        statement: Effect,
        values: list[fe.Tensor],
        handles: list[fe.Tensor],
        last: list[Any],
    ) -> tuple[fe.Tensor, list[Any]]:
        ops, handle = graph.ops, handles[statement.variable]
        with graph.control_dependencies(last):
            read = ops.ReadVariableOp(handle, dtype="float32")
        value = ops.AddV2(ops.Mul(read, graph.constant(0.5)), values[statement.value % len(values)])
        assigned = ops.AssignVariableOp(handle, value)
        return value, [assigned]

    def _function(self, block: Block) -> fe.LibraryFunction:
        @fe.function(self.graph, ["float32", *["resource"] * VARIABLES])
        def body(x: fe.Tensor, *handles: fe.Tensor) -> fe.Tensor:
            return self._block(x.graph, block, x, list(handles), [])[0]

        return body

    def _called(
        self, graph: fe.Graph, statement: Statement, values: list[fe.Tensor], handles: list[fe.Tensor]
    ) -> fe.Tensor:
        value = values[-1]
        if isinstance(statement, Call):
            called: fe.Tensor = self._function(statement.body)(value, *handles)
            return called
        if isinstance(statement, If):
            condition = graph.ops.Greater(values[statement.condition % len(values)], graph.constant(0.5))
            branches: dict[str, Any] = {
                "then_branch": self._function(statement.then).attr,
                "else_branch": self._function(statement.other).attr,
            }
            chosen: fe.Tensor = graph.ops.If(condition, [value, *handles], Tout=["float32"], **branches)[0]
            return chosen
        assert isinstance(statement, While)
        return self._looped(graph, statement, value, handles)

    def _looped(
        self, graph: fe.Graph, statement: While, value: fe.Tensor, handles: list[fe.Tensor]
    ) -> fe.Tensor:
        types = ["int32", "float32", *["resource"] * VARIABLES]

        @fe.function(self.graph, types)
        def goes(count: fe.Tensor, *rest: fe.Tensor) -> fe.Tensor:
            return count < statement.rounds

        @fe.function(self.graph, types)
        def round_of(count: fe.Tensor, x: fe.Tensor, *handles: fe.Tensor) -> list[fe.Tensor]:
            found, _ = self._block(x.graph, statement.body, x, list(handles), [])
            return [count + 1, found, *handles]

        inputs = [graph.constant(0), value, *handles]
        result: fe.Tensor = graph.ops.While(inputs, cond=goes.attr, body=round_of.attr)[1]
        return result

    def _written_out(
        self, graph: fe.Graph, statement: Statement, values: list[fe.Tensor], handles: list[fe.Tensor]
    ) -> fe.Tensor:
        def finished(block: Block, given: fe.Tensor) -> fe.Tensor:
            result, last = self._block(graph, block, given, handles, [])
            with graph.control_dependencies(last):
                ended: fe.Tensor = graph.ops.Identity(result)
            return ended

        value = graph.ops.Identity(values[-1])  # after what the whole statement waits for
        if isinstance(statement, If):
            condition = graph.ops.Greater(values[statement.condition % len(values)], graph.constant(0.5))
            chosen: fe.Tensor = graph.cond(
                condition, lambda: finished(statement.then, value), lambda: finished(statement.other, value)
            )
            return chosen
        assert isinstance(statement, While)
        rounds, body = statement.rounds, statement.body
        _, result = graph.while_loop(
            lambda count, x: count < rounds,
            lambda count, x: (count + 1, finished(body, x)),
            [graph.constant(0), value],
            parallel_iterations=1,
        )
        looped: fe.Tensor = result
        return looped
