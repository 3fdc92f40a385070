"""Graphs that ask for too much: of memory, of time, or of both. Each is small as it is stored."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import flowengine as fe
from flowengine.testing.control import while_loop


class Attack(NamedTuple):
    """A request. `feeds` are made by the process that runs it."""

    graph: fe.Graph
    fetch: Any
    feeds: dict[str, Any]


def _texts(count: int, size: int = 30) -> Any:
    array = np.empty(count, object)
    array[:] = [b"%d " % number + b"a" * size for number in range(count)]
    return array


def constant() -> Attack:
    """Two stored values, two gigabytes written out; its maximum alone is fetched."""
    g = fe.Graph()
    g.ops.Max(g.constant([1.0, 2.0], name="large"), 0, name="most")
    text = g.to_graph_def()
    tensor = next(node for node in text.node if node.name == "large").attr["value"].tensor
    tensor.ClearField("tensor_content")
    del tensor.float_val[:]
    tensor.float_val.extend([1.0, 2.0])
    tensor.tensor_shape.dim[0].size = 2**29 - 1
    return Attack(fe.Graph.from_graph_def(text.SerializeToString()), "most:0", {})


def doubled() -> Attack:
    g = fe.Graph()
    text: Any = g.placeholder("string", [], name="x")
    for _ in range(40):
        text = g.ops.StringJoin([text, text])
    return Attack(g, g.ops.StringLength(text), {"x:0": b"ten bytes!"})


def filled() -> Attack:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    return Attack(g, g.ops.Fill(g.ops.Reshape(x, [1]), "text"), {"x:0": 500_000_000})


def padded() -> Attack:
    g = fe.Graph()
    return Attack(g, g.ops.AsString(g.placeholder("int32", None, name="x"), width=2**31 - 1), {"x:0": 1})


def decompressed() -> Attack:
    g = fe.Graph()
    g.ops.DecodeCompressed(g.placeholder("string", None, name="x"), compression_type="GZIP", name="y")
    return Attack(g, "y:0", {"x:0": gzip.compress(bytes(1_200_000_000), 1)})


def found() -> Attack:
    g = fe.Graph()
    x = g.ops.Fill([2, 2, 2, 10_000_000], g.placeholder("bool", [], name="x"))
    return Attack(g, g.ops.Where(x), {"x:0": True})


def endless_file() -> Attack:
    g = fe.Graph()
    g.ops.ReadFile(g.constant("/dev/zero"), name="y")
    return Attack(g, "y:0", {})


def arrays() -> Attack:
    g = fe.Graph()
    made = g.ops.TensorArrayV3(g.placeholder("int32", [], name="x"), dtype="float32")
    return Attack(g, g.ops.TensorArraySizeV3(made[0], made[1]), {"x:0": 2**31 - 1})


def queue() -> Attack:
    """A loop that fills a queue without end."""
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="queue")
    row = g.placeholder("float32", [None], name="x")

    def body(i: Any, q: Any, row: Any) -> list[Any]:
        with g.control_dependencies([g.ops.QueueEnqueueV2(q, [row])]):
            return [g.ops.Add(i, 1)]

    done = while_loop(g, lambda i, *_: g.ops.Less(i, 2**30), body, [g.constant(0)], invariants=[q, row])
    return Attack(g, done[0], {"x:0": np.ones(100_000, np.float32)})


def endless_loop() -> Attack:
    g = fe.Graph()
    limit = g.placeholder("int32", [], name="x")

    def body(i: Any, _: Any) -> list[Any]:
        return [g.ops.Add(i, 1)]

    done = while_loop(g, lambda i, n: g.ops.Less(i, n), body, [g.constant(0)], invariants=[limit])
    return Attack(g, done[0], {"x:0": 2**31 - 1})


def pattern() -> Attack:
    """A pattern that takes exponential time where matching goes back on its steps."""
    g = fe.Graph()
    x = g.placeholder("string", None, name="x")
    return Attack(g, g.ops.RegexFullMatch(x, "(a|aa)+c"), {"x:0": _texts(200_000, 2_000)})


def batches() -> Attack:
    """Kernels over many strings, one after another."""
    g = fe.Graph()
    text: Any = g.placeholder("string", None, name="x")
    for number in range(60):
        text = g.ops.RegexReplace(text, f"{number}", "b", replace_global=True)
    return Attack(g, g.ops.StringLength(text), {"x:0": _texts(30_000)})


def folded() -> Attack:
    """The same over a constant, when the plan is made."""
    g = fe.Graph()
    text: Any = g.constant(_texts(3_000, 200), dtype="string")
    for number in range(60):
        text = g.ops.RegexReplace(text, f"(a|aa)+{number}", "b", replace_global=True)
    return Attack(g, g.ops.StringLength(text), {})


def products() -> Attack:
    g = fe.Graph()
    x: Any = g.ops.Fill([1500, 1500], g.placeholder("float32", [], name="x"))
    for _ in range(300):
        x = g.ops.MatMul(x, x)
    return Attack(g, g.ops.Sum(x, [0, 1]), {"x:0": 1e-3})


def window() -> Attack:
    g = fe.Graph()
    x = g.ops.Fill([1, 64, 64, 3], g.placeholder("float32", [], name="x"))
    size = g.constant(np.array([1, 2**31 - 1, 2**31 - 1, 1], np.int32))
    y = g.ops.MaxPoolV2(x, size, g.constant(np.array([1, 1, 1, 1], np.int32)), padding="SAME")
    return Attack(g, g.ops.Sum(y, [0, 1, 2, 3]), {"x:0": 1.0})


ATTACKS: dict[str, Callable[[], Attack]] = {
    make.__name__: make
    for make in (
        constant,
        doubled,
        filled,
        padded,
        decompressed,
        found,
        endless_file,
        arrays,
        queue,
        endless_loop,
        pattern,
        batches,
        folded,
        products,
        window,
    )
}

__all__ = ["ATTACKS", "Attack"]
