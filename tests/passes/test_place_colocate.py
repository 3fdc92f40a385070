"""Nodes that must be on one device, found however they are connected."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node, NodeGraph
from flowengine.passes.place.colocate import Groups, colocate, follow_preferences


def together(groups: Groups, *names: str) -> bool:
    return len({groups.find(groups.index[name]) for name in names}) == 1


def test_a_variable_is_with_what_assigns_it_and_apart_from_what_reads_it() -> None:
    g = Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(1.0, name="one"), name="init")
    g.ops.AssignAdd(v, 2.0, name="step")
    g.ops.Add(v, 3.0, name="sum")
    groups = colocate(g)
    assert together(groups, "v", "init", "step")
    assert not together(groups, "v", "sum")
    assert not together(groups, "v", "one")


def test_a_resource_is_with_its_users_through_identities() -> None:
    g = Graph()
    handle = g.ops.VarHandleOp(shape=[2], dtype="float32", name="handle")
    passed = g.ops.Identity(handle, name="passed")
    g.ops.AssignVariableOp(passed, [1.0, 2.0], dtype="float32", name="init")
    read = g.ops.ReadVariableOp(handle, dtype="float32", name="read")
    g.ops.Neg(read, name="neg")
    groups = colocate(g)
    assert together(groups, "handle", "passed", "init", "read")
    assert not together(groups, "handle", "neg")


def test_a_queue_a_stack_and_a_tensor_array_are_with_their_users() -> None:
    g = Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    g.ops.QueueEnqueueV2(queue, [1.0], name="put")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
    handle = g.ops.TensorArrayV2(2, dtype="float32", name="array")
    g.ops.TensorArrayReadV2(handle, 0, 0.0, dtype="float32", name="element")
    stack = g.ops.StackV2(-1, elem_type="float32", name="stack")
    g.ops.StackPushV2(stack, 1.0, name="push")
    groups = colocate(g)
    assert together(groups, "queue", "put", "get")
    assert together(groups, "array", "element")
    assert together(groups, "stack", "push")
    assert not together(groups, "queue", "array")


def test_class_names_a_node_even_one_that_is_gone() -> None:
    g = NodeGraph(
        [
            Node("a", "NoOp"),
            Node("b", "NoOp", attrs={"_class": (b"loc:@a",)}),
            Node("c", "NoOp", attrs={"_class": (b"loc:@gone",)}),
            Node("d", "NoOp", attrs={"_class": (b"loc:@gone", b"other")}),
            Node("e", "NoOp"),
        ]
    )
    groups = colocate(g)
    assert together(groups, "a", "b")
    assert together(groups, "c", "d")
    assert not together(groups, "a", "c")
    assert not together(groups, "c", "e")
    assert "'b' asks to be with 'a'" in [str(bond) for bond in groups.bonds]


def test_a_wish_of_the_user_binds_as_well() -> None:
    g = NodeGraph([Node("a", "NoOp"), Node("b", "NoOp"), Node("c", "NoOp")])
    groups = colocate(g, wishes={"c": "a"})
    assert together(groups, "a", "c")
    assert not together(groups, "a", "b")


def test_what_is_fed_binds_nobody() -> None:
    g = Graph()
    handle = g.ops.VarHandleOp(shape=[], dtype="float32", name="handle")
    g.ops.ReadVariableOp(handle, dtype="float32", name="read")
    assert not together(colocate(g, supplied={handle.port}), "handle", "read")
    items = g.ops.TensorListReserve(g.constant([2]), 1, element_dtype="float32", name="items")
    g.ops.TensorListLength(items, name="length")
    wanted = [str(bond) for _, _, bond in colocate(g).preferred]
    assert wanted == ["'length' takes a variant from 'items'"]
    assert not colocate(g, supplied={items.port}).preferred


def test_of_a_list_of_inputs_each_binds_by_itself() -> None:
    """Which of them are handles is said by their types, and not by the place of the list."""
    g = Graph()
    handle = g.ops.VarHandleOp(shape=[], dtype="float32", name="handle")
    number = g.constant(1.0, name="number")
    items = g.ops.TensorListReserve(g.constant([2]), 1, element_dtype="float32", name="items")
    g.ops.IdentityN([number, items, number, handle], name="all")
    groups = colocate(g)
    assert together(groups, "all", "handle")
    assert not together(groups, "all", "number")
    assert [str(bond) for _, _, bond in groups.preferred] == ["'all' takes a variant from 'items'"]


def test_a_preference_gives_way_to_a_demand() -> None:
    g = Graph()
    for name in ("first", "second"):
        g.ops.VarHandleOp(shape=[], dtype="float32", shared_name="shared", name=name)
    groups = colocate(g)
    assert not together(groups, "first", "second")
    masks = {groups.find(0): 0b01, groups.find(1): 0b10}
    follow_preferences(groups, masks)
    assert not together(groups, "first", "second")
    masks = {groups.find(0): 0b11, groups.find(1): 0b10}
    follow_preferences(groups, masks)
    assert together(groups, "first", "second")
    assert masks[groups.find(0)] == 0b10


def test_a_variable_and_its_alias_want_to_be_together() -> None:
    g = Graph()
    g.ops.VariableV2(shape=[], dtype="float32", name="first")
    g.ops.VariableV2(shape=[], dtype="float32", shared_name="first", name="second")
    g.ops.VariableV2(shape=[], dtype="float32", shared_name="first", container="elsewhere", name="third")
    g.ops.HashTableV2(key_dtype="int64", value_dtype="int64", name="table")
    g.ops.HashTableV2(key_dtype="int64", value_dtype="int64", shared_name="table", name="other_table")
    groups = colocate(g)
    masks = dict.fromkeys(map(groups.find, range(5)), 0b11)
    follow_preferences(groups, masks)
    assert together(groups, "first", "second")
    assert not together(groups, "first", "third")
    assert not together(groups, "table", "other_table"), "a table without a shared name is its node's alone"


@given(st.integers(1, 40), st.data())
def test_groups_are_what_transitivity_says(count: int, data: st.DataObject) -> None:
    """Against sets that are merged naively."""
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60))
    groups = colocate(NodeGraph([Node(f"n{i}", "NoOp") for i in range(count)]))
    naive = [{i} for i in range(count)]
    for a, b in pairs:
        groups.bind(f"n{a}", f"n{b}", "is with")
        merged = naive[a] | naive[b]
        for i in merged:
            naive[i] = merged
    for a in range(count):
        for b in range(count):
            assert (groups.find(a) == groups.find(b)) == (b in naive[a])
    members = groups.members()
    assert sorted(i for group in members.values() for i in group) == list(range(count))
    assert all(a < b for group in members.values() for a, b in pairwise(group))


def test_a_long_chain_of_bonds_is_no_deep_recursion() -> None:
    count = 20_000
    nodes = [Node("n0", "NoOp")]
    nodes += [Node(f"n{i}", "NoOp", attrs={"_class": (b"loc:@n%d" % (i - 1),)}) for i in range(1, count)]
    groups = colocate(NodeGraph(nodes))
    assert len(groups.members()) == 1


@pytest.mark.parametrize("op", ["Switch", "Enter"])
def test_a_reference_stays_where_it_is_through_control_flow(op: str) -> None:
    g = Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    if op == "Switch":
        g.ops.RefSwitch(v, g.constant(True, name="pred"), name="passed")
    else:
        g.ops.RefEnter(v, frame_name="loop", name="passed")
    groups = colocate(g)
    assert together(groups, "v", "passed")
