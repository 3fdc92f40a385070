"""`graph.summary()`: the variables of a graph by scope, with shapes, types and sizes.

graph = fe.Graph()
with graph.variable_scope("dense"):
    graph.get_variable("kernel", [784, 10])
print(graph.summary())
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from flowengine.core.dtypes import DType
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.graphs.variables.initializing import listed_variables
from flowengine.graphs.variables.keys import LOCAL_VARIABLES, TRAINABLE_VARIABLES, VARIABLES
from flowengine.ir.traits import GivesVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: A table of more variables has only a row for each scope.
_ROWS_MAX: Final = 100
_HEAD: Final = ("variable", "shape", "dtype", "parameters", "size", "trainable")
_NUMBERS: Final = frozenset({3, 4})


@dataclass(frozen=True, slots=True)
class SummarizedVariable:
    """One variable.

    name        without ":0"
    scope       of the layer that it belongs to: the slots that an optimizer keeps for it are in its own scope
    trainable   whether optimizers change it; None if the graph does not list that
    """

    name: str
    scope: str
    shape: TensorShape
    dtype: DType
    trainable: bool | None

    @property
    def parameters(self) -> int | None:
        """How many numbers it holds; None if its shape is not known."""
        return self.shape.num_elements()

    @property
    def bytes(self) -> int | None:
        """How much memory it takes; None if that is not known, as for strings."""
        count, size = self.parameters, self.dtype.size
        return None if count is None or not size else count * size


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """The variables of a graph; `str(summary)` and a notebook show them as a table.

    variables     in the order of their construction; those of metrics, and other local ones, are left out
    scopes_only   whether the table leaves out the rows of variables
    """

    variables: Sequence[SummarizedVariable]
    scopes_only: bool

    @property
    def parameters(self) -> int:
        """How many numbers all variables hold, as far as their shapes are known."""
        return sum(each.parameters or 0 for each in self.variables)

    @property
    def trainable_parameters(self) -> int:
        """How many of these an optimizer changes."""
        return sum(each.parameters or 0 for each in self.variables if each.trainable)

    @property
    def bytes(self) -> int:
        """How much memory all variables take, as far as that is known."""
        return sum(each.bytes or 0 for each in self.variables)

    def __str__(self) -> str:
        if not self.variables:
            return "the graph has no variables"
        rows, totals = list(self._rows()), list(self._totals())
        widths = [max(map(len, column)) for column in zip(_HEAD, *rows, *totals, strict=True)]
        lines = [_line(row, widths) for row in (_HEAD, *rows)]
        lines.append("-" * max(map(len, lines)))
        return "\n".join(lines + [_line(row, widths) for row in totals])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.variables:
            return f"<div>{self}</div>"
        found = [_html_row(_HEAD, is_head=True)]
        found += [_html_row(row, is_head=not row[2] and not self.scopes_only) for row in self._rows()]
        found += [_html_row(row, is_head=True) for row in self._totals()]
        return f"<table>{''.join(found)}</table>"

    def _rows(self) -> Iterator[Sequence[str]]:
        """A row for each scope, with rows of its variables below."""
        by_scope: dict[str, list[SummarizedVariable]] = {}
        for each in self.variables:
            by_scope.setdefault(each.scope, []).append(each)
        for scope, listed in by_scope.items():
            indent = ""
            if scope or self.scopes_only:
                yield _sums(scope or "(no scope)", listed)
                indent = "  "
            for each in () if self.scopes_only else listed:
                trainable = "" if each.trainable is None else "yes" if each.trainable else "no"
                shape = str(each.shape) if each.shape.rank is not None else "?"
                count = "?" if each.parameters is None else f"{each.parameters:,}"
                name = indent + each.name.removeprefix(f"{scope}/" if scope else "")
                yield name, shape, each.dtype.name, count, _size(each.bytes), trainable

    def _totals(self) -> Iterator[Sequence[str]]:
        trainable = [each for each in self.variables if each.trainable]
        if trainable:
            yield _sums("trainable", trainable)
            yield _sums("not trainable", [each for each in self.variables if not each.trainable])
        yield _sums("total", self.variables)


def summarized(graph: Graph, *, scopes_only: bool | None) -> GraphSummary:
    """Return the summary of a graph; by default of more than 100 variables the scopes alone."""
    listed = listed_variables(graph, VARIABLES)
    lasting = {each.op.name for each in listed}
    trained = {each.op.name for each in listed_variables(graph, TRAINABLE_VARIABLES)}
    local = {each.op.name for each in listed_variables(graph, LOCAL_VARIABLES)} - lasting
    facts: dict[str, tuple[TensorShape, DType, bool | None]] = {
        each.op.name: (each.shape, each.dtype.base, each.op.name in trained) for each in listed
    }
    for node in graph:
        # A GraphDef has no lists, and an op of one's own may be a variable that is in none.
        if node.has(GivesVariable) and node.name not in facts and node.name not in local:
            shape = node.attrs.get("shape", UNKNOWN_SHAPE)
            shape = shape if isinstance(shape, TensorShape) else UNKNOWN_SHAPE
            dtype = node.attrs.get("dtype")
            dtype = dtype if isinstance(dtype, DType) else node.output_types[0].base
            facts[node.name] = shape, dtype, False if trained else None
    scopes = _scopes(facts)
    found = [SummarizedVariable(name, scopes[name], *known) for name, known in facts.items()]
    return GraphSummary(tuple(found), len(found) > _ROWS_MAX if scopes_only is None else scopes_only)


def _scopes(names: Iterable[str]) -> dict[str, str]:
    """{variable: its scope}, where the slots of a variable, named below it, are in the variable's own."""
    known = set(names)
    found = {}
    for name in names:
        scope, _, _ = name.rpartition("/")
        while scope in known:
            scope, _, _ = scope.rpartition("/")
        found[name] = scope
    return found


def _sums(name: str, variables: Sequence[SummarizedVariable]) -> Sequence[str]:
    count = sum(each.parameters or 0 for each in variables)
    size = sum(each.bytes or 0 for each in variables)
    return name, "", "", f"{count:,}", _size(size), ""


def _size(count: int | None) -> str:
    """`12 B`, `3.1 KiB`, `98.5 MiB`."""
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if place in _NUMBERS else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _html_row(row: Sequence[str], *, is_head: bool) -> str:
    mark = "th" if is_head else "td"
    cells = []
    for place, cell in enumerate(row):
        side = "right" if place in _NUMBERS else "left"
        cells.append(f'<{mark} style="text-align: {side}">{escape(cell.strip())}</{mark}>')
    return f"<tr>{''.join(cells)}</tr>"


__all__ = ["GraphSummary", "SummarizedVariable", "summarized"]
