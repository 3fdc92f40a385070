"""Which columns of a table feed which inputs.

    --feed flats.csv       every input that has a column of its name, or columns `name.0`, `name.1`, ...
    --feed x=flats.csv     one input, of the columns of its name, or else of all columns in their order

An input of serialized examples takes the columns that are called as its features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flowengine.cli.failure import BAD_FEED, CommandError
from flowengine.cli.feeding.sources import ValueTarget
from flowengine.cli.models.feeds import wanted_target
from flowengine.cli.overview import placeholders
from flowengine.cli.tables.columns import CellFault, converted
from flowengine.cli.tables.naming import table_in
from flowengine.cli.tables.reading import Cells, TableFile, TableRows, open_table
from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.saved_model.example_inputs import ExampleFeature, features_of, serialized

if TYPE_CHECKING:
    from flowengine.cli.models.signatures import CalledSignature
    from flowengine.graphs.graph import Graph


class TableInput(Protocol):
    """An input that a table feeds."""

    @property
    def target(self) -> ValueTarget: ...

    @property
    def columns(self) -> Sequence[str]: ...

    def value(self, rows: TableRows) -> Array:
        """Return the values of rows, one along the first axis for each; CellFault for a row without one."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnsInput:
    """An input whose rows are the cells of one column, or of several beside one another."""

    target: ValueTarget
    columns: Sequence[str]

    def value(self, rows: TableRows) -> Array:
        dtype = self.target.dtype
        parts: list[Array] = [converted(name, rows.columns[name], dtype) for name in self.columns]
        # A row of one number is a vector for an input that wants vectors; a list in a cell is one already.
        rank = self.target.shape.rank
        if len(parts) > 1:
            beside: Array = np.stack(parts, axis=1)
            return beside
        found: Array = parts[0][:, np.newaxis] if rank == 2 and parts[0].ndim == 1 else parts[0]
        return found


@dataclass(frozen=True, slots=True)
class ExamplesInput:
    """An input of serialized examples, whose features are columns. An empty cell is an absent feature."""

    target: ValueTarget
    columns: Sequence[str]
    features: dict[str, ExampleFeature]

    def value(self, rows: TableRows) -> Array:
        made = {name: self._feature(name, rows.columns[name]) for name in self.columns}
        examples: Array = serialized(self.features, made, len(rows))
        return examples

    def _feature(self, name: str, cells: Cells) -> Any:
        feature = self.features[name]
        if isinstance(cells, np.ndarray) or not any(cell is None or cell == "" for cell in cells):
            return converted(name, cells, feature.dtype)
        if feature.required:
            index = next(i for i, cell in enumerate(cells) if cell is None or cell == "")
            raise CellFault(index, f"column {name!r}: it is empty, and each example must have this feature")
        present = [i for i, cell in enumerate(cells) if cell is not None and cell != ""]
        values: list[Any] = [None] * len(cells)
        try:
            found: Any = converted(name, [cells[i] for i in present], feature.dtype) if present else []
        except CellFault as fault:
            raise CellFault(present[fault.index], str(fault)) from None
        for index, value in zip(present, found, strict=True):
            values[index] = value
        return values


@dataclass(frozen=True, slots=True)
class TableFeed:
    """A table and the inputs that it feeds. `unused` are its other columns."""

    table: TableFile
    inputs: Sequence[TableInput]
    unused: Sequence[str]

    @property
    def tensors(self) -> list[str]:
        return [each.target.name for each in self.inputs]


def table_feed(
    graph: Graph, feeds: Sequence[str], call: CalledSignature
) -> tuple[list[str], TableFeed | None]:
    """Return the feeds that are no tables, and the one that is; None without one.

    Raises CommandError (a bad feed) for a table that cannot be read or whose columns fit no input, and
    (usage) for two tables.
    """
    found = table_in(feeds)
    if found is None:
        return list(feeds), None
    others = [feed for feed in feeds if feed != found]
    name, equals, path = found.partition("=")
    table = open_table(path if equals else found)
    try:
        if equals:
            inputs = [_input(graph, wanted_target(graph, call, name), table)]
        else:
            inputs = _by_name(graph, call, table, {feed.partition("=")[0] for feed in others})
    except BaseException:
        table.__exit__(None, None, None)
        raise
    used = {column for each in inputs for column in each.columns}
    return others, TableFeed(table, inputs, [name for name in table.names if name not in used])


def _by_name(graph: Graph, call: CalledSignature, table: TableFile, fed: set[str]) -> list[TableInput]:
    """The inputs that have columns; else the only one that there is, of all columns."""
    names = list(call.inputs) or [each.name.removesuffix(":0") for each in placeholders(graph)]
    targets = [wanted_target(graph, call, name) for name in names if name not in fed]
    found: list[TableInput] = []
    for target in targets:
        columns = _columns_of(target, table.names)
        if columns:
            found.append(ColumnsInput(target, columns))
    if found:
        return found
    if len(targets) == 1:
        return [_input(graph, targets[0], table)]
    listed = ", ".join(each.label or each.name.removesuffix(":0") for each in targets) or "none"
    raise CommandError(
        f"--feed {table.path}: no column is called as an input (columns: {_listed(table.names)}; inputs: "
        f"{listed}): rename columns, or write --feed NAME={table.path} to feed one input with all of them",
        BAD_FEED,
    )


def _input(graph: Graph, target: ValueTarget, table: TableFile) -> TableInput:
    """An input of a table that is for it alone."""
    own = _columns_of(target, table.names)
    if own:
        return ColumnsInput(target, own)
    if target.dtype is dtypes.string and target.shape.rank in (1, None):
        features = features_of(graph, target.name)
        if features:
            return _examples(target, features, table)
    width = target.shape.dims[1] if target.shape.rank == 2 and target.shape.dims else None
    count = len(table.names)
    fits = target.shape.rank is None or (target.shape.rank == 2 and width in (None, count))
    if not fits and not (target.shape.rank in (0, 1) and count == 1):
        raise CommandError(
            f"--feed {target.label or target.name}: the table's {count} columns ({_listed(table.names)}) do "
            f"not make up rows for a {target.dtype} {target.shape}: call columns as the input, "
            f"{target.label or target.name.removesuffix(':0')} or "
            f"{target.label or target.name.removesuffix(':0')}.0, ...1 and so on",
            BAD_FEED,
        )
    return ColumnsInput(target, list(table.names))


def _examples(target: ValueTarget, features: dict[str, ExampleFeature], table: TableFile) -> TableInput:
    columns = [name for name in table.names if name in features]
    missing = [key for key, each in features.items() if each.required and key not in columns]
    if missing or not columns:
        raise CommandError(
            f"--feed {target.label or target.name}: its examples have the features "
            f"{_listed(list(features))}, and the table has no column {_listed(missing or list(features))} "
            f"(columns: {_listed(table.names)})",
            BAD_FEED,
        )
    return ExamplesInput(target, columns, features)


def _columns_of(target: ValueTarget, names: Sequence[str]) -> list[str]:
    """The column of an input's name, or its columns `name.0`, `name.1` and so on."""
    name = target.label or target.name.removesuffix(":0")
    if name in names:
        return [name]
    numbered: list[str] = []
    while f"{name}.{len(numbered)}" in names:
        numbered.append(f"{name}.{len(numbered)}")
    return numbered


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


__all__ = ["TableFeed", "TableInput", "table_feed"]
