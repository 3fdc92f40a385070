"""Objects of a session, which are freed by reference counting alone once it is closed and let go of."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.work_pieces import Piecework
from flowengine.passes.blocks.compiled_regions import CompiledRegion
from flowengine.runtime.planning.function_calls import StepCaller
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.items import Item, StaticFrame
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.preparing import PreparedPlan
from flowengine.runtime.planning.tiers import TieredPlan

#: {what it is: a weak reference to it}
Refs = dict[str, "weakref.ref[Any]"]


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _alive(refs: Refs) -> list[str]:
    return [name for name, ref in refs.items() if ref() is not None]


def _chain() -> fe.Graph:
    graph = fe.Graph()
    value = graph.placeholder("float32", [None], name="x")
    for _ in range(40):
        value = graph.ops.Sqrt(graph.ops.Square(value + 1.0))
    graph.ops.Identity(value, name="y")
    return graph


def _loop() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    found = graph.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, a * 2.0), [graph.constant(0), x])
    graph.ops.Identity(found[1], name="y")
    return graph


def _called() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    one = fe.function(graph, ["float32"], name="one")(lambda value: value + 1.0)
    two = fe.function(graph, ["float32"], name="two")(lambda value: one(value) * one(value))
    graph.ops.Identity(two(x), name="y")
    return graph


def _on_two() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    with graph.device("/cpu:1"):
        value = x + 1.0
    with graph.device("/cpu:0"):
        graph.ops.Identity(value * 2.0, name="y")
    return graph


_GRAPHS: Mapping[str, tuple[Callable[[], fe.Graph], fe.Config]] = {
    "chain": (_chain, fe.Config()),
    "counted": (_chain, fe.Config(count_allocations=True)),
    "loop": (_loop, fe.Config()),
    "function": (_called, fe.Config()),
    "function that stays a call": (_called, fe.Config(open_calls=False)),
    "two devices": (_on_two, fe.Config(device_count={"CPU": 2}, measure_costs=False)),
}


#: What plans are made of.
_KINDS = {CompiledRegion, FunctionTable, Item, Plan, PreparedPlan, StaticFrame, StepCaller, TieredPlan}


def _held() -> Counter[str]:
    """How many objects of plans there are in this process."""
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in _KINDS)


@pytest.mark.parametrize("steps", [1, 30], ids=["cold", "hot"])
@pytest.mark.parametrize("kind", _GRAPHS)
async def test_plans_go_with_the_session(kind: str, steps: int) -> None:
    make, config = _GRAPHS[kind]
    graph = make()
    with _without_collector():
        before = _held()
        async with fe.Session(graph, config=config) as session:
            call = session.make_callable("y:0", ["x:0"])
            for _ in range(steps):
                await session.run("y:0", {"x:0": [1.0]})
                await call([1.0])
            assert _held() > before
            ref = weakref.ref(session)
        del session, call
        assert ref() is None
        assert _held() == before


async def test_plans_go_while_the_session_is_kept() -> None:
    with _without_collector():
        before = _held()
        async with fe.Session(_chain()) as session:
            await session.run("y:0", {"x:0": [1.0]})
            assert _held() > before
        assert _held() == before


async def test_plans_of_an_older_version_go_with_the_session() -> None:
    graph = _called()
    with _without_collector():
        before = _held()
        async with fe.Session(graph, config=fe.Config(open_calls=False)) as session:
            call = session.make_callable("y:0", ["x:0"])
            await call([1.0])
            graph.ops.Identity(graph.tensor("y:0"), name="z")
            await session.run("z:0", {"x:0": [1.0]})
            await call([1.0])
        del session, call
        assert _held() == before


async def test_a_plan_that_is_forgotten_goes_when_its_steps_have_ended() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], name="queue", shared_name="q")
    graph.ops.QueueEnqueueV2(queue, [x], name="put")
    value = graph.ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    for _ in range(10):
        value = graph.ops.Sqrt(graph.ops.Square(value + 1.0))
    graph.ops.Identity(value, name="y")
    with _without_collector():
        before = _held()
        async with fe.Session(graph) as session:
            results = []

            async def step() -> None:
                results.append(await session.run("y:0"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(step)
                await trio.testing.wait_all_tasks_blocked()
                graph.ops.NoOp(name="grown")
                await session.run("put", {"x:0": 1.0})
            assert results == [11.0]
        assert _held() == before


def _long_chain() -> fe.Graph:
    graph = fe.Graph()
    value = graph.placeholder("float32", [None], name="x")
    for _ in range(400):
        value = graph.ops.Sqrt(graph.ops.Square(value + 1.0))
    graph.ops.Identity(value, name="y")
    return graph


@contextmanager
def _one_piece_a_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    advance = Piecework.advance
    with monkeypatch.context() as patched:
        patched.setattr(Piecework, "advance", lambda job, until: advance(job, 0.0))
        yield


async def _held_at_passes(held: list[int], stop: trio.Event) -> None:
    """Note at each pass of the event loop how many objects of plans there are."""
    while not stop.is_set():
        held.append(_held().total())
        await trio.lowlevel.checkpoint()


def _steepest(held: list[int]) -> int:
    return max(before - after for before, after in itertools.pairwise(held))


async def test_a_large_plan_is_freed_in_turns_at_close(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _long_chain()
    with _without_collector():
        before = _held()
        session = fe.Session(graph)
        await session.run("y:0", {"x:0": [1.0]})
        held, stop = [_held().total()], trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_held_at_passes, held, stop)
            with _one_piece_a_turn(monkeypatch):
                await session.close()
            held.append(_held().total())
            stop.set()
        assert _held() == before
        assert held[0] > 1000
        assert _steepest(held) <= 200


async def test_plans_of_an_older_version_are_freed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _long_chain()
    with _without_collector():
        async with fe.Session(graph) as session:
            await session.run("y:0", {"x:0": [1.0]})
            graph.ops.NoOp(name="grown")
            held, stop = [_held().total()], trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_held_at_passes, held, stop)
                with _one_piece_a_turn(monkeypatch):
                    await session.run([], targets=["grown"])
                held.append(_held().total())
                stop.set()
            assert held[0] > 1000
            assert _steepest(held) <= 200
            assert held[-1] < 100


async def test_a_close_that_is_cancelled_frees_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _long_chain()
    with _without_collector():
        before = _held()
        session = fe.Session(graph)
        await session.run("y:0", {"x:0": [1.0]})
        with _one_piece_a_turn(monkeypatch), trio.CancelScope() as scope:
            scope.cancel()
            await session.close()
        assert _held() == before
    with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
        await session.run("y:0", {"x:0": [1.0]})


@pytest.mark.parametrize("make", [_chain, _called, _on_two])
def test_a_graph_goes_by_itself(make: Callable[[], fe.Graph]) -> None:
    with _without_collector():
        graph = make()
        ref = weakref.ref(graph)
        del graph
        assert ref() is None


def test_a_graph_that_was_read_goes_by_itself() -> None:
    built = _loop()
    built.variable([1.0], name="w")
    content = built.to_meta_graph().SerializeToString()
    with _without_collector():
        graph = fe.Graph.from_graph_def(content)
        ref = weakref.ref(graph)
        del graph
        assert ref() is None


def test_constructors_keep_their_graph() -> None:
    ops = fe.Graph().ops
    assert ops.NoOp(name="n").graph.operation("n").name == "n"


def _refs_of(session: Any) -> Refs:
    """A façade, its session, its graph and its portal."""
    held = {"graph": session.graph, "façade": session, "session": session._session}
    return {name: weakref.ref(each) for name, each in (held | {"portal": session._open()}).items()}


def test_a_blocking_session_takes_all_along() -> None:
    with _without_collector():
        before = _held()
        graph = _chain()
        with fe.blocking.Session(graph) as session:
            for _ in range(20):
                session.run("y:0", {"x:0": [1.0]})
            refs = _refs_of(session)
        del session, graph
        assert not _alive(refs)
        assert _held() == before


def test_an_asyncio_session_takes_all_along() -> None:
    async def use() -> Refs:
        async with fe.asyncio.Session(_chain()) as session:
            for _ in range(20):
                await session.run("y:0", {"x:0": [1.0]})
            return _refs_of(session)

    with _without_collector():
        before = _held()
        assert not _alive(asyncio.run(use()))
        assert _held() == before


async def _export(path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    w = graph.variable(np.ones([2, 1], "float32"), name="w")
    y = graph.ops.MatMul(x, w.value(), name="y")
    async with fe.Session(graph) as session:
        await session.initialize()
        await fe.saved_model.save(session, path, signatures={"serving_default": ({"x": x}, {"y": y})})


async def test_a_model_takes_all_along(tmp_path: Path) -> None:
    await _export(tmp_path / "export")
    with _without_collector():
        before = _held()
        async with await fe.saved_model.load(tmp_path / "export") as model:
            await model(x=[[1.0, 2.0]])
            await model.variables["w"].read()
            assert not model.functions
            held = {"model": model, "graph": model.graph, "session": model.session}
            refs = {name: weakref.ref(each) for name, each in held.items()}
            held.clear()
        del model
        assert not _alive(refs)
        assert _held() == before


async def test_a_blocking_model_takes_all_along(tmp_path: Path) -> None:
    await _export(tmp_path / "export")

    def use() -> Refs:
        with fe.blocking.load_saved_model(tmp_path / "export") as model:
            model(x=[[1.0, 2.0]])
            return {"model": weakref.ref(model), **_refs_of(model.session)}

    with _without_collector():
        assert not _alive(await trio.to_thread.run_sync(use))


def test_collections_of_a_graph_that_was_read_are_read_once() -> None:
    built = fe.Graph()
    built.variable([1.0], name="w")
    with built.control_dependencies([]):
        built.cond(built.placeholder("bool", [], name="p"), lambda: 1.0, lambda: 2.0, name="either")
    graph = fe.Graph.from_graph_def(built.to_meta_graph().SerializeToString())
    graph.add_to_collection("mine", 3)
    (variable,) = graph.collection("variables")
    assert variable.name == "w:0"
    assert graph.collection("variables")[0] is variable
    assert graph.collection("mine") == [3]
    assert set(graph.collections.keys) == {*built.collections.keys, "mine"}
    inside = [node.name for node in graph if graph.context_of(node.name) is not None]
    assert inside == [node.name for node in built if built.context_of(node.name) is not None]
    assert inside


def test_contexts_are_found_before_collections_are_asked_for() -> None:
    built = _loop()
    graph = fe.Graph.from_graph_def(built.to_meta_graph().SerializeToString())
    inside = [node.name for node in graph if graph.context_of(node.name) is not None]
    assert inside == [node.name for node in built if built.context_of(node.name) is not None]
