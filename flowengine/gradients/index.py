"""Which module has the gradients of which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of the ops}
GRADIENTS: Final[dict[str, str]] = {
    "array.constants": """
        Fill PlaceholderWithDefault
    """,
    "array.debugging": """
        DebugIdentity DebugIdentityV2 DebugIdentityV3
    """,
    "array.gather": """
        Gather GatherNd GatherV2
    """,
    "array.identity": """
        DebugGradientIdentity DebugGradientRefIdentity DeepCopy EnsureShape GuaranteeConst Identity
        IdentityN PreventGradient RefIdentity Snapshot
    """,
    "array.inplace": """
        InplaceAdd InplaceSub InplaceUpdate
    """,
    "array.joining": """
        Concat ConcatV2 Pack ParallelConcat Split SplitV Unpack
    """,
    "array.one_hot": """
        SparseToDense
    """,
    "array.padding": """
        MirrorPad MirrorPadGrad Pad PadV2
    """,
    "array.partition": """
        DynamicPartition DynamicStitch ParallelDynamicStitch
    """,
    "array.ragged": """
        RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedTensorToSparse
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
    "array.shapes": """
        BroadcastTo ExpandDims Reshape Squeeze Tile TileGrad
    """,
    "array.slicing": """
        Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate
    """,
    "array.space_batch": """
        BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth
    """,
    "array.transpose": """
        ConjugateTranspose Transpose
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
        TensorListConcatLists TensorListGetItem TensorListPopBack TensorListPushBack TensorListPushBackBatch
        TensorListResize TensorListSetItem
    """,
    "data.tensor_list_joining": """
        TensorListConcat TensorListConcatV2 TensorListFromTensor TensorListGather TensorListScatter
        TensorListScatterIntoExistingList TensorListScatterV2 TensorListSplit TensorListStack
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
    "image.projection": """
        ImageProjectiveTransformV2 ImageProjectiveTransformV3
    """,
    "image.resizing": """
        ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
        ResizeNearestNeighborGrad ScaleAndTranslate ScaleAndTranslateGrad
    """,
    "io.printing": """
        Print
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
        AccumulateNV2 Add AddN AddV2 Atan2 ClipByValue Maximum Minimum Mul MulNoNan NextAfter Pow Select
        SelectV2 SquaredDifference Sub Xdivy Xlog1py Xlogy
    """,
    "math.cast": """
        Bitcast Cast CheckNumerics CheckNumericsV2
    """,
    "math.counted_segments": """
        SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
    """,
    "math.division": """
        Div DivNoNan FloorMod Mod RealDiv TruncateMod
    """,
    "math.gradients": """
        InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad
    """,
    "math.integrals": """
        Dawsn Erfinv Expint FresnelCos FresnelSin Ndtri Spence
    """,
    "math.reductions": """
        Cumprod Cumsum CumulativeLogsumexp EuclideanNorm Max Mean Min Prod Sum
    """,
    "math.segments": """
        SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin
        UnsortedSegmentProd UnsortedSegmentSum
    """,
    "math.sequences": """
        Bincount
    """,
    "math.sparse_segments": """
        SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
        SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad
        SparseSegmentSumWithNumSegments
    """,
    "math.special": """
        BesselI0e BesselI1e Betainc Digamma Erf Erfc Igamma Igammac Lgamma Polygamma Zeta
    """,
    "math.unary": """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh Complex ComplexAbs Conj Cos Cosh Exp Expm1 Imag Inv Log
        Log1p Neg Real Reciprocal Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh
    """,
    "nn.activations": """
        BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad L2Loss LeakyRelu LeakyReluGrad Relu Relu6 Relu6Grad
        ReluGrad Selu SeluGrad Softplus SoftplusGrad Softsign SoftsignGrad
    """,
    "nn.convolution": """
        Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
        Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
    """,
    "nn.ctc": """
        CTCLoss
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
    "nn.pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad
        MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2
        MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax
    """,
    "nn.recurrent": """
        BlockLSTM BlockLSTMV2 GRUBlockCell LSTMBlockCell
    """,
    "nn.softmax": """
        LogSoftmax Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """,
    "nn.sorting": """
        ApproxTopK NthElement TopK TopKV2
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
    "queues.batching": """
        Batch Unbatch
    """,
    "random.gamma": """
        RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3
    """,
    "signal.spectral": """
        BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D FFTND IFFT IFFT2D
        IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND RFFT RFFT2D RFFT3D RFFTND
    """,
    "sparse.arithmetic": """
        SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseSoftmax
        SparseSparseMaximum SparseSparseMinimum
    """,
    "sparse.csr_matrices": """
        CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix SparseMatrixSoftmax
        SparseMatrixSoftmaxGrad SparseMatrixTranspose SparseTensorToCSRSparseMatrix
    """,
    "sparse.csr_products": """
        SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixSparseMatMul
    """,
    "sparse.layout": """
        SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseSlice SparseSliceGrad SparseSplit
    """,
    "sparse.products": """
        SparseTensorDenseAdd SparseTensorDenseMatMul
    """,
    "sparse.reductions": """
        SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse
    """,
    "state.resource_variables": """
        ReadVariableOp _ReadVariablesOp
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
}
