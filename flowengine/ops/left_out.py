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
        _ReadVariablesOp _VarHandlesOp _DeviceArg _DeviceRetval _ArrayToList _ListToArray _If _While
        _Retval Send Recv HostConst
    """,
    "functions of Python that work on TensorFlow's eager tensors": "EagerPyFunc",
    "calls to services of TensorFlow's own": """
        Rpc* TryRpc DeleteRpcFutureResource DataServiceDataset* DistributedSave RegisterDataset*
        FileSystemSetConfiguration
    """,
    "statistics and thread pools of a running input pipeline, without a value": """
        *StatsAggregator* *LatencyStatsDataset *BytesProducedStatsDataset *ThreadPoolHandle
        IteratorGetModelProto
    """,
    "no library for the format is among those that we may use": "DecodeJxl",
    "snapshots that several workers of TensorFlow's data service write": "ListSnapshotChunksDataset",
    "its kernel came after TensorFlow 1.15 and went before 2.21": "BoostedTreesCalculateBestFeatureSplitV2",
    "what TensorFlow's quantiser looks at while it calibrates a model": """
        CustomAggregator CalibrationStatisticsSaver DumpTensor
    """,
    "whether memory is pinned, or who still holds a handle: there is neither here": """
        CheckPinned IsResourceHandleRefCounting MakeWeakResourceHandle
    """,
    "looks through a dataset's graph for its batches, where TensorFlow spreads it over devices": """
        ComputeBatchSize
    """,
    "the fixed-point features of TensorFlow Lite's speech models": "AudioMicrofrontend",
    "events in a database, which TensorBoard reads no more": "CreateSummaryDbWriter",
    "data of one provider of clouds, and graphs for one maker's processors": """
        Gcs* BigQueryReader GenerateBigQueryReaderPartitions RemoteFusedGraphExecute
    """,
    "words between words, drawn from a file in an order that threads decide": "NegTrain Skipgram",
    "of tf.contrib: decision trees and forests, in whose place TensorFlow has BoostedTrees ops": """
        BuildCategoricalEqualitySplits BuildDenseInequalitySplits BuildSparseInequalitySplits
        CenterTreeEnsembleBias CreateFertileStatsVariable CreateQuantileAccumulator CreateStatsAccumulator*
        CreateTreeEnsembleVariable CreateTreeVariable DecisionTree* FeatureUsageCounts FertileStats*
        FinalizeTree GradientTrees* GrowTree* MakeQuantileSummaries ProcessInputV4 QuantileAccumulator*
        QuantileBuckets QuantileStreamResourceHandleOp Quantiles BucketizeWithInputBoundaries
        StatsAccumulator* TraverseTreeV4 Tree* UpdateModelV4 ReinterpretStringToFloat ScatterAddNdim
    """,
    "of tf.contrib: data of Bigtable, Kafka, Kinesis, Ignite and Hadoop": """
        Bigtable* DatasetToBigtable KafkaDataset KinesisDataset IgniteDataset SequenceFileDataset
    """,
    "of tf.contrib.ffmpeg: sound and film, which the program FFmpeg reads and writes": """
        DecodeAudio DecodeAudioV2 DecodeVideo EncodeAudio EncodeAudioV2
    """,
    "of tf.contrib: feature crosses, factorization, hashing, drawing and small readers": """
        SparseFeatureCross SparseFeatureCrossV2 WALSComputePartialLhsAndRhs HyperplaneLSHProbes
        SingleImageRandomDotStereograms SkipGramGenerateCandidates ObtainNext
    """,
    "of tf.contrib: memory of CUDA devices, and a convolution that only cuDNN has": """
        BytesInUse BytesLimit MaxBytesInUse FusedConv2DBiasActivation
    """,
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
