"""`flowengine freeze`: a graph with its variables as constants, written to a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.graphs import check_node, find_port, load_graph, tag_option, value_at
from flowengine.cli.imports import import_option
from flowengine.cli.models.restoring import Restoration, restoration_of
from flowengine.cli.models.signatures import called_signature
from flowengine.cli.results import check_new_file
from flowengine.cli.shell.names import (
    complete_checkpoint,
    complete_fetch,
    complete_function,
    complete_node,
    complete_signature,
)

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

HELP: Final = """\
Write the nodes that the outputs of GRAPH depend on, with the variables as constants. FILE runs without a
checkpoint.

GRAPH is a SavedModel directory, or a GraphDef or MetaGraphDef file whose variables come from --restore, from
a checkpoint beside it, or from --init, which runs before a restore. The outputs of a SavedModel are those of
its default signature, of --signature or of --function. For other graphs, --fetch names the outputs.
"""


@click.command("freeze", help=HELP)
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@click.option(
    "-y",
    "--fetch",
    "fetches",
    multiple=True,
    metavar="NAME",
    help="Keep this output.",
    shell_complete=complete_fetch,
)
@click.option(
    "--signature",
    metavar="NAME",
    help="Keep the outputs of this signature.",
    shell_complete=complete_signature,
)
@click.option(
    "--function",
    metavar="NAME",
    help="Keep the outputs of a function that TensorFlow 2 saved.",
    shell_complete=complete_function,
)
@tag_option
@click.option(
    "--restore",
    metavar="CHECKPOINT",
    help="Restore the variables from a checkpoint.",
    shell_complete=complete_checkpoint,
)
@click.option(
    "--init",
    "inits",
    multiple=True,
    metavar="NODE",
    help="Run a node once, before a restore.",
    shell_complete=complete_node,
)
@click.option(
    "-o", "--output", required=True, type=click.Path(), metavar="FILE", help="Write the graph to this file."
)
@click.option("--force", is_flag=True, help="Overwrite the file of --output if it exists.")
@import_option
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(
    graph: str,
    fetches: tuple[str, ...],
    signature: str | None,
    function: str | None,
    tags: tuple[str, ...],
    restore: str | None,
    inits: tuple[str, ...],
    output: str,
    force: bool,
    debug: bool,
) -> None:
    check_new_file(output, force=force)
    source = load_graph(graph, tags)
    call = called_signature(source, signature, is_wanted=True, asks_by_name=bool(fetches), function=function)
    names = [call.output(each) for each in fetches or tuple(call.outputs)]
    if not names:
        raise CommandError("name the outputs to keep: --fetch NAME", USAGE)
    ports = [value_at(source.graph, find_port(source.graph, each, USAGE, "--fetch")) for each in names]
    for node in inits:
        check_node(source.graph, node, USAGE, "--init")
    restoration = restoration_of(source, graph, restore, may_look=not inits)
    frozen = _frozen(source.graph, ports, restoration, inits)
    with open(output, "wb") as file:
        file.write(frozen)
    inputs = ", ".join(call.inputs.values())
    click.echo(f"{output}: {', '.join(ports)}{f' of {inputs}' if inputs else ''}")


def _frozen(graph: Graph, ports: list[str], restoration: Restoration | None, inits: Sequence[str]) -> bytes:
    """The frozen graph as a GraphDef, in a form that older readers know."""
    import trio

    from flowengine.ir.stripping import strip_defaults
    from flowengine.saved_model.freezing import freeze
    from flowengine.session import Session

    async def work() -> Any:
        async with Session(graph) as session:

            async def run(nodes: Iterable[str]) -> None:
                for node in nodes:
                    await session.run((), targets=[node])

            if restoration is not None:
                await restoration.restore(session, run, inits)
            else:
                await run(inits)
            return await freeze(graph, session, ports)

    graph_def = trio.run(work).to_graph_def()
    strip_defaults(graph_def, graph.registry)
    content: bytes = graph_def.SerializeToString(deterministic=True)
    return content
