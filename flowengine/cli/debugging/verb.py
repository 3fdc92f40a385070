"""`flowengine debug`: run one step of a graph, and stop before the nodes that a person names."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from flowengine.cli.debugging.commands import HELP as COMMANDS
from flowengine.cli.debugging.commands import Dialogue
from flowengine.cli.failure import USAGE, CommandError, printable
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import load_graph, tag_option
from flowengine.cli.imports import import_option
from flowengine.cli.models.restoring import remedied
from flowengine.cli.models.signatures import called_signature
from flowengine.cli.results import readable
from flowengine.cli.running.options import image_options
from flowengine.cli.running.request import StepRequest, check_standard_input
from flowengine.cli.running.steps import run_interruptible, set_up
from flowengine.cli.shell.names import (
    complete_checkpoint,
    complete_feed,
    complete_fetch,
    complete_function,
    complete_node,
    complete_signature,
)
from flowengine.cli.tables.naming import table_in
from flowengine.core.errors import FailedPreconditionError

if TYPE_CHECKING:
    from flowengine.cli.running.job import Invocation

HELP: Final = f"""\
Run one step of GRAPH node by node, and look at values.

The step stops before its first node. Commands come from standard input, one a line; each may be shortened:

\b
{COMMANDS}

The step runs uncompiled, so that it stops in loops and in the bodies of functions, too. Options are those of
`flowengine run`.
"""
PROMPT: Final = "(debug) "


@click.command("debug", help=HELP)
@click.argument("graph", type=click.Path())
@click.option(
    "-x",
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=SOURCE",
    help="Feed a tensor, as `run` does.",
    shell_complete=complete_feed,
)
@click.option(
    "-y",
    "--fetch",
    "fetches",
    multiple=True,
    metavar="NAME",
    help="Run what this tensor needs.",
    shell_complete=complete_fetch,
)
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="NODE",
    help="Run a node.",
    shell_complete=complete_node,
)
@click.option(
    "--init",
    "inits",
    multiple=True,
    metavar="NODE",
    help="Run a node once, before the step.",
    shell_complete=complete_node,
)
@click.option(
    "--restore", metavar="CHECKPOINT", help="Restore variables.", shell_complete=complete_checkpoint
)
@click.option(
    "--signature", metavar="NAME", help="Run a call of this signature.", shell_complete=complete_signature
)
@click.option(
    "--function",
    metavar="NAME",
    help="Run a call of a function that TensorFlow 2 saved.",
    shell_complete=complete_function,
)
@tag_option
@click.option(
    "--break",
    "breaks",
    multiple=True,
    metavar="NAME",
    help="Stop before this node; may be a pattern.",
    shell_complete=complete_node,
)
@image_options
@import_option
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(
    ctx: click.Context,
    graph: str,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    inits: tuple[str, ...],
    restore: str | None,
    signature: str | None,
    function: str | None,
    tags: tuple[str, ...],
    breaks: tuple[str, ...],
    image_size: tuple[int, int] | None,
    image_scale: float | None,
    image_offset: float | None,
    debug: bool,
) -> None:
    check_standard_input(graph, feeds)
    if graph == "-" or any(feed.endswith("=-") for feed in feeds):
        raise CommandError("standard input has the commands: name files", USAGE)
    if table_in(feeds):
        raise CommandError("a table has many rows, and one step is run: feed one of them", USAGE)
    source = load_graph(graph, tags)
    call = called_signature(
        source, signature, is_wanted=True, asks_by_name=bool(fetches or targets), function=function
    )
    request = StepRequest(source, graph, call, feeds, fetches, targets, inits)
    request.read_feeds(ImageOptions(image_size, image_scale, image_offset))
    request.propose()
    request.find()
    restoration = request.restoration(restore, may_look=True)
    request.initialize_by_meta_graph(restoration)
    job = request.job(steps=1, every=0, repeat=0, timeout_seconds=None, restoration=restoration)
    try:
        run_interruptible(partial(_converse, job, [*breaks]), ctx.obj["interrupt"])
    except FailedPreconditionError as error:
        raise remedied(error, source, graph, restoration=job.restoration, trains=False) from error


async def _converse(job: Invocation, breaks: list[str]) -> None:
    import trio

    from flowengine.core.run_options import RunOptions
    from flowengine.session import Session
    from flowengine.tools.debugging.stepper import Stepper

    async with Session(job.graph, config=job.config) as session:
        await set_up(session, job, RunOptions())
        async with Stepper(session, job.fetches, job.feeds, targets=job.targets) as stepper:
            dialogue = Dialogue(stepper, _say, breaks)
            for name in breaks:
                stepper.check(name)
            dialogue.show()
            goes_on = not stepper.has_ended
            while goes_on:
                line = await trio.to_thread.run_sync(_next_line, abandon_on_cancel=True)
                if line is None:
                    break
                goes_on = await dialogue.obey(line)
            if not stepper.has_ended:
                _say("left before the end of the step")
                return
            values = await stepper.finish()
            for name, value in zip(job.names or job.fetches, values, strict=True):
                _say(readable(name, value))


def _next_line() -> str | None:
    """Return the next command; None at the end of standard input."""
    if sys.stdin.isatty():
        try:
            return input(PROMPT)
        except EOFError:
            return None
    line = sys.stdin.readline()
    if line:
        _say(PROMPT + printable(line.rstrip("\n")))
    return line.rstrip("\n") if line else None


def _say(text: str) -> None:
    print(text, flush=True)


__all__ = ["command"]
