"""Cases of one node in which we and TensorFlow differ for a reason: `against_tensorflow` counts them apart.

A reason is that TensorFlow's value is undefined (memory that nothing wrote, or that is not the tensor's),
that it differs from version to version, or that it is plainly wrong, with what is right.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Unlike:
    """Why some of an op's cases differ.

    cases   a pattern, as the shell has them, of the cases of which this is said
    words   a pattern of the words in which they differ
    """

    reason: str
    cases: str = "*"
    words: str = "*"

    def holds(self, why: str, words: str) -> bool:
        """Whether a case that differs in these words is one of them."""
        return fnmatch.fnmatchcase(why, self.cases) and fnmatch.fnmatchcase(words, self.words)


#: What is said of several ops.
_URLS: Final = Unlike(
    "debug_urls name files and servers, to which nothing is sent here: refused, not passed over",
    "bad sample*",
)
_BESIDE: Final = Unlike("TensorFlow reads memory beside the gradient, whose batch is another", "*")
_FLAT: Final = Unlike("of two shapes with as many elements TensorFlow takes the elements in turn", "*more*")
_NO_DILATION: Final = Unlike("TensorFlow's CPU kernel has no dilation, here it has", "sample*", "a value*")
_NO_PLANES: Final = Unlike("TensorFlow's CPU kernel takes NHWC only, here any layout", "sample*", "a value*")
_EMPTY_STATISTICS: Final = Unlike("of an empty batch TensorFlow leaves the statistics unwritten", "sample*")
_NOTHING_HELD: Final = Unlike(
    "what holds nothing is a number in TensorFlow 1.15, as here, and a vector of none in 2.21",
    "*T=bfloat16*",
    "output 3*",
)
_SECOND_IMAGE: Final = Unlike("TensorFlow is right for the first image of a batch only", "*sample*")
_NOT_THE_OUTPUT: Final = Unlike("orig_output is not what pooling gives of orig_input", "orig_input negative*")
_WIDE: Final = Unlike("TensorFlow computes float64 in float32", "sample T=float64*")
_NO_VNNI: Final = Unlike(
    "on a processor without VNNI oneDNN adds two products in 16 bits, which overflow, and halves the filters "
    "of signed inputs; with a range for each channel its sums are scaled once more than their ranges say",
    "sample*",
    "output 0*",
)
_LAX: Final = Unlike(
    "TensorFlow looks at no ranks of depthwise layers, oneDNN aborts on some", "* a dimension *"
)
_FIRST: Final = Unlike("with MIN_FIRST oneDNN reads what nothing wrote", "sample*", "output 0*")
_ABORTED: Final = Unlike("oneDNN has no primitive for it and aborts", "*sample*", "*AbortedError*")
_NO_VECTORS: Final = Unlike("vectors that are not asked for stay unwritten", "sample*", "output 1*")
_INTERPOLATION: Final = Unlike("TensorFlow leaves a mode that it does not know unset", "bad sample*")

UNLIKE: Final[Mapping[str, Sequence[Unlike]]] = {
    **dict.fromkeys(
        ("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "DebugNanCount", "DebugNumericSummary"),
        (_URLS,),
    ),
    **dict.fromkeys(
        ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad"), (_FLAT,)
    ),
    **dict.fromkeys(("ResizeBicubicGrad", "ScaleAndTranslateGrad"), (_BESIDE,)),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv2DBackpropFilter"), (_NO_DILATION,)),
    **dict.fromkeys(
        ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), (_NO_PLANES, _EMPTY_STATISTICS)
    ),
    **dict.fromkeys(("FusedPadConv2D", "FusedResizeAndPadConv2D"), (_SECOND_IMAGE,)),
    **dict.fromkeys(("MaxPool3DGrad", "MaxPool3DGradGrad"), (_NOT_THE_OUTPUT,)),
    **dict.fromkeys(("ImageProjectiveTransformV2", "ImageProjectiveTransformV3"), (_INTERPOLATION,)),
    **dict.fromkeys(
        (
            *("QuantizedConv2DPerChannel", "QuantizedConv2DAndRelu", "QuantizedConv2DWithBias"),
            *("QuantizedConv2DWithBiasAndRelu", "QuantizedDepthwiseConv2D"),
            *("QuantizedDepthwiseConv2DWithBias", "QuantizedDepthwiseConv2DWithBiasAndRelu"),
            "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
        ),
        (_NO_VNNI, _LAX),
    ),
    **dict.fromkeys(
        (
            *("QuantizedMatMulWithBias", "QuantizedMatMulWithBiasAndRelu"),
            *("QuantizedMatMulWithBiasAndReluAndRequantize", "QuantizedMatMulWithBiasAndDequantize"),
        ),
        (_FIRST, _ABORTED),
    ),
    "QuantizedConv2DAndRequantize": [
        Unlike(
            "TensorFlow's shape function refuses a range for each channel, its kernel takes it",
            "sample*",
            "a value*",
        ),
        _NO_VNNI,
    ],
    **dict.fromkeys(("Eig", "SelfAdjointEigV2", "BatchSelfAdjointEigV2"), (_NO_VECTORS,)),
    "ArgMax": [Unlike("TensorFlow's shape function reads an axis of 16 bits as one of 32", "*Tidx=int16*")],
    "BesselY1": [Unlike("at 0 the function goes to minus infinity, TensorFlow says NaN", "x negative*")],
    "BoostedTreesAggregateStats": [Unlike("TensorFlow writes outside of the sums", "bad sample*")],
    "BoostedTreesCalculateBestFeatureSplit": [Unlike("TensorFlow reads outside of the sums", "bad sample*")],
    "BoostedTreesMakeStatsSummary": [Unlike("TensorFlow writes outside of the sums", "bad sample*")],
    "BoostedTreesSparseAggregateStats": [
        Unlike("TensorFlow takes indices that its sums do not have, in any order", "bad sample*")
    ],
    "BoostedTreesSparseCalculateBestFeatureSplit": [
        Unlike("TensorFlow takes indices that the sums do not have", "bad sample*")
    ],
    "CTCBeamSearchDecoder": [_WIDE],
    "CTCLoss": [
        _WIDE,
        Unlike("of a row without a label TensorFlow reads and writes outside of its tables", "sample*"),
    ],
    "Conv": [_NO_PLANES],
    "CumulativeLogsumexp": [Unlike("TensorFlow loses NaN", "x not a number*")],
    "Dilation2DBackpropInput": [
        Unlike("no filter chooses an element, TensorFlow adds to the first", "filter empty*")
    ],
    "EnsureShape": [Unlike("TensorFlow refuses every tensor where the shape is unknown", "sample*")],
    **dict.fromkeys(("FusedBatchNormGradV2", "FusedBatchNormGradV3"), (_NOTHING_HELD,)),
    "MaxPool3D": [Unlike("TensorFlow 1.15, 2.21 and oneDNN each give other values", "input not a number*")],
    "ParseSequenceExampleV2": [
        Unlike("TensorFlow leaves the splits of a single sequence unwritten", "serialized a dimension less*"),
        Unlike("TensorFlow leaves the splits of what no example has unwritten", "sample*", "output 12*"),
        Unlike("TensorFlow leaves the splits of what no example has unwritten", "sample*", "output 5*"),
    ],
    "QuantizeDownAndShrinkRange": [Unlike("an integer of NaN is undefined", "input_min not a number*")],
    "QuantizedConcatV2": [
        Unlike("of the least of the ranges TensorFlow takes the last, and codes by it", "*", "output*")
    ],
    "QuantizedResizeBilinear": [
        Unlike("TensorFlow forgets the range of an empty result", "images empty*", "a value*")
    ],
    "RaggedFillEmptyRows": [
        Unlike("of no rows TensorFlow gives a matrix where its shape function says a vector", "sample*")
    ],
    "Range": [Unlike("TensorFlow's shape function refuses halves, its kernel takes them", "*Tidx=float16*")],
    "RequantizePerChannel": [
        Unlike("of fewer ranges than channels TensorFlow reads the memory behind", "bad sample*", "*a value")
    ],
    "ScaleAndTranslate": [Unlike("an integer of infinity is undefined", "bad sample*")],
    "SdcaOptimizer": [Unlike("TensorFlow divides by l2 = 0: all is NaN", "bad sample*")],
    "SdcaOptimizerV2": [Unlike("TensorFlow divides by l2 = 0: all is NaN", "bad sample*")],
    "SparseBincount": [
        Unlike("TensorFlow's shape function refuses three dimensions, its kernel counts them", "sample*")
    ],
    "TileGrad": [Unlike("TensorFlow's kernel asks for an attribute that its op has not", "*")],
    "UnsortedSegmentSum": [
        Unlike("TensorFlow reads the number of segments in the 16 bits of the ids", "sample*", "a value*")
    ],
    "UniformQuantizedConvolution": [
        Unlike(
            "TensorFlow reads spatial dimensions that dimension_numbers does not have",
            "bad sample*",
            "*one meaning*",
        )
    ],
}


def reason(op: str, why: str, words: str) -> str:
    """The reason for which a case of an op differs in these words; empty where there is none."""
    return next((each.reason for each in UNLIKE.get(op, ()) if each.holds(why, words)), "")


__all__ = ["UNLIKE", "Unlike", "reason"]
