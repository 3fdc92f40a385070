"""Late reads: a consumer of a variable's value follows the reference when it runs itself."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.names import parse_tensor_name
from flowengine.ir.graph import OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.dereference_at_use import read_late


def request(fetches: str, feeds: str = "") -> PassContext:
    def ports(names: str) -> tuple[OutputPort, ...]:
        return tuple(OutputPort(*parse_tensor_name(name)) for name in names.split())

    return PassContext(feeds=ports(feeds), fetches=ports(fetches), targets=())


@pytest.fixture
def graph() -> fe.Graph:
    """v -> read -> again -> double;  v += 1 by `update`, before `late` = fill(2, read)."""
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(np.float32(1)), name="init")
    read = g.ops.Identity(v, name="read")
    again = g.ops.StopGradient(read, name="again")
    g.ops.Add(again, again, name="double")
    update = g.ops.AssignAdd(v, g.constant(np.float32(1)), name="update")
    with g.control_dependencies([update]):
        two = g.constant(np.array([2], np.int32), name="two")
        ordered = g.ops.Identity(v, name="ordered")
    g.ops.Fill(two, read, name="late")
    g.ops.Neg(ordered, name="negative")
    return g


def inputs(graph: fe.Graph, context: PassContext, name: str) -> list[str]:
    return [str(port) for port in read_late(graph, context)[name].inputs]


def test_consumers_take_the_reference(graph: fe.Graph) -> None:
    context = request("late:0")
    assert inputs(graph, context, "late") == ["two:0", "v:0"]
    assert inputs(graph, context, "double") == ["v:0", "v:0"]


def test_what_hands_on_or_waits_keeps_its_place(graph: fe.Graph) -> None:
    context = request("late:0")
    assert inputs(graph, context, "again") == ["read:0"]
    assert inputs(graph, context, "negative") == ["ordered:0"]


def test_a_fed_read_is_the_feed(graph: fe.Graph) -> None:
    assert inputs(graph, request("late:0", "read:0"), "late") == ["two:0", "read:0"]
    assert inputs(graph, request("double:0", "again:0"), "double") == ["again:0", "again:0"]


def test_a_graph_without_references_is_returned_as_it_is() -> None:
    g = fe.Graph()
    g.ops.Neg(g.ops.Identity(g.placeholder("float32", [], name="x")), name="y")
    assert read_late(g, request("y:0")) is g


async def test_a_value_that_waits_for_an_update_has_seen_it(graph: fe.Graph) -> None:
    for compile_hot_plans in (False, True):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compile_hot_plans)) as session:
            await session.run("init")
            for count in range(2, 14):  # often enough to be compiled
                assert (await session.run("late:0")).tolist() == [count, count]
            assert await session.run("double:0", {"read:0": 5}) == 10


async def test_the_variable_is_named_where_it_has_no_value(graph: fe.Graph) -> None:
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.FailedPreconditionError, match="uninitialized value v"):
            await session.run("double:0")
