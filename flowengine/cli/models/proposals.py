"""A graph of which nothing is asked: what it takes and gives, and the command to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import USAGE, CommandError, printable
from flowengine.cli.models.likely import likely_predictions, proposed
from flowengine.cli.models.signatures import functions_in, quoted, signature_lines
from flowengine.cli.overview import defaults, placeholders

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource
    from flowengine.graphs.graph import Graph

_SHOWN: Final = 12


def how_to_go_on(source: GraphSource, path: str) -> str:
    """Describe a graph's inputs and outputs, by signature or likely name, and a command that uses them."""
    graph = source.graph
    if source.saved is not None and source.signatures:
        lines = [f"{printable(path)}: {len(graph)} nodes", *signature_lines(source.signatures, path, _SHOWN)]
        return "\n".join(lines) + "\n"
    if functions := functions_in(source):
        lines = [f"{printable(path)}: {len(graph)} nodes, no signatures", "functions:"]
        lines += [
            f"  {printable(name)} {' or '.join(map(str, each.concrete))}" for name, each in functions.items()
        ][:_SHOWN]
        name, first = next(iter(functions.items()))
        feeds = [f"--feed {quoted(f'{each}=SOURCE')}" for each in first.signature().inputs]
        return (
            "\n".join(
                [
                    *lines,
                    "to go on:",
                    " ".join(["  flowengine run", quoted(path), "--function", quoted(name), *feeds]),
                ]
            )
            + "\n"
        )
    wanted = placeholders(graph, source.hidden)
    given = proposed(graph, source.hidden)
    lines = [f"{printable(path)}: {len(graph)} nodes"]
    for title, facts in (("placeholders", wanted), ("likely outputs", given)):
        lines.append(f"{title}:" if facts else f"{title}: none")
        lines += [f"  {printable(each.name)}  {each.dtype} {each.shape}" for each in facts[:_SHOWN]]
        if title == "placeholders":
            lines += [f"  {printable(line)}" for line in defaults(graph)[:_SHOWN]]
        if len(facts) > _SHOWN:
            lines.append(f"  and {len(facts) - _SHOWN} more: flowengine inspect {printable(path)}")
    parts = [f"flowengine run {quoted(path)}"]
    parts += [f"--feed {quoted(f'{each.node}=SOURCE')}" for each in wanted[:3]]
    parts += [f"--fetch {quoted(each.node)}" for each in given[:1]]
    if given:
        lines += ["to go on:", "  " + " ".join(parts)]
        for prediction, needed in likely_predictions(graph)[:1]:
            parts = [parts[0], *(f"--feed {quoted(f'{name}=SOURCE')}" for name in needed[:3])]
            lines.append(f"  {' '.join(parts)} --fetch {quoted(prediction.node)}")
    return "\n".join(lines) + "\n"


def refuse_to_run_nothing(
    graph: Graph, feeds: Sequence[str], inits: Sequence[str], output: str | None
) -> None:
    """CommandError where options ask for steps, but none says what a step is for."""
    given = [f"--feed {each}" for each in feeds] + [f"--init {each}" for each in inits]
    given += [] if output is None else [f"--output {output}"]
    if given:
        likely = ", ".join(f"--fetch {each.node}" for each in proposed(graph)[:3])
        hint = f", such as {likely}" if likely else ""
        raise CommandError(f"{given[0]}: no output is named: add --fetch NAME or --target NODE{hint}", USAGE)
