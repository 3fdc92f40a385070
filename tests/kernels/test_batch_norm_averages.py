"""FusedBatchNorm with an attribute that graphs of TensorFlow 2 have, and those of TensorFlow 1 cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe


def _graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [None, 2, 2, 3], name="x")
    ones = np.ones(3, np.float32)
    g.ops.FusedBatchNormV3(x, ones, ones, ones * 4, ones * 9, is_training=True, name="norm")
    g.ops.TopKV2(x, 1, name="top")
    g.ops.SparseSegmentSum(g.constant([[1.0]]), [0], [0], name="sums")
    return g


async def _outputs(graph: fe.Graph) -> list[Any]:
    x = np.random.default_rng(0).normal(size=(5, 2, 2, 3)).astype(np.float32)
    async with fe.Session(graph) as session:
        return list(await session.run([f"norm:{slot}" for slot in range(5)], {"x:0": x}))


@pytest.mark.provided
async def test_statistics_move_from_the_given_ones() -> None:
    data = _graph().to_graph_def()
    next(node for node in data.node if node.name == "norm").attr["exponential_avg_factor"].f = 0.25
    y, mean, variance, *reserved = await _outputs(fe.Graph.from_graph_def(data))
    plain = await _outputs(_graph())
    np.testing.assert_array_equal(y, plain[0])
    np.testing.assert_allclose(mean, 0.25 * plain[1] + 0.75 * 4, 1e-6)
    np.testing.assert_allclose(variance, 0.25 * plain[2] + 0.75 * 9, 1e-6)
    np.testing.assert_array_equal(reserved, plain[3:])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("norm", {"T", "U", "data_format", "epsilon", "is_training"}),
        ("top", {"T", "sorted"}),
        ("sums", {"T", "Tidx"}),
    ],
)
def test_what_is_written_has_no_attribute_that_tensorflow_1_lacks(name: str, known: set[str]) -> None:
    node = next(node for node in _graph().to_graph_def().node if node.name == name)
    assert set(node.attr) == known
