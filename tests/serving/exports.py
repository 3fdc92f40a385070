"""Models for the tests of serving: written where a server looks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flowengine as fe


def export_factor(path: Path, factor: float) -> Path:
    """Write a SavedModel of y = factor x for rows x, whose factor is a variable."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    y = x * graph.variable(float(factor), name="factor")
    with fe.blocking.Session(graph) as session:
        session.initialize()
        signatures: dict[str, Any] = {"serving_default": ({"x": x}, {"y": y})}
        session.call(fe.saved_model.save, path, signatures=signatures)
    return path


def export_gate(path: Path) -> Path:
    """Write a SavedModel whose default signature waits for a token of a queue; "open" gives it one."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], shared_name="gate", name="gate")
    token = graph.placeholder("float32", [None], name="token")
    opened = graph.ops.QueueEnqueueManyV2(queue, [token])
    taken = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    with graph.control_dependencies([taken[0].op]):
        y = fe.add(x, x)
    with graph.control_dependencies([opened]):
        given = fe.identity(token)
    bad = graph.ops.ReadFile(graph.placeholder("string", [], name="file"))
    signatures: dict[str, Any] = {
        "serving_default": ({"x": x}, {"y": y}),
        "open": ({"token": token}, {"token": given}),
        "read": ({"file": graph.tensor("file:0")}, {"content": bad}),
    }
    with fe.blocking.Session(graph) as session:
        session.call(fe.saved_model.save, path, signatures=signatures)
    return path


def export_scalar(path: Path) -> Path:
    """Write a SavedModel that doubles a number without dimensions."""
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    with fe.blocking.Session(graph) as session:
        signatures: dict[str, Any] = {"serving_default": ({"x": x}, {"y": x + x})}
        session.call(fe.saved_model.save, path, signatures=signatures)
    return path
