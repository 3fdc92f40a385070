"""Which ops have a gradient, beside TensorFlow 1.15's own tables.

`tests/data/tensorflow_1_15_gradients.json` holds the names that TensorFlow 1.15.5 registers: ops with a
gradient function, and ops that it declares to have none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from flowengine.gradients.index import GRADIENTS
from flowengine.gradients.registry import find
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.index import OPS
from flowengine.ops.load import registry

_TABLES: Final[dict[str, list[str]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "tensorflow_1_15_gradients.json").read_text(encoding="utf-8")
)

#: {reason: ops that have a gradient function there and none here}
WITHOUT: Final = {
    "there the function returns no gradient for any input: that is what not to be differentiable means": """
        ArgMax ArgMin Ceil Floor FloorDiv LoopCond Rint Round TruncateDiv
    """,
}

#: {reason: ops that are declared to have none there and have one here}
BEYOND: Final = {
    "a gradient node of SparseAdd: without it second derivatives would be missing": "SparseAddGrad",
    "it is the root of a sum of squares, and TensorFlow 2 differentiates it": "EuclideanNorm",
    "TensorFlow 2 differentiates it": "RaggedTensorToVariant",
    "lists are put together and taken apart as tensors are": "TensorListConcatLists TensorListPushBackBatch",
}

#: {reason: ops that have neither a gradient nor the trait}; a gradient that comes to one is an error.
UNDECIDED: Final = {
    "calls that are not written out where a gradient goes through them, and ends of function bodies": """
        BatchFunction For RemoteCall _Arg _ArrayToList _DeviceArg _DeviceRetval _If
        _ListToArray _Retval _While
    """,
    "values of steps kept aside: what is pushed and what is popped are matched by the sweep": """
        StackCloseV2 StackPopV2 StackPushV2 StackV2 RefSelect
    """,
    "elements in another order, by their values or by chance; TensorFlow has no gradient either": """
        ListDiff RandomShuffle StatelessShuffle Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    """,
    "continuous, but TensorFlow has no gradient either": """
        AdjustContrast AdjustContrastv2 AdjustHsvInYiq Addons>AdjustHsvInYiq AdjustHue AdjustSaturation Conv
        ImageProjectiveTransform MaskedMatmul NearestNeighbors ResizeArea
    """,
    "gradients of gradients: nodes of a gradient that TensorFlow does not differentiate either": """
        BlockLSTMGrad BlockLSTMGradV2 CropAndResizeGradBoxes GRUBlockCellGrad IgammaGradA LSTMBlockCellGrad
        RandomGammaGrad SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2 UnbatchGrad
    """,
    "linear in the weights of a weighted count; TensorFlow has no gradient either": """
        DenseBincount DenseCountSparseOutput RaggedBincount RaggedCountSparseOutput SparseBincount
        SparseCountSparseOutput
    """,
    "parts and factors of sparse matrices alone": "CSRSparseMatrixComponents SparseMatrixSparseCholesky",
}


def _names(table: dict[str, str]) -> set[str]:
    return {name for names in table.values() for name in names.split()}


_KNOWN: Final = {name for names in OPS.values() for name in names.split()}
_DIFFERENTIABLE: Final = {name for names in GRADIENTS.values() for name in names.split()}
_NOT: Final = {name for name in _KNOWN if NotDifferentiable in registry()[name].traits}
_THERE: Final = {key: {name for line in lines for name in line.split()} for key, lines in _TABLES.items()}


def test_an_op_has_a_gradient_or_says_that_it_has_none() -> None:
    assert sorted(_DIFFERENTIABLE & _NOT) == []
    assert sorted(_KNOWN - _DIFFERENTIABLE - _NOT - _names(UNDECIDED)) == []


def test_what_the_index_names_is_registered_by_its_module() -> None:
    assert [op for op in sorted(_DIFFERENTIABLE) if find(op) is None] == []


def test_what_tensorflow_differentiates_is_differentiated() -> None:
    missing = (_THERE["gradient"] & _KNOWN) - _DIFFERENTIABLE
    assert sorted(missing - _names(WITHOUT)) == []


def test_what_tensorflow_declares_to_have_none_has_none() -> None:
    beyond = _THERE["not_differentiable"] & _DIFFERENTIABLE
    assert sorted(beyond - _names(BEYOND)) == []
    assert sorted((_THERE["not_differentiable"] & _KNOWN) - _DIFFERENTIABLE - _NOT) == []


def test_the_tables_are_whole() -> None:
    assert len(_THERE["gradient"] & _KNOWN) >= 329
    assert len(_THERE["not_differentiable"] & _KNOWN) >= 166
