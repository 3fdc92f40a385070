"""All records, and the ops that have none, by the reason."""

from __future__ import annotations

from typing import Final

from tests.oprecords import array, indexing, math_binary, math_unary, nn, reductions, training
from tests.oprecords.record import OpRecord

RECORDS: Final[list[OpRecord]] = [
    *math_unary.RECORDS,
    *math_binary.RECORDS,
    *reductions.RECORDS,
    *nn.RECORDS,
    *array.RECORDS,
    *indexing.RECORDS,
    *training.RECORDS,
]

#: {why not, and what tests them: ops}
NOT_RECORDED: Final = {
    "dead tokens and frames: tests/runtime and tests/conformance": """
        ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge
        RefNextIteration RefSelect RefSwitch Switch
    """,
    "they wait, or hold what others wait for: tests/resources, tests/kernels and tests/conformance": """
        AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep
        AccumulatorTakeGradient Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany
        BarrierReadySize BarrierTakeMany Batch ConditionalAccumulator ConsumeMutexLock FIFOQueue
        FIFOQueueV2 MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey
        MutexLock MutexV2 OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize
        OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey PaddingFIFOQueue PaddingFIFOQueueV2
        PriorityQueue PriorityQueueV2 QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany
        QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue
        QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueueSize
        QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2 ResourceAccumulatorApplyGradient
        ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep
        ResourceAccumulatorTakeGradient ResourceConditionalAccumulator
        SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator
        Stage StageClear StagePeek StageSize Unbatch UnbatchGrad Unstage
    """,
    "their value is an object, not a tensor: tests/resources, tests/kernels and tests/conformance": """
        EmptyTensorList FakeQueue HashTable HashTableV2 InitializeTable InitializeTableFromTextFile
        InitializeTableFromTextFileV2 InitializeTableV2 LookupTableExport LookupTableExportV2
        LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert
        LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2
        MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
        MutableHashTableOfTensorsV2 MutableHashTableV2 Stack StackClose StackCloseV2 StackPop
        StackPopV2 StackPush StackPushV2 StackV2 TensorArray TensorArrayClose TensorArrayCloseV2
        TensorArrayCloseV3 TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3
        TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGrad TensorArrayGradV2
        TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack TensorArrayRead TensorArrayReadV2
        TensorArrayReadV3 TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3
        TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit TensorArraySplitV2
        TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite
        TensorArrayWriteV2 TensorArrayWriteV3 TensorListConcat TensorListConcatLists
        TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather
        TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
        TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
        TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
        TensorListStack
    """,
    "more than one step shows what they do: tests/kernels/test_state.py, test_state_in_sessions.py": """
        Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp
        CountUpTo DestroyResourceOp DestroyTemporaryVariable IsVariableInitialized ReadVariableOp
        ResourceCountUpTo TemporaryVariable VarHandleOp VarIsInitializedOp Variable VariableShape
        VariableV2
    """,
    "they have effects outside the graph: tests/kernels/test_printing.py": """
        Print PrintV2 Timestamp
    """,
    "not yet: tests/kernels and tests/conformance": """
        Abort Addons>GatherTree AllCandidateSampler Assert AvgPool AvgPool3D AvgPool3DGrad
        AvgPoolGrad BatchNormWithGlobalNormalizationGrad ComputeAccidentalHits Const Conv2D
        Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2
        CropAndResize DebugGradientRefIdentity DecodeBase64 DepthwiseConv2dNative
        DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dilation2D
        Dilation2DBackpropFilter Dilation2DBackpropInput EncodeBase64 ExtractImagePatches
        ExtractVolumePatches FakeParam GatherTree HistogramSummary LogUniformCandidateSampler
        MatrixDiagPartV2 MatrixDiagV2 MatrixSetDiagV2 MaxPool MaxPool3D MaxPool3DGrad
        MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax
        MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax MergeSummary
        MergeV2Checkpoints Multinomial NoOp NonMaxSuppression NonMaxSuppressionV2
        NonMaxSuppressionV3 NonMaxSuppressionV4 Placeholder PlaceholderV2 QuantizedReshape
        RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt ReduceJoin RefIdentity
        RegexFullMatch RegexReplace ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
        ResizeNearestNeighborGrad RestoreV2 SaveV2 ScalarSummary ShardedFilename ShardedFilespec
        SparseSegmentSumGrad StaticRegexFullMatch StaticRegexReplace StringJoin StringLength
        StringLower StringSplit StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast
        StringToHashBucketStrong StringToNumber StringUpper Substr TileGrad TruncatedNormal
        UniformCandidateSampler
    """,
}
