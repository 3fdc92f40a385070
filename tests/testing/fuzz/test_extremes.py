"""Steering values at their extremes: no op takes all memory or never ends, whatever it is given."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from flowengine.graphs.graph import Graph
from flowengine.ir.graphdef import parse_graph_def
from tests.effort import IS_NIGHTLY
from tests.testing.fuzz import bases
from tests.tools.fuzz import campaign
from tests.tools.fuzz.extremes import NUMBERS, SHAPES, extremes

#: Of an op's good graphs the smallest, if it is no larger than this.
_BYTES_MAX = 4_000


def _graph() -> bytes:
    graph = Graph()
    x = graph.ops.Fill(graph.constant(np.array([2, 3]), name="dims"), np.float32(1), name="x")
    graph.ops.MaxPool(
        graph.ops.Reshape(x, np.array([1, 2, 3, 1])), ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="SAME"
    )
    return bytes(graph.to_graph_def().SerializeToString())


def test_each_place_that_steers_has_its_turn() -> None:
    data = _graph()
    found = dict(extremes(data))
    assert len(found) == len(list(extremes(data)))
    for shape in SHAPES:
        assert f"dims of shape {shape}" in found
        assert f"dims of shape {shape}, late" in found
    for number in NUMBERS:
        assert f"dims[1] = {number}, late" in found
        assert f"MaxPool.ksize[2] = {number}" in found
    late = parse_graph_def(found["dims[1] = 1099511627776, late"])
    nodes = {node.name: node for node in late.node}
    assert nodes["dims"].op == "PlaceholderWithDefault"
    assert np.frombuffer(nodes["dims/default"].attr["value"].tensor.tensor_content, np.int64)[1] == 2**40
    assert nodes["x"].input[0] == "dims"


def test_sizes_that_constants_share_change_together() -> None:
    graph = Graph()
    first, second = (
        graph.constant(np.zeros(shape), name=name) for shape, name in (((4, 3), "a"), ((3, 2), "b"))
    )
    graph.ops.MatMul(first, second)
    found = dict(extremes(bytes(graph.to_graph_def().SerializeToString())))
    changed = parse_graph_def(found["sizes 3 = 0 and 2 = 1099511627776"])
    shapes = [
        [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]
        for node in changed.node
        if node.op == "Const"
    ]
    assert shapes == [[4, 0], [0, 2**40]]
    assert "sizes 3 = 0 and axis 0 of a = 1099511627776" in found
    assert "sizes 4 = 0 and axis 1 of a = 1099511627776, late" in found
    late = parse_graph_def(found["sizes 3 = 0 and 2 = 1099511627776, late"])
    assert [node.op for node in late.node][-2:] == ["PlaceholderWithDefault"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("every", [50, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_op_is_led_astray(tmp_path: Path, every: int) -> None:
    good = tmp_path / "good"
    bases.write(good, Path(os.environ.get("FLOWENGINE_SHARED", "../shared")), one_in=5)
    changed = tmp_path / "changed"
    changed.mkdir()
    smallest: dict[str, bytes] = {}
    for path in sorted(good.iterdir()):
        data, op = path.read_bytes(), path.stem.rpartition("-")[0]
        if len(data) <= _BYTES_MAX and len(data) < len(smallest.get(op, data + b"_")):
            smallest[op] = data
    assert len(smallest) > (1_000 if IS_NIGHTLY else 150)
    graphs = ((op, graph) for op, data in smallest.items() for _, graph in extremes(data))
    count = 0
    for op, graph in itertools.islice(graphs, 0, None, every):
        # Each in a group of its own, so that each is played once.
        (changed / f"{op}.{count}-0.pb").write_bytes(graph)
        count += 1
    tally = campaign.run(
        "calls", 0, count, tmp_path / "found", bases=changed, as_they_are=True, hang_seconds=120
    )
    assert tally.findings == []
    assert tally.outcomes["value"] > count // 10
