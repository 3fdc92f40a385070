"""Peculiarities of single ops in the comparison of derivatives with differences, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from tests.oprecords.record import Sample

_ROUNDS = "rounds: its gradient takes rounding for the identity, which differences do not"
_DRAWS = "draws other numbers for another parameter"

_BACK = "its gradient is the gradient projected back, as in TensorFlow 2: see test_projection"

#: {op: why its derivative is no limit of differences}
APART: Final = {
    "ImageProjectiveTransformV2": _BACK,
    "ImageProjectiveTransformV3": _BACK,
    "PreventGradient": "refuses",
    "StatelessCase": "a way to write Case in files; the registry does not hold it",
    "_ReadVariablesOp": "has no kernel: passes of TensorFlow make it",
    "Print": "prints; deprecated, and the identity otherwise",
    "RandomGamma": _DRAWS,
    "StatelessRandomGammaV2": _DRAWS,
    "StatelessRandomGammaV3": _DRAWS,
    "QuantizeAndDequantize": _ROUNDS,
    "QuantizeAndDequantizeV2": _ROUNDS,
    "QuantizeAndDequantizeV3": _ROUNDS,
    "QuantizeAndDequantizeV4": _ROUNDS,
    "FakeQuantWithMinMaxArgs": _ROUNDS,
    "FakeQuantWithMinMaxVars": _ROUNDS,
    "FakeQuantWithMinMaxVarsPerChannel": _ROUNDS,
}

#: {test module: ops of whose gradients it tells}
ELSEWHERE: Final = {
    "test_functions": """
        Case If PartitionedCall StatefulPartitionedCall StatelessIf StatelessWhile SymbolicGradient While
    """,
    "test_csr_matrices": "SparseMatrixSparseMatMul",
    "test_layers": """
        FractionalAvgPool FractionalMaxPool BlockLSTM BlockLSTMV2 GRUBlockCell LSTMBlockCell Resampler
        Addons>Resampler
    """,
}

#: {op: why it has no second derivative}
FIRST_ONLY: Final = {
    "Igamma": "IgammaGradA has no closed form of its derivative",
    "Igammac": "IgammaGradA has no closed form of its derivative",
    "CropAndResize": "CropAndResizeGradBoxes has no gradient, as in TensorFlow",
    "CropAndResizeGradImage": "CropAndResizeGradBoxes has no gradient, as in TensorFlow",
    "CTCLoss": "it computes its gradient together with the loss",
}

#: {op: the outputs through which its inputs are differentiated, where those are not all}
OUTPUTS: Final = {
    "CTCLoss": [0],  # the second output is the gradient of the first, and has none
    "FusedBatchNorm": [0],  # the others are statistics, which have none
    "FusedBatchNormV2": [0],
    "FusedBatchNormV3": [0],
}

#: Ops whose gradients know single precision only, though they themselves know more.
SINGLE: Final = ("MaxPool3DGradGrad",)

#: {op: what must be known of the shapes of its inputs for a second derivative}
KNOWN_SHAPES: Final = {
    "Dilation2D": "the patches of an image are taken by the size of the filter",
    "Dilation2DBackpropInput": "the patches of an image are taken by the size of the filter",
    "Dilation2DBackpropFilter": "the patches of an image are taken by the size of the filter",
    "PeriodicResample": "its gradient has them as an attribute, as in TensorFlow",
    "PeriodicResampleOpGrad": "its gradient is PeriodicResample",
    "Svd": "with full_matrices only if they are square",
    "BatchSvd": "with full_matrices only if they are square",
    "Qr": "with full_matrices only if there are no more rows than columns",
}

_PHASE = "a complex vector's phase is arbitrary; what does not depend on it has a test of its own"

_BASIS = "vectors that are any basis of what is left have no gradient"
_SHORTEST = "refused with fast=False, the shortest solution of matrices of any rank"

_STATISTICS = "its statistics are inputs that follow from x, whose second derivatives show that they do"


def _is_training(types: Mapping[str, str], each: Sample) -> bool:
    return bool(each.attrs.get("is_training", True))


def _is_full(each: Sample) -> bool:
    rows, columns = np.shape(each.inputs[0])[-2:]
    return rows != columns and bool(each.attrs.get("full_matrices"))


def _is_tall(types: Mapping[str, str], each: Sample) -> bool:
    rows, columns = np.shape(each.inputs[0])[-2:]
    return rows > columns and bool(each.attrs.get("full_matrices"))


def _is_complex(types: Mapping[str, str], each: Sample) -> bool:
    return "complex" in f"{each.attrs.get('T', types.get('T'))}"


def _reads_twice(types: Mapping[str, str], each: Sample) -> bool:
    """Whether an axis grows by a factor that is not whole."""
    wanted = each.attrs.get("desired_shape", each.attrs.get("shape"))
    given = each.attrs["original_shape"] if "original_shape" in each.attrs else np.shape(each.inputs[0])
    return any(new is not None and new % old for old, new in zip(given, wanted, strict=True))


#: {op: (the samples that are left out, given types and sample; why)}
LEFT_OUT: Final[dict[str, tuple[Callable[[Mapping[str, str], Sample], bool], str]]] = {
    "TensorScatterUpdate": (
        lambda types, each: len(np.unique(each.inputs[1], axis=0)) < len(each.inputs[1]),
        "which of two rows for one place wins is open",
    ),
    "ApproxTopK": (
        lambda types, each: (
            np.ndim(each.inputs[0]) == 1 and len(np.unique(each.inputs[0])) < len(each.inputs[0])
        ),
        "which of two equal elements is the greatest is open",
    ),
    "SelfAdjointEigV2": (_is_complex, _PHASE),
    "LogMatrixDeterminant": (_is_complex, "the phase of the determinant has no gradient, as in TensorFlow"),
    "Svd": (lambda types, each: _is_full(each) or _is_complex(types, each), f"{_BASIS}; {_PHASE}"),
    "BatchSvd": (lambda types, each: _is_full(each) or _is_complex(types, each), f"{_BASIS}; {_PHASE}"),
    "Qr": (_is_tall, _BASIS),
    "MatrixSolveLs": (lambda types, each: not each.attrs.get("fast", True), _SHORTEST),
    "BatchMatrixSolveLs": (lambda types, each: not each.attrs.get("fast", True), _SHORTEST),
    "FakeQuantWithMinMaxVarsGradient": (
        lambda types, each: each.inputs[2] == each.inputs[3],
        "without a range everything is in it",
    ),
    "CropAndResize": (
        lambda types, each: each.attrs.get("method") == "nearest",
        "by boxes its gradient is that of bilinear crops, as in TensorFlow",
    ),
    "FusedBatchNormGrad": (_is_training, _STATISTICS),
    "FusedBatchNormGradV2": (_is_training, _STATISTICS),
    "FusedBatchNormGradV3": (_is_training, _STATISTICS),
    "PeriodicResample": (
        _reads_twice,
        "of elements that are read twice one gradient counts, as in TensorFlow",
    ),
    "PeriodicResampleOpGrad": (_reads_twice, "of elements that are read twice one counts, as in TensorFlow"),
    "Eig": (lambda types, each: each.attrs.get("compute_v", True), _PHASE),
}


def hermitian(matrix: Array) -> Array:
    """The Hermitian part of matrices of any batch."""
    return np.asarray((matrix + np.conj(np.swapaxes(matrix, -1, -2))) / 2)


def distribution(weights: Array) -> Array:
    """Weights that add up to 1 along the last axis."""
    return np.asarray(weights / weights.sum(-1, keepdims=True))


#: {op: {argument: of what kind its values are}}
WITHIN: Final[dict[str, dict[str, Any]]] = {
    "Cholesky": {"input": hermitian},
    "BatchCholesky": {"input": hermitian},
    "SelfAdjointEigV2": {"input": hermitian},
    "BatchSelfAdjointEigV2": {"input": hermitian},
    "SelfAdjointEig": {"input": hermitian},
    "BatchSelfAdjointEig": {"input": hermitian},
    "SoftmaxCrossEntropyWithLogits": {"labels": distribution},
}
