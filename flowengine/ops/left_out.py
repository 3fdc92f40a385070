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
        ApproxTopK
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
    "layers that oneDNN's rewrites join; one by one they are here": """
        QuantizedConv2DAnd* QuantizedConv2DWith* QuantizedConv2DPerChannel QuantizedDepthwiseConv2D*
        QuantizedMatMulWith* QuantizedConcatV2
    """,
    "functions of Python that live in the process that made the graph": "PyFunc PyFuncStateless EagerPyFunc",
    "calls to services of TensorFlow's own": """
        Rpc* DeleteRpcFutureResource DataServiceDataset* DistributedSave RegisterDataset*
        FileSystemSetConfiguration
    """,
    "statistics and thread pools of a running input pipeline, without a value": """
        *StatsAggregator* *LatencyStatsDataset *BytesProducedStatsDataset *ThreadPoolHandle
        IteratorGetModelProto
    """,
    "no library for the format is among those that we may use": "DecodeJxl",
    NOT_YET: """
        AnonymousSeedGenerator AssertCardinalityDataset
        AssertNextDataset AssertPrevDataset AudioMicrofrontend AutoShardDataset Bessel*
        BoostedTrees* IsBoostedTrees* CSVDataset* CalibrationStatisticsSaver
        CheckNumericsV2 CheckPinned ChooseFastest* CompositeTensorVariant* CompressElement
        UncompressElement ComputeBatchSize Conv CustomAggregator DatasetCardinality
        DatasetFingerprint DatasetFromGraph DatasetToGraphV2 DatasetToTFRecord Dawsn Debug*
        DecodeProtoV2 EncodeProto DecodeImage DecodeWebP DeleteSeedGenerator DummySeedGenerator
        DummyMemoryCache DummyIterationCounter
        DenseToSparseBatchDataset DeviceIndex DirectedInterleaveDataset DumpTensor
        Erfinv Ndtri Expint Experimental* ExtractGlimpseV2 FFTND IFFTND RFFTND IRFFTND
        FilterByLastComponentDataset FinalizeDataset FresnelCos FresnelSin GetElementAtIndex
        GetOptions GlobalShuffleDataset GroupBy*Dataset IgnoreErrorsDataset
         IndexFlatMapDataset InitializeTableFromDataset
        IsResourceHandleRefCounting IsTensorFloat32Enabled IsotonicRegression LMDBDataset
        ListDataset *SnapshotChunk* LoadDataset MakeWeakResourceHandle MapAndBatchDataset
        MatchingFilesDataset MaxIntraOpParallelismDataset
        NonSerializableDataset OptimizeDatasetV2 OptionsDataset Parallel*Dataset*
        ParseExampleDataset* ParseSequenceExampleV2 PrivateThreadPoolDataset QuantizedReluX
        RandomDataset*
        RandomIndexShuffle RebatchDataset*
        RewriteDataset RngReadAndSkip SamplingDataset SaveDataset* ScanDataset SdcaOptimizer
        SdcaShrinkL1 SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 ShuffleDatasetV3
        SleepDataset SlidingWindowDataset Snapshot* SobolSample

         Spence SqlDataset StatelessParameterizedTruncatedNormal
        StatelessRandomBinomial StatelessRandomGamma* StatelessRandomGetKeyCounter StatelessShuffle
         StochasticCastToInt SyncDevice TakeWhileDataset ToBool
        UniformDequantize UniformQuantize* UniformRequantize UniqueDataset WeightedFlatMapDataset
        WindowOp Xlog1py
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
