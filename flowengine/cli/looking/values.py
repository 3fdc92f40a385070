"""`flowengine inspect --stats`: values of variables and constants, as figures and histograms.

The variables have the values of a SavedModel's checkpoint, or of the checkpoint beside the graph's file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from flowengine.cli import overview
from flowengine.cli.failure import printable
from flowengine.cli.function_bodies import called
from flowengine.cli.graphs import value_at
from flowengine.cli.looking.stats import readable
from flowengine.cli.models.restoring import restoration_of
from flowengine.core.errors import FailedPreconditionError
from flowengine.ir.graph import OutputPort
from flowengine.session import Session

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource
    from flowengine.cli.models.restoring import Restoration
    from flowengine.core.arrays import Value
    from flowengine.ir.attrs import TensorAttr

VARIABLES: Final = "variables"
CONSTANTS: Final = "constants of more than 8 floats"


def values_of(source: GraphSource, path: str, shown: int | None = None) -> dict[str, dict[str, Value | None]]:
    """Read the values of the first variables and constants; None for a variable without a value.

    shown   how many of either; None for all

    Raises CommandError (an unreadable graph) where the checkpoint cannot be read.
    """
    nodes = dict(list(_variables(source).items())[:shown])
    restoration = restoration_of(source, path, None, may_look=True)
    variables = (
        dict.fromkeys(nodes) if restoration is None else trio.run(_restored, source, restoration, nodes)
    )
    constants = {name: held.value() for name, held in list(_constants(source).items())[:shown]}
    return {VARIABLES: variables, CONSTANTS: constants}


def shown_values(source: GraphSource, path: str, shown: int | None = None) -> str:
    """Show figures and a histogram of so many variables and constants; None for all."""
    counts = {VARIABLES: len(_variables(source)), CONSTANTS: len(_constants(source))}
    lines = []
    for title, values in values_of(source, path, shown).items():
        lines.append(f"{title}: {counts[title] or 'none'}")
        for name, value in values.items():
            text = (
                readable(name, value)
                if value is not None
                else f"{printable(name)}: no checkpoint has a value"
            )
            lines.append(textwrap.indent(text, "  "))
        if counts[title] > len(values):
            lines.append(f"  and {counts[title] - len(values)} more: --all")
    return "\n".join(lines) + "\n"


def _variables(source: GraphSource) -> dict[str, str]:
    """{name of a variable: its node}, of a SavedModel by the objects that were saved."""
    if source.saved is not None and source.saved.objects is not None:
        return {each.name: each.node for each in source.saved.variables.values()}
    return {each.name: each.name for each in overview.variables(source.graph)}


def _constants(source: GraphSource) -> dict[str, TensorAttr]:
    """{name of a constant: its value}, also of those in bodies of functions."""
    found = dict(overview.large_constants(source.graph))
    for function in called(source.graph):
        if function.body is not None:
            inside = overview.large_constants(function.body)
            found |= {f"{function.name}/{name}": value for name, value in inside}
    return found


async def _restored(
    source: GraphSource, restoration: Restoration, nodes: Mapping[str, str]
) -> dict[str, Value | None]:
    tensors = {name: value_at(source.graph, OutputPort(node, 0)) for name, node in nodes.items()}
    async with Session(source.graph) as session:

        async def leave(names: Iterable[str]) -> None:
            """Initialize nothing: a value that no checkpoint holds is not the graph's."""

        await restoration.restore(session, leave)
        values: dict[str, Value | None] = {}
        for name, tensor in tensors.items():
            try:
                values[name] = await session.run(tensor)
            except FailedPreconditionError:
                values[name] = None
    return values


__all__ = ["CONSTANTS", "VARIABLES", "shown_values", "values_of"]
