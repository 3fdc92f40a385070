"""Records of variables in a GPU's memory, and of handles: played by sessions, with the CPU's values.

What is there must be all that TensorFlow has a kernel for GPUs for; its registry is in `gpu_kernels.txt`.
"""

from __future__ import annotations

from typing import Final

import pytest

import flowengine as fe
from flowengine.kernels.load import registry
from tests.devices.on_gpu import GPU, opened
from tests.oprecords.found import RECORDS
from tests.oprecords.gpu_kernels import with_gpu_kernels
from tests.oprecords.record import Built, OpRecord
from tests.oprecords.strict import is_of_numbers
from tests.oprecords.test_on_strict_arrays import EXCUSED, NOT_ON_A_DEVICE, OF_NUMBERS
from tests.oprecords.test_records import judge
from tests.provided import marks

_HELD: Final = [
    pytest.param(record, id=record.op, marks=marks(record.op))
    for record in RECORDS
    if not is_of_numbers(record) and record.op in with_gpu_kernels()
]
_LOOKING: Final = frozenset(kernel.op for kernel in registry() if kernel.looks)

#: {why it has kernels for CPUs alone: ops that TensorFlow has one for GPUs for}. Exact.
NOT_THERE: Final = {
    "the runtime's own, on any device": """
        Const ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge
        RefNextIteration RefSwitch RemoteCall Switch SyncDevice
    """,
    "TensorFlow's has its values in host memory, too": """
        AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 ConsumeMutexLock DeleteIterator
        DummyIterationCounter FIFOQueueV2 FinalizeDataset GeneratorDataset GetOptions
        IteratorFromStringHandleV2 IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync
        IteratorToStringHandle IteratorV2 MakeIterator MapClear MapIncompleteSize MapPeek MapSize MapStage
        MapUnstage MapUnstageNoKey MutexLock MutexV2 OptionsDataset OrderedMapClear OrderedMapIncompleteSize
        OrderedMapPeek OrderedMapSize OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey PrefetchDataset
        QueueCloseV2 QueueDequeueV2 QueueEnqueueV2 QueueIsClosedV2 QueueSizeV2 SleepDataset Stage StageClear
        StagePeek StageSize Unstage UnwrapDatasetVariant WrapDatasetVariant
    """,
    "handles are strings, which no device holds": """
        DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor TensorArray TensorArrayGrad
        TensorArrayGradV2 TensorArrayV2
    """,
    "variants are Python objects in host memory": """
        CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix
        DeserializeSparse EmptyTensorList OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
        RaggedTensorFromVariant SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ
        SparseMatrixSoftmax SparseMatrixSoftmaxGrad SparseMatrixSparseMatMul SparseMatrixTranspose
        SparseMatrixZeros SparseTensorToCSRSparseMatrix TensorListConcat TensorListConcatLists
        TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem
        TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve
        TensorListResize TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2
        TensorListSetItem TensorListSplit TensorListStack
    """,
    "the host keeps the place of the generator": """
        RngReadAndSkip RngSkip StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
        StatefulUniformFullInt StatefulUniformInt
    """,
    "numbers are drawn until they are accepted, each with counters of its own": """
        StatelessRandomGammaV2 StatelessRandomGammaV3
    """,
    "not written": "BatchFunction",
}


@pytest.mark.parametrize("record", _HELD)
async def test_has_the_values_of_the_cpu_and_nobody_looks(record: OpRecord) -> None:
    types = next(record.combinations())
    graph = fe.Graph()
    with graph.device(GPU):
        nodes = [
            Built(graph, record, each, types, "unknown", f"node{i}") for i, each in enumerate(record.samples)
        ]
    async with opened(graph, seed=3) as (session, _):
        for built in nodes:
            if built.setup:
                await session.run([], targets=built.setup)
            values = await session.run(built.fetches, built.feeds, targets=[built.name])
            if record.updates:
                values = await session.run([f"{v.partition(':')[0]}:0" for v in built.variables])
            judge(built, list(values))


def test_all_ops_that_tensorflow_has_on_gpus_run_on_devices() -> None:
    """Of 725 ops with a record 508; of numbers 426, of which 23 look at values, as TensorFlow's do."""
    of_numbers = {record.op for record in OF_NUMBERS} & with_gpu_kernels()
    assert of_numbers & EXCUSED <= _LOOKING
    assert (len(of_numbers), len(of_numbers & EXCUSED), len(_HELD)) == (426, 23, 82)


def test_ops_without_a_record_that_are_not_there_are_listed() -> None:
    found: dict[str, set[str | None]] = {}
    for kernel in registry():
        found.setdefault(kernel.op, set()).add(kernel.device)
    listed = [op for ops in NOT_THERE.values() for op in ops.split()]
    assert len(listed) == len(set(listed))
    assert {op for op in with_gpu_kernels() & found.keys() if None not in found[op]} == set(listed)


def test_of_what_is_excused_for_it_tensorflow_has_no_kernel_for_gpus() -> None:
    for reason, ops in NOT_ON_A_DEVICE.items():
        if "TensorFlow has no" in reason or "for CPUs only" in reason:
            assert with_gpu_kernels().isdisjoint(ops.split()), reason
