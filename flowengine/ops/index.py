"""Which module defines which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of its ops}
OPS: Final[dict[str, str]] = {
    "array.axes": """ConjugateTranspose InvertPermutation Reverse ReverseSequence ReverseV2 Roll Transpose""",
    "array.constants": """Const Empty FakeParam Fill OneHot OnesLike Placeholder PlaceholderV2
        PlaceholderWithDefault SparseToDense ZerosLike""",
    "array.gather": """Addons>GatherTree Gather GatherNd GatherTree GatherV2""",
    "array.identity": """Abort Assert Copy CopyHost DebugGradientIdentity DebugGradientRefIdentity
        DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount DebugNumericSummary DebugNumericSummaryV2
        DeepCopy EnsureShape GuaranteeConst Identity IdentityN NoOp PreventGradient RefIdentity Snapshot
        StopGradient SyncDevice""",
    "array.inplace": """InplaceAdd InplaceSub InplaceUpdate ResourceStridedSliceAssign StridedSliceAssign""",
    "array.joining": """Concat ConcatOffset ConcatV2 Pack ParallelConcat Split SplitV Unpack""",
    "array.padding": """BatchToSpace BatchToSpaceND DepthToSpace MirrorPad MirrorPadGrad Pad PadV2
        SpaceToBatch SpaceToBatchND SpaceToDepth""",
    "array.ragged": """RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedRange
        RaggedTensorToSparse RaggedTensorToTensor""",
    "array.ragged_variants": """RaggedTensorFromVariant RaggedTensorToVariant
        RaggedTensorToVariantGradient""",
    "array.resampling": """PeriodicResample PeriodicResampleOpGrad""",
    "array.scatter": """DynamicPartition DynamicStitch ParallelDynamicStitch ScatterNd
        ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
        TensorScatterUpdate""",
    "array.search": """ListDiff LowerBound ToBool Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
        UnravelIndex UpperBound Where""",
    "array.shapes": """BroadcastArgs BroadcastTo ExpandDims QuantizedReshape Rank Reshape Shape ShapeN Size
        Squeeze Tile TileGrad""",
    "array.slicing": """Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate""",
    "control.control_flow": """ControlTrigger DeviceIndex Enter Exit IsTensorFloat32Enabled LoopCond Merge
        NextIteration RefEnter RefExit RefMerge RefNextIteration RefSelect RefSwitch Switch""",
    "control.functional": """Case For If PartitionedCall PyFunc PyFuncStateless RemoteCall
        StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile SymbolicGradient While _Arg
        _ArrayToList _DeviceArg _DeviceRetval _If _ListToArray _Retval _While""",
    "control.sendrecv": """_CopyToDevice _CopyToHost _HostRecv _HostSend _Narrow _Recv _Send _Widen""",
    "data.datasets": """BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset
        FilterByLastComponentDataset FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
        FlatMapDataset GeneratorDataset InterleaveDataset MapDataset ModelDataset OptimizeDataset
        PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDatasetV2 ParallelMapDataset
        PrefetchDataset RangeDataset RepeatDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset
        ShuffleDatasetV2 SkipDataset SparseTensorSliceDataset TFRecordDataset TakeDataset TensorDataset
        TensorSliceDataset TextLineDataset UnbatchDataset UnwrapDatasetVariant WindowDataset
        WrapDatasetVariant ZipDataset""",
    "data.file_datasets": """CSVDataset CSVDatasetV2 DatasetToTFRecord ExperimentalCSVDataset
        ExperimentalDatasetToTFRecord ExperimentalLMDBDataset ExperimentalMatchingFilesDataset
        ExperimentalSqlDataset LMDBDataset ListSnapshotChunksDataset LoadDataset MatchingFilesDataset
        SaveDataset SaveDatasetV2 SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader
        SnapshotDatasetV2 SnapshotNestedDatasetReader SqlDataset TFRecordDatasetV2""",
    "data.inspecting": """CompressElement DatasetCardinality DatasetFingerprint DatasetFromGraph
        DatasetToGraph DatasetToGraphV2 DeserializeIterator ExperimentalDatasetCardinality
        ExperimentalIteratorGetDevice GetOptions InitializeTableFromDataset IteratorGetDevice
        SerializeIterator UncompressElement""",
    "data.iterators": """AnonymousIterator AnonymousIteratorV2 DatasetToSingleElement DeleteIterator
        GetElementAtIndex Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetNext
        IteratorGetNextAsOptional IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator MapDefun
        OneShotIterator ReduceDataset""",
    "data.multi_device": """AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3
        DeleteMultiDeviceIterator MultiDeviceIterator MultiDeviceIteratorFromStringHandle
        MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle""",
    "data.optional": """CompositeTensorVariantFromComponents CompositeTensorVariantToComponents
        OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone""",
    "data.parallel_datasets": """ExperimentalMapAndBatchDataset ExperimentalMapDataset
        ExperimentalParallelInterleaveDataset ExperimentalParseExampleDataset
        LegacyParallelInterleaveDatasetV2 MapAndBatchDataset ParallelBatchDataset ParallelFilterDataset
        ParallelInterleaveDataset ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4
        ParallelMapDatasetV2 ParseExampleDataset ParseExampleDatasetV2""",
    "data.seed_generators": """AnonymousIteratorV3 AnonymousMemoryCache AnonymousRandomSeedGenerator
        AnonymousSeedGenerator DeleteMemoryCache DeleteRandomSeedGenerator DeleteSeedGenerator
        DummyIterationCounter DummyMemoryCache DummySeedGenerator""",
    "data.tensor_list": """EmptyTensorList TensorListConcat TensorListConcatLists TensorListConcatV2
        TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
        TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
        TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem
        TensorListSplit TensorListStack""",
    "data.tensor_map": """EmptyTensorMap TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup
        TensorMapSize TensorMapStackKeys""",
    "data.transformations": """AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset
        BytesProducedStatsDataset ChooseFastestBranchDataset ChooseFastestDataset DenseToSparseBatchDataset
        DirectedInterleaveDataset ExperimentalAssertNextDataset ExperimentalAutoShardDataset
        ExperimentalBytesProducedStatsDataset ExperimentalChooseFastestDataset
        ExperimentalDenseToSparseBatchDataset ExperimentalDirectedInterleaveDataset
        ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset
        ExperimentalLatencyStatsDataset ExperimentalMaxIntraOpParallelismDataset
        ExperimentalNonSerializableDataset ExperimentalPrivateThreadPoolDataset ExperimentalRandomDataset
        ExperimentalRebatchDataset ExperimentalScanDataset ExperimentalSetStatsAggregatorDataset
        ExperimentalSleepDataset ExperimentalSlidingWindowDataset ExperimentalTakeWhileDataset
        ExperimentalThreadPoolDataset ExperimentalThreadPoolHandle ExperimentalUnbatchDataset
        ExperimentalUniqueDataset FinalizeDataset GlobalShuffleDataset GroupByReducerDataset
        GroupByWindowDataset IgnoreErrorsDataset IndexFlatMapDataset LatencyStatsDataset ListDataset
        MaxIntraOpParallelismDataset NonSerializableDataset OptimizeDatasetV2 OptionsDataset
        PrivateThreadPoolDataset RandomDataset RandomDatasetV2 RebatchDataset RebatchDatasetV2 RewriteDataset
        SamplingDataset ScanDataset SetStatsAggregatorDataset ShuffleAndRepeatDatasetV2 ShuffleDatasetV3
        SleepDataset SlidingWindowDataset TakeWhileDataset ThreadPoolDataset UniqueDataset
        WeightedFlatMapDataset WindowOp""",
    "image.boxes": """BipartiteMatch CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage
        DrawBoundingBoxes DrawBoundingBoxesV2""",
    "image.coding": """DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng DecodeWebP
        EncodeJpeg EncodeJpegVariableQuality EncodePng ExtractJpegShape""",
    "image.colors": """Addons>AdjustHsvInYiq AdjustContrast AdjustContrastv2 AdjustHsvInYiq AdjustHue
        AdjustSaturation HSVToRGB RGBToHSV""",
    "image.cropping": """ExtractGlimpse ExtractGlimpseV2 RandomCrop SampleDistortedBoundingBox
        SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox""",
    "image.patches": """ExtractImagePatches ExtractVolumePatches""",
    "image.resizing": """ImageProjectiveTransformV2 ImageProjectiveTransformV3 ResizeArea ResizeBicubic
        ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad
        ScaleAndTranslate ScaleAndTranslateGrad""",
    "image.suppression": """CombinedNonMaxSuppression NonMaxSuppression NonMaxSuppressionV2
        NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps""",
    "image.warping": """Addons>ImageConnectedComponents Addons>Resampler Addons>ResamplerGrad
        ImageConnectedComponents ImageProjectiveTransform Resampler ResamplerGrad""",
    "io.checkpoint": """MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2
        ShardedFilename ShardedFilespec""",
    "io.decoding": """DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeRaw ParseTensor
        SerializeTensor""",
    "io.example_batches": """ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2""",
    "io.examples": """ParseExample ParseSingleExample ParseSingleSequenceExample""",
    "io.files": """GenerateVocabRemapping ImmutableConst LoadAndRemapMatrix MatchingFiles Print PrintV2
        ReadFile Timestamp WriteFile""",
    "io.libsvm": """DecodeLibsvm""",
    "io.protocol_buffers": """DecodeProtoV2 EncodeProto""",
    "io.readers": """FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2
        LMDBReader ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted
        ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 ReaderReset
        ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2
        RecordInput TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader
        WholeFileReaderV2""",
    "io.summaries": """AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary
        TensorSummary TensorSummaryV2""",
    "io.summary_writers": """CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter
        FlushSummaryWriter ImportEvent SummaryWriter WriteAudioSummary WriteGraphSummary
        WriteHistogramSummary WriteImageSummary WriteRawProtoSummary WriteScalarSummary WriteSummary""",
    "linalg.decompositions": """BatchCholesky BatchCholeskyGrad BatchMatrixDeterminant BatchMatrixInverse
        BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd Cholesky CholeskyGrad Eig LogMatrixDeterminant Lu
        MatrixDeterminant MatrixExponential MatrixInverse MatrixLogarithm MatrixSquareRoot Qr SelfAdjointEig
        SelfAdjointEigV2 Svd""",
    "linalg.parts": """BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag Diag
        DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
        MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3""",
    "linalg.products": """BatchMatMul BatchMatMulV2 BatchMatMulV3 Cross Einsum MaskedMatmul MatMul
        SparseMatMul""",
    "linalg.solving": """BandedTriangularSolve BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve
        MatrixSolve MatrixSolveLs MatrixTriangularSolve TridiagonalMatMul TridiagonalSolve""",
    "math.binary": """AccumulateNV2 Add AddN AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue Div
        DivNoNan FloorDiv FloorMod LeftShift Maximum Minimum Mod Mul MulNoNan NextAfter Pow RealDiv
        RightShift Select SelectV2 SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy""",
    "math.cast": """Bitcast Cast CheckNumerics CheckNumericsV2""",
    "math.compare": """ApproximateEqual CompareAndBitpack Equal Greater GreaterEqual Less LessEqual
        LogicalAnd LogicalOr NotEqual""",
    "math.reductions": """All Any ArgMax ArgMin Cumprod Cumsum CumulativeLogsumexp EuclideanNorm Max Mean Min
        Prod Sum""",
    "math.segments": """SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2
        SegmentSum SegmentSumV2 SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2
        SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2
        SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2
        SparseSegmentSumWithNumSegments UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
        UnsortedSegmentSum""",
    "math.sequences": """Bincount BroadcastGradientArgs Bucketize HistogramFixedWidth LinSpace Range""",
    "math.special": """BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1
        BesselK1e BesselY0 BesselY1 Betainc Dawsn Digamma Erf Erfc Erfinv Expint FresnelCos FresnelSin Igamma
        IgammaGradA Igammac Lgamma Ndtri Polygamma Spence Zeta""",
    "math.unary": """Abs Acos Acosh Angle Asin Asinh Atan Atanh Ceil Complex ComplexAbs Conj Cos Cosh Exp
        Expm1 Floor Imag Inv InvGrad Invert IsFinite IsInf IsNan Log Log1p LogicalNot Neg PopulationCount
        Real Reciprocal ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin Sinh Sqrt
        SqrtGrad Square Tan Tanh TanhGrad""",
    "nn.activations": """BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad L2Loss LeakyRelu LeakyReluGrad LogSoftmax
        Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad Softmax SoftmaxCrossEntropyWithLogits Softplus
        SoftplusGrad Softsign SoftsignGrad SparseSoftmaxCrossEntropyWithLogits""",
    "nn.candidates": """AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler
        LearnedUnigramCandidateSampler LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler
        UniformCandidateSampler""",
    "nn.convolution": """Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter
        Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 DataFormatDimMap
        DataFormatVecPermute DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput""",
    "nn.convolution_variants": """Conv Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput
        FusedPadConv2D FusedResizeAndPadConv2D""",
    "nn.ctc": """CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss""",
    "nn.fractional_pooling": """FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool
        FractionalMaxPoolGrad""",
    "nn.normalization": """BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad
        FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2
        FusedBatchNormV3 LRN LRNGrad""",
    "nn.pooling": """AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad
        MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax
        MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax""",
    "nn.recurrent": """BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 GRUBlockCell GRUBlockCellGrad
        LSTMBlockCell LSTMBlockCellGrad""",
    "nn.sorting": """ApproxTopK InTopK InTopKV2 IsotonicRegression NthElement TopK TopKV2""",
    "quantized.arithmetic": """QuantizedAdd QuantizedConcat QuantizedConcatV2 QuantizedMatMul QuantizedMul""",
    "quantized.conversion": """Dequantize QuantizeDownAndShrinkRange QuantizeV2 RequantizationRange
        RequantizationRangePerChannel Requantize RequantizePerChannel""",
    "quantized.convolution": """QuantizedConv2D""",
    "quantized.emulated": """FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient QuantizeAndDequantize QuantizeAndDequantizeV2
        QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad""",
    "quantized.fused": """QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize
        QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias
        QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize
        QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize
        QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize
        QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu
        QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMatMulWithBias
        QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
        QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize""",
    "quantized.layers": """QuantizedAvgPool QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd
        QuantizedInstanceNorm QuantizedMaxPool QuantizedRelu QuantizedRelu6 QuantizedReluX
        QuantizedResizeBilinear""",
    "quantized.uniform": """UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue
        UniformQuantizedDot UniformQuantizedDotHybrid UniformRequantize""",
    "quantized.uniform_convolution": """UniformQuantizedConvolution UniformQuantizedConvolutionHybrid""",
    "queues.accumulators": """AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep
        AccumulatorTakeGradient ConditionalAccumulator ResourceAccumulatorApplyGradient
        ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep ResourceAccumulatorTakeGradient
        ResourceConditionalAccumulator SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient
        SparseConditionalAccumulator""",
    "queues.batching": """Batch BatchFunction Unbatch UnbatchGrad""",
    "queues.queues": """Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize
        BarrierTakeMany FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue
        PriorityQueueV2 QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2
        QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2
        QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue
        RandomShuffleQueueV2""",
    "queues.staging": """MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey
        OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage
        OrderedMapUnstage OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage""",
    "random.binomial": """StatefulRandomBinomial StatelessRandomBinomial""",
    "random.distributions": """RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2
        StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomPoisson""",
    "random.keyed": """NonDeterministicInts RngReadAndSkip RngSkip StatefulStandardNormal
        StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
        StatefulUniformInt StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormalV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormalV2""",
    "random.stateful": """Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt
        TruncatedNormal""",
    "random.stateless": """RandomIndexShuffle SobolSample StatelessMultinomial StatelessRandomNormal
        StatelessRandomUniform StatelessRandomUniformInt StatelessTruncatedNormal StochasticCastToInt""",
    "random.truncated": """ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal""",
    "signal.audio": """AudioSpectrogram DecodeWav EncodeWav Mfcc""",
    "signal.spectral": """BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D
        FFTND IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND RFFT RFFT2D RFFT3D RFFTND""",
    "sparse.arithmetic": """SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv
        SparseDenseCwiseMul SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse
        SparseSoftmax SparseSparseMaximum SparseSparseMinimum""",
    "sparse.crosses": """RaggedCross SparseCross SparseCrossHashed SparseCrossV2""",
    "sparse.csr_matrices": """CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor
        DenseToCSRSparseMatrix SparseMatrixNNZ SparseMatrixSoftmax SparseMatrixSoftmaxGrad
        SparseMatrixTranspose SparseMatrixZeros SparseTensorToCSRSparseMatrix""",
    "sparse.layout": """SparseConcat SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseReshape
        SparseSlice SparseSliceGrad SparseSplit""",
    "sparse.products": """SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixOrderingAMD
        SparseMatrixSparseCholesky SparseMatrixSparseMatMul SparseTensorDenseAdd SparseTensorDenseMatMul""",
    "sparse.serialized": """AddManySparseToTensorsMap AddSparseToTensorsMap DeserializeManySparse
        DeserializeSparse SerializeManySparse SerializeSparse TakeManySparseFromTensorsMap""",
    "sparse.sets": """DenseBincount DenseCountSparseOutput DenseToDenseSetOperation DenseToSparseSetOperation
        EditDistance RaggedBincount RaggedCountSparseOutput SetSize SparseBincount SparseCountSparseOutput
        SparseToSparseSetOperation""",
    "state.resources": """ConsumeMutexLock DeleteSessionTensor GetSessionHandle GetSessionHandleV2
        GetSessionTensor MutexAcquire MutexLock MutexRelease MutexV2 Stack StackClose StackCloseV2 StackPop
        StackPopV2 StackPush StackPushV2 StackV2""",
    "state.scatter": """ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv
        ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdMax
        ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub
        ResourceScatterUpdate ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd
        ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate""",
    "state.table_files": """InitializeTableFromTextFile InitializeTableFromTextFileV2""",
    "state.tables": """AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable
        AnonymousMutableHashTableOfTensors FakeQueue HashTable HashTableV2 InitializeTable InitializeTableV2
        LookupTableExport LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport
        LookupTableImportV2 LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize
        LookupTableSizeV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable
        MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableHashTableV2""",
    "state.tensor_array": """TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3
        TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2
        TensorArrayGatherV3 TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape
        TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter
        TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3
        TensorArraySplit TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3
        TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3""",
    "state.variables": """Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp
        CountUpTo DestroyResourceOp DestroyTemporaryVariable DisableCopyOnRead IsVariableInitialized
        ReadVariableOp ResourceCountUpTo TemporaryVariable VarHandleOp VarIsInitializedOp Variable
        VariableShape VariableV2 _ReadVariablesOp _VarHandlesOp""",
    "strings.elements": """DecodeBase64 EncodeBase64 Fingerprint StringLength StringLower StringStrip
        StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper
        Substr""",
    "strings.padded_pieces": """SentencepieceDecode SentencepieceEncodeDense SentencepieceEncodeSparse
        SentencepieceGetPieceSize SentencepieceGetPieceType SentencepieceIdToPiece SentencepiecePieceToId""",
    "strings.sentencepieces": """SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp
        SentencepieceStringToIdOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp
        SentencepieceVocabSizeOp""",
    "strings.splitting": """ReduceJoin RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace
        StringNGrams StringSplit StringSplitV2 UnsortedSegmentJoin""",
    "strings.text": """AsString StringFormat StringJoin UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode
        UnicodeScript UnicodeTranscode""",
    "training.apply": """ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam
        ApplyAddSign ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum
        ApplyPowerSign ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp ResourceApplyAdaMax
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
        SparseApplyProximalGradientDescent SparseApplyRMSProp""",
    "training.boosted_trees": """BoostedTreesAggregateStats BoostedTreesBucketize
        BoostedTreesMakeStatsSummary BoostedTreesSparseAggregateStats""",
    "training.clustering": """KMC2ChainInitialization KmeansPlusPlusInitialization NearestNeighbors NegTrain
        Skipgram""",
    "training.forest_trees": """TensorForestCreateTreeVariable TensorForestTreeDeserialize
        TensorForestTreeIsInitializedOp TensorForestTreePredict TensorForestTreeResourceHandleOp
        TensorForestTreeSerialize TensorForestTreeSize""",
    "training.linear_models": """SdcaFprint SdcaOptimizer SdcaOptimizerV2 SdcaShrinkL1""",
    "training.quantile_streams": """BoostedTreesCreateQuantileStreamResource
        BoostedTreesFlushQuantileSummaries BoostedTreesMakeQuantileSummaries
        BoostedTreesQuantileStreamResourceAddSummaries BoostedTreesQuantileStreamResourceDeserialize
        BoostedTreesQuantileStreamResourceFlush BoostedTreesQuantileStreamResourceGetBucketBoundaries
        BoostedTreesQuantileStreamResourceHandleOp IsBoostedTreesQuantileStreamResourceInitialized""",
    "training.tree_ensembles": """BoostedTreesCenterBias BoostedTreesCreateEnsemble
        BoostedTreesDeserializeEnsemble BoostedTreesEnsembleResourceHandleOp BoostedTreesExampleDebugOutputs
        BoostedTreesGetEnsembleStates BoostedTreesPredict BoostedTreesSerializeEnsemble
        BoostedTreesTrainingPredict BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2
        IsBoostedTreesEnsembleInitialized""",
    "training.tree_splits": """BoostedTreesCalculateBestFeatureSplit BoostedTreesCalculateBestGainsPerFeature
        BoostedTreesSparseCalculateBestFeatureSplit""",
}
