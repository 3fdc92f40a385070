"""Structures of fetches and feeds: taken apart and put together, and no reason to plan a request anew."""

from __future__ import annotations

import dataclasses
import gc
import sys
import types
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.runtime.planning import session_plans
from flowengine.runtime.planning.fetches import unpack
from tests.runtime.planning.fetching import Named, noted, same, squares


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    first: Any
    second: Any


@attrs.define
class Attributed:
    first: Any
    _second: Any


class Word(str):
    """A name of a class of its own."""


class Foreign:
    """Something with a name that the engine does not know."""

    name = "y:0"


#: Each makes a structure of two parts.
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "named tuple": Pair,
    "dict": lambda a, b: {"b": a, "a": b},
    "dict with keys of two types": lambda a, b: {"b": a, 1: b},
    "ordered": lambda a, b: OrderedDict([("b", a), ("a", b)]),
    "default": lambda a, b: defaultdict(list, {"b": a, "a": b}),
    "subclass": lambda a, b: noted({"b": a, "a": b}),
    "counter": lambda a, b: Counter({"b": a, "a": b}),
    "proxy": lambda a, b: types.MappingProxyType({"b": a, "a": b}),
    "dataclass": Record,
    "attrs": Attributed,
}

trees = st.recursive(
    st.one_of(st.none(), st.sampled_from(["a:0", "b:0", "c:0"])),
    lambda parts: st.one_of(
        *(st.builds(make, parts, parts) for make in PAIRS.values()),
        st.lists(parts, max_size=3),
        st.dictionaries(st.sampled_from("xyz"), parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


def replaced(tree: Any, values: dict[Any, Any]) -> Any:
    """The tree with a value for each name: how a result must look, written down once more."""
    if tree is None or isinstance(tree, str):
        return values[tree]
    kind: Any = type(tree)
    if isinstance(tree, Mapping):
        items = {key: replaced(part, values) for key, part in tree.items()}
        return (
            defaultdict(list, items)
            if kind is defaultdict
            else noted(items)
            if kind is Named
            else kind(items)
        )
    if kind in (list, tuple):
        return kind([replaced(part, values) for part in tree])
    if kind is Pair:
        return Pair(*(replaced(part, values) for part in tree))
    return kind(
        replaced(tree.first, values), replaced(tree.second if kind is Record else tree._second, values)
    )


def emptied(tree: Any) -> None:
    """Take all out of the structures that can be changed, and put something else in."""
    if isinstance(tree, Mapping):
        for part in tree.values():
            emptied(part)
    elif isinstance(tree, list | tuple):
        for part in tree:
            emptied(part)
    if isinstance(tree, list | dict):
        tree.clear()
    if isinstance(tree, dict):
        tree["late"] = 1


@given(tree=trees)
def test_values_take_the_places_of_leaves_in_structures_of_the_same_classes(tree: Any) -> None:
    values = {None: None, "a:0": 1, "b:0": 2, "c:0": 3}
    expected = replaced(tree, values)
    leaves, pack = unpack(tree)
    emptied(tree)  # what the caller does with it later does not matter
    for _ in range(2):
        found = pack([values[leaf] for leaf in leaves])
        assert same(found, expected)
        emptied(found)


#: {kind of fetch of one tensor: how it is made, and its value if that of the tensor is 9}
ONE: dict[str, tuple[Callable[[fe.Tensor], Any], Any]] = {
    "tensor": (lambda y: y, 9),
    "name": (lambda y: "y:0", 9),
    "name of a class of its own": (lambda y: Word("y:0"), 9),
    "name of numpy": (lambda y: np.str_("y:0"), 9),
    "foreign": (lambda y: Foreign(), 9),
    "list of one": (lambda y: [y], [9]),
    "list of a name": (lambda y: ["y:0"], [9]),
    "twice": (lambda y: [y, y, "y:0"], [9, 9, 9]),
    "tuple of one": (lambda y: (y,), (9,)),
    "nested": (lambda y: [[y], ({"k": y},)], [[9], ({"k": 9},)]),
    "nothing besides": (lambda y: [None, y, None], [None, 9, None]),
    "empty structures": (lambda y: [[], {}, (), y], [[], {}, (), 9]),
    "slices": (lambda y: fe.IndexedSlices(y, y), fe.IndexedSlices(9, 9)),  # type: ignore[arg-type]
    "dict of one": (lambda y: {"k": y}, {"k": 9}),
} | {kind: (lambda y, make=make: make(y, "y:0"), make(9, 9)) for kind, make in PAIRS.items()}


async def test_all_structures_of_a_tensor_have_one_plan(plannings: list[Any], readings: list[Any]) -> None:
    graph, x, y = squares()
    async with fe.Session(graph) as session:
        for _ in range(2):
            for make, expected in ONE.values():
                assert same(await session.run(make(y), {x: 3.0}), expected)
        assert len(readings) == len(set(readings))  # each list of leaves once
        assert len(plannings) == session.statistics().plans == 1
        call = session.make_callable({"k": y}, [x])
        assert await call(2.0) == {"k": 4}
        assert len(plannings) == 2  # a callable has a plan of its own
        for _ in range(2):
            metadata = fe.RunMetadata()
            options = fe.RunOptions(timeout_seconds=60.0)
            found = await session.run({"k": y}, {x: 3.0}, options=options, run_metadata=metadata)
            assert found == {"k": 9}
            assert metadata.wall_seconds > 0
        assert len(plannings) == 2


async def test_all_ways_to_run_an_operation_have_one_plan(plannings: list[Any]) -> None:
    graph, x, y = squares()
    nothing: dict[str, Any] = {}
    async with fe.Session(graph) as session:
        for fetches, targets, expected in (
            (y.op, (), None),
            ("y", (), None),
            ([y.op], (), [None]),
            ({"k": "y", "l": y.op}, (), {"k": None, "l": None}),
            (Record(y.op, None), (), Record(None, None)),
            ([], [y.op], []),
            (nothing, ["y"], nothing),
            (None, ["y:0"], None),
        ):
            for _ in range(2):
                assert same(await session.run(fetches, {x: 3.0}, targets=targets), expected)
        assert len(plannings) == session.statistics().plans == 1


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
async def test_variables_are_fetched_by_one_plan(plannings: list[Any], use_resource: bool) -> None:
    graph = fe.Graph()
    v = graph.variable(2.0, name="v", use_resource=use_resource)
    parts = graph.variable(
        np.ones([4]), name="parts", partitioner=fe.partitioners.fixed_size(2), use_resource=use_resource
    )
    async with fe.Session(graph) as session:
        await session.initialize()
        await session.run([v, parts])
        plannings.clear()
        version = graph.version
        for _ in range(2):
            found = await session.run({"v": v, "parts": (parts, [v])})
            assert (found["v"], found["parts"][0].tolist(), found["parts"][1]) == (2.0, [1.0] * 4, [2.0])
            assert await session.run([v, parts, v]) is not None
        assert (len(plannings), graph.version) == (0, version)


async def test_feeds_of_all_kinds_have_one_plan(plannings: list[Any]) -> None:
    graph = fe.Graph()
    sparse = fe.sparse_placeholder("float32", [2, 2], "s", graph=graph)
    splits, values = graph.placeholder("int64", [None]), graph.placeholder("float32", [None])
    ragged = fe.RaggedTensor(values, splits)
    parts = ([[0, 1]], [5.0], [2, 2])
    total = fe.reduce_sum(sparse.values) + fe.reduce_sum(values) + fe.cast(splits[0], "float32")
    async with fe.Session(graph) as session:
        for first in (
            {sparse: parts},
            {sparse: fe.SparseTensor(*parts)},
            {tuple_of(sparse): tuple_of(fe.SparseTensor(*parts))},
        ):
            for rest in ({ragged: ([1.0, 2.0], [0, 2])}, {ragged: fe.RaggedTensor([1.0, 2.0], [0, 2])}):
                for _ in range(2):
                    assert await session.run({"total": total}, first | rest) == {"total": 8}
        named = dict(zip(["s/indices:0", "s/values:0", "s/shape"], parts, strict=True))
        await session.run(total, named | {values: [1.0, 2.0], splits: [0, 2]})
        assert len(plannings) == session.statistics().plans == 1


def tuple_of(sparse: Any) -> Pair:
    """Its parts in other structures."""
    return Pair((sparse.indices, sparse.values), sparse.dense_shape)


async def test_no_feeds_are_of_one_kind(plannings: list[Any]) -> None:
    graph = fe.Graph()
    y = graph.constant(2.0)
    async with fe.Session(graph) as session:
        kinds: list[Any] = [None, {}, OrderedDict(), types.MappingProxyType({})]
        for feeds in kinds:
            assert await session.run({"y": y}, feeds) == {"y": 2}
        assert len(plannings) == 1


async def test_a_structure_may_change_between_steps_and_in_a_step(plannings: list[Any]) -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]])
    put = graph.ops.QueueEnqueueV2(queue, [graph.constant(7.0)])
    got = graph.ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    asked: dict[str, Any] = {"got": got}
    found: list[Any] = []
    async with fe.Session(graph) as session, trio.open_nursery() as nursery:

        async def take() -> None:
            found.append(await session.run(asked))

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        asked["again"] = asked.pop("got")
        asked["put"] = put
        await session.run([], targets=[put])
        await trio.testing.wait_all_tasks_blocked()
        assert found == [{"got": 7}]
        assert await session.run(asked) == {"again": 7, "put": None}
        call = session.make_callable(asked)
        asked.clear()
        assert await call() == await call() == {"again": 7, "put": None}


async def test_the_session_keeps_no_structure(plannings: list[Any]) -> None:
    graph, x, y = squares()
    async with fe.Session(graph) as session:
        held = [Record(y, Foreign()), noted({"y": y})]
        gone = [weakref.ref(held[0]), weakref.ref(held[1]), weakref.ref(held[0].second)]  # type: ignore[attr-defined]
        await session.run(held, {x: 1.0})
        held.clear()
        gc.collect()
        assert [each() for each in gone] == [None] * 3


async def test_what_is_remembered_is_bounded(plannings: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_plans, "REQUESTS_MAX", 3)
    monkeypatch.setattr(session_plans, "PLANS_MAX", 2)
    graph, x, y = squares()
    z = fe.tanh(x, name="z")
    async with fe.Session(graph) as session:
        planning = session._planning
        for count in range(1, 6):
            await session.run({"k": [y] * count}, {x: 1.0})
            assert len(planning.asked) == min(count, 3)
        assert len(plannings) == len(planning.kept) == 1
        for fetches in ([z], [y, z], [z, y]):
            await session.run(fetches, {x: 1.0})
            # A request is remembered as long as its plan is.
            assert {found.prepared for found in planning.asked.values()} <= set(planning.kept.values())
        assert (len(plannings), len(planning.kept)) == (4, 2)
        assert planning._make_room()
        assert {found.prepared for found in planning.asked.values()} <= set(planning.kept.values())
        graph.ops.Neg(x)
        assert await session.run({"k": y}, {x: 3.0}) == {"k": 9}
        assert len(planning.asked) == len(planning.kept) == 1


async def test_those_who_ask_at_once_in_several_ways_make_one_plan(plannings: list[Any]) -> None:
    graph, x, y = squares()
    found: list[Any] = []
    async with fe.Session(graph) as session:

        async def ask(fetches: Any) -> None:
            found.append(await session.run(fetches, {x: 3.0}))

        async with trio.open_nursery() as nursery:
            for fetches in (y, "y:0", [y], {"k": y}):
                nursery.start_soon(ask, fetches)
        assert len(found) == 4
        assert all(expected in found for expected in (9, [9], {"k": 9}))
        assert len(plannings) == 1


async def test_bad_fetches_in_structures_are_named() -> None:
    graph, x, y = squares()
    async with fe.Session(graph) as session:
        for bad in ({"k": y, "l": 3}, [{"k": object}], {"k": {1, 2}}):
            with pytest.raises(fe.errors.InvalidArgumentError, match="cannot fetch or feed"):
                await session.run(bad, {x: 1.0})
        other = fe.Graph().constant(1.0, name="y")
        with pytest.raises(fe.errors.InvalidArgumentError, match="belongs to another graph"):
            await session.run({"k": y, "l": other}, {x: 1.0})
        with pytest.raises(fe.errors.NotFoundError, match="no tensor 'w:0'"):
            await session.run({"k": y, "l": "w:0"}, {x: 1.0})


@pytest.mark.parametrize("fetches", [["y:0"], {"y": "y:0"}, [{"y": "y:0"}], ({"y": "y:0"},), {"a": ["y:0"]}])
def test_structures_of_one_tensor_are_taken_apart_in_few_calls(fetches: Any) -> None:
    calls: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(event) if event.endswith("call") else None)
    try:
        leaves, pack = unpack(fetches)
        packed = pack([1.0])
    finally:
        sys.setprofile(before)
    assert leaves == ("y:0",)
    assert str(packed) == str(fetches).replace("'y:0'", "1.0")
    assert len(calls) <= 12, calls
