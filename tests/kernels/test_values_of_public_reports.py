"""Inputs drawn from public reports about TensorFlow, with the values of TensorFlow 1.15."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError

NAN, INF = np.nan, np.inf
BOXES = np.array([[0.1, 0.1, 0.2, 0.2], [0.1, 0.1, 0.2, 0.21], [0.5, 0.5, 0.6, 0.6]], np.float32)
SCORES = np.array([0.9, 0.8, 0.7], np.float32)
PIXELS = np.array(
    [[NAN, 0.5, 0.5], [0.5, NAN, 0.5], [0.5, 0.5, NAN], [1, 2, NAN], [1, NAN, NAN], [NAN, NAN, NAN]],
    np.float32,
)


def computed(op: str, *inputs: Any, **attrs: Any) -> Any:
    """All outputs of a node with these inputs."""
    graph = fe.Graph()
    given = [
        [graph.constant(each) for each in value] if isinstance(value, list) else graph.constant(value)
        for value in inputs
    ]
    outputs = getattr(graph.ops, op)(*given, **attrs)
    with fe.blocking.Session(graph) as session:
        return session.run(outputs)


@pytest.mark.parametrize("out_type", ["float32", "float64"])
@pytest.mark.parametrize("text", [b"0" * 30 + b"7", b" " * 30 + b"7", b"0" * 29 + b"1."])
def test_long_numbers_are_refused(text: bytes, out_type: str) -> None:
    assert computed("StringToNumber", text, out_type=out_type) in (7, 1)
    with pytest.raises(InvalidArgumentError, match="could not correctly convert string"):
        computed("StringToNumber", b"0" + text, out_type=out_type)
    assert computed("StringToNumber", b"0" * 40 + b"7", out_type="int32") == 7


@pytest.mark.parametrize("rows", [1, 200])
def test_long_numbers_in_records_are_refused(rows: int) -> None:
    def records(text: bytes) -> Any:
        return np.array([text] * rows, object)

    default = np.array([], np.float32)
    (found,) = computed("DecodeCSV", records(b"0" * 30 + b"7"), [default])
    assert found.tolist() == [7] * rows
    with pytest.raises(InvalidArgumentError, match="Field 0 in record 0 is not a valid float"):
        computed("DecodeCSV", records(b"0" * 31 + b"7"), [default])


def test_a_negative_number_of_boxes_is_no_limit() -> None:
    limit, ratio, threshold = np.int32(-1), np.float32(0.5), np.float32(-INF)
    assert computed("NonMaxSuppressionV3", BOXES, SCORES, limit, ratio, threshold).tolist() == [0, 2]
    chosen, scores, count = computed(
        "NonMaxSuppressionV5", BOXES, SCORES, limit, ratio, threshold, np.float32(0)
    )
    assert (chosen.tolist(), scores.tolist(), count) == ([0, 2], SCORES[[0, 2]].tolist(), 2)
    overlaps = np.eye(3, dtype=np.float32)
    found = computed("NonMaxSuppressionWithOverlaps", overlaps, SCORES, limit, ratio, threshold)
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("matrix", "determinant", "logarithm"),
    [([[NAN, 1], [1, 2]], 0, -INF), ([[1, 2], [NAN, 3]], 0, -INF), ([[INF, 1], [1, 2]], NAN, INF)],
)
def test_determinants_of_what_is_not_finite(
    matrix: Any, determinant: float, logarithm: float, dtype: Any
) -> None:
    matrices = np.array([matrix, [[1, 2], [3, 4]]], dtype)
    found = computed("MatrixDeterminant", matrices)
    assert found.dtype == dtype
    assert np.allclose(found, [determinant, -2], equal_nan=True)
    sign, absolute = computed("LogMatrixDeterminant", matrices)
    assert sign.tolist() == [0, -1]
    assert np.allclose(absolute, [logarithm, np.log(2)])


@pytest.mark.parametrize(
    ("op", "parameter", "wanted"),
    [
        (
            "AdjustHue",
            0.5,
            [[NAN, 0.5, NAN], [0.5, NAN, NAN], [0.5] * 3, [2, 1, NAN], [1, NAN, NAN], [NAN] * 3],
        ),
        ("AdjustSaturation", 0.5, [[NAN] * 3, [0.5] * 3, [0.5] * 3, [1.5] * 3, [1] * 3, [NAN] * 3]),
        ("RGBToHSV", None, [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0.5], [NAN, 0.5, 2], [0, 0, 1], [0, 0, -INF]]),
    ],
)
def test_colours_beside_nan(op: str, parameter: float | None, wanted: Any) -> None:
    more = () if parameter is None else (np.float32(parameter),)
    assert np.array_equal(computed(op, PIXELS[np.newaxis], *more)[0], np.array(wanted), equal_nan=True)


def test_a_turned_hue_keeps_its_channels_to_the_bit() -> None:
    pixel = np.array([[[0.9, 0.1, 0.3]]], np.float32)
    found = computed("AdjustHue", pixel, np.float32(0.5))
    assert np.array_equal(found, np.array([[[0.1, 0.9, 0.7]]], np.float32))
