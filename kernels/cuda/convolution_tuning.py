"""How a convolution is computed on a card beside what cuDNN chooses: layouts, and who pads.

cuDNN takes tensors as they lie, and copies them itself where an engine wants another layout. Only where a
measurement on a card says so are they turned before: `python -m tests.gpu --only convolutions` computes each
layer both ways. No card has been measured yet, so the table is empty.

Where padding differs on both sides of an axis, cuDNN 9.28 has for sums of whole float32 and float64 only its
generic engine, which promises no speed. So tensors are padded before there: a copy, for a usual engine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flowengine.kernels.cuda.convolution_plans import ConvolutionCall, EngineRules
from flowengine.kernels.cuda.cudnn import CudnnPart


class LayerKind(NamedTuple):
    """The kind of layer that a measurement was made of; the batch is not part of it.

    size, window, stride   of the first axis
    """

    direction: CudnnPart
    dtype: str
    tensor_float_32: bool
    size: int
    channels: int
    window: int
    width: int
    stride: int


def kind_of(call: ConvolutionCall, rules: EngineRules) -> LayerKind:
    """The kind of layer that a call is of."""
    return LayerKind(
        call.direction,
        call.dtype,
        rules.tensor_float_32,
        call.x.dims[2],
        call.x.dims[1],
        call.w.dims[2],
        call.w.dims[0],
        call.strides[0],
    )


#: Layers that are faster with their tensors turned to channels first, copies included.
FASTER_CHANNELS_FIRST: Final[frozenset[LayerKind]] = frozenset()


def is_turned(call: ConvolutionCall, rules: EngineRules) -> bool:
    """Whether tensors that lie with the channels last are copied to channels first for this layer."""
    return bool(FASTER_CHANNELS_FIRST) and kind_of(call, rules) in FASTER_CHANNELS_FIRST


def is_padded_before(call: ConvolutionCall, rules: EngineRules) -> bool:
    """Whether what is convolved is copied into a tensor with its padding around it."""
    if call.before == call.after or call.direction is CudnnPart.FILTER_GRADIENT:
        return False
    return call.dtype == "float64" or (call.dtype == "float32" and not rules.tensor_float_32)


__all__ = ["FASTER_CHANNELS_FIRST", "LayerKind", "is_padded_before", "is_turned", "kind_of"]
