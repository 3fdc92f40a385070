"""Good graphs of datasets and iterators that are written down: what they hold, and what is asked of them.

BUILT_DATASETS["CSVDatasetV2"](graph)      # adds a dataset, an iterator of it and its first element
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.graphs.graph import Graph
from flowengine.ir.proto.example_pb2 import Example

_KINDS: Final[Mapping[str, Any]] = {"output_types": ["int64"], "output_shapes": [[]]}
_MANY: Final = np.ones((2, 2), np.float32)


def _i64(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _dataset(g: Graph) -> Any:
    return g.ops.RangeDataset(np.int64(0), np.int64(6), np.int64(1), **_KINDS)


def _first(g: Graph, dataset: Any, **kinds: Any) -> object:
    """The first element of a dataset."""
    iterator = g.ops.IteratorV2(shared_name="", container="", **kinds)
    with g.control_dependencies([g.ops.MakeIterator(dataset, iterator)]):
        return g.ops.IteratorGetNext(iterator, **kinds)


def _from_dataset(g: Graph) -> object:
    rows = g.ops.TensorSliceDataset([_i64(1, 2), _i64(3, 4)], output_shapes=[[], []])
    table = g.ops.HashTableV2(key_dtype="int64", value_dtype="int64")
    return g.ops.InitializeTableFromDataset(table, rows)


def _iterator(g: Graph, op: str) -> object:
    handle = g.ops.IteratorToStringHandle(g.ops.IteratorV2(shared_name="i", container="", **_KINDS))
    return g.ops.IteratorToStringHandle(getattr(g.ops, op)(handle))


def _devices(g: Graph) -> Any:
    return g.ops.MultiDeviceIterator(devices=["/cpu:0"], shared_name="m", container="", **_KINDS)


def _shard(g: Graph) -> object:
    iterator = _devices(g)
    begun = g.ops.MultiDeviceIteratorInit(_dataset(g), iterator, np.int64(1))
    return g.ops.MultiDeviceIteratorGetNextFromShard(iterator, np.int32(0), begun, **_KINDS)


def _padded(g: Graph, op: str, *more: Any) -> object:
    shapes, values = [np.zeros(0, np.int64)], [np.int64(0)]
    return getattr(g.ops, op)(_dataset(g), np.int64(2), shapes, values, *more, output_shapes=[[None]])


def _single(g: Graph) -> object:
    one = g.ops.TensorDataset([np.int64(3)], output_shapes=[[]])
    return g.ops.DatasetToSingleElement(one, **_KINDS)


def _sparse_batch(g: Graph, op: str) -> object:
    rows = g.ops.TensorSliceDataset([_MANY], output_shapes=[[2]])
    kinds: dict[str, Any] = {"output_types": ["variant"], "output_shapes": [[None, 3]]}
    return getattr(g.ops, op)(rows, np.int64(2), _i64(2), **kinds)


def _sql(g: Graph, op: str) -> object:
    return getattr(g.ops, op)(b"sqlite", b"absent.db", b"select 1", **_KINDS)


def _csv(g: Graph) -> object:
    # Files may not be read: the rows come to that, and all that is said about them is looked at before.
    kinds: dict[str, Any] = {"output_types": ["int64", "string"], "output_shapes": [[], []]}
    defaults = [_i64(0), np.array([b"d"], object)]
    rows = g.ops.CSVDatasetV2(
        *([b"absent.csv"], b"", np.int64(4096), np.bool_(True), b",", np.bool_(True), b"NA"),
        *(_i64(), defaults, _i64(1)),
        output_shapes=kinds["output_shapes"],
    )
    return _first(g, rows, **kinds)


def _fastest(g: Graph) -> object:
    def branch(rows: Any, count: int) -> Any:
        return rows.graph.ops.TakeDataset(rows, np.int64(count), **_KINDS)

    named = [
        fe.function(g, ["variant"], name=f"branch_{count}")(lambda rows, count=count: branch(rows, count))
        for count in (1, 2)
    ]
    chosen = g.ops.ChooseFastestBranchDataset(
        *(_dataset(g), np.int64(1), np.int64(1), []),
        Targuments=[],
        num_elements_per_branch=1,
        branches=[each.attr for each in named],
        other_arguments_lengths=[0, 0],
        **_KINDS,
    )
    return _first(g, chosen, **_KINDS)


def _examples(g: Graph) -> object:
    texts = []
    for number in (1, 2):
        example = Example()
        example.features.feature["dense"].int64_list.value.append(number)
        example.features.feature["sparse"].float_list.value.extend([0.5] * number)
        example.features.feature["ragged"].bytes_list.value.extend([b"a"] * number)
        texts.append(example.SerializeToString(deterministic=True))
    batch = g.ops.TensorDataset([np.array(texts, object)], output_shapes=[[2]])
    kinds: dict[str, Any] = {
        "output_types": ["int64", "variant", "variant"],
        "output_shapes": [[2], [2, None], [3]],
    }
    parsed = g.ops.ParseExampleDatasetV2(
        *(batch, np.int64(1), [np.int64(0)]),
        sparse_keys=["sparse"],
        sparse_types=["float32"],
        dense_keys=["dense"],
        dense_shapes=[[]],
        ragged_keys=["ragged"],
        ragged_value_types=["string"],
        ragged_split_types=["int64"],
        **kinds,
    )
    return _first(g, parsed, **kinds)


def _seeds(g: Graph) -> object:
    made = g.ops.AnonymousSeedGenerator(np.int64(1), np.int64(2), np.bool_(True))
    return g.ops.DeleteSeedGenerator(made[0], made[1])


BUILT_DATASETS: Final[Mapping[str, Callable[[Graph], object]]] = {
    "AnonymousSeedGenerator": _seeds,
    "CSVDatasetV2": _csv,
    "ChooseFastestBranchDataset": _fastest,
    "DatasetFromGraph": lambda g: g.ops.DatasetFromGraph(g.ops.DatasetToGraph(_dataset(g))),
    "DatasetToSingleElement": _single,
    "DenseToSparseBatchDataset": lambda g: _sparse_batch(g, "DenseToSparseBatchDataset"),
    "ExperimentalDenseToSparseBatchDataset": lambda g: _sparse_batch(
        g, "ExperimentalDenseToSparseBatchDataset"
    ),
    "ExperimentalSqlDataset": lambda g: _sql(g, "ExperimentalSqlDataset"),
    "InitializeTableFromDataset": _from_dataset,
    "IteratorFromStringHandle": lambda g: _iterator(g, "IteratorFromStringHandle"),
    "IteratorFromStringHandleV2": lambda g: _iterator(g, "IteratorFromStringHandleV2"),
    "MultiDeviceIteratorFromStringHandle": lambda g: g.ops.MultiDeviceIteratorFromStringHandle(
        g.ops.MultiDeviceIteratorToStringHandle(_devices(g))
    ),
    "MultiDeviceIteratorGetNextFromShard": _shard,
    "MultiDeviceIteratorInit": _shard,
    "PaddedBatchDataset": lambda g: _padded(g, "PaddedBatchDataset"),
    "PaddedBatchDatasetV2": lambda g: _padded(g, "PaddedBatchDatasetV2", np.bool_(True)),
    "ParseExampleDatasetV2": _examples,
    "SqlDataset": lambda g: _sql(g, "SqlDataset"),
}


__all__ = ["BUILT_DATASETS"]
