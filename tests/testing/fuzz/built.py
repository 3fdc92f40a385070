"""Good graphs that are written down: ops whose arguments have to fit each other.

    graphs("StackPop")        # of a stack, what is pushed on it, and what is popped from it

Each function makes one small graph, whose ends are played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from flowengine.graphs.graph import Graph

_KINDS: Final[Mapping[str, Any]] = {"output_types": ["int64"], "output_shapes": [[]]}
_MANY: Final = np.ones((2, 2), np.float32)


def _i32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def _i64(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _dataset(g: Graph) -> Any:
    return g.ops.RangeDataset(np.int64(0), np.int64(6), np.int64(1), **_KINDS)


def _reader(op: str, **attrs: Any) -> Callable[[Graph], object]:
    return lambda g: g.ops.ReaderNumRecordsProduced(getattr(g.ops, op)(**attrs))


def _restored_reader(g: Graph) -> object:
    reader = g.ops.IdentityReader()
    return g.ops.ReaderRestoreState(reader, g.ops.ReaderSerializeState(reader))


def _norm(g: Graph) -> object:
    image, row = np.ones((1, 2, 2, 3), np.float32), np.ones(3, np.float32)
    return g.ops.BatchNormWithGlobalNormalizationGrad(
        image, row, row, row, image, variance_epsilon=0.1, scale_after_normalization=True
    )


def _table(g: Graph, op: str, **attrs: Any) -> Any:
    return getattr(g.ops, op)(key_dtype="int64", value_dtype="int64", **attrs)


def _found(g: Graph) -> object:
    table = _table(g, "HashTable")
    with g.control_dependencies([g.ops.InitializeTable(table, _i64(1, 2), _i64(3, 4))]):
        return g.ops.LookupTableFind(table, _i64(1, 9), np.int64(0))


def _from_dataset(g: Graph) -> object:
    rows = g.ops.TensorSliceDataset([_i64(1, 2), _i64(3, 4)], output_shapes=[[], []])
    return g.ops.InitializeTableFromDataset(_table(g, "HashTableV2"), rows)


def _iterator(g: Graph, op: str) -> object:
    handle = g.ops.IteratorToStringHandle(g.ops.IteratorV2(shared_name="i", container="", **_KINDS))
    return g.ops.IteratorToStringHandle(getattr(g.ops, op)(handle))


def _devices(g: Graph) -> Any:
    return g.ops.MultiDeviceIterator(devices=["/cpu:0"], shared_name="m", container="", **_KINDS)


def _shard(g: Graph) -> object:
    iterator = _devices(g)
    begun = g.ops.MultiDeviceIteratorInit(_dataset(g), iterator, np.int64(1))
    return g.ops.MultiDeviceIteratorGetNextFromShard(iterator, np.int32(0), begun, **_KINDS)


def _staged(g: Graph, op: str, ordered: str = "") -> object:
    kinds: dict[str, Any] = {"dtypes": ["float32"], "shared_name": "s"}
    put = getattr(g.ops, f"{ordered}MapStage")(np.int64(1), _i32(0), [np.float32(2)], **kinds)
    with g.control_dependencies([put]):
        return getattr(g.ops, op)(np.int64(1), _i32(0), **kinds)


def _padded(g: Graph, op: str, *more: Any) -> object:
    shapes, values = [np.zeros(0, np.int64)], [np.int64(0)]
    return getattr(g.ops, op)(_dataset(g), np.int64(2), shapes, values, *more, output_shapes=[[None]])


def _dequeued(g: Graph, op: str) -> object:
    queue = g.ops.FIFOQueue(component_types=["float32"], shapes=[[2]])
    with g.control_dependencies([g.ops.QueueEnqueueMany(queue, [_MANY])]):
        return getattr(g.ops, op)(queue, np.int32(2), component_types=["float32"])


def _popped(g: Graph) -> object:
    stack = g.ops.Stack(elem_type="float32")
    with g.control_dependencies([g.ops.StackPush(stack, np.float32(1))]):
        return g.ops.StackPop(stack, elem_type="float32")


def _drawn_from(g: Graph, op: str, *more: Any) -> object:
    state = g.ops.VarHandleOp(dtype="int64", shape=[4])
    with g.control_dependencies([g.ops.AssignVariableOp(state, _i64(1, 2, 3, 4))]):
        return getattr(g.ops, op)(state, *more, _i64(2))


def _gathered(g: Graph) -> object:
    array = g.ops.TensorArray(np.int32(2), dtype="float32")
    flow = g.constant(np.float32(0))
    for place in range(2):
        flow = g.ops.TensorArrayWrite(array, np.int32(place), _MANY, flow)
    return g.ops.TensorArrayGather(array, _i32(0, 1), flow, dtype="float32")


def _array(g: Graph) -> Any:
    return g.ops.TensorArrayV3(np.int32(2), dtype="float32")


def _grad_with_shape(g: Graph) -> object:
    array = _array(g)
    return g.ops.TensorArrayGradWithShape(array[0], array[1], _i32(1), source="g")


def _split(g: Graph) -> object:
    array = _array(g)
    return g.ops.TensorArraySplitV3(array[0], _MANY, _i64(1, 1), array[1])


def _list(g: Graph) -> Any:
    return g.ops.TensorListFromTensor(_MANY, _i32(2))


def _concatenated(g: Graph) -> object:
    return g.ops.TensorListConcatV2(_list(g), _i32(2), np.zeros(0, np.int64), element_dtype="float32")


def _pushed(g: Graph) -> object:
    return g.ops.TensorListPushBackBatch(g.ops.Pack([_list(g), _list(g)]), _MANY)


def _map(g: Graph) -> Any:
    return g.ops.TensorMapInsert(g.ops.EmptyTensorMap(), np.int64(1), np.float32(2))


def _accumulated(g: Graph) -> object:
    kept = g.ops.SparseConditionalAccumulator(dtype="float32", shape=[2, 2])
    return g.ops.SparseAccumulatorApplyGradient(
        kept, np.int64(0), _i64(0), np.ones((1, 2), np.float32), _i64(2, 2), has_known_shape=True
    )


def _averaged(g: Graph) -> object:
    kept = g.ops.ConditionalAccumulator(dtype="float32", shape=[2, 2])
    with g.control_dependencies([g.ops.AccumulatorApplyGradient(kept, np.int64(0), _MANY)]):
        return g.ops.AccumulatorTakeGradient(kept, np.int32(1), dtype="float32")


def _unstaged(g: Graph) -> object:
    kinds: dict[str, Any] = {"dtypes": ["float32"], "shared_name": "s"}
    with g.control_dependencies([g.ops.OrderedMapStage(np.int64(1), _i32(0), [np.float32(2)], **kinds)]):
        return g.ops.OrderedMapUnstageNoKey(_i32(0), **kinds)


def _taken(g: Graph) -> object:
    places, values = _i64(0, 0, 1, 1).reshape(2, 2), np.ones(2, np.float32)
    handles = g.ops.AddManySparseToTensorsMap(places, values, _i64(2, 2), shared_name="t")
    return g.ops.TakeManySparseFromTensorsMap(handles, dtype="float32", shared_name="t")


def _image_summary(g: Graph) -> object:
    picture, colour = np.ones((1, 2, 2, 3), np.float32), np.array([255, 0, 0, 255], np.uint8)
    return g.ops.WriteImageSummary(g.ops.SummaryWriter(), np.int64(1), b"tag", picture, colour)


def _single(g: Graph) -> object:
    one = g.ops.TensorDataset([np.int64(3)], output_shapes=[[]])
    return g.ops.DatasetToSingleElement(one, **_KINDS)


def _sparse_batch(g: Graph, op: str) -> object:
    rows = g.ops.TensorSliceDataset([_MANY], output_shapes=[[2]])
    kinds: dict[str, Any] = {"output_types": ["variant"], "output_shapes": [[None, 3]]}
    return getattr(g.ops, op)(rows, np.int64(2), _i64(2), **kinds)


def _ragged(g: Graph) -> object:
    splits = _i64(0, 1, 3)
    rows = g.ops.RaggedTensorToVariant([splits], np.ones(3, np.float32), batched_input=True)
    return g.ops.RaggedTensorToVariantGradient(rows, splits, _i32(3), Tvalues="float32")


def _sql(g: Graph, op: str) -> object:
    return getattr(g.ops, op)(b"sqlite", b"absent.db", b"select 1", **_KINDS)


def _reference(g: Graph) -> object:
    variable = g.ops.VariableV2(shape=[], dtype="float32")
    with g.control_dependencies([g.ops.Assign(variable, np.float32(1))]):
        entered = g.ops.RefEnter(variable, frame_name="f")
    return g.ops.Identity(g.ops.RefExit(entered))


def _pictures(g: Graph, op: str) -> object:
    return getattr(g.ops, op)(np.ones((2, 2, 3), np.uint8))


BUILT: Final[Mapping[str, Callable[[Graph], object]]] = {
    "AccumulatorTakeGradient": _averaged,
    "BatchNormWithGlobalNormalizationGrad": _norm,
    "DatasetFromGraph": lambda g: g.ops.DatasetFromGraph(g.ops.DatasetToGraph(_dataset(g))),
    "DatasetToSingleElement": _single,
    "DecodePaddedRaw": lambda g: g.ops.DecodePaddedRaw([b"abcd"], np.int32(4), out_type="uint8"),
    "DenseToSparseBatchDataset": lambda g: _sparse_batch(g, "DenseToSparseBatchDataset"),
    "EncodeJpeg": lambda g: _pictures(g, "EncodeJpeg"),
    "EncodePng": lambda g: _pictures(g, "EncodePng"),
    "ExperimentalDenseToSparseBatchDataset": lambda g: _sparse_batch(
        g, "ExperimentalDenseToSparseBatchDataset"
    ),
    "ExperimentalSqlDataset": lambda g: _sql(g, "ExperimentalSqlDataset"),
    "FixedLengthRecordReader": _reader("FixedLengthRecordReader", record_bytes=4),
    "IdentityReader": _reader("IdentityReader"),
    "ImportEvent": lambda g: g.ops.ImportEvent(g.ops.SummaryWriter(), b"\x10\x01"),
    "InitializeTable": _found,
    "InitializeTableFromDataset": _from_dataset,
    "InitializeTableV2": lambda g: g.ops.InitializeTableV2(_table(g, "HashTableV2"), _i64(1), _i64(2)),
    "IteratorFromStringHandle": lambda g: _iterator(g, "IteratorFromStringHandle"),
    "IteratorFromStringHandleV2": lambda g: _iterator(g, "IteratorFromStringHandleV2"),
    "LookupTableFind": _found,
    "LookupTableInsert": lambda g: g.ops.LookupTableInsert(_table(g, "MutableHashTable"), _i64(1), _i64(2)),
    "MapPeek": lambda g: _staged(g, "MapPeek"),
    "MapStage": lambda g: _staged(g, "MapPeek"),
    "MapUnstage": lambda g: _staged(g, "MapUnstage"),
    "MultiDeviceIteratorFromStringHandle": lambda g: g.ops.MultiDeviceIteratorFromStringHandle(
        g.ops.MultiDeviceIteratorToStringHandle(_devices(g))
    ),
    "MultiDeviceIteratorGetNextFromShard": _shard,
    "MultiDeviceIteratorInit": _shard,
    "OrderedMapPeek": lambda g: _staged(g, "OrderedMapPeek", "Ordered"),
    "OrderedMapStage": _unstaged,
    "OrderedMapUnstageNoKey": _unstaged,
    "OrderedMapUnstage": lambda g: _staged(g, "OrderedMapUnstage", "Ordered"),
    "PaddedBatchDataset": lambda g: _padded(g, "PaddedBatchDataset"),
    "PaddedBatchDatasetV2": lambda g: _padded(g, "PaddedBatchDatasetV2", np.bool_(True)),
    "ParseTensor": lambda g: g.ops.ParseTensor(g.ops.SerializeTensor(_MANY), out_type="float32"),
    "QueueDequeueMany": lambda g: _dequeued(g, "QueueDequeueMany"),
    "QueueDequeueUpTo": lambda g: _dequeued(g, "QueueDequeueUpTo"),
    "RaggedTensorToVariantGradient": _ragged,
    "RandomIndexShuffle": lambda g: g.ops.RandomIndexShuffle(np.int32(1), _i32(1, 2, 3), np.int32(5)),
    "ReaderRestoreState": _restored_reader,
    "ReaderSerializeStateV2": lambda g: g.ops.ReaderSerializeStateV2(g.ops.IdentityReaderV2()),
    "RefEnter": _reference,
    "RefExit": _reference,
    "SparseAccumulatorApplyGradient": _accumulated,
    "SqlDataset": lambda g: _sql(g, "SqlDataset"),
    "StackPop": _popped,
    "StatefulStandardNormal": lambda g: _drawn_from(g, "StatefulStandardNormal"),
    "StatefulTruncatedNormal": lambda g: _drawn_from(g, "StatefulTruncatedNormal", np.int64(1)),
    "StringToNumber": lambda g: g.ops.StringToNumber([b"1.5", b"-2"]),
    "TFRecordReader": _reader("TFRecordReader"),
    "TakeManySparseFromTensorsMap": _taken,
    "TensorArrayCloseV3": lambda g: g.ops.TensorArrayCloseV3(_array(g)[0]),
    "TensorArrayGather": _gathered,
    "TensorArrayGradWithShape": _grad_with_shape,
    "TensorArraySplitV3": _split,
    "TensorListConcatV2": _concatenated,
    "TensorListPushBackBatch": _pushed,
    "TensorListScatter": lambda g: g.ops.TensorListScatter(_MANY, _i32(0, 1), _i32(2)),
    "TensorMapErase": lambda g: g.ops.TensorMapErase(_map(g), np.int64(1), value_dtype="float32"),
    "TensorMapLookup": lambda g: g.ops.TensorMapLookup(_map(g), np.int64(1), value_dtype="float32"),
    "TextLineReader": _reader("TextLineReader"),
    "WholeFileReader": _reader("WholeFileReader"),
    "WriteImageSummary": _image_summary,
}


def graphs(op: str) -> list[bytes]:
    """The graph of an op that is written down here, if it is."""
    if op not in BUILT:
        return []
    graph = Graph()
    BUILT[op](graph)
    return [bytes(graph.to_graph_def().SerializeToString(deterministic=True))]


__all__ = ["BUILT", "graphs"]
