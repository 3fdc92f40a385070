"""Resources destroyed through their handles: what there is, what is gone, and tasks that end first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes

_PAIR: dict[str, Any] = {"key_dtype": "int64", "value_dtype": "int64"}
_NUMBERS: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [[]]}

#: Handles that are there before what they name.
ANNOUNCED: dict[str, Callable[[Any], Any]] = {
    "variable": lambda ops: ops.VarHandleOp(dtype="float32", shape=[], shared_name="v"),
    "mutex": lambda ops: ops.MutexV2(),
    "summary writer": lambda ops: ops.SummaryWriter(shared_name="s"),
    "ensemble": lambda ops: ops.BoostedTreesEnsembleResourceHandleOp(shared_name="e"),
    "quantiles": lambda ops: ops.BoostedTreesQuantileStreamResourceHandleOp(shared_name="q"),
    "tree": lambda ops: ops.TensorForestTreeResourceHandleOp(shared_name="t"),
}

#: Handles whose making makes what they name, or of what has no name.
MADE: dict[str, Callable[[Any], Any]] = {
    "nameless iterator": lambda ops: ops.AnonymousIteratorV3(**_NUMBERS),
    "table": lambda ops: ops.HashTableV2(**_PAIR),
    "nameless table": lambda ops: ops.AnonymousHashTable(**_PAIR),
    "queue": lambda ops: ops.FIFOQueueV2(component_types=["int64"]),
    "stack": lambda ops: ops.StackV2(3, elem_type="int64"),
    "array": lambda ops: ops.TensorArrayV3(3, dtype="int64")[0],
    "seeds": lambda ops: ops.AnonymousSeedGenerator(np.int64(1), np.int64(2), True)[0],
    "cache": lambda ops: ops.AnonymousMemoryCache()[0],
}


def _destroying(make: Callable[[Any], Any], ignore: bool = False) -> fe.Graph:
    graph = fe.Graph()
    graph.ops.DestroyResourceOp(make(graph.ops), ignore_lookup_error=ignore, name="destroy")
    return graph


@pytest.mark.parametrize("kind", ANNOUNCED)
async def test_what_was_never_created_is_not_found(kind: str) -> None:
    async with fe.Session(_destroying(ANNOUNCED[kind])) as session:
        with pytest.raises(fe.errors.NotFoundError, match="does not exist"):
            await session.run("destroy")
    async with fe.Session(_destroying(ANNOUNCED[kind], ignore=True)) as session:
        await session.run("destroy")


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("ignore", [False, True])
async def test_what_there_is_is_destroyed(kind: str, ignore: bool) -> None:
    async with fe.Session(_destroying(MADE[kind], ignore)) as session:
        for _ in range(2):
            await session.run("destroy")


async def test_what_was_destroyed_is_not_there_any_more() -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["int64"])
    with graph.control_dependencies([graph.ops.DestroyResourceOp(queue, ignore_lookup_error=False)]):
        graph.ops.DestroyResourceOp(queue, ignore_lookup_error=False, name="again")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.NotFoundError, match=r"'again'.*/FIFOQueueV2/.*was destroyed before"):
            await session.run("again")


async def test_a_mutex_is_there_once_it_was_locked() -> None:
    graph = fe.Graph()
    mutex = graph.ops.MutexV2()
    graph.ops.ConsumeMutexLock(graph.ops.MutexLock(mutex), name="locked")
    graph.ops.DestroyResourceOp(mutex, ignore_lookup_error=False, name="destroy")
    async with fe.Session(graph) as session:
        await session.run("locked")
        await session.run("destroy")


def _ahead(graph: fe.Graph) -> Any:
    """A dataset whose elements are made ahead."""
    numbers = graph.ops.RangeDataset(*(np.int64(each) for each in (0, 100, 1)), **_NUMBERS)
    return graph.ops.PrefetchDataset(numbers, np.int64(3), **_NUMBERS)


def _begun(graph: fe.Graph) -> Any:
    """An iterator that `make` begins."""
    iterator = graph.ops.IteratorV2(shared_name="it", container="", **_NUMBERS)
    graph.ops.MakeIterator(_ahead(graph), iterator, name="make")
    return iterator


def _one_shot(graph: fe.Graph) -> Any:
    factory = fe.function(graph, [], name="numbers")(_ahead)
    iterator = graph.ops.OneShotIterator(dataset_factory=factory.attr, **_NUMBERS)
    graph.ops.Identity(iterator, name="make")
    return iterator


@pytest.mark.parametrize("make", [_begun, _one_shot])
async def test_the_tasks_of_an_iterator_have_ended_when_it_is_destroyed(make: Any) -> None:
    graph = fe.Graph()
    iterator = make(graph)
    graph.ops.IteratorGetNext(iterator, name="next", **_NUMBERS)
    graph.ops.DestroyResourceOp(iterator, ignore_lookup_error=False, name="destroy")
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        assert [await session.run("next:0") for _ in range(2)] == [0, 1]
        assert session.resources.services.count
        await session.run([], targets=["destroy"])
        assert session.resources.services.count == 0


def _deleter(graph: fe.Graph) -> Any:
    """Return a deleter, which a deleting node takes and ignores."""
    return graph.ops.AnonymousIteratorV2(**_NUMBERS)[1]


def _several(graph: fe.Graph) -> Any:
    """A multi-device iterator that `make` begins, and `next`."""
    iterator = graph.ops.MultiDeviceIterator(devices=["/cpu:0"], shared_name="it", container="", **_NUMBERS)
    incarnation = graph.ops.MultiDeviceIteratorInit(_ahead(graph), iterator, np.int64(1), name="make")
    graph.ops.MultiDeviceIteratorGetNextFromShard(iterator, 0, incarnation, name="next", **_NUMBERS)
    graph.ops.MultiDeviceIteratorToStringHandle(iterator, name="text")
    graph.ops.DeleteMultiDeviceIterator(iterator, [], _deleter(graph), name="delete")
    return iterator


def _one(make: Callable[[fe.Graph], Any]) -> Callable[[fe.Graph], Any]:
    def with_uses(graph: fe.Graph) -> Any:
        iterator = make(graph)
        graph.ops.IteratorGetNext(iterator, name="next", **_NUMBERS)
        graph.ops.IteratorToStringHandle(iterator, name="text")
        graph.ops.DeleteIterator(iterator, _deleter(graph), name="delete")
        return iterator

    return with_uses


@pytest.mark.parametrize("first", ["destroy", "delete"])
@pytest.mark.parametrize(
    "make", [_one(_begun), _one(_one_shot), _several], ids=["one", "one shot", "several"]
)
async def test_an_iterator_that_is_gone_is_not_found_and_not_made_anew_as_in_tensorflow(
    make: Callable[[fe.Graph], Any], first: str
) -> None:
    graph = fe.Graph()
    iterator = make(graph)
    for name, ignore in (("destroy", False), ("ignoring", True)):
        graph.ops.DestroyResourceOp(iterator, ignore_lookup_error=ignore, name=name)
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        assert await session.run("next:0") == 0
        await session.run([], targets=[first])
        uses = ["destroy", "delete", "next", "text"] + ["make"] * (graph["make"].op != "Identity")
        for use in uses:
            with pytest.raises(fe.errors.NotFoundError, match="does not exist"):
                await session.run([], targets=[use])
        await session.run([], targets=["ignoring"])
        assert session.resources.services.count == 0
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        assert await session.run("next:0") == 0


async def test_a_node_that_runs_first_after_that_makes_another_which_all_handles_mean() -> None:
    graph = fe.Graph()
    iterator = _begun(graph)
    graph.ops.IteratorGetNext(iterator, name="next", **_NUMBERS)
    graph.ops.DestroyResourceOp(iterator, ignore_lookup_error=False, name="destroy")
    later = graph.ops.IteratorV2(shared_name="it", container="", name="later", **_NUMBERS)
    graph.ops.MakeIterator(_ahead(graph), later, name="make_later")
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        await session.run([], targets=["destroy"])
        await session.run([], targets=["make_later"])
        assert await session.run("next:0") == 0
        await session.run([], targets=["destroy"])
        with pytest.raises(fe.errors.NotFoundError, match="run its initializer without"):
            await session.run([], targets=["make_later"])
