"""Ops of TensorFlow that have no kernel here on purpose, and why.

`flowengine ops --missing` and the page of ops tell them. A name may be a pattern; an op that has a kernel all
the same is not told.
"""

from __future__ import annotations

import fnmatch
from typing import Final

#: Of what is neither here nor left out.
NOT_YET: Final = "not built yet"

#: {why: names and patterns}
LEFT_OUT: Final[dict[str, str]] = {
    "for TPUs alone": """
        *TPU* *Tpu* Infeed* Outfeed* Prelinearize* *DedupData* *SparseCore* *CooTensor*
        GetMinibatch* ComputeDedupData* GlobalIterId StoreMinibatchStatisticsInFdo
        UpdateTaskIdAndGlobalCoreArray WorkerHeartbeat ConvertToCooTensor TopKUnique TopKWithUnique
        MakeUnique KthOrderStatistic
    """,
    "what XLA's compiler makes of other ops": """
        Xla* _Xla* Risc* AssignVariableXlaConcatND ReadVariableXlaSplitND MlirPassthroughOp
    """,
    "collectives and copies between accelerators, and layers that only cuDNN has": """
        Collective* Nccl* _Nccl* CrossReplicaSum AllToAll CudnnRNN* CTCLossV2
        GenerateBoundingBoxProposals
    """,
    "DTensor's layouts over a mesh of devices": "DTensor* Relayout* CopyToMesh*",
    "made by TensorFlow while it rewrites a graph that runs, and in no file": """
        _Mkl* __Mkl* _Fused* _ScopedAllocator* _ParallelConcat* _UnaryOpsComposition _HostCast
        _SwitchN _EagerConst _TensorToHashBucketFast _QuantizedMatMul _QuantizedMaxPool3D
        _ReadVariablesOp _VarHandlesOp _DeviceArg _DeviceRetval _ArrayToList _ListToArray Copy
        CopyHost Send Recv HostConst
    """,
    "functions of Python that work on TensorFlow's eager tensors": "EagerPyFunc",
    "calls to services of TensorFlow's own": """
        Rpc* DeleteRpcFutureResource DataServiceDataset* DistributedSave RegisterDataset*
        FileSystemSetConfiguration
    """,
    "statistics and thread pools of a running input pipeline, without a value": """
        *StatsAggregator* *LatencyStatsDataset *BytesProducedStatsDataset *ThreadPoolHandle
        IteratorGetModelProto
    """,
    "no library for the format is among those that we may use": "DecodeJxl",
    "the first form of snapshots, an experiment whose files nothing else reads": "SnapshotDataset",
    "snapshots that several workers of TensorFlow's data service write": "ListSnapshotChunksDataset",
    "elements of a dataset by their number: not built yet": """
        GetElementAtIndex GlobalShuffleDataset IndexFlatMapDataset
    """,
    NOT_YET: """
        AnonymousSeedGenerator AssertCardinalityDataset AssertNextDataset AssertPrevDataset
        AudioMicrofrontend AutoShardDataset BoostedTrees* IsBoostedTrees* CSVDataset*
        CalibrationStatisticsSaver CheckPinned ChooseFastest* ComputeBatchSize Conv CustomAggregator
        DatasetCardinality DatasetFingerprint DatasetFromGraph DatasetToGraphV2 DatasetToTFRecord
        DeleteSeedGenerator DummySeedGenerator DummyMemoryCache DummyIterationCounter
        DenseToSparseBatchDataset DirectedInterleaveDataset DumpTensor Experimental*
        FilterByLastComponentDataset FinalizeDataset GetOptions GroupBy*Dataset IgnoreErrorsDataset
        InitializeTableFromDataset IsResourceHandleRefCounting LMDBDataset ListDataset
        MakeWeakResourceHandle MapAndBatchDataset MatchingFilesDataset MaxIntraOpParallelismDataset
        NonSerializableDataset OptimizeDatasetV2 OptionsDataset Parallel*Dataset*
        PrivateThreadPoolDataset RandomDataset* RebatchDataset* RewriteDataset SamplingDataset
        ScanDataset ShuffleDatasetV3 SleepDataset SlidingWindowDataset StochasticCastToInt
        TakeWhileDataset UniformQuantizedConvolution* UniqueDataset WeightedFlatMapDataset WindowOp
    """,
    "words between words, drawn from a file in an order that threads decide": "NegTrain Skipgram",
    "for TensorFlow's own tests": """
        A Attr AttrBool AttrBoolList AttrDefault AttrEmptyListDefault AttrEnum AttrEnumList
        AttrFloat AttrListDefault AttrListMin AttrListTypeDefault AttrMin AttrPartialShape
        AttrPartialShapeList AttrShape AttrShapeList AttrTypeDefault B Binary ComplexStruct
        ConstructionFails CopyOp DefaultAttrs DevicePlacementOp DtypeWithDefaultOp Fact
        FiveFloatOutputs Float* Foo1 Foo2 Foo3 FuncAttr FuncListAttr GetDeadline GraphDefVersion
        InPolymorphicTwice Int64Output IntAttr IntInput* IntOutput* KernelLabel* ListInput
        ListOutput MixedStruct NInPolymorphicTwice NInTwice NInTwoTypeVariables NInts* NPolymorphic*
        Namespace>TestStringOutput None Old OpWithDefaultAttr OpWithFutureDefaultAttr OutT
        OutTypeList* Polymorphic* RefIn* RefOut* RequiresOlderGraphVersion Reserved*
        ResourceCreateOp ResourceInitializedOp ResourceUsingOp Restrict Simple SimpleStruct
        SleepIdentityOp SleepOp StringListAttr StubResourceHandleOp TestAttr TestStringOutput Two*
        TypeList* Unary
    """,
}


def reason(op: str) -> str:
    """Why an op has no kernel."""
    for why, names in LEFT_OUT.items():
        if any(fnmatch.fnmatchcase(op, name) for name in names.split()):
            return why
    return NOT_YET


__all__ = ["LEFT_OUT", "NOT_YET", "reason"]
