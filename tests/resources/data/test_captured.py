"""Datasets whose functions use resources, as graphs: written with the values that those have, and read."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from flowengine.ir.proto import GraphDef
from flowengine.ir.tensorproto import set_type

TENSORFLOW: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
RECORDED: Final = [
    json.loads(line) for line in Path(__file__).with_name("captured_2.jsonl").read_text().splitlines()
]
KINDS: Final[dict[str, Any]] = {"output_types": ["int64"], "output_shapes": [[]]}


async def _elements(content: bytes, epochs: int = 1) -> list[int]:
    """Return the elements that a session of its own finds in the dataset of a serialized graph."""
    graph = fe.Graph()
    made = graph.ops.DatasetFromGraph(graph.constant(content))
    repeated = graph.ops.RepeatDataset(made, np.int64(epochs), **KINDS)
    return await _all_of(graph, repeated, fe.Session(graph))


async def _all_of(graph: fe.Graph, dataset: fe.Tensor, session: fe.Session) -> list[int]:
    iterator = graph.ops.IteratorV2(shared_name="", container="", **KINDS)
    make = graph.ops.MakeIterator(dataset, iterator)
    (following,) = graph.ops.IteratorGetNext(iterator, **KINDS)
    found = []
    async with session:
        await session.run([], targets=[make])
        try:
            while True:
                found.append(int(await session.run(following)))
        except OutOfRangeError:
            return found


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each["name"])
async def test_what_tensorflow_has_written_gives_the_same_elements(recorded: dict[str, Any]) -> None:
    content = zlib.decompress(base64.b64decode(recorded["graph"]))
    assert await _elements(content, epochs=2) == recorded["elements"]


def _ranged(graph: fe.Graph, count: int) -> fe.Tensor:
    found: fe.Tensor = graph.ops.RangeDataset(np.int64(0), np.int64(count), np.int64(1), **KINDS)
    return found


def _mapped(
    graph: fe.Graph, captured: Sequence[fe.Tensor], body: Callable[..., fe.Tensor], count: int = 3
) -> fe.Tensor:
    """A dataset of what a function makes of each number and some handles."""
    function: Any = fe.function(graph, ["int64", *(handle.dtype for handle in captured)])(body)
    found: fe.Tensor = graph.ops.MapDataset(_ranged(graph, count), captured, f=function.attr, **KINDS)
    return found


def _variable(graph: fe.Graph, name: str = "v") -> fe.Tensor:
    handle: fe.Tensor = graph.ops.VarHandleOp(dtype="int64", shape=[], shared_name=name, name=name)
    graph.ops.AssignVariableOp(handle, graph.placeholder("int64", [], name=f"to_{name}"), name=f"set_{name}")
    graph.ops.ReadVariableOp(handle, dtype="int64", name=f"read_{name}")
    return handle


def _added(x: fe.Tensor, handle: fe.Tensor) -> fe.Tensor:
    return x + x.graph.ops.ReadVariableOp(handle, dtype="int64")


def _counted(x: fe.Tensor, handle: fe.Tensor) -> fe.Tensor:
    ops = x.graph.ops
    add = ops.AssignAddVariableOp(handle, x)
    with x.graph.control_dependencies([add]):
        found: fe.Tensor = ops.ReadVariableOp(handle, dtype="int64")
    return found


def _looked_up(x: fe.Tensor, table: fe.Tensor) -> fe.Tensor:
    found: fe.Tensor = x.graph.ops.LookupTableFindV2(table, x, np.int64(-1))
    return found


def _last(x: fe.Tensor, table: fe.Tensor) -> fe.Tensor:
    found: fe.Tensor = x.graph.ops.LookupTableFindV2(table, x, np.array([-1, -2]))
    return found[1]


async def test_a_variable_is_written_with_its_value_and_stays_as_it_is() -> None:
    graph = fe.Graph()
    dataset = _mapped(graph, [_variable(graph)], _counted)
    graph.ops.DatasetToGraphV2(dataset, external_state_policy=1, name="written")
    async with fe.Session(graph) as session:
        await session.run([], {"to_v:0": 5}, targets=["set_v"])
        content = await session.run("written:0")
        assert await _elements(content, epochs=2) == [5, 6, 8, 8, 9, 11]
        await session.run([], {"to_v:0": 50}, targets=["set_v"])
        assert await _elements(content) == [5, 6, 8]
        made = graph.ops.DatasetFromGraph(content)
        total = graph.ops.ReduceDataset(
            made,
            [np.int64(0)],
            [],
            f=fe.function(graph, ["int64", "int64"])(lambda total, x: total + x).attr,
            **KINDS,
        )
        assert await session.run(total[0]) == 19
        assert await session.run("read_v:0") == 50


async def test_a_variable_that_is_used_twice_is_one() -> None:
    graph = fe.Graph()
    handle = _variable(graph)
    counted, added = _mapped(graph, [handle], _counted), _mapped(graph, [handle], _added)
    both = graph.ops.ConcatenateDataset(counted, added, **KINDS)
    graph.ops.DatasetToGraph(both, allow_stateful=True, name="written")
    async with fe.Session(graph) as session:
        await session.run([], {"to_v:0": 1}, targets=["set_v"])
        content = await session.run("written:0")
    assert [node.op for node in GraphDef.FromString(content).node].count("VarHandleOp") == 1
    assert await _elements(content) == [1, 2, 4, 4, 5, 6]


async def test_a_variable_without_a_value_is_not_written() -> None:
    graph = fe.Graph()
    graph.ops.DatasetToGraphV2(_mapped(graph, [_variable(graph)], _added), name="written")
    async with fe.Session(graph) as session:
        with pytest.raises(FailedPreconditionError, match="variable 'v', which has no value yet"):
            await session.run("written:0")


_TYPES: Final[dict[str, Any]] = {"key_dtype": "int64", "value_dtype": "int64"}
_RESERVED: Final = (np.int64(-8), np.int64(-9))
#: {kind: (what makes the table, its values of the keys 0 and 2, function, elements)}
TABLES: Final[dict[str, tuple[Callable[[Any], fe.Tensor], Any, Any, list[int]]]] = {
    "filled_once": (lambda ops: ops.HashTableV2(**_TYPES), [7, 8], _looked_up, [7, -1, 8]),
    "mutable": (lambda ops: ops.MutableHashTableV2(**_TYPES), [7, 8], _looked_up, [7, -1, 8]),
    "of_vectors": (
        lambda ops: ops.MutableHashTableOfTensorsV2(value_shape=[2], **_TYPES),
        [[1, 2], [3, 4]],
        _last,
        [2, -2, 4],
    ),
    "dense": (
        lambda ops: ops.MutableDenseHashTableV2(*_RESERVED, initial_num_buckets=4, **_TYPES),
        [7, 8],
        _looked_up,
        [7, -1, 8],
    ),
    "dense_of_vectors": (
        lambda ops: ops.MutableDenseHashTableV2(*_RESERVED, value_shape=[2], initial_num_buckets=4, **_TYPES),
        [[1, 2], [3, 4]],
        _last,
        [2, -2, 4],
    ),
}


@pytest.mark.parametrize("kind", TABLES)
async def test_a_table_is_written_with_its_entries(kind: str) -> None:
    make, values, body, expected = TABLES[kind]
    graph = fe.Graph()
    table = make(graph.ops)
    graph.ops.LookupTableImportV2(table, np.array([0, 2]), np.array(values), name="fill")
    graph.ops.DatasetToGraphV2(_mapped(graph, [table], body), external_state_policy=2, name="written")
    async with fe.Session(graph) as session:
        await session.run([], targets=["fill"])
        content = await session.run("written:0")
    assert await _elements(content) == expected


async def test_a_table_that_is_not_filled_yet_is_written_so() -> None:
    graph = fe.Graph()
    table = graph.ops.HashTableV2(**_TYPES)
    graph.ops.DatasetToGraphV2(_mapped(graph, [table], _looked_up), name="written")
    async with fe.Session(graph) as session:
        content = await session.run("written:0")
    with pytest.raises(FailedPreconditionError, match="Table not initialized"):
        await _elements(content)


async def test_generators_of_seeds_begin_anew_and_caches_are_empty() -> None:
    graph = fe.Graph()
    ops = graph.ops
    generator, _ = ops.AnonymousSeedGenerator(np.int64(3), np.int64(4), True)
    cache, _ = ops.AnonymousMemoryCache()
    shuffled = ops.ShuffleDatasetV3(
        _ranged(graph, 9), np.int64(9), np.int64(1), np.int64(2), generator, **KINDS
    )
    kept = ops.CacheDatasetV2(shuffled, b"", cache, **KINDS)
    again = ops.ShuffleDatasetV2(kept, np.int64(9), generator, **KINDS)
    nothing = ops.CacheDatasetV2(again, b"", ops.DummyMemoryCache(), **KINDS)
    ops.DatasetToGraphV2(nothing, name="written")
    async with fe.Session(graph) as session:
        content = await session.run("written:0")
    found = await _elements(content, epochs=2)
    assert found == await _all_of(graph, ops.RepeatDataset(nothing, np.int64(2), **KINDS), fe.Session(graph))
    assert sorted(found[:9]) == list(range(9))
    assert found[:9] != sorted(found[:9])


def _following(x: fe.Tensor, iterator: fe.Tensor) -> fe.Tensor:
    (found,) = x.graph.ops.IteratorGetNext(iterator, **KINDS)
    return x + found


async def test_an_iterator_is_written_by_its_name() -> None:
    """Whoever reads the graph in the same session shares it, as in TensorFlow."""
    graph = fe.Graph()
    iterator = graph.ops.IteratorV2(shared_name="source", container="", **KINDS)
    graph.ops.MakeIterator(_ranged(graph, 100), iterator, name="begin")
    graph.ops.IteratorGetNext(iterator, name="next", **KINDS)
    graph.ops.DatasetToGraphV2(
        _mapped(graph, [iterator], _following), external_state_policy=1, name="written"
    )
    async with fe.Session(graph) as session:
        await session.run([], targets=["begin"])
        content = await session.run("written:0")
        assert await session.run("next:0") == 0
        made = graph.ops.DatasetFromGraph(content)
        assert await _all_of(graph, made, session) == [1, 3, 5]


async def test_what_only_this_process_has_is_refused_by_its_kind() -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["int64"])

    def taken(x: fe.Tensor, handle: fe.Tensor) -> fe.Tensor:
        (found,) = x.graph.ops.QueueDequeueV2(handle, component_types=["int64"])
        return x + found

    for number, handle in enumerate((queue, graph.ops.AnonymousIterator(**KINDS))):
        body = _following if number else taken
        graph.ops.DatasetToGraphV2(
            _mapped(graph, [handle], body), external_state_policy=1, name=f"written_{number}"
        )
    async with fe.Session(graph) as session:
        for name, kind in (("written_0:0", "FIFOQueue"), ("written_1:0", "IteratorResource")):
            with pytest.raises(FailedPreconditionError, match=f"uses a {kind} cannot be written.*anew"):
                await session.run(name)


async def test_a_graph_whose_nodes_wait_for_one_another_is_refused() -> None:
    graph = GraphDef()
    for name, op, given in (("a", "Identity", "b"), ("b", "Identity", "a"), ("dataset", "_Retval", "a")):
        set_type(graph.node.add(name=name, op=op, input=[given]).attr["T"], dtypes.variant, "type")
    with pytest.raises(InvalidArgumentError, match="cycle"):
        await _elements(graph.SerializeToString())


@pytest.mark.slow
@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
async def test_tensorflow_reads_what_is_written_here(tmp_path: Path) -> None:
    graph = fe.Graph()
    tables = []
    for kind, (make, values, body, _) in TABLES.items():
        with graph.name_scope(kind):
            table = make(graph.ops)
            graph.ops.LookupTableImportV2(table, np.array([0, 2]), np.array(values), name="fill")
            tables.append(_mapped(graph, [table], body))
    together = _mapped(graph, [_variable(graph)], _counted)
    for each in tables:
        together = graph.ops.ConcatenateDataset(together, each, **KINDS)
    graph.ops.DatasetToGraphV2(together, external_state_policy=1, name="written")
    async with fe.Session(graph) as session:
        await session.run([], {"to_v:0": 5}, targets=["set_v", *(f"{kind}/fill" for kind in TABLES)])
        content = await session.run("written:0")
    (tmp_path / "dataset.pb").write_bytes(content)
    assert TENSORFLOW is not None
    script = Path(__file__).with_name("record_captured.py")
    command = [TENSORFLOW, str(script), "--read", str(tmp_path / "dataset.pb")]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1]) == await _elements(content, epochs=2)
