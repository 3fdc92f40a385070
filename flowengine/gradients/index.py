"""Which module has the gradients of which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of the ops}
GRADIENTS: Final[dict[str, str]] = {
    "array.identity": """
        Identity RefIdentity
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
        ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
        ResizeNearestNeighborGrad ScaleAndTranslate ScaleAndTranslateGrad
    """,
    "linalg.products": """
        MatMul
    """,
    "math.binary": """
        AccumulateNV2 AddN Mul
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
        NthElement TopK TopKV2
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
}
