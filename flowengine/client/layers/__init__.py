"""Layers: functions of a tensor that make the variables they need, under TensorFlow's names.

`inputs` is a tensor, `filters` and `units` are numbers of output channels; `kernel_size`, `pool_size`,
`strides`, `padding` ("valid" or "same") and `options` are those of `ConvolutionOptions`, `PoolingOptions` and
their like; initializers, regularizers and constraints are those of `flowengine.Graph.variable`. `epsilon` is
added to a variance; `center`, `scale`, `use_bias` say which variables there are; `trainable` whether
optimizers change them; `seed` of random numbers as `Graph.seed`.

A layer's scope is its `name`, or that of its kind made unique; with `reuse=True` the variables of the name
are used again. Variables take the settings of the variable scope around them (initializer, partitioner, ...).
Errors: InvalidArgumentError where shapes or words do not fit.

`axis` counts the channels or features, `momentum` is the share of a moving average that an update keeps;
`vocabulary` is the number of rows of a table and `dtype` their type; `dropout_rate` and `seed` are those of
`dropout`.

>>> layers, graph = fe.layers, fe.Graph()
>>> images = graph.placeholder("float32", [None, 28, 28, 3], name="images")
>>> hidden = layers.conv2d(images, 32, 3, padding="same", activation="relu")
>>> hidden = layers.max_pooling2d(layers.batch_normalization(hidden, training=True), 2)
>>> logits = layers.dense(layers.dropout(layers.flatten(hidden), 0.3, training=True), 10)
>>> logits.shape, [each.op.name for each in graph.collection("trainable_variables")][-2:]
(TensorShape([None, 10]), ['dense/kernel', 'dense/bias'])
>>> layers.separable_conv2d(images, 8, 3).shape, layers.depthwise_conv2d(images, 3).shape
(TensorShape([None, 26, 26, 8]), TensorShape([None, 26, 26, 3]))
>>> layers.conv2d_transpose(images, 8, 3, strides=2).shape, layers.average_pooling2d(images, 2).shape
(TensorShape([None, 57, 57, 8]), TensorShape([None, 14, 14, 3]))
>>> words = layers.embedding(graph.placeholder("int32", [None, 7]), vocabulary=1000, units=16)
>>> words = layers.layer_normalization(words + layers.multi_head_attention(words, heads=4, causal=True))
>>> words.shape, layers.attention(words, words, words).shape
(TensorShape([None, 7, 16]), TensorShape([None, 7, 16]))
>>> layers.conv1d(words, 8, 3).shape, layers.conv1d_transpose(words, 8, 3).shape
(TensorShape([None, 5, 8]), TensorShape([None, 9, 8]))
>>> layers.separable_conv1d(words, 8, 3).shape
TensorShape([None, 5, 8])
>>> layers.max_pooling1d(words, 2).shape, layers.average_pooling1d(words, 2).shape
(TensorShape([None, 3, 16]), TensorShape([None, 3, 16]))
>>> volumes = fe.expand_dims(images, 1)
>>> layers.conv3d(volumes, 4, [1, 3, 3]).shape, layers.conv3d_transpose(volumes, 4, [1, 3, 3]).shape
(TensorShape([None, 1, 26, 26, 4]), TensorShape([None, 1, 30, 30, 4]))
>>> layers.max_pooling3d(volumes, [1, 2, 2]).shape, layers.average_pooling3d(volumes, [1, 2, 2]).shape
(TensorShape([None, 1, 14, 14, 3]), TensorShape([None, 1, 14, 14, 3]))
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
