"""The ops that real graphs hold most of, one by one, at three sizes, beside TensorFlow.

    python -m tests.benchmarks.op_table --tensorflow PYTHON [--markdown FILE] [NAME...]

Each workload runs one op many times in a step: its inputs are variables, each copy waits for the one before
by a control edge (so that neither engine merges them), and nothing is fetched. TensorFlow's graph optimiser
is off, since it would drop what nobody fetches. The time of a step, divided by the copies, is that of the op
with its share of the engine's overhead. Control flow is measured as loops.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

import flowengine as fe
from flowengine.testing.control import while_loop
from tests.benchmarks.__main__ import compare
from tests.benchmarks.engines import Engine
from tests.benchmarks.workloads import Run, Workload

#: Elements of an elementwise op's input: fits a register file, a cache, and neither.
ELEMENTS = (16, 16_384, 1_048_576)
#: Copies in a step, by size, so that a step takes milliseconds.
COPIES = (100, 40, 4)
#: Reported without a bound: faster kernels for these are a matter of their own.
UNBOUNDED = frozenset({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "FusedBatchNormV3"})

#: Ops that our engine drops where they only order others.
ASKED_FOR = frozenset({"MatMul", "Conv2DBackpropInput", "Conv2DBackpropFilter"})

One = Callable[["Bench", int], Any]


class Bench:
    """A graph that is being made: variables with their values, and copies of one op."""

    def __init__(self) -> None:
        self.graph = fe.Graph()
        self.ops = self.graph.ops
        self._random = np.random.default_rng(0)
        self._feeds: dict[str, Any] = {}
        self._init: list[str] = []
        #: {maker: the inputs that it made, for all copies}
        self.kept: dict[Any, tuple[Any, ...]] = {}

    def variable(self, value: Any) -> Any:
        """A variable that holds this; its read is what the op takes."""
        value = np.asarray(value)
        number = len(self._init)
        variable = self.ops.VariableV2(shape=value.shape, dtype=value.dtype, name=f"v{number}")
        given = self.graph.placeholder(value.dtype, value.shape, name=f"given{number}")
        self._feeds[f"given{number}:0"] = value
        self._init.append(self.ops.Assign(variable, given, name=f"init{number}").op.name)
        return variable

    def floats(self, *shape: int) -> Any:
        """A variable of positive float32 below 1."""
        return self.variable(self._random.random(shape, np.float32) * 0.9 + 0.05)

    def integers(self, *shape: int, below: int = 1000) -> Any:
        return self.variable(self._random.integers(1, below, shape).astype(np.int32))

    def workload(self, name: str, one: One, size: int, copies: int) -> Workload:
        """`copies` of an op, one after another."""
        before: list[Any] = []
        copied: list[str] = []
        for _ in range(copies):
            with self.graph.control_dependencies(before):
                made = one(self, size)
            if isinstance(made, tuple):
                made = made[0]
            before = [getattr(made, "op", made)]
            copied.append(before[0].name)
        self.graph.group(*before, name="all")
        return Workload(
            name=f"{name} {size}",
            graph=self.graph.to_graph_def().SerializeToString(),
            # Products and gradients whose value nobody takes are not computed unless they are asked for.
            run=Run(targets=[*copied, "all"] if name in ASKED_FOR else ["all"]),
            setup=[Run(self._feeds, targets=self._init)] if self._init else [],
            repeats=5,
            optimizer=False,
        )


def _kept(make: Callable[[Bench, int], tuple[Any, ...]], use: Callable[..., Any]) -> One:
    """An op whose inputs are made once for all copies."""

    def one(bench: Bench, size: int) -> Any:
        if make not in bench.kept:
            with bench.graph.control_dependencies(None):
                bench.kept[make] = make(bench, size)
        return use(bench, *bench.kept[make])

    return one


def _unary(op: str, **attrs: Any) -> One:
    return _kept(lambda b, n: (b.floats(n),), lambda b, x: getattr(b.ops, op)(x, **attrs))


def _binary(op: str) -> One:
    return _kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, x, y: getattr(b.ops, op)(x, y))


def _matrix(n: int) -> int:
    return {16: 16, 16_384: 128, 1_048_576: 1024}[n]


def _images(b: Bench, n: int) -> Any:
    side = {16: 4, 16_384: 16, 1_048_576: 64}[n]
    return b.floats(4, side, side, 16 if n > 16 else 4)


def _reduce(op: str) -> One:
    return _kept(
        lambda b, n: (b.floats(_matrix(n), _matrix(n)), b.graph.constant([0])),
        lambda b, x, axes: getattr(b.ops, op)(x, axes),
    )


def _rows(b: Bench, n: int) -> tuple[Any, ...]:
    return b.floats(max(n // 16, 2), 16), b.integers(max(n // 64, 1), below=max(n // 16, 2))


def _norm(b: Bench, n: int) -> tuple[Any, ...]:
    x = _images(b, n)
    channels = 16 if n > 16 else 4
    return (x, *(b.floats(channels) for _ in range(4)))


OPS: dict[str, One] = {
    "Mul": _binary("Mul"),
    "Identity": _unary("Identity"),
    "Add": _binary("Add"),
    "Assign": _kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, v, x: b.ops.Assign(v, x)),
    "L2Loss": _unary("L2Loss"),
    "Reshape": _kept(
        lambda b, n: (b.floats(n), b.graph.constant([-1, 4])), lambda b, x, s: b.ops.Reshape(x, s)
    ),
    "Cast": _unary("Cast", DstT="float64"),
    "FloorMod": _kept(lambda b, n: (b.integers(n), b.integers(n)), lambda b, x, y: b.ops.FloorMod(x, y)),
    "NoOp": lambda b, n: b.ops.NoOp(),
    "Sub": _binary("Sub"),
    "Range": _kept(
        lambda b, n: (b.variable(np.int32(n)),), lambda b, n: b.ops.Range(0, b.ops.Identity(n), 1)
    ),
    "Prod": _reduce("Prod"),
    "Shape": _unary("Shape"),
    "Sum": _reduce("Sum"),
    "Conv2D": _kept(
        lambda b, n: (_images(b, n), b.floats(3, 3, 16 if n > 16 else 4, 16)),
        lambda b, x, f: b.ops.Conv2D(x, f, strides=[1, 1, 1, 1], padding="SAME"),
    ),
    "ConcatV2": _kept(
        lambda b, n: (b.floats(n // 4, 2), b.floats(n // 4, 2)), lambda b, x, y: b.ops.ConcatV2([x, y], 1)
    ),
    "Fill": _kept(lambda b, n: (b.variable(np.array([n], np.int32)),), lambda b, s: b.ops.Fill(s, 1.0)),
    "AddN": _kept(
        lambda b, n: (b.floats(n), b.floats(n), b.floats(n)), lambda b, x, y, z: b.ops.AddN([x, y, z])
    ),
    "MatMul": _kept(
        lambda b, n: (b.floats(_matrix(n), _matrix(n)), b.floats(_matrix(n), _matrix(n))),
        lambda b, x, y: b.ops.MatMul(x, y),
    ),
    "StridedSlice": _kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.StridedSlice(x, [1], [-1], [2])),
    "Relu": _unary("Relu"),
    "Gather": _kept(_rows, lambda b, x, i: b.ops.Gather(x, i)),
    "GatherV2": _kept(_rows, lambda b, x, i: b.ops.GatherV2(x, i, 0)),
    "Maximum": _binary("Maximum"),
    "Minimum": _binary("Minimum"),
    "AddV2": _binary("AddV2"),
    "FusedBatchNormV3": _kept(
        _norm,
        lambda b, x, scale, offset, mean, variance: b.ops.FusedBatchNormV3(
            x, scale, offset, mean, variance, is_training=False
        ),
    ),
    "Slice": _kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.Slice(x, [1], [-1])),
    "BiasAdd": _kept(lambda b, n: (b.floats(n // 16, 16), b.floats(16)), lambda b, x, y: b.ops.BiasAdd(x, y)),
    "Select": _kept(
        lambda b, n: (b.variable(np.arange(n) % 3 == 0), b.floats(n), b.floats(n)),
        lambda b, c, x, y: b.ops.Select(c, x, y),
    ),
    "ShapeN": _kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, x, y: b.ops.ShapeN([x, y])),
    "Pack": _kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, x, y: b.ops.Pack([x, y])),
    "Conv2DBackpropInput": _kept(
        lambda b, n: (_images(b, n), b.floats(3, 3, 16 if n > 16 else 4, 16 if n > 16 else 4)),
        lambda b, x, f: b.ops.Conv2DBackpropInput(b.ops.Shape(x), f, x, strides=[1, 1, 1, 1], padding="SAME"),
    ),
    "Conv2DBackpropFilter": _kept(
        lambda b, n: (_images(b, n), b.floats(3, 3, 16 if n > 16 else 4, 16 if n > 16 else 4)),
        lambda b, x, f: b.ops.Conv2DBackpropFilter(
            x, b.ops.Shape(f), x, strides=[1, 1, 1, 1], padding="SAME"
        ),
    ),
    "RealDiv": _binary("RealDiv"),
    "ReluGrad": _binary("ReluGrad"),
    "Sigmoid": _unary("Sigmoid"),
    "Split": _kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.Split(0, x, num_split=2)),
    "ExpandDims": _kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.ExpandDims(x, 0)),
}


def loop(iterations: int) -> Workload:
    """Enter, Merge, Switch, NextIteration and Exit: `while i < n: i += 1`."""
    g = fe.Graph()
    n = g.placeholder("int32", [], name="n")
    i, *_ = while_loop(
        g, lambda i, n: g.ops.Less(i, n), lambda i, n: [g.ops.Add(i, 1)], [g.constant(0)], invariants=[n]
    )
    g.ops.Identity(i, name="y")
    return Workload(
        name=f"Enter..Exit {iterations}",
        graph=g.to_graph_def().SerializeToString(),
        run=Run({"n:0": np.int32(iterations)}, ["y:0"]),
        repeats=5,
    )


def workloads(wanted: list[str]) -> Iterator[Workload]:
    """All ops, or those named, at three sizes."""
    for name, one in OPS.items():
        if not wanted or name in wanted:
            for size, copies in zip(ELEMENTS, COPIES, strict=True):
                yield Bench().workload(name, one, size, copies)
    if not wanted or "Enter..Exit" in wanted:
        for iterations in (1, 30, 1000):
            yield loop(iterations)


def table(results: list[dict[str, Any]]) -> str:
    """A row an op, a column a size, the ratio of the medians in each, and the geometric mean."""
    rows: dict[str, list[float]] = {}
    for result in results:
        name = result["name"].rpartition(" ")[0]
        ours, theirs = result["step"]
        rows.setdefault(name, []).append(ours / theirs)
    lines = ["| op | small | middle | large |", "|---|---|---|---|"]
    for name, ratios in rows.items():
        lines.append(
            f"| {name}{'*' if name in UNBOUNDED else ''} | " + " | ".join(f"{r:.2f}" for r in ratios) + " |"
        )
    bounded = [r for name, ratios in rows.items() if name not in UNBOUNDED for r in ratios]
    mean = exp(sum(map(log, bounded)) / len(bounded))
    lines += ["", f"Geometric mean {mean:.2f}, largest {max(bounded):.2f}, without those marked *."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.op_table")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--tensorflow", default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"), metavar="PYTHON"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    given = parser.parse_args()
    if not given.tensorflow:
        parser.error("a Python that has TensorFlow is needed: --tensorflow or FLOWENGINE_TENSORFLOW_PYTHON")
    results = []
    with ExitStack() as stack:
        engines = [stack.enter_context(e) for e in (Engine.flowengine(), Engine.tensorflow(given.tensorflow))]
        for work in workloads(given.names):
            result = compare(work, engines, given.rounds)
            if "error" in result:
                print(f"{work.name}: {result['error']}")
                continue
            ours, theirs = result["step"]
            print(
                f"{work.name:<34} {ours * 1e6:>12.1f} us {theirs * 1e6:>12.1f} us {ours / theirs:>8.2f}",
                flush=True,
            )
            results.append(result)
    text = table(results)
    print(text)
    if given.markdown is not None:
        given.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
