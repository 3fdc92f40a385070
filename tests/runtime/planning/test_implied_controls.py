"""Control edges that say no more than other edges are dropped, and steps do what they did with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.runtime.planning import planner
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.planner import make_plan
from flowengine.testing.strategies import GraphCase, graphs
from tests.runtime.planning.test_tiers import GRAPHS, play


def planned(graph: fe.Graph, *fetches: Any) -> tuple[Plan, dict[str, Item]]:
    """The plan, which parts its items when it goes, and they by their names."""
    plan = make_plan(graph, fetches=[each.port for each in fetches], registry=load_all())
    return plan, {item.name: item for item in plan.items}


def after(item: Item) -> list[str]:
    """The names of those that wait for an item by a control edge."""
    return [target.name for _, target in item.control or ()]


def received(graph: fe.Graph, name: str) -> Any:
    edge = {"tensor_name": name, "send_device": "a", "recv_device": "b", "send_device_incarnation": 1}
    return graph.create_op("_Recv", (), {"tensor_type": "float32", **edge}, name).outputs[0]


def test_what_is_reached_over_one_item_needs_no_edge() -> None:
    """As where a worker sends an update once it has what it fetched."""
    g = fe.Graph()
    first = received(g, "first")
    second = g.ops.Neg(first, name="second")
    x = received(g, "x")
    with g.control_dependencies([first, second]):
        third = g.ops.Exp(x, name="third")
    _plan, items = planned(g, third, second)
    assert after(items["first"]) == []
    assert after(items["second"]) == ["third"]
    assert items["third"].frame.pending[items["third"].local] == 2


def test_a_switch_between_is_no_reason() -> None:
    """A node that waits for a Switch is alive where one of its outputs is dead."""
    g = fe.Graph()
    first = received(g, "first")
    below, _ = g.ops.Switch(first, g.ops.Greater(first, g.constant(np.float32(0))), name="switch")
    x = received(g, "x")
    with g.control_dependencies([first, below.op]):
        end = g.ops.Exp(x, name="end")
    _plan, items = planned(g, end, below)
    assert after(items["first"]) == ["end"]
    assert after(items["switch"]) == ["end"]


@settings(max_examples=GRAPHS)
@given(case=graphs())
def test_random_graphs_do_what_they_did(case: GraphCase) -> None:
    without = trio.run(lambda: play(case, compiled=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "drop_implied_controls", lambda items: None)
        assert trio.run(lambda: play(case, compiled=False)) == without
