"""Hypothesis strategies for what an engine is fed with: types, shapes, arrays and whole graphs.

`graphs()` draws a `GraphCase`: a graph with conditionals and loops nested in each other, variables of both
kinds, and the runs to make on it. Every drawn graph is determinate: all effects on state are ordered by
data and control edges, so that any correct execution gives the same values bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "flowengine.testing.strategies needs Hypothesis: pip install 'hypothesis>=6.112'", name=error.name
    ) from None

from flowengine.core import dtypes as dt
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.graphs.graph import Graph
from flowengine.ir.opdef import OpRegistry
from flowengine.testing.graphs import as_text
from flowengine.testing.random_graphs import GraphWriter
from flowengine.testing.random_ops import DrawnOp

#: The types that have arithmetic of their own in NumPy.
NUMBERS: Final = (dt.float32, dt.float64, dt.int32, dt.int64, dt.uint8, dt.int8, dt.int16, dt.uint16)


def dtypes(allowed: Sequence[DType] = (*NUMBERS, dt.bool_, dt.string)) -> st.SearchStrategy[DType]:
    """One of some element types; by default those that constants are mostly made of."""
    return st.sampled_from(list(allowed))


def shapes(*, max_rank: int = 3, max_side: int = 4, min_side: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    """A shape, rank 0 and empty dimensions among them."""
    return hnp.array_shapes(min_dims=0, max_dims=max_rank, min_side=min_side, max_side=max_side)


def arrays(
    dtype: DType | None = None, shape: tuple[int, ...] | None = None, *, finite: bool = False
) -> st.SearchStrategy[Array]:
    """An array of the type and shape, drawn where not given. Strings are object arrays of `bytes`.

    finite    leave out NaN and the infinities
    """

    def make(chosen: tuple[DType, tuple[int, ...]]) -> st.SearchStrategy[Array]:
        kind, dims = chosen
        if kind is dt.string:
            return hnp.arrays(object, dims, elements=st.binary(max_size=4))
        return hnp.arrays(kind.as_numpy_dtype, dims, elements=_elements(kind, finite))

    types = dtypes() if dtype is None else st.just(dtype)
    return st.tuples(types, shapes() if shape is None else st.just(shape)).flatmap(make)


def _elements(dtype: DType, finite: bool) -> st.SearchStrategy[Any]:
    if dtype.is_floating and dtype.size in (2, 4, 8) and dtype is not dt.bfloat16:
        width: Any = 8 * dtype.size
        return st.floats(width=width, allow_nan=not finite, allow_infinity=not finite)
    return hnp.from_dtype(dtype.as_numpy_dtype)


@dataclass(frozen=True)
class GraphCase:
    """A graph and what to do with it.

    setup    names of the nodes that initialize its variables; run them first
    runs     (fetches, feeds) of the steps to make, in order
    targets  names of nodes to run in each of them
    """

    graph: Graph
    setup: Sequence[str]
    runs: Sequence[tuple[Sequence[str], Mapping[str, Array]]]
    targets: Sequence[str]

    def __repr__(self) -> str:
        return f"{as_text(self.graph)}\nsetup {self.setup}, targets {self.targets}, runs {self.runs}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis would print the fields."""
        printer.text(repr(self))


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    max_statements: int = 6,
    max_depth: int = 2,
    variables: bool = True,
    loops: bool = True,
    conditionals: bool = True,
    failing: bool = False,
    runs: int = 2,
    ops: Sequence[str | DrawnOp] | None = None,
    registry: OpRegistry | None = None,
) -> GraphCase:
    """A graph of float32, int32 and bool values with its runs.

    max_statements  how many ops, conditionals and loops a block has at most
    max_depth       how deep conditionals and loops are nested
    failing         divide integers, by zero among others: some steps fail. Which effects come before a
                    failure is not determined: leave out variables then
    ops             names of the ops that compute, or `DrawnOp`s that say more; control flow, variables and
                    constants are there as well. By default some of this package's
    registry        where the ops are defined, if not in this package

    Raises NotFoundError for an op that is not defined, InvalidArgumentError for one that cannot be drawn.
    """
    writer = GraphWriter(
        draw,
        variables=variables,
        loops=loops,
        conditionals=conditionals,
        failing=failing,
        max_statements=max_statements,
        ops=ops,
        registry=registry,
    )
    writer.write(max_depth)
    fed = st.fixed_dictionaries(
        {
            name: arrays(dtype, shape, finite=True).map(np.asarray)
            for name, (dtype, shape) in writer.placeholders.items()
        }
    )
    results = writer.results()
    steps = []
    for _ in range(runs):
        fetches = draw(st.lists(st.sampled_from(results), min_size=1, max_size=5))
        feeds = dict(draw(fed))
        if writer.feedable and draw(st.integers(0, 4)) == 0:
            name, (dtype, shape) = draw(st.sampled_from(sorted(writer.feedable.items())))
            feeds[name] = draw(arrays(dtype, shape, finite=True))
        steps.append((fetches, feeds))
    return GraphCase(writer.graph, writer.setup, steps, writer.targets)


__all__ = ["NUMBERS", "DrawnOp", "GraphCase", "arrays", "dtypes", "graphs", "shapes"]
