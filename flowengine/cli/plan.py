"""`flowengine plan`: what a step of a graph would run, after the passes, without running it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.graphs import check_node, find_port, load_graph, tag_option, value_at
from flowengine.cli.imports import import_option
from flowengine.cli.inspect import UNKNOWN_ATTRIBUTES, unknown_attribute
from flowengine.cli.models.likely import proposed
from flowengine.cli.models.signatures import called_signature
from flowengine.cli.overview import placeholders
from flowengine.cli.placement import config_of, placement_options
from flowengine.cli.sandbox.running import boxable
from flowengine.cli.shell.names import (
    complete_feed,
    complete_fetch,
    complete_function,
    complete_node,
    complete_signature,
)
from flowengine.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.graphs.graph import Graph
    from flowengine.ir.stripping import UnknownAttr

#: Lines at both ends of a list that are printed unless all are asked for: together a screen.
_ENDS: Final = {"nodes": (24, 8)}
_OTHER_ENDS: Final = (8, 4)
#: Characters of a line: three lines of a narrow terminal.
_LINE_MAX: Final = 240

#: {contents: the lines of such a list}, in the text of an explanation.
_LISTS: Final = {
    "nodes": re.compile(r"[^ #~+]\S* (= \w|\(\w+\): )"),
    "changes": re.compile(r"[+~] "),
    "transfers": re.compile("  "),
}

HELP: Final = """\
Print the step of GRAPH that would run: the nodes that remain after the passes, and the nodes that the passes
removed and changed.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
Nothing runs, so --feed only names a tensor. Without --feed, every placeholder is fed; without --fetch and
--target, the likely outputs are fetched. For a SavedModel, the command plans a call of its default signature,
or of --signature, and accepts the names of the signature's inputs and outputs.
"""


@click.command("plan", help=HELP)
@boxable
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@click.option(
    "-x",
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME",
    help="Feed this tensor.",
    shell_complete=complete_feed,
)
@click.option(
    "-y",
    "--fetch",
    "fetches",
    multiple=True,
    metavar="NAME",
    help="Fetch this tensor.",
    shell_complete=complete_fetch,
)
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="NODE",
    help="Run this node.",
    shell_complete=complete_node,
)
@click.option(
    "--signature",
    metavar="NAME",
    help="Plan a call of this signature of an exported graph.",
    shell_complete=complete_signature,
)
@click.option(
    "--function",
    metavar="NAME",
    help="Plan a call of a function that TensorFlow 2 saved.",
    shell_complete=complete_function,
)
@tag_option
@click.option("--all", "every", is_flag=True, help="Print complete lists instead of both ends.")
@click.option("--source", is_flag=True, help="Print the Python code of a hot plan.")
@click.option("--dot", is_flag=True, help="Print the graph for Graphviz.")
@click.option("--placement", is_flag=True, help="Print the device of each node and the reason.")
@import_option
@placement_options
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(
    graph: str,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    signature: str | None,
    function: str | None,
    tags: tuple[str, ...],
    every: bool,
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
    ignored: list[UnknownAttr] = []
    given = load_graph(graph, tags, ignored=ignored)
    loaded = given.graph
    asks = bool(fetches or targets)
    call = called_signature(given, signature, is_wanted=True, asks_by_name=asks, function=function)
    for each in targets:
        check_node(loaded, each, USAGE, "--target")
    names = [call.input(each.partition("=")[0], loaded) for each in feeds]
    fed = [str(find_port(loaded, each, USAGE, "--feed", is_fed=True)) for each in names]
    wanted = fetches or (tuple(call.outputs) if call.facts else ())
    fetched = [value_at(loaded, find_port(loaded, call.output(each), USAGE, "--fetch")) for each in wanted]
    named = bool(fetched or targets)
    if not named:
        fetched = [each.name for each in proposed(loaded, given.hidden)]
        if not fetched:
            raise CommandError("the graph has no likely output: name one with --fetch or --target", USAGE)
    if call.facts is not None:
        fed = fed or list(call.inputs.values())
    fed = fed or [each.name for each in placeholders(loaded, given.hidden) if each.name not in fetched]
    if ignored:
        # Beside the plan, which may go to another program.
        listed = [f"  {unknown_attribute(**asdict(each))}" for each in ignored]
        listed = listed if every else _ends(listed, "attributes")
        click.echo("\n".join([f"{UNKNOWN_ATTRIBUTES}: {len(ignored)}", *listed]), err=True)
    explain = partial(explained, loaded, fed, config=config, source=source, dot=dot, placement=placement)
    try:
        text = explain(fetched, targets)
    except InvalidArgumentError:
        possible = [] if named else [each for each in fetched if _is_possible(partial(explain, [each], ()))]
        if not possible:
            raise
        text = explain(possible, ())
    click.echo(text if every or source or dot else "\n".join(_shortened(text.splitlines())))


def _is_possible(explain: Callable[[], str]) -> bool:
    """Return whether a step of one likely output can be planned; if not, report the reason."""
    try:
        explain()
    except InvalidArgumentError as error:
        click.echo(f"a likely output is left out, because no step computes it: {error}", err=True)
        return False
    return True


def _shortened(lines: list[str]) -> list[str]:
    """Cut each list in the text of an explanation."""
    kept: list[str] = []
    for kind, found in itertools.groupby(lines, _kind):
        run = list(found)
        kept += run if kind is None else _ends(run, kind)
    return [_clipped(line) for line in kept]


def _clipped(line: str) -> str:
    """Cut a line that would fill a screen, such as the sum of a hundred regularizers."""
    left = len(line) - _LINE_MAX
    return line if left <= 0 else f"{line[:_LINE_MAX]} ... {left} more characters: --all"


def _ends(lines: list[str], kind: str) -> list[str]:
    """Return both ends of a long list of `kind`, and between them how many lines are left out."""
    first, last = _ENDS.get(kind, _OTHER_ENDS)
    left = len(lines) - first - last
    return lines if left < 2 else [*lines[:first], f"  ... {left} more {kind}: --all", *lines[-last:]]


def _kind(line: str) -> str | None:
    """Return the contents of the list that a line belongs to, or None."""
    return next((kind for kind, pattern in _LISTS.items() if pattern.match(line)), None)


def explained(
    graph: Graph,
    feeds: list[str],
    fetches: list[str],
    targets: tuple[str, ...],
    *,
    config: Config | None,
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
