"""Gradients of projected images beside those of TensorFlow 2.21, which are not quite derivatives."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import flowengine as fe

#: {interpolation and fill_mode: the gradient of (1, 3, 4, 1) images, by rows}, as TensorFlow 2.21 computes it
#: from a gradient of cos(1), cos(2), ... of shape (1, 5, 2, 1), of both versions, whatever the images are.
EXPECTED: Final = {
    ("BILINEAR", "CONSTANT"): """
        0.198356 -0.307673 -0.056825 0 -0.423980 -0.613802 -0.080915 0 0.029845 0.498161 0.458410 0
    """,
    ("BILINEAR", "REFLECT"): """
        0.313031 -0.307673 -0.500056 -0.167479 -0.963847 -0.613802 -0.234151 -0.418912 0.118923 0.498161
        0.802218 0.510891
    """,
    ("NEAREST", "CONSTANT"): """
        0.540302 -0.416147 0 0 0 -0.653644 0 0 0 0.283662 0.960170 0
    """,
    ("NEAREST", "REFLECT"): """
        0.540302 -0.416147 -0.416147 0.540302 -0.989992 -0.653644 -0.653644 -0.989992 0.283662 0.283662
        0.960170 0.283662
    """,
}
_TRANSFORM: Final = np.array([[0.9, 0.2, 0.3, -0.1, 1.1, -0.2, 0.02, -0.01]], np.float32)


@pytest.mark.parametrize("version", ["V2", "V3"])
@pytest.mark.parametrize(("interpolation", "fill_mode"), EXPECTED)
def test_the_gradient_is_projected_back(version: str, interpolation: str, fill_mode: str) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, None, None, None])
    transform = graph.constant(_TRANSFORM)
    outside = [np.float32(2)] if version == "V3" else []
    y = getattr(graph.ops, f"ImageProjectiveTransform{version}")(
        x, transform, [5, 2], *outside, interpolation=interpolation, fill_mode=fill_mode
    )
    came = np.cos(np.arange(1, 11, dtype=np.float32)).reshape(1, 5, 2, 1)
    dx, by_transform = fe.gradients(y, [x, transform], [came])
    assert by_transform is None
    with fe.blocking.Session(graph) as session:
        found = session.run(dx, {x: np.ones((1, 3, 4, 1), np.float32)})
    expected = np.array(EXPECTED[interpolation, fill_mode].split(), np.float32)
    np.testing.assert_allclose(found, expected.reshape(1, 3, 4, 1), atol=2e-6)


@pytest.mark.parametrize("interpolation", ["BILINEAR", "NEAREST"])
def test_where_pixels_go_to_pixels_it_is_the_derivative(interpolation: str) -> None:
    """A shift by one column: the matrix of the op, taken column by column, and its gradient agree."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [1, 2, 3, 1])
    shift = np.array([[1, 0, 1, 0, 1, 0, 0, 0]], np.float32)
    y = graph.ops.ImageProjectiveTransformV2(x, shift, [2, 3], interpolation=interpolation)
    rows = fe.jacobian(y, x)
    with fe.blocking.Session(graph) as session:
        found = session.run(rows, {x: np.zeros((1, 2, 3, 1), np.float32)}).reshape(6, 6)
        columns = [
            session.run(y, {x: unit.reshape(1, 2, 3, 1)}).reshape(6) for unit in np.eye(6, dtype=np.float32)
        ]
    np.testing.assert_allclose(found, np.stack(columns, 1), atol=1e-6)
    assert found.sum() == 4
