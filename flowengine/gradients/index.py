"""Which module has the gradients of which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of the ops}
GRADIENTS: Final[dict[str, str]] = {
    "array.axes": """
        ConjugateTranspose Reverse ReverseSequence ReverseV2 Roll Transpose
    """,
    "array.constants": """
        Fill PlaceholderWithDefault SparseToDense
    """,
    "array.gather": """
        Gather GatherNd GatherV2
    """,
    "array.identity": """
        DebugGradientIdentity DebugGradientRefIdentity DebugIdentity DebugIdentityV2 DebugIdentityV3
        DeepCopy EnsureShape GuaranteeConst Identity IdentityN PreventGradient RefIdentity Snapshot
    """,
    "array.inplace": """
        InplaceAdd InplaceSub InplaceUpdate
    """,
    "array.joining": """
        Concat ConcatV2 Pack ParallelConcat Split SplitV Unpack
    """,
    "array.padding": """
        BatchToSpace BatchToSpaceND DepthToSpace MirrorPad MirrorPadGrad Pad PadV2 SpaceToBatch
        SpaceToBatchND SpaceToDepth
    """,
    "array.ragged": """
        RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedTensorToSparse RaggedTensorToTensor
    """,
    "array.ragged_variants": """
        RaggedTensorFromVariant RaggedTensorToVariant RaggedTensorToVariantGradient
    """,
    "array.resampling": """
        PeriodicResample PeriodicResampleOpGrad
    """,
    "array.scatter": """
        DynamicPartition DynamicStitch ParallelDynamicStitch ScatterNd ScatterNdNonAliasingAdd
        TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate
    """,
    "array.shapes": """
        BroadcastTo ExpandDims Reshape Squeeze Tile TileGrad
    """,
    "array.slicing": """
        Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate
    """,
    "control.control_flow": """
        Enter Exit Merge NextIteration RefEnter RefExit RefMerge RefNextIteration RefSwitch Switch
    """,
    "control.functional": """
        Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile
        SymbolicGradient While
    """,
    "data.optional": """
        OptionalFromValue OptionalGetValue
    """,
    "data.tensor_list": """
        TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListFromTensor TensorListGather
        TensorListGetItem TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListResize
        TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem
        TensorListSplit TensorListStack
    """,
    "image.boxes": """
        CropAndResize CropAndResizeGradImage
    """,
    "image.colors": """
        RGBToHSV
    """,
    "image.patches": """
        ExtractImagePatches ExtractVolumePatches
    """,
    "image.resizing": """
        ImageProjectiveTransformV2 ImageProjectiveTransformV3 ResizeBicubic ResizeBicubicGrad ResizeBilinear
        ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad ScaleAndTranslate
        ScaleAndTranslateGrad
    """,
    "image.warping": """
        Addons>Resampler Resampler
    """,
    "io.files": """
        Print
    """,
    "linalg.decompositions": """
        BatchCholesky BatchCholeskyGrad BatchMatrixDeterminant BatchMatrixInverse BatchSelfAdjointEig
        BatchSelfAdjointEigV2 BatchSvd Cholesky CholeskyGrad Eig LogMatrixDeterminant Lu MatrixDeterminant
        MatrixExponential MatrixInverse MatrixLogarithm MatrixSquareRoot Qr SelfAdjointEig SelfAdjointEigV2
        Svd
    """,
    "linalg.parts": """
        BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag Diag DiagPart
        MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
        MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
    """,
    "linalg.products": """
        BatchMatMul BatchMatMulV2 BatchMatMulV3 Cross Einsum MatMul SparseMatMul
    """,
    "linalg.solving": """
        BandedTriangularSolve BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve MatrixSolve
        MatrixSolveLs MatrixTriangularSolve TridiagonalMatMul TridiagonalSolve
    """,
    "math.binary": """
        AccumulateNV2 Add AddN AddV2 Atan2 ClipByValue Div DivNoNan FloorMod Maximum Minimum Mod Mul
        MulNoNan NextAfter Pow RealDiv Select SelectV2 SquaredDifference Sub TruncateMod Xdivy Xlog1py Xlogy
    """,
    "math.cast": """
        Bitcast Cast CheckNumerics CheckNumericsV2
    """,
    "math.reductions": """
        Cumprod Cumsum CumulativeLogsumexp EuclideanNorm Max Mean Min Prod Sum
    """,
    "math.segments": """
        SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum
        SegmentSumV2 SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments
        SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum
        SparseSegmentSumGrad SparseSegmentSumWithNumSegments UnsortedSegmentMax UnsortedSegmentMin
        UnsortedSegmentProd UnsortedSegmentSum
    """,
    "math.sequences": """
        Bincount
    """,
    "math.special": """
        BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e
        BesselY0 BesselY1 Betainc Dawsn Digamma Erf Erfc Erfinv Expint FresnelCos FresnelSin Igamma Igammac
        Lgamma Ndtri Polygamma Spence Zeta
    """,
    "math.unary": """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh Complex ComplexAbs Conj Cos Cosh Exp Expm1 Imag Inv
        InvGrad Log Log1p Neg Real Reciprocal ReciprocalGrad Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin
        Sinh Sqrt SqrtGrad Square Tan Tanh TanhGrad
    """,
    "nn.activations": """
        BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad L2Loss LeakyRelu LeakyReluGrad LogSoftmax Relu Relu6
        Relu6Grad ReluGrad Selu SeluGrad Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad
        Softsign SoftsignGrad SparseSoftmaxCrossEntropyWithLogits
    """,
    "nn.convolution": """
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
        Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
    """,
    "nn.convolution_variants": """
        Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput FusedPadConv2D FusedResizeAndPadConv2D
    """,
    "nn.ctc": """
        CTCLoss
    """,
    "nn.fractional_pooling": """
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad
    """,
    "nn.normalization": """
        BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad FusedBatchNorm
        FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 LRN
        LRNGrad
    """,
    "nn.pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad
        MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2
        MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax
    """,
    "nn.recurrent": """
        BlockLSTM BlockLSTMV2 GRUBlockCell LSTMBlockCell
    """,
    "nn.sorting": """
        ApproxTopK IsotonicRegression NthElement TopK TopKV2
    """,
    "quantized.emulated": """
        FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient QuantizeAndDequantize QuantizeAndDequantizeV2
        QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad
    """,
    "queues.batching": """
        Batch Unbatch
    """,
    "random.distributions": """
        RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3
    """,
    "signal.spectral": """
        BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D FFTND IFFT IFFT2D
        IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND RFFT RFFT2D RFFT3D RFFTND
    """,
    "sparse.arithmetic": """
        SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseReduceMax
        SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseSoftmax SparseSparseMaximum
        SparseSparseMinimum
    """,
    "sparse.csr_matrices": """
        CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix SparseMatrixSoftmax
        SparseMatrixSoftmaxGrad SparseMatrixTranspose SparseTensorToCSRSparseMatrix
    """,
    "sparse.layout": """
        SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseSlice SparseSliceGrad SparseSplit
    """,
    "sparse.products": """
        SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixSparseMatMul SparseTensorDenseAdd
        SparseTensorDenseMatMul
    """,
    "state.scatter": """
        ResourceGather ResourceGatherNd
    """,
    "state.tensor_array": """
        TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2
        TensorArrayGatherV3 TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3
        TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySplit TensorArraySplitV2
        TensorArraySplitV3 TensorArrayUnpack TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3
    """,
    "state.variables": """
        ReadVariableOp _ReadVariablesOp
    """,
}
