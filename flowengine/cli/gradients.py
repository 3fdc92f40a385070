"""`flowengine gradients`: a graph with the nodes that compute derivatives, written to a file."""

from __future__ import annotations

from typing import Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.graphs import find_port, load_graph
from flowengine.cli.imports import import_option
from flowengine.cli.results import check_new_file
from flowengine.cli.shell.names import complete_node

HELP: Final = """\
Write GRAPH with additional nodes that compute derivatives of tensors.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
The command prints the name of the gradient for each --by. It differentiates conditionals, loops and
functions.
"""


@click.command("gradients", help=HELP)
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@click.option(
    "--of",
    "ys",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Differentiate this tensor.",
    shell_complete=complete_node,
)
@click.option(
    "--by",
    "xs",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Differentiate with respect to this tensor.",
    shell_complete=complete_node,
)
@click.option(
    "-o", "--output", required=True, type=click.Path(), metavar="FILE", help="Write the graph to this file."
)
@click.option("--force", is_flag=True, help="Overwrite the file of --output if it exists.")
@import_option
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(
    graph: str, ys: tuple[str, ...], xs: tuple[str, ...], output: str, force: bool, debug: bool
) -> None:
    from flowengine.core.errors import InvalidArgumentError
    from flowengine.gradients.differentiate import gradients
    from flowengine.graphs.tensor import Tensor

    check_new_file(output, force=force)
    loaded = load_graph(graph).graph
    targets = [Tensor(loaded, *find_port(loaded, each, USAGE, "--of")) for each in ys]
    sources = [Tensor(loaded, *find_port(loaded, each, USAGE, "--by")) for each in xs]
    try:
        found = gradients(targets, sources)
    except InvalidArgumentError as error:
        raise CommandError(str(error), USAGE) from error
    with open(output, "wb") as file:
        file.write(loaded.to_graph_def().SerializeToString())
    for x, each in zip(sources, found, strict=True):
        if each is None:
            click.echo(f"{x.name}: no gradient, nothing leads from it to {', '.join(ys)}")
        elif isinstance(each, Tensor):
            click.echo(f"{x.name}: {each.name}")
        else:
            click.echo(f"{x.name}: rows {each.values.name} at {each.indices.name}")
