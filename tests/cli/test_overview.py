"""What `inspect` and `plan` take for a graph's outputs."""

from __future__ import annotations

from flowengine.cli.overview import likely_outputs
from flowengine.graphs.graph import Graph


def test_outputs_are_values_and_no_effects() -> None:
    g = Graph()
    ops = g.ops
    x = g.placeholder("float32", [3], name="x")
    variable = ops.VariableV2(shape=[3], dtype="float32", name="v")
    ops.Assign(variable, x, name="assign")
    queue = ops.FIFOQueueV2(component_types=["float32"], name="queue")
    ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    ops.Print(x, [x], name="shown")
    ops.ScalarSummary("tag", g.constant(1.0), name="summary")
    ops.Identity(variable, name="read")
    ops.ScatterNd([[0]], [1.0], [3], name="scattered")
    ops.Neg(x, name="y")
    # What only reads a variable comes last.
    assert [found.node for found in likely_outputs(g)] == ["y", "scattered", "read"]
