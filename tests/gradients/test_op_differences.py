"""Each differentiable op beside finite differences, on the samples of its record.

A family that is listed here has for every op with a gradient a record that says so, or a reason.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from flowengine.gradients.index import GRADIENTS
from tests.gradients.record_differences import FORMS, Differences, wide_types
from tests.oprecords.found import RECORDS
from tests.oprecords.record import OpRecord, Sample

FAMILIES: Final = ("array", "io", "math", "random")
#: {op: why no record tells of its gradient; there are tests of their own}
APART: Final = {
    "IdentityN": "takes tensors of any types",
    "PreventGradient": "refuses",
    "RefIdentity": "takes a reference",
    "DebugGradientRefIdentity": "takes a reference",
    "Print": "prints",
    "RaggedTensorFromVariant": "takes variants",
    "RaggedTensorToVariant": "gives variants",
    "RaggedTensorToVariantGradient": "takes variants",
    "RandomGamma": "draws other numbers for another parameter",
    "StatelessRandomGammaV2": "draws other numbers for another parameter",
    "StatelessRandomGammaV3": "draws other numbers for another parameter",
}
#: {op: why it has no second derivative}
FIRST_ONLY: Final = {
    "Igamma": "IgammaGradA has no closed form of its derivative",
    "Igammac": "IgammaGradA has no closed form of its derivative",
}
#: {op: the sample that is left out, and why}
LEFT_OUT: Final = {"TensorScatterUpdate": (1, "which of two rows for one place wins is open")}

_OPS: Final = {
    op for module, ops in GRADIENTS.items() if module.split(".")[0] in FAMILIES for op in ops.split()
}
_OF_FAMILIES: Final = [record for record in RECORDS if record.op in _OPS and record.op not in APART]


def _samples(record: OpRecord) -> list[Sample]:
    left_out, _ = LEFT_OUT.get(record.op, (None, ""))
    return [each for index, each in enumerate(record.samples) if index != left_out]


def test_every_op_with_a_gradient_has_a_record_that_says_so() -> None:
    said = {record.op for record in RECORDS if record.differentiable}
    assert sorted(_OPS - said - APART.keys()) == []
    assert sorted(said & APART.keys()) == []


@pytest.mark.parametrize("record", _OF_FAMILIES, ids=lambda record: record.op)
def test_derivatives_agree_with_differences(record: OpRecord) -> None:
    combinations = wide_types(record)
    assert combinations, "no double precision among the record's types"
    found: set[str] = set()
    absent: set[str] = set()
    with np.errstate(all="ignore"):
        for types in combinations:
            for each in _samples(record):
                for form in FORMS:
                    sample = Differences(record, each, types, form)
                    found.update(sample.found)
                    absent.update(sample.absent)
                    sample.check(second=record.op not in FIRST_ONLY)
    if not isinstance(record.differentiable, bool):
        assert found == set(record.differentiable)
    else:
        assert found
        assert absent <= found
