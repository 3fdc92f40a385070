"""`flowengine plan`: what a step of a graph would run, after the passes, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.graphs import check_node, find_port, load_graph
from flowengine.cli.imports import import_option
from flowengine.cli.overview import likely_outputs, placeholders
from flowengine.cli.placement import config_of, placement_options
from flowengine.cli.sandbox.running import boxable

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.graphs.graph import Graph

HELP: Final = """\
Show what a step of GRAPH would run: the nodes left after the passes, and what the passes did.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
Nothing runs, so --feed only names a tensor. Without --feed every placeholder is fed; without --fetch and
--target the likely outputs are fetched.
"""


@click.command("plan", help=HELP)
@boxable
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@click.option("-x", "--feed", "feeds", multiple=True, metavar="NAME", help="A tensor that the step is fed.")
@click.option("-y", "--fetch", "fetches", multiple=True, metavar="NAME", help="A tensor that the step gives.")
@click.option("-t", "--target", "targets", multiple=True, metavar="NODE", help="A node that the step runs.")
@click.option("--source", is_flag=True, help="Print the Python that a hot plan is turned into.")
@click.option("--dot", is_flag=True, help="Print a drawing for Graphviz.")
@click.option("--placement", is_flag=True, help="Print the device of each node and why it is there.")
@import_option
@placement_options
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(
    graph: str,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    source: bool,
    dot: bool,
    placement: bool,
    device_counts: tuple[str, ...],
    places: tuple[str, ...],
    soft: bool | None,
    debug: bool,
) -> None:
    if source + dot + placement > 1:
        raise CommandError("--source, --dot and --placement are three ways to print; choose one", USAGE)
    config = config_of(device_counts, places, soft)
    loaded = load_graph(graph).graph
    for each in targets:
        check_node(loaded, each, USAGE, "--target")
    fed = [str(find_port(loaded, each.partition("=")[0], USAGE, "--feed", is_fed=True)) for each in feeds]
    fetched = [str(find_port(loaded, each, USAGE, "--fetch")) for each in fetches]
    if not (fetched or targets):
        fetched = [each.name for each in likely_outputs(loaded)]
        if not fetched:
            raise CommandError("the graph has no likely output: name one with --fetch or --target", USAGE)
    fed = fed or [each.name for each in placeholders(loaded) if each.name not in fetched]
    click.echo(explained(loaded, fed, fetched, targets, config, source=source, dot=dot, placement=placement))


def explained(
    graph: Graph,
    feeds: list[str],
    fetches: list[str],
    targets: tuple[str, ...],
    config: Config | None,
    *,
    source: bool,
    dot: bool,
    placement: bool,
) -> str:
    """`Session.explain` of one step."""
    import trio

    from flowengine.session import Session

    async def explain() -> str:
        async with Session(graph, config=config) as session:
            return session.explain(
                fetches, feeds, targets=targets, source=source, dot=dot, placement=placement
            )

    return trio.run(explain)
