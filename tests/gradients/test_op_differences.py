"""Each differentiable op beside finite differences, on the samples of its record.

`test_built_ops` looks at the ops of which a record cannot tell, and that none is forgotten.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.effort import IS_NIGHTLY
from tests.gradients.built_ops import BUILT
from tests.gradients.peculiar import FIRST_ONLY, KNOWN_SHAPES, LEFT_OUT
from tests.gradients.record_differences import FORMS, Differences, wide_types
from tests.oprecords.found import RECORDS
from tests.oprecords.record import OpRecord, Sample

_BUILT: Final = {op for names in BUILT for op in names.split()}
_TOLD: Final = [record for record in RECORDS if record.differentiable and record.op not in _BUILT]
#: So many cases of an op are tried at least, but for nights: those try each sample in all types and forms.
_AT_LEAST: Final = 8


def _cases(record: OpRecord) -> list[tuple[dict[str, str], Sample, str]]:
    is_left_out, _ = LEFT_OUT.get(record.op, (lambda types, each: False, ""))
    forms = ("constant", "known") if record.op in KNOWN_SHAPES else FORMS
    of_samples = [
        [
            (types, each, form)
            for types in wide_types(record)
            if not is_left_out(types, each)
            for form in forms
        ]
        for each in record.samples
    ]
    of_samples = [cases for cases in of_samples if cases]
    assert of_samples, "no type of the record's is precise enough"
    if IS_NIGHTLY:
        return [case for cases in of_samples for case in cases]
    # Types and forms take turns, and each has one.
    wanted = max(_AT_LEAST, *map(len, of_samples))
    rounds = -(-wanted // len(of_samples))
    return [
        cases[(turn * len(of_samples) + number) % len(cases)]
        for number, cases in enumerate(of_samples)
        for turn in range(min(rounds, len(cases)))
    ]


@pytest.mark.parametrize("record", _TOLD, ids=lambda record: record.op)
def test_derivatives_agree_with_differences(record: OpRecord) -> None:
    cases = _cases(record)
    found: set[str] = set()
    absent: set[str] = set()
    with np.errstate(all="ignore"):
        for types, each, form in cases:
            sample = Differences(record, each, types, form)
            found.update(sample.found)
            absent.update(sample.absent)
            sample.check(second=record.op not in FIRST_ONLY)
    if not isinstance(record.differentiable, bool):
        assert found == set(record.differentiable)
    else:
        assert found
        assert absent <= found
