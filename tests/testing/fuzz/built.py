"""Good graphs that are written down: ops whose arguments have to fit each other.

    graphs("StackPop")        # of a stack, what is pushed on it, and what is popped from it

Each function makes one small graph, whose ends are played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from flowengine.graphs.graph import Graph
from tests.testing.fuzz.built_datasets import BUILT_DATASETS
from tests.testing.fuzz.built_trees import BUILT_TREES

_MANY: Final = np.ones((2, 2), np.float32)


def _i32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def _i64(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _looped(g: Graph) -> object:
    """A loop of three turns with a reference among what it carries."""
    variable = g.ops.VariableV2(shape=[], dtype="float32")
    kinds: dict[str, Any] = {"frame_name": "f", "parallel_iterations": 1}
    with g.control_dependencies([g.ops.Assign(variable, np.float32(1))]):
        entered = [g.ops.Enter(np.int32(0), **kinds), g.ops.RefEnter(variable, **kinds)]
    count, value = g.ops.Merge([entered[0]] * 2).output, g.ops.RefMerge([entered[1]] * 2).output
    with g.control_dependencies([count]):
        goes_on = g.ops.LoopCond(g.ops.Less(count, np.int32(3)))
    switches = [g.ops.Switch(count, goes_on), g.ops.RefSwitch(value, goes_on)]
    inside = g.ops.Identity(switches[0].output_true)
    with g.control_dependencies([inside]):
        g.set_back_edge(count, 1, g.ops.NextIteration(g.ops.AddV2(inside, np.int32(1))))
    g.set_back_edge(value, 1, g.ops.RefNextIteration(switches[1].output_true))
    return g.ops.Identity(g.ops.RefExit(switches[1].output_false))


def _regathered(g: Graph) -> object:
    rows, own = np.ones((2, 3), np.float32), np.int64(7)
    parts = np.array([[7, 0, 2]], np.int64)
    return g.ops.UnbatchGrad(rows, parts, rows, own, container="", shared_name="u")


def _composed(g: Graph) -> object:
    made = g.ops.CompositeTensorVariantFromComponents([np.float32(1), _i64(2, 3)], metadata=b"")
    return g.ops.CompositeTensorVariantToComponents(made, metadata=b"", Tcomponents=["float32", "int64"])


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


def _staged(g: Graph, op: str, ordered: str = "") -> object:
    kinds: dict[str, Any] = {"dtypes": ["float32"], "shared_name": "s"}
    put = getattr(g.ops, f"{ordered}MapStage")(np.int64(1), _i32(0), [np.float32(2)], **kinds)
    with g.control_dependencies([put]):
        return getattr(g.ops, op)(np.int64(1), _i32(0), **kinds)


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


def _ragged(g: Graph) -> object:
    splits = _i64(0, 1, 3)
    rows = g.ops.RaggedTensorToVariant([splits], np.ones(3, np.float32), batched_input=True)
    return g.ops.RaggedTensorToVariantGradient(rows, splits, _i32(3), Tvalues="float32")


def _reference(g: Graph) -> object:
    variable = g.ops.VariableV2(shape=[], dtype="float32")
    with g.control_dependencies([g.ops.Assign(variable, np.float32(1))]):
        entered = g.ops.RefEnter(variable, frame_name="f")
    return g.ops.Identity(g.ops.RefExit(entered))


def _pictures(g: Graph, op: str) -> object:
    return getattr(g.ops, op)(np.ones((2, 2, 3), np.uint8))


BUILT: Final[Mapping[str, Callable[[Graph], object]]] = {
    **BUILT_DATASETS,
    **BUILT_TREES,
    "AccumulatorTakeGradient": _averaged,
    "BatchNormWithGlobalNormalizationGrad": _norm,
    "CompositeTensorVariantFromComponents": _composed,
    "CompositeTensorVariantToComponents": _composed,
    "DecodePaddedRaw": lambda g: g.ops.DecodePaddedRaw([b"abcd"], np.int32(4), out_type="uint8"),
    "EncodeJpeg": lambda g: _pictures(g, "EncodeJpeg"),
    "EncodePng": lambda g: _pictures(g, "EncodePng"),
    "FixedLengthRecordReader": _reader("FixedLengthRecordReader", record_bytes=4),
    "IdentityReader": _reader("IdentityReader"),
    "ImportEvent": lambda g: g.ops.ImportEvent(g.ops.SummaryWriter(), b"\x10\x01"),
    "InitializeTable": _found,
    "InitializeTableV2": lambda g: g.ops.InitializeTableV2(_table(g, "HashTableV2"), _i64(1), _i64(2)),
    "LookupTableFind": _found,
    "LookupTableInsert": lambda g: g.ops.LookupTableInsert(_table(g, "MutableHashTable"), _i64(1), _i64(2)),
    "MapPeek": lambda g: _staged(g, "MapPeek"),
    "MapStage": lambda g: _staged(g, "MapPeek"),
    "MapUnstage": lambda g: _staged(g, "MapUnstage"),
    "OrderedMapPeek": lambda g: _staged(g, "OrderedMapPeek", "Ordered"),
    "OrderedMapStage": _unstaged,
    "OrderedMapUnstageNoKey": _unstaged,
    "OrderedMapUnstage": lambda g: _staged(g, "OrderedMapUnstage", "Ordered"),
    "ParseTensor": lambda g: g.ops.ParseTensor(g.ops.SerializeTensor(_MANY), out_type="float32"),
    "QueueDequeueMany": lambda g: _dequeued(g, "QueueDequeueMany"),
    "QueueDequeueUpTo": lambda g: _dequeued(g, "QueueDequeueUpTo"),
    "RaggedTensorToVariantGradient": _ragged,
    "RandomIndexShuffle": lambda g: g.ops.RandomIndexShuffle(np.int32(1), _i32(1, 2, 3), np.int32(5)),
    "ReaderRestoreState": _restored_reader,
    "ReaderSerializeStateV2": lambda g: g.ops.ReaderSerializeStateV2(g.ops.IdentityReaderV2()),
    "RefEnter": _reference,
    "RefExit": _reference,
    "RefNextIteration": _looped,
    "SparseAccumulatorApplyGradient": _accumulated,
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
    "UnbatchGrad": _regathered,
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
