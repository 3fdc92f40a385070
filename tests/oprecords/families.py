"""All records, and the ops that have none, by the reason."""

from __future__ import annotations

from typing import Final

from tests.oprecords import math_binary, math_unary, nn, reductions, training
from tests.oprecords.record import OpRecord

RECORDS: Final[list[OpRecord]] = [
    *math_unary.RECORDS,
    *math_binary.RECORDS,
    *reductions.RECORDS,
    *nn.RECORDS,
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
    "one step is not enough to see what they do: tests/kernels/test_state.py and test_state_in_sessions.py": """
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
        AvgPoolGrad BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag
        BatchNormWithGlobalNormalizationGrad BatchToSpace BatchToSpaceND Bitcast BroadcastTo
        CheckNumerics ComputeAccidentalHits Concat ConcatOffset ConcatV2 ConjugateTranspose Const
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
        Conv3DBackpropInputV2 CropAndResize DebugGradientRefIdentity DepthToSpace
        DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
        Diag DiagPart Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput DynamicPartition
        DynamicStitch Empty EnsureShape ExpandDims ExtractImagePatches ExtractVolumePatches
        FakeParam Fill Gather GatherNd GatherTree GatherV2 HistogramSummary IdentityN InplaceAdd
        InplaceSub InplaceUpdate InvertPermutation ListDiff LogUniformCandidateSampler
        MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagV2 MatrixSetDiag
        MatrixSetDiagV2 MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad
        MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2
        MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax MergeSummary MirrorPad MirrorPadGrad
        Multinomial NoOp NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
        NonMaxSuppressionV4 OneHot Pack Pad PadV2 ParallelConcat ParallelDynamicStitch Placeholder
        PlaceholderV2 PlaceholderWithDefault QuantizedReshape RandomShuffle RandomStandardNormal
        RandomUniform RandomUniformInt Rank RefIdentity Reshape ResizeBilinear ResizeBilinearGrad
        ResizeNearestNeighbor ResizeNearestNeighborGrad ResourceGather ResourceGatherNd
        ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin
        ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate
        ResourceScatterSub ResourceScatterUpdate ResourceStridedSliceAssign Reverse ReverseSequence
        ReverseV2 Roll ScalarSummary ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul
        ScatterNd ScatterNdAdd ScatterNdNonAliasingAdd ScatterNdSub ScatterNdUpdate ScatterSub
        ScatterUpdate SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum Shape ShapeN Size
        Slice SpaceToBatch SpaceToBatchND SpaceToDepth SparseSegmentMean SparseSegmentMeanGrad
        SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad
        SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad
        SparseSegmentSumWithNumSegments SparseToDense Split SplitV Squeeze StridedSlice
        StridedSliceAssign StridedSliceGrad StringJoin StringToHashBucket StringToHashBucketFast
        StringToHashBucketStrong TensorScatterAdd TensorScatterSub TensorScatterUpdate
        TensorStridedSliceUpdate Tile TileGrad Transpose TruncatedNormal UniformCandidateSampler
        Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnsortedSegmentMax
        UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum Where
    """,
}
