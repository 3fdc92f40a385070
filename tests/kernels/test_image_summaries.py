"""Floating images of a summary are stretched as TensorFlow 2.21 does: in their type, by a float32 range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.ir.wire import fields


def _field(message: Any, number: int) -> Any:
    return next(value for found, _, value in fields(message) if found == number)


@pytest.mark.parametrize(
    ("dtype", "row", "pixels"),
    [
        ("float64", [0, 15, 30, 45, 60, 75, 90, 105], [0, 36, 72, 109, 145, 182, 218, 255]),
        ("float64", [998.9332750725188, 0.7904399803645434], [254, 0]),
        ("float64", [-1994.0129509671294, 2380.519742321905], [21, 254]),
        ("float16", [0.347900390625, -1.703125], [154, 1]),
        ("float16", [98.5625, 1.2099609375, 48.3125], [255, 3, 125]),
        ("float32", [0, 0, 0], [0, 0, 0]),
        ("float16", [1e-7, 0], [0, 0]),
    ],
)
def test_pixels_are_those_of_tensorflow(dtype: str, row: list[float], pixels: list[int]) -> None:
    pytest.importorskip("PIL", reason="Pillow (the extra `image`) is not installed")
    graph = fe.Graph()
    summary = graph.ops.ImageSummary("t", np.array(row, dtype).reshape(1, 1, -1, 1))
    with fe.blocking.Session(graph) as session:
        message = session.run(summary)
    encoded = bytes(_field(_field(_field(message, 1), 4), 4))
    shown = graph.ops.DecodePng(encoded)
    with fe.blocking.Session(graph) as session:
        assert session.run(shown).reshape(-1).tolist() == pixels
