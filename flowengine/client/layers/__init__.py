"""Layers: functions of a tensor that make the variables they need, under TensorFlow's names.

    hidden = fe.layers.dense(images, 128, fe.nn.relu)          # dense/kernel, dense/bias
    logits = fe.layers.dense(hidden, 10)                       # dense_1/kernel, dense_1/bias

A layer's scope is its `name`, or that of its kind made unique; with `reuse=True` the variables of the name
are used again. Variables take what the variable scope around says (initializer, partitioner, ...).
Errors: InvalidArgumentError where shapes or words do not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.client.layers.attention import attention, multi_head_attention
from flowengine.client.layers.base import Activation, LayerEnd, LayerOptions, LayerWeights
from flowengine.client.layers.convolution import conv1d, conv2d, conv3d
from flowengine.client.layers.core import dense, dropout, embedding, flatten
from flowengine.client.layers.normalization import batch_normalization, layer_normalization
from flowengine.client.layers.pooling import (
    PoolingOptions,
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from flowengine.client.layers.separable import (
    DepthwiseOptions,
    SeparableOptions,
    depthwise_conv2d,
    separable_conv1d,
    separable_conv2d,
)
from flowengine.client.layers.transposed import conv1d_transpose, conv2d_transpose, conv3d_transpose
from flowengine.client.layers.windows import ChannelOrder, ConvolutionOptions, WindowOptions
from flowengine.core.public_names.missing import public_module

__all__ = [
    "Activation",
    "ChannelOrder",
    "ConvolutionOptions",
    "DepthwiseOptions",
    "LayerEnd",
    "LayerOptions",
    "LayerWeights",
    "PoolingOptions",
    "SeparableOptions",
    "WindowOptions",
    "attention",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "batch_normalization",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dense",
    "depthwise_conv2d",
    "dropout",
    "embedding",
    "flatten",
    "layer_normalization",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "multi_head_attention",
    "separable_conv1d",
    "separable_conv2d",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
