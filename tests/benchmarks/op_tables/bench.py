"""A graph with many copies of one op, and the shapes of inputs that families of ops share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.ir.traits import Droppable
from flowengine.ops.load import registry
from tests.benchmarks.workloads import Run, Workload

#: Elements of an elementwise op's input: fits a register file, a cache, and neither.
ELEMENTS: Final = (16, 16_384, 1_048_576)

One = Callable[["Bench", int], Any]


class Bench:
    """A graph that is being made: variables with their values, and copies of one op."""

    def __init__(self) -> None:
        self.graph = fe.Graph()
        self.ops = self.graph.ops
        self.random = np.random.default_rng(0)
        self._feeds: dict[str, Any] = {}
        self._init: list[str] = []
        #: {maker: the inputs that it made, for all copies}
        self.kept: dict[Any, tuple[Any, ...]] = {}

    def variable(self, value: Any) -> Any:
        """A variable that holds this; its read is what the op takes. Bytes of NumPy become strings."""
        value = np.asarray(value)
        dtype = "string" if value.dtype.kind == "S" else value.dtype
        number = len(self._init)
        variable = self.ops.VariableV2(shape=value.shape, dtype=dtype, name=f"v{number}")
        given = self.graph.placeholder(dtype, value.shape, name=f"given{number}")
        self._feeds[f"given{number}:0"] = value
        self._init.append(self.ops.Assign(variable, given, name=f"init{number}").op.name)
        return variable

    def floats(self, *shape: int) -> Any:
        """A variable of positive float32 below 1."""
        return self.variable(self.random.random(shape, np.float32) * 0.9 + 0.05)

    def integers(self, *shape: int, below: int = 1000, least: int = 1) -> Any:
        return self.variable(self.random.integers(least, below, shape).astype(np.int32))

    def truths(self, *shape: int) -> Any:
        return self.variable(self.random.random(shape) < 0.5)

    def workload(self, name: str, one: One, size: int, copies: int) -> Workload:
        """`copies` of an op, one after another."""
        before: list[Any] = []
        copied: list[str] = []
        for _ in range(copies):
            with self.graph.control_dependencies(before):
                made = one(self, size)
            while isinstance(made, tuple | list):
                made = made[0]
            before = [getattr(made, "op", made)]
            copied.append(before[0].name)
        self.graph.group(*before, name="every_copy")
        # Products and gradients whose value nobody takes are not computed unless they are asked for.
        is_dropped = Droppable in registry()[before[0].type].traits
        return Workload(
            name=f"{name} {size}",
            graph=self.graph.to_graph_def().SerializeToString(),
            run=Run(targets=[*copied, "every_copy"] if is_dropped else ["every_copy"]),
            setup=[Run(self._feeds, targets=self._init)] if self._init else [],
            repeats=5,
            optimizer=False,
        )


def kept(make: Callable[[Bench, int], tuple[Any, ...]], use: Callable[..., Any]) -> One:
    """An op whose inputs are made once for all copies."""

    def one(bench: Bench, size: int) -> Any:
        if make not in bench.kept:
            with bench.graph.control_dependencies(None):
                bench.kept[make] = make(bench, size)
        return use(bench, *bench.kept[make])

    return one


def called(op: str, **attrs: Any) -> Callable[..., Any]:
    """Return a function that makes a node of an op from a bench and the node's inputs."""
    return lambda bench, *inputs: getattr(bench.ops, op)(*inputs, **attrs)


def unary(op: str, **attrs: Any) -> One:
    return kept(lambda b, n: (b.floats(n),), called(op, **attrs))


def binary(op: str, **attrs: Any) -> One:
    return kept(lambda b, n: (b.floats(n), b.floats(n)), called(op, **attrs))


def named(make: Callable[[str], One], names: str) -> Mapping[str, One]:
    """{op: what makes one of it} of several that take the same."""
    return {name: make(name) for name in names.split()}


def matrix(n: int) -> int:
    """The side of a square matrix of so many elements, or of few where there are few."""
    return {16: 16, 16_384: 128, 1_048_576: 1024}[n]


def small_matrix(n: int) -> int:
    """The side of a matrix of which more than products are asked for."""
    return {16: 4, 16_384: 32, 1_048_576: 256}[n]


def channels(n: int) -> int:
    return 16 if n > 16 else 4


def images(b: Bench, n: int) -> Any:
    """(N, H, W, C)"""
    side = {16: 4, 16_384: 16, 1_048_576: 64}[n]
    return b.floats(4, side, side, channels(n))


def rows(b: Bench, n: int) -> tuple[Any, ...]:
    """(rows, 16) and indices of a quarter of the rows."""
    return b.floats(max(n // 16, 2), 16), b.integers(max(n // 64, 1), below=max(n // 16, 2), least=0)


def lines(texts: Sequence[bytes]) -> Any:
    """Strings as NumPy writes them into a file: the last byte of none may be 0."""
    assert not any(text.endswith(b"\0") for text in texts)
    return np.array(texts, "S")


__all__ = [
    "ELEMENTS",
    "Bench",
    "One",
    "binary",
    "called",
    "channels",
    "images",
    "kept",
    "lines",
    "matrix",
    "named",
    "rows",
    "small_matrix",
    "unary",
]
