"""Kernels that oneDNN computes, called through its C interface.

`library` finds and loads it, `objects` are its descriptors and memories, `program` runs primitives, and the
other modules register kernels: each takes the calls that it was measured to be faster at, and hands every
other call on to the NumPy kernel of the node. Nothing here is imported before a graph needs one of `OPS`,
and the library itself is loaded at the first call that is large enough for it.
"""

from __future__ import annotations

from typing import Final

#: {module: the ops that it serves}
OPS: Final[dict[str, str]] = {
    "convolution": "Conv2D Conv2DBackpropInput Conv2DBackpropFilter",
    "depthwise": (
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter"
    ),
    "elementwise": (
        "ReluGrad BiasAddGrad ApplyGradientDescent ResourceApplyGradientDescent ApplyMomentum "
        "ResourceApplyMomentum"
    ),
    "joining": "ConcatV2",
    "products": "MatMul BatchMatMul BatchMatMulV2",
    "pooling": (
        "MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 AvgPool AvgPoolGrad _MaxPoolWithPlaces "
        "_MaxPoolGradAtPlaces"
    ),
    "normalization": (
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 "
        "FusedBatchNormGradV3 _BatchNormRelu LRN LRNGrad"
    ),
}
