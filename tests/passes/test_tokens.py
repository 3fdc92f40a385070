"""Groups of nodes with equal token sets, against the inputs that each node waits for, on random graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traverse import topological_order
from flowengine.kernels.load import load_all, registry
from flowengine.passes.blocks.fuse import fuse
from flowengine.passes.blocks.sequences import fuse_sequences
from flowengine.passes.blocks.tokens import ADDS, PASSES, RESTARTS, SPLITS, TokenSets, role_of, token_sets
from flowengine.passes.context import PassContext
from flowengine.runtime.planning import tiers

KERNELS = load_all()

#: How a vertex of a random graph ends: with a value, dead, or not at all.
LIVE, DEAD, NEVER = "live", "dead", "never"


@dataclass(frozen=True)
class Vertex:
    """One vertex of a random graph.

    takes   (vertex before it, which of its outputs; None for a control edge)
    """

    name: int
    kind: str
    takes: tuple[tuple[int, int | None], ...]


@st.composite
def vertices(draw: st.DrawFn) -> list[Vertex]:
    kinds = ("member", "member", "member", "async", "switch", "merge", "trigger")
    made: list[Vertex] = []
    for name in range(draw(st.integers(2, 14))):
        kind = draw(st.sampled_from(kinds))
        count = draw(st.integers(2 if kind == "merge" else 0, 3)) if name else 0
        takes = []
        for _ in range(count):
            before = draw(st.integers(0, name - 1))
            slot = draw(st.integers(0, 1)) if made[before].kind == "switch" else 0
            is_data = kind == "merge" or draw(st.booleans())
            takes.append((before, slot if is_data else None))
        made.append(Vertex(name, kind if count or kind != "merge" else "member", tuple(takes)))
    return made


ROLES = {"member": PASSES, "async": ADDS, "switch": SPLITS, "merge": RESTARTS, "trigger": RESTARTS}


def waits_of(graph: list[Vertex]) -> dict[int, int]:
    """The sets of all vertices."""
    sets: TokenSets[object] = TokenSets()
    found: dict[int, int] = {}
    for vertex in graph:
        waits = 0
        for before, slot in vertex.takes:
            side = None if slot is None else sets.behind((before, slot))
            waits |= (sets.behind(before) or 0) if side is None else side
        found[vertex.name] = waits
        sides = [(vertex.name, slot) for slot in (0, 1)] if vertex.kind == "switch" else []
        sets.add(vertex.name, waits, ROLES[vertex.kind], sides)
    return found


def played(
    graph: list[Vertex], ends: Mapping[int, str], sides: Mapping[int, int]
) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """({vertex: how it ends}, the same of each output), by the rules of control flow, one by one.

    ends    how those that may be late end if they run
    sides   the side that each Switch takes
    """
    state: dict[int, str] = {}
    outputs: dict[tuple[int, int], str] = {}
    for vertex in graph:
        data = [outputs[before, slot] for before, slot in vertex.takes if slot is not None]
        controls = [state[before] for before, slot in vertex.takes if slot is None]
        if vertex.kind == "merge":
            arrived = LIVE if LIVE in data else NEVER if NEVER in data else DEAD
            end = NEVER if NEVER in controls else arrived
        elif NEVER in (*data, *controls):
            end = NEVER
        elif vertex.kind == "trigger":
            end = LIVE
        else:
            end = DEAD if DEAD in (*data, *controls) else LIVE
        if vertex.kind == "async" and end == LIVE:
            end = ends[vertex.name]
        state[vertex.name] = end
        for slot in (0, 1):
            taken = vertex.kind != "switch" or end != LIVE or sides[vertex.name] == slot
            outputs[vertex.name, slot] = end if taken else DEAD
    return state, outputs


@given(vertices(), st.data())
def test_members_of_a_group_end_alike_whatever_comes_and_is_taken(
    graph: list[Vertex], data: st.DataObject
) -> None:
    """A group that waits for all its inputs delays nobody and kills nobody."""
    ends = {v.name: data.draw(st.sampled_from((LIVE, DEAD, NEVER))) for v in graph if v.kind == "async"}
    sides = {v.name: data.draw(st.integers(0, 1)) for v in graph if v.kind == "switch"}
    state, _ = played(graph, ends, sides)
    found: dict[int, set[str]] = {}
    for name, waits in waits_of(graph).items():
        if graph[name].kind == "member":
            found.setdefault(waits, set()).add(state[name])
    assert all(len(ends_of) == 1 for ends_of in found.values()), found


@given(vertices())
def test_nothing_lies_between_two_members_of_a_group(graph: list[Vertex]) -> None:
    """With every group as one vertex there is no cycle: then no group waits for itself."""
    waits = waits_of(graph)
    group = {v.name: (waits[v.name] if v.kind == "member" else f"alone {v.name}") for v in graph}
    before: dict[object, set[object]] = {each: set() for each in group.values()}
    for vertex in graph:
        before[group[vertex.name]] |= {group[b] for b, _ in vertex.takes} - {group[vertex.name]}
    while before:
        free = [each for each, waited in before.items() if not waited]
        assert free, f"a cycle among {before}"
        for each in free:
            del before[each]
        for waited in before.values():
            waited.difference_update(free)


@given(vertices())
def test_sets_are_the_sources_on_the_ways_that_lead_to_a_vertex(graph: list[Vertex]) -> None:
    """Equal numbers exactly where walking back, up to what restarts, finds equal sources."""

    def walk(name: int) -> frozenset[object]:
        found: set[object] = set()
        for before, slot in graph[name].takes:
            kind = graph[before].kind
            if kind != "member":
                found.add(before)
            if kind == "switch" and slot is not None:
                found.add((before, slot))
            if ROLES[kind] != RESTARTS:
                found |= walk(before)
        return frozenset(found)

    waits = waits_of(graph)
    for one in graph:
        for other in graph:
            assert (waits[one.name] == waits[other.name]) == (walk(one.name) == walk(other.name))


def test_the_roles_of_nodes() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    ops.Switch(ops.Neg(x, name="neg"), p, name="switch")
    ops.Merge([x, x], name="merge")
    queue = ops.FIFOQueueV2(component_types=["float32"])
    # Without outputs, and may wait for ever.
    ops.QueueEnqueueV2(queue, [x], name="enqueue")
    ops.QueueDequeueV2(queue, component_types=["float32"], name="dequeue")
    ops.ControlTrigger(name="trigger")
    ops.NoOp(name="nothing")
    roles = {name: role_of(graph[name], KERNELS) for name in ("neg", "nothing")}
    assert set(roles.values()) == {PASSES}
    assert role_of(graph["switch"], KERNELS) == SPLITS
    assert role_of(graph["enqueue"], KERNELS) == role_of(graph["dequeue"], KERNELS) == ADDS
    assert role_of(graph["merge"], KERNELS) == role_of(graph["trigger"], KERNELS) == RESTARTS
    assert role_of(Node("f", "SomeFunction"), KERNELS) == ADDS


def test_what_a_loop_hands_back_is_not_waited_for() -> None:
    graph = fe.Graph()
    enter = graph.ops.Enter(graph.placeholder("int32", [], name="x"), frame_name="loop")
    merged = graph.ops.Merge([enter, enter], name="merge")[0]
    graph.ops.Neg(merged, name="inside")
    back = graph.ops.NextIteration(graph.ops.Neg(merged))
    graph.set_back_edge(merged.op.name, 1, OutputPort(back.op.name, 0))
    found = token_sets(graph, KERNELS)
    assert found["inside"] != found["merge"]
    assert found["inside"].bit_count() == found["merge"].bit_count() == 1


# What asks it.


def products_on_both_sides() -> NodeGraph:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [4, 4], name="x")
    p = graph.placeholder("bool", [], name="p")
    off, on = ops.Switch(x, p, name="switch")
    left = ops.MatMul(ops.MatMul(off, x, name="left0"), x, name="left1")
    right = ops.MatMul(ops.MatMul(on, x, name="right0"), x, name="right1")
    ops.Merge([left, right], name="merge")
    return graph


def test_layers_on_both_sides_of_a_conditional_are_two_sequences() -> None:
    """As one, they would be dead whatever is taken."""
    graph = products_on_both_sides()
    context = PassContext(
        feeds=(OutputPort("x", 0), OutputPort("p", 0)),
        fetches=(OutputPort("merge", 0),),
        kernels=registry("numpy"),
    )
    heavy = frozenset(node.name for node in graph if node.op == "MatMul")
    changed = fuse_sequences(graph, context, heavy, {})
    taken = {node.name: node.inputs[0] for node in changed if node.op == "_FusedSequence"}
    assert taken == {"left1": OutputPort("switch", 0), "right1": OutputPort("switch", 1)}


def test_layers_before_and_behind_a_full_queue_are_two_sequences() -> None:
    """As one, they would wait for room that only the first of them makes."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [4, 4], name="x")
    queue = ops.FIFOQueueV2(component_types=["float32"], capacity=1, name="queue")
    first = ops.MatMul(ops.MatMul(x, x, name="a0"), x, name="a1")
    with graph.control_dependencies([first.op]):
        ops.QueueDequeueV2(queue, component_types=["float32"], name="makes_room")
    full = ops.QueueEnqueueV2(queue, [x], name="enqueue")
    with graph.control_dependencies([full]):
        y = ops.MatMul(x, x, name="b0")
    ops.MatMul(y, x, name="b1")
    fetches = tuple(OutputPort(name, 0) for name in ("b1", "a1"))
    graph.ops.Neg(first, name="z")
    context = PassContext(
        feeds=(OutputPort("x", 0),),
        fetches=fetches,
        targets=("makes_room",),
        kernels=registry("numpy"),
    )
    heavy = frozenset(node.name for node in graph if node.op == "MatMul")
    changed = fuse_sequences(graph, context, heavy, {})
    for node in changed:
        if node.op == "_FusedSequence":
            names = node.attrs["program"].names
            assert names <= {"a0", "a1"} or names <= {"b0", "b1"}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
async def test_what_a_control_trigger_lets_run_is_not_killed_by_what_it_waited_for(
    tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    _, on = ops.Switch(x, p)
    taken = ops.Neg(on)
    with graph.control_dependencies([taken]):
        trigger = ops.ControlTrigger()
    with graph.control_dependencies([trigger]):
        lives = ops.Neg(ops.Neg(x, name="always0"), name="always")
        dies = ops.Neg(ops.Add(taken, taken), name="sometimes")
    ops.Merge([ops.Square(dies), ops.Square(x)], name="either")
    if tier == "compiled":
        monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    config = fe.Config(compile_hot_plans=tier == "compiled")
    async with fe.Session(graph, config=config) as session:
        with trio.fail_after(120):
            for side in (True, False):
                feeds = {"x:0": np.float32(3), "p:0": np.bool_(side)}
                got, either = await session.run([lives.name, "either:0"], feeds)
                assert got == 3.0
                assert either in ((36.0, 9.0) if side else (9.0,))


def test_regions_keep_apart_what_waits_and_what_does_not() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    queue = ops.FIFOQueueV2(component_types=["float32"])
    late = ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    ops.Neg(ops.Neg(ops.Neg(late)), name="behind")
    ops.Neg(ops.Neg(ops.Neg(x)), name="beside")
    fetches = (OutputPort("behind", 0), OutputPort("beside", 0))
    fused = fuse(graph, PassContext(feeds=(OutputPort("x", 0),), fetches=fetches, kernels=KERNELS))
    regions = [node for node in fused.graph if node.op == "_Region"]
    assert len(regions) == 2
    assert len(topological_order(fused.graph.nodes)) == len(fused.graph.nodes)
