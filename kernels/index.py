"""Which kernel module serves which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of its ops}
OPS: Final[dict[str, str]] = {
    "array.constants": """
        Const Empty FakeParam Fill OnesLike Placeholder PlaceholderV2 PlaceholderWithDefault ZerosLike
    """,
    "array.copies": """
        Copy CopyHost
    """,
    "array.debugging": """
        DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount DebugNumericSummary
        DebugNumericSummaryV2
    """,
    "array.gather": """
        Gather GatherNd GatherV2
    """,
    "array.gather_tree": """
        Addons>GatherTree GatherTree
    """,
    "array.identity": """
        Abort Assert DebugGradientIdentity DebugGradientRefIdentity DeepCopy EnsureShape GuaranteeConst
        Identity IdentityN NoOp PreventGradient RefIdentity Snapshot StopGradient SyncDevice
    """,
    "array.inplace": """
        InplaceAdd InplaceSub InplaceUpdate
    """,
    "array.joining": """
        Concat ConcatOffset ConcatV2 Pack ParallelConcat Split SplitV Unpack
    """,
    "array.one_hot": """
        OneHot SparseToDense
    """,
    "array.padding": """
        MirrorPad MirrorPadGrad Pad PadV2
    """,
    "array.partition": """
        DynamicPartition DynamicStitch ParallelDynamicStitch
    """,
    "array.ragged": """
        RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedRange RaggedTensorToSparse
    """,
    "array.ragged_padding": """
        RaggedTensorToTensor
    """,
    "array.ragged_variants": """
        RaggedTensorFromVariant RaggedTensorToVariant RaggedTensorToVariantGradient
    """,
    "array.reverse": """
        Reverse ReverseSequence ReverseV2 Roll
    """,
    "array.scatter_values": """
        ScatterNd ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin
        TensorScatterSub TensorScatterUpdate
    """,
    "array.search": """
        LowerBound UnravelIndex UpperBound
    """,
    "array.shapes": """
        BroadcastArgs BroadcastTo ExpandDims QuantizedReshape Rank Reshape Shape ShapeN Size Squeeze Tile
        TileGrad
    """,
    "array.sliced_assign": """
        ResourceStridedSliceAssign StridedSliceAssign
    """,
    "array.slicing": """
        Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate
    """,
    "array.space_batch": """
        BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth
    """,
    "array.transpose": """
        ConjugateTranspose InvertPermutation Transpose
    """,
    "array.truth": """
        ToBool
    """,
    "array.unique": """
        ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    """,
    "array.where": """
        Where
    """,
    "control.control_flow": """
        ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge RefNextIteration
        RefSelect RefSwitch Switch
    """,
    "control.devices": """
        DeviceIndex IsTensorFloat32Enabled
    """,
    "control.functional": """
        RemoteCall
    """,
    "control.python_calls": """
        PyFunc PyFuncStateless
    """,
    "control.sendrecv": """
        _CopyToDevice _CopyToHost _HostRecv _HostSend _Narrow _Recv _Send _Widen
    """,
    "data.choosing": """
        ChooseFastestBranchDataset ChooseFastestDataset DirectedInterleaveDataset
        ExperimentalChooseFastestDataset ExperimentalDirectedInterleaveDataset ListDataset
        WeightedFlatMapDataset WindowOp
    """,
    "data.composite": """
        CompositeTensorVariantFromComponents CompositeTensorVariantToComponents
    """,
    "data.datasets": """
        BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset
        FilterByLastComponentDataset FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
        FlatMapDataset GeneratorDataset InterleaveDataset MapDataset ModelDataset OptimizeDataset
        PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDatasetV2 ParallelMapDataset
        PrefetchDataset RangeDataset RepeatDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset
        ShuffleDatasetV2 SkipDataset SparseTensorSliceDataset TFRecordDataset TakeDataset TensorDataset
        TensorSliceDataset TextLineDataset UnbatchDataset UnwrapDatasetVariant WindowDataset
        WrapDatasetVariant ZipDataset
    """,
    "data.file_datasets": """
        CSVDataset CSVDatasetV2 DatasetToTFRecord ExperimentalCSVDataset ExperimentalDatasetToTFRecord
        ExperimentalLMDBDataset ExperimentalMatchingFilesDataset ExperimentalSqlDataset LMDBDataset
        LoadDataset MatchingFilesDataset SaveDataset SaveDatasetV2 SnapshotChunkDataset SnapshotDataset
        SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader SqlDataset TFRecordDatasetV2
    """,
    "data.inspecting": """
        CompressElement DatasetCardinality DatasetFingerprint ExperimentalDatasetCardinality
        ExperimentalIteratorGetDevice GetOptions InitializeTableFromDataset IteratorGetDevice
        UncompressElement
    """,
    "data.iterators": """
        AnonymousIterator AnonymousIteratorV2 DatasetToSingleElement DeleteIterator GetElementAtIndex
        Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetNext
        IteratorGetNextAsOptional IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator
        MapDefun OneShotIterator ReduceDataset
    """,
    "data.multi_device": """
        AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator
        MultiDeviceIterator MultiDeviceIteratorFromStringHandle MultiDeviceIteratorGetNextFromShard
        MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle
    """,
    "data.optional": """
        OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    """,
    "data.parallel_datasets": """
        ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalParallelInterleaveDataset
        ExperimentalParseExampleDataset LegacyParallelInterleaveDatasetV2 MapAndBatchDataset
        ParallelBatchDataset ParallelFilterDataset ParallelInterleaveDataset ParallelInterleaveDatasetV3
        ParallelInterleaveDatasetV4 ParallelMapDatasetV2 ParseExampleDataset ParseExampleDatasetV2
    """,
    "data.pipeline_settings": """
        AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset
        BytesProducedStatsDataset ExperimentalAssertNextDataset ExperimentalAutoShardDataset
        ExperimentalBytesProducedStatsDataset ExperimentalLatencyStatsDataset
        ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset
        ExperimentalPrivateThreadPoolDataset ExperimentalSetStatsAggregatorDataset
        ExperimentalThreadPoolDataset FinalizeDataset LatencyStatsDataset MaxIntraOpParallelismDataset
        NonSerializableDataset OptimizeDatasetV2 OptionsDataset PrivateThreadPoolDataset RewriteDataset
        SetStatsAggregatorDataset ThreadPoolDataset
    """,
    "data.saving": """
        DatasetFromGraph DatasetToGraph DatasetToGraphV2 DeserializeIterator SerializeIterator
    """,
    "data.seed_generators": """
        AnonymousIteratorV3 AnonymousMemoryCache AnonymousRandomSeedGenerator AnonymousSeedGenerator
        DeleteMemoryCache DeleteRandomSeedGenerator DeleteSeedGenerator DummyIterationCounter
        DummyMemoryCache DummySeedGenerator
    """,
    "data.tensor_list": """
        EmptyTensorList TensorListConcatLists TensorListElementShape TensorListGetItem TensorListLength
        TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
        TensorListSetItem
    """,
    "data.tensor_list_joining": """
        TensorListConcat TensorListConcatV2 TensorListFromTensor TensorListGather TensorListScatter
        TensorListScatterIntoExistingList TensorListScatterV2 TensorListSplit TensorListStack
    """,
    "data.tensor_map": """
        EmptyTensorMap TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize
        TensorMapStackKeys
    """,
    "data.transformations": """
        DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset ExperimentalGroupByReducerDataset
        ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset ExperimentalRandomDataset
        ExperimentalRebatchDataset ExperimentalScanDataset ExperimentalSleepDataset
        ExperimentalSlidingWindowDataset ExperimentalTakeWhileDataset ExperimentalUnbatchDataset
        ExperimentalUniqueDataset GlobalShuffleDataset GroupByReducerDataset GroupByWindowDataset
        IgnoreErrorsDataset IndexFlatMapDataset RandomDataset RandomDatasetV2 RebatchDataset
        RebatchDatasetV2 SamplingDataset ScanDataset ShuffleAndRepeatDatasetV2 ShuffleDatasetV3 SleepDataset
        SlidingWindowDataset TakeWhileDataset UniqueDataset
    """,
    "image.boxes": """
        CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage
    """,
    "image.coding": """
        DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng DecodeWebP EncodeJpeg
        EncodeJpegVariableQuality EncodePng ExtractJpegShape
    """,
    "image.colors": """
        AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation HSVToRGB RGBToHSV
    """,
    "image.cropping": """
        RandomCrop SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
        StatelessSampleDistortedBoundingBox
    """,
    "image.drawing": """
        DrawBoundingBoxes DrawBoundingBoxesV2
    """,
    "image.glimpses": """
        ExtractGlimpse ExtractGlimpseV2
    """,
    "image.patches": """
        ExtractImagePatches ExtractVolumePatches
    """,
    "image.projection": """
        ImageProjectiveTransformV2 ImageProjectiveTransformV3
    """,
    "image.resizing": """
        ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
        ResizeNearestNeighborGrad ScaleAndTranslate ScaleAndTranslateGrad
    """,
    "image.scored_suppression": """
        CombinedNonMaxSuppression NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps
    """,
    "image.suppression": """
        NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
    """,
    "io.checkpoint": """
        MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename ShardedFilespec
    """,
    "io.checkpoint_v1": """
        Restore RestoreSlice Save SaveSlices
    """,
    "io.decoding": """
        DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeRaw ParseTensor SerializeTensor
    """,
    "io.example_batches": """
        ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2
    """,
    "io.examples": """
        ParseExample ParseSingleExample ParseSingleSequenceExample
    """,
    "io.files": """
        MatchingFiles ReadFile WriteFile
    """,
    "io.memory_regions": """
        ImmutableConst
    """,
    "io.printing": """
        Print PrintV2 Timestamp
    """,
    "io.protocol_buffers": """
        DecodeProtoV2 EncodeProto
    """,
    "io.readers": """
        FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 LMDBReader
        ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted
        ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 ReaderReset
        ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2
        TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2
    """,
    "io.record_input": """
        RecordInput
    """,
    "io.remapping": """
        GenerateVocabRemapping LoadAndRemapMatrix
    """,
    "io.summaries": """
        AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary TensorSummary
        TensorSummaryV2
    """,
    "io.summary_writers": """
        CloseSummaryWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent SummaryWriter
        WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary WriteRawProtoSummary
        WriteScalarSummary WriteSummary
    """,
    "linalg.decompositions": """
        BatchCholesky BatchCholeskyGrad BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd Cholesky
        CholeskyGrad Eig Lu Qr SelfAdjointEig SelfAdjointEigV2 Svd
    """,
    "linalg.einsum": """
        Einsum
    """,
    "linalg.functions": """
        BatchMatrixDeterminant BatchMatrixInverse LogMatrixDeterminant MatrixDeterminant MatrixExponential
        MatrixInverse MatrixLogarithm MatrixSquareRoot
    """,
    "linalg.parts": """
        BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag Diag DiagPart
        MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
        MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
    """,
    "linalg.products": """
        BatchMatMul BatchMatMulV2 BatchMatMulV3 Cross MatMul SparseMatMul
    """,
    "linalg.solving": """
        BandedTriangularSolve BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve MatrixSolve
        MatrixSolveLs MatrixTriangularSolve
    """,
    "linalg.tridiagonal": """
        TridiagonalMatMul TridiagonalSolve
    """,
    "math.bessel": """
        BesselI0 BesselI1 BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1
    """,
    "math.binary": """
        AccumulateNV2 Add AddN AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue LeftShift Maximum
        Minimum Mul MulNoNan NextAfter Pow RightShift Select SelectV2 SquaredDifference Sub Xdivy Xlog1py
        Xlogy
    """,
    "math.cast": """
        Bitcast Cast CheckNumerics CheckNumericsV2
    """,
    "math.compare": """
        ApproximateEqual CompareAndBitpack Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr
        NotEqual
    """,
    "math.counted_segments": """
        SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
    """,
    "math.division": """
        Div DivNoNan FloorDiv FloorMod Mod RealDiv TruncateDiv TruncateMod
    """,
    "math.gradients": """
        InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad
    """,
    "math.integrals": """
        Dawsn Erfinv Expint FresnelCos FresnelSin Ndtri Spence
    """,
    "math.reductions": """
        All Any ArgMax ArgMin Cumprod Cumsum CumulativeLogsumexp EuclideanNorm Max Mean Min Prod Sum
    """,
    "math.segments": """
        SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin
        UnsortedSegmentProd UnsortedSegmentSum
    """,
    "math.sequences": """
        Bincount BroadcastGradientArgs Bucketize HistogramFixedWidth LinSpace Range
    """,
    "math.sparse_segments": """
        SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments
        SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
        SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments
    """,
    "math.special": """
        BesselI0e BesselI1e Betainc Digamma Erf Erfc Igamma IgammaGradA Igammac Lgamma Polygamma Zeta
    """,
    "math.unary": """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh Ceil Complex ComplexAbs Conj Cos Cosh Exp Expm1 Floor
        Imag Inv Invert IsFinite IsInf IsNan Log Log1p LogicalNot Neg PopulationCount Real Reciprocal Rint
        Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh
    """,
    "nn.activations": """
        BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad L2Loss LeakyRelu LeakyReluGrad Relu Relu6 Relu6Grad
        ReluGrad Selu SeluGrad Softplus SoftplusGrad Softsign SoftsignGrad
    """,
    "nn.approximate": """
        ApproxTopK
    """,
    "nn.candidates": """
        AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler
        LearnedUnigramCandidateSampler LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler
        UniformCandidateSampler
    """,
    "nn.convolution": """
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
        Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
    """,
    "nn.convolution_of_any_rank": """
        Conv
    """,
    "nn.ctc": """
        CTCLoss
    """,
    "nn.ctc_decoders": """
        CTCBeamSearchDecoder CTCGreedyDecoder
    """,
    "nn.data_format": """
        DataFormatDimMap DataFormatVecPermute
    """,
    "nn.dilation": """
        Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput
    """,
    "nn.fractional_pooling": """
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad
    """,
    "nn.isotonic": """
        IsotonicRegression
    """,
    "nn.normalization": """
        BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad FusedBatchNorm
        FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 LRN
        LRNGrad
    """,
    "nn.padded_convolution": """
        FusedPadConv2D FusedResizeAndPadConv2D
    """,
    "nn.pool_places": """
        _MaxPoolGradAtPlaces _MaxPoolWithPlaces
    """,
    "nn.pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad
        MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2
        MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax
    """,
    "nn.recurrent": """
        BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 GRUBlockCell GRUBlockCellGrad LSTMBlockCell
        LSTMBlockCellGrad
    """,
    "nn.softmax": """
        LogSoftmax Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """,
    "nn.sorting": """
        InTopK InTopKV2 NthElement TopK TopKV2
    """,
    "numpy.activations": """
        BiasAdd BiasAddV1 Elu Relu Relu6 ReluGrad Selu Sigmoid Softplus
    """,
    "numpy.binary": """
        AccumulateNV2 AddN Maximum Minimum
    """,
    "numpy.boxes": """
        CropAndResize
    """,
    "numpy.convolution": """
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2
        DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
    """,
    "numpy.counting": """
        Bincount
    """,
    "numpy.fused": """
        _FusedContraction _FusedElementwise
    """,
    "numpy.joining": """
        Concat ConcatV2
    """,
    "numpy.large_elementwise": """
        DivNoNan EluGrad Erf InvGrad LeakyRelu LeakyReluGrad MulNoNan ReciprocalGrad Relu6Grad Rsqrt
        RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad Softsign SoftsignGrad SqrtGrad SquaredDifference
        TanhGrad Xdivy Xlog1py Xlogy
    """,
    "numpy.normalization": """
        FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2
        FusedBatchNormV3 _BatchNormRelu
    """,
    "numpy.pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad MaxPoolGrad
        MaxPoolGradV2 MaxPoolV2
    """,
    "numpy.reductions": """
        All Any ArgMax ArgMin CumulativeLogsumexp Max Min
    """,
    "numpy.resizing": """
        ResizeBilinear
    """,
    "numpy.search": """
        UnravelIndex
    """,
    "numpy.sequences": """
        _FusedSequence
    """,
    "numpy.softmax": """
        LogSoftmax Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """,
    "numpy.sorting": """
        TopK TopKV2
    """,
    "numpy.sparse_products": """
        SparseTensorDenseMatMul
    """,
    "quantized.arithmetic": """
        QuantizedAdd QuantizedConcat QuantizedConcatV2 QuantizedMatMul QuantizedMul
    """,
    "quantized.conversion": """
        Dequantize QuantizeDownAndShrinkRange QuantizeV2 RequantizationRange RequantizationRangePerChannel
        Requantize RequantizePerChannel
    """,
    "quantized.convolution": """
        QuantizedConv2D
    """,
    "quantized.emulated": """
        QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4
        QuantizeAndDequantizeV4Grad
    """,
    "quantized.fake": """
        FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient
    """,
    "quantized.fused": """
        QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize
        QuantizedConv2DPerChannel QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu
        QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize
        QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu
        QuantizedConv2DWithBiasSumAndReluAndRequantize QuantizedDepthwiseConv2D
        QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu
        QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMatMulWithBias
        QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
        QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
    """,
    "quantized.layers": """
        QuantizedAvgPool QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd QuantizedInstanceNorm
        QuantizedMaxPool QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedResizeBilinear
    """,
    "quantized.uniform": """
        UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue
        UniformQuantizedDot UniformQuantizedDotHybrid UniformRequantize
    """,
    "quantized.uniform_convolution": """
        UniformQuantizedConvolution UniformQuantizedConvolutionHybrid
    """,
    "queues.accumulators": """
        AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep AccumulatorTakeGradient
        ConditionalAccumulator ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated
        ResourceAccumulatorSetGlobalStep ResourceAccumulatorTakeGradient ResourceConditionalAccumulator
        SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator
    """,
    "queues.barriers": """
        Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany
    """,
    "queues.batching": """
        Batch BatchFunction Unbatch UnbatchGrad
    """,
    "queues.queues": """
        FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 QueueClose
        QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2
        QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed
        QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2
    """,
    "queues.staging": """
        MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear
        OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage OrderedMapUnstage
        OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage
    """,
    "random.binomial": """
        StatefulRandomBinomial StatelessRandomBinomial
    """,
    "random.gamma": """
        RandomGamma RandomGammaGrad StatelessRandomGammaV2 StatelessRandomGammaV3
    """,
    "random.generators": """
        NonDeterministicInts RngReadAndSkip RngSkip StatefulStandardNormal StatefulStandardNormalV2
        StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt StatefulUniformInt
    """,
    "random.index_shuffle": """
        RandomIndexShuffle
    """,
    "random.keyed": """
        StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormalV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormalV2
    """,
    "random.poisson": """
        RandomPoisson RandomPoissonV2 StatelessRandomPoisson
    """,
    "random.sobol": """
        SobolSample
    """,
    "random.stateful": """
        Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal
    """,
    "random.stateless": """
        StatelessMultinomial StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformInt
        StatelessTruncatedNormal
    """,
    "random.stochastic_cast": """
        StochasticCastToInt
    """,
    "random.truncated": """
        ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal
    """,
    "signal.any_axes": """
        FFTND IFFTND IRFFTND RFFTND
    """,
    "signal.audio": """
        AudioSpectrogram DecodeWav EncodeWav Mfcc
    """,
    "signal.spectral": """
        BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D IFFT IFFT2D IFFT3D
        IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D
    """,
    "sparse.arithmetic": """
        SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseSoftmax
        SparseSparseMaximum SparseSparseMinimum
    """,
    "sparse.counts": """
        DenseBincount DenseCountSparseOutput RaggedBincount RaggedCountSparseOutput SparseBincount
        SparseCountSparseOutput
    """,
    "sparse.crosses": """
        RaggedCross SparseCross SparseCrossHashed SparseCrossV2
    """,
    "sparse.csr_matrices": """
        CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor
        DenseToCSRSparseMatrix SparseMatrixNNZ SparseMatrixSoftmax SparseMatrixSoftmaxGrad
        SparseMatrixTranspose SparseMatrixZeros SparseTensorToCSRSparseMatrix
    """,
    "sparse.csr_products": """
        SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixOrderingAMD
        SparseMatrixSparseCholesky SparseMatrixSparseMatMul
    """,
    "sparse.layout": """
        SparseConcat SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseReshape SparseSlice
        SparseSliceGrad SparseSplit
    """,
    "sparse.maps": """
        AddManySparseToTensorsMap AddSparseToTensorsMap TakeManySparseFromTensorsMap
    """,
    "sparse.products": """
        SparseTensorDenseAdd SparseTensorDenseMatMul
    """,
    "sparse.reductions": """
        SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse
    """,
    "sparse.serialized": """
        DeserializeManySparse DeserializeSparse SerializeManySparse SerializeSparse
    """,
    "sparse.sets": """
        DenseToDenseSetOperation DenseToSparseSetOperation EditDistance SetSize SparseToSparseSetOperation
    """,
    "state.anonymous_tables": """
        AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable
        AnonymousMutableHashTableOfTensors
    """,
    "state.mutexes": """
        ConsumeMutexLock MutexAcquire MutexLock MutexRelease MutexV2
    """,
    "state.resource_variables": """
        AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp DisableCopyOnRead
        ReadVariableOp ResourceCountUpTo VarHandleOp VarIsInitializedOp VariableShape
    """,
    "state.scatter": """
        ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv ResourceScatterMax
        ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdSub
        ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate ScatterAdd ScatterDiv ScatterMax
        ScatterMin ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate
    """,
    "state.scatter_extremes": """
        ResourceScatterNdMax ResourceScatterNdMin ScatterNdMax ScatterNdMin
    """,
    "state.session_tensors": """
        DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor
    """,
    "state.stack": """
        Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2
    """,
    "state.table_files": """
        InitializeTableFromTextFile InitializeTableFromTextFileV2
    """,
    "state.tables": """
        FakeQueue HashTable HashTableV2 InitializeTable InitializeTableV2 LookupTableExport
        LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2
        LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2
        MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
        MutableHashTableOfTensorsV2 MutableHashTableV2
    """,
    "state.tensor_array": """
        TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat
        TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3
        TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack
        TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter TensorArrayScatterV2
        TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit
        TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite
        TensorArrayWriteV2 TensorArrayWriteV3
    """,
    "state.variables": """
        Assign AssignAdd AssignSub CountUpTo DestroyTemporaryVariable IsVariableInitialized
        TemporaryVariable Variable VariableV2
    """,
    "strings.elements": """
        DecodeBase64 EncodeBase64 StringLength StringLower StringStrip StringToNumber StringUpper Substr
    """,
    "strings.formatting": """
        AsString StringFormat StringJoin
    """,
    "strings.hashing": """
        Fingerprint StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
    """,
    "strings.ngrams": """
        StringNGrams UnsortedSegmentJoin
    """,
    "strings.regex": """
        RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace
    """,
    "strings.splitting": """
        ReduceJoin StringSplit StringSplitV2
    """,
    "strings.unicode": """
        UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode
    """,
    "training.apply": """
        ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign
        ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign
        ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp ResourceApplyAdaMax
        ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2
        ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
        ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum
        ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad
        ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceSparseApplyAdadelta
        ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA ResourceSparseApplyAdagradV2
        ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2
        ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad
        ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp SparseApplyAdadelta
        SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp
        SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad
        SparseApplyProximalGradientDescent SparseApplyRMSProp
    """,
    "training.boosted_trees": """
        BoostedTreesAggregateStats BoostedTreesBucketize BoostedTreesMakeStatsSummary
        BoostedTreesSparseAggregateStats
    """,
    "training.clustering": """
        KMC2ChainInitialization KmeansPlusPlusInitialization NearestNeighbors
    """,
    "training.forest_trees": """
        TensorForestCreateTreeVariable TensorForestTreeDeserialize TensorForestTreeIsInitializedOp
        TensorForestTreePredict TensorForestTreeResourceHandleOp TensorForestTreeSerialize
        TensorForestTreeSize
    """,
    "training.fused_descent": """
        _DescentByProduct
    """,
    "training.gathered_updates": """
        _GatheredResourceUpdates _GatheredUpdates
    """,
    "training.linear_models": """
        SdcaFprint SdcaOptimizer SdcaOptimizerV2 SdcaShrinkL1
    """,
    "training.quantile_streams": """
        BoostedTreesCreateQuantileStreamResource BoostedTreesFlushQuantileSummaries
        BoostedTreesMakeQuantileSummaries BoostedTreesQuantileStreamResourceAddSummaries
        BoostedTreesQuantileStreamResourceDeserialize BoostedTreesQuantileStreamResourceFlush
        BoostedTreesQuantileStreamResourceGetBucketBoundaries BoostedTreesQuantileStreamResourceHandleOp
        IsBoostedTreesQuantileStreamResourceInitialized
    """,
    "training.tree_ensembles": """
        BoostedTreesCenterBias BoostedTreesCreateEnsemble BoostedTreesDeserializeEnsemble
        BoostedTreesEnsembleResourceHandleOp BoostedTreesExampleDebugOutputs BoostedTreesGetEnsembleStates
        BoostedTreesPredict BoostedTreesSerializeEnsemble BoostedTreesTrainingPredict
        BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2 IsBoostedTreesEnsembleInitialized
    """,
    "training.tree_splits": """
        BoostedTreesCalculateBestFeatureSplit BoostedTreesCalculateBestGainsPerFeature
        BoostedTreesSparseCalculateBestFeatureSplit
    """,
}

#: {module of a provider: names of the ops that it has kernels of}
PROVIDED: Final[dict[str, str]] = {
    "onednn.convolution": """
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput
    """,
    "onednn.depthwise": """
        DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
    """,
    "onednn.elementwise": """
        ApplyGradientDescent ApplyMomentum BiasAddGrad ReluGrad ResourceApplyGradientDescent
        ResourceApplyMomentum
    """,
    "onednn.joining": """
        ConcatV2
    """,
    "onednn.normalization": """
        FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2
        FusedBatchNormV3 _BatchNormRelu
    """,
    "onednn.pooling": """
        AvgPool AvgPoolGrad MaxPool MaxPoolGrad MaxPoolGradV2 MaxPoolV2 _MaxPoolGradAtPlaces
        _MaxPoolWithPlaces
    """,
    "onednn.products": """
        BatchMatMul BatchMatMulV2 MatMul
    """,
    "onednn.resizing": """
        ResizeBilinear
    """,
    "onednn.responses": """
        LRN LRNGrad
    """,
}
