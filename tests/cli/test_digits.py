"""Digits of floats: the fewest that stand for them, in JSON and in what is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flowengine as fe
from flowengine.cli.digits import widened
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
NARROW = [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize(
    ("dtype", "digits"),
    [(np.float16, 0.1), (np.float32, 0.1), (np.float64, 0.1), (ml_dtypes.bfloat16, 0.1), (np.complex64, 0.1)],
)
def test_a_tenth_is_a_tenth(dtype: Any, digits: float) -> None:
    assert widened(np.array([[0.1]]).astype(dtype)).tolist() == [[digits]]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: np.dtype(dtype).name)
@given(data=st.data())
def test_the_digits_stand_for_the_same_value(dtype: Any, data: st.DataObject) -> None:
    kind = np.dtype(dtype)
    bits = data.draw(hnp.arrays(f"u{kind.itemsize}", hnp.array_shapes(min_dims=0, min_side=0, max_dims=3)))
    array = bits.view(kind)
    wide = widened(array)
    assert wide.dtype == np.float64
    again = wide.astype(kind)
    is_nan = np.isnan(wide)
    assert np.array_equal(is_nan, np.isnan(array))
    assert np.array_equal(again.view(bits.dtype)[~is_nan], bits[~is_nan])


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_text_with_fewer_digits_is_this_float(value: float) -> None:
    found = float(widened(np.float32(value)))
    digits = len(f"{found!r}".partition("e")[0].replace(".", "").replace("-", "").strip("0"))
    if digits > 1:
        with np.errstate(over="ignore"):
            assert np.float32(float(f"{value:.{digits - 2}e}")) != np.float32(value)


def test_integers_of_four_bits_stay_integers() -> None:
    assert json.dumps(widened(np.array([-8, 7]).astype(ml_dtypes.int4)).tolist()) == "[-8, 7]"


def test_json_and_defaults_have_the_fewest_digits(
    save: Callable[[fe.Graph], str], capsys: Output, tmp_path: Path
) -> None:
    graph = fe.Graph()
    graph.ops.PlaceholderWithDefault(np.float32(0.9), shape=[], name="keep_prob")
    graph.constant([0.1, 0.7], "float32", name="y")
    graph.constant([0.1 + 2j], "complex64", name="z")
    path = save(graph)
    assert main(["run", path, "-y", "y", "-y", "z", "--top", "1", "--json"]) == 0
    said = capsys.readouterr().out
    found = json.loads(said)
    assert found["values"]["y:0"]["value"] == [0.1, 0.7]
    assert found["values"]["z:0"]["value"] == [[0.1, 2.0]]
    assert found["best"]["y:0"][0][0]["score"] == 0.7
    assert main(["run", path]) == 0
    assert "= 0.9, if it is not fed" in capsys.readouterr().out
