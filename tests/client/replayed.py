"""Runs a case of `cases.py` here, and compares what comes with what TensorFlow 1.15 recorded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import flowengine as fe
from tests.client import cases, filed

RECORDED = Path(__file__).parent / "recorded"


@cache
def expected(family: str) -> dict[str, Any]:
    """Return the recorded values of a family: {"case|what": array}."""
    return filed.load(RECORDED / f"{family}.npz")


@cache
def by_name(family: str) -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in cases.FAMILIES[family]()}


def names(family: str) -> list[str]:
    return list(by_name(family))


def function(path: str) -> Any:
    """The public function of a dotted path below `fe`."""
    found: Any = fe
    for part in path.split("."):
        found = getattr(found, part)
    return found


def compare(family: str, name: str, got: dict[str, Any], rtol: float = 1e-5, atol: float = 4e-6) -> None:
    """All that is recorded of a case is there, of the same shape, type and value."""
    wanted = {
        key.partition("|")[2]: v for key, v in expected(family).items() if key.partition("|")[0] == name
    }
    assert wanted
    assert set(wanted) == set(got)
    for key, value in wanted.items():
        found = np.asarray(got[key])
        assert found.shape == value.shape, key
        assert found.dtype == value.dtype, key
        np.testing.assert_allclose(found, value, rtol, atol, err_msg=key)
