"""`flowengine checkpoint`: what is in TensorFlow's checkpoint files, how two differ, and out of them."""

from __future__ import annotations

import glob
import os
from dataclasses import asdict
from typing import Any, Final

import click

from flowengine.cli import results
from flowengine.cli.checkpoint.diff import compare, readable_difference
from flowengine.cli.checkpoint.export import KINDS, OBJECT_GRAPH, export
from flowengine.cli.checkpoint.reading import (
    CheckpointTensorFacts,
    chosen,
    complete,
    facts_of,
    locate,
    opened,
    readable,
    readable_bytes,
    text_of,
)
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.cli.results import as_json, dumps
from flowengine.cli.sandbox.running import boxable
from flowengine.cli.shell.commands import SuggestingGroup
from flowengine.cli.shell.names import complete_checkpoint, complete_variable

HELP: Final = """\
Read checkpoints of format V1 and V2.

CHECKPOINT is a prefix such as run/model.ckpt-100, one of the checkpoint's files, a directory (for the latest
checkpoint that its file 'checkpoint' names) or a SavedModel directory.

\b
Exit codes: 0 done (diff: no difference), 1 failed (diff: the checkpoints differ), 2 wrong usage, such as a
name that the checkpoint lacks, 3 the checkpoint cannot be read.
"""

_JSON: Final = click.option("--json", "as_document", is_flag=True, help="Print one JSON document.")
_DEBUG: Final = click.option("--debug", is_flag=True, help="Show a traceback with an error.")
_ONLY: Final = click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="NAME",
    help="Only tensors that match this name; * and ? are wildcards.",
    shell_complete=complete_variable,
)


@click.group("checkpoint", cls=SuggestingGroup, help=HELP, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("ls", short_help="List tensors, or the checkpoints in a directory.")
@boxable
@click.argument("path", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@_JSON
@_DEBUG
def ls(path: str, as_document: bool, debug: bool) -> None:
    """List the tensors of a checkpoint, or the checkpoints in a directory."""
    listing = _checkpoints_in(path) if os.path.isdir(path) else []
    if listing:
        if as_document:
            click.echo(dumps({"checkpoints": listing}), nl=False)
            return
        for each in listing:
            mark = "  latest" if each["latest"] else ""
            size = readable_bytes(each["bytes"])
            click.echo(f"{printable(each['prefix'])}  {each['tensors']} tensors, {size}{mark}")
        return
    prefix = locate(path)
    with opened(prefix) as reader:
        facts = [facts_of(reader, name) for name in reader.names()]
    if as_document:
        click.echo(dumps({"prefix": prefix, "tensors": [asdict(each) for each in facts]}), nl=False)
        return
    for each_fact in facts:
        click.echo(_line(each_fact))
    total = sum(each.bytes or 0 for each in facts)
    strings = sum(each.bytes is None for each in facts)
    more = f" and {strings} of strings" if strings else ""
    click.echo(f"{printable(prefix)}: {len(facts)} tensors, {readable_bytes(total)}{more}", err=True)


def _checkpoints_in(folder: str) -> list[dict[str, Any]]:
    """List the checkpoints in a folder, the oldest first; an empty list for a SavedModel or without any."""
    from flowengine.checkpoint.files import data_files, index_path
    from flowengine.checkpoint.state import latest_checkpoint

    with readable(folder):
        latest = latest_checkpoint(folder)
    prefixes = complete(folder)
    if latest is not None:
        # The file `checkpoint` may have absolute paths where the argument is a relative one.
        places = {os.path.abspath(prefix): prefix for prefix in prefixes}
        latest = places.get(os.path.abspath(latest), latest)
        prefixes += [] if latest in prefixes else [latest]
    found = []
    for prefix in prefixes:
        with opened(prefix) as reader:
            paths = (index_path(prefix), prefix, *data_files(prefix), *glob.glob(prefix))
            files = [path for path in dict.fromkeys(paths) if os.path.isfile(path)]
            found.append(
                {
                    "prefix": prefix,
                    "tensors": len(reader.names()),
                    "bytes": sum(os.path.getsize(path) for path in files),
                    "saved_at": max(os.path.getmtime(path) for path in files),
                    "latest": prefix == latest,
                }
            )
    return sorted(found, key=lambda each: (each["latest"], each["saved_at"]))


def _line(facts: CheckpointTensorFacts) -> str:
    slices = f"  in {facts.slices} slices" if facts.slices > 1 else ""
    size = "" if facts.bytes is None else f"  {readable_bytes(facts.bytes)}"
    return f"{printable(facts.name)}  {facts.dtype} {facts.shape}{size}{slices}"


@command.command("show", short_help="Print values, or verify the checksums.")
@boxable
@click.argument("path", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@click.argument("patterns", metavar="[NAME]...", nargs=-1, shell_complete=complete_variable)
@click.option("--stats", is_flag=True, help="Print figures and a histogram instead of the values.")
@_JSON
@_DEBUG
def show(path: str, patterns: tuple[str, ...], stats: bool, as_document: bool, debug: bool) -> None:
    """Print values; NAME may contain * and ?. Without NAME, read everything and verify the checksums."""
    from flowengine.cli.looking.stats import readable as readable_stats
    from flowengine.cli.looking.stats import statistics

    patterns = patterns or (("*",) if stats else ())
    prefix = locate(path)
    document: dict[str, Any] = {}
    with opened(prefix) as reader:
        for name in chosen(reader, patterns):
            facts, value = facts_of(reader, name), reader.read(name)
            if not patterns:
                document[facts.name] = facts
            elif as_document:
                document[facts.name] = statistics(value) if stats else as_json(value)
            else:
                click.echo((readable_stats if stats else results.readable)(facts.name, value))
    if as_document:
        tensors = document if patterns else {name: asdict(facts) for name, facts in document.items()}
        click.echo(dumps({"prefix": prefix, "sound": True, "tensors": tensors}), nl=False)
    elif not patterns:
        total = readable_bytes(sum(each.bytes or 0 for each in document.values()))
        click.echo(f"{printable(prefix)}: {len(document)} tensors, {total}, every checksum matches")


@command.command("diff", short_help="List the differences between two checkpoints.")
@boxable
@click.argument("one", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@click.argument("other", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@_ONLY
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="T",
    help="Treat numbers that differ by at most T as equal.",
)
@_JSON
@_DEBUG
@click.pass_context
def diff(
    ctx: click.Context,
    one: str,
    other: str,
    patterns: tuple[str, ...],
    tolerance: float,
    as_document: bool,
    debug: bool,
) -> None:
    """List the tensors that only one of two checkpoints has, and those that differ in at least a bit."""
    first, second = locate(one), locate(other)
    with opened(first) as left, opened(second) as right:
        difference = compare(left, right, patterns, tolerance)
    if as_document:
        click.echo(dumps({"one": first, "other": second, **asdict(difference)}), nl=False)
    else:
        for line in readable_difference(difference, first, second):
            click.echo(printable(line))
    if difference.found:
        ctx.exit(STEP_ERROR)


@command.command("export", short_help="Write tensors to .npz or .safetensors.")
@boxable
@click.argument("path", metavar="CHECKPOINT", shell_complete=complete_checkpoint)
@click.argument("target", metavar="FILE")
@_ONLY
@_DEBUG
def export_command(path: str, target: str, patterns: tuple[str, ...], debug: bool) -> None:
    """Write the tensors to FILE.npz or FILE.safetensors.

    A .npz file stores bfloat16 as float32, which is exact. A .safetensors file cannot store strings. The
    object graph that TensorFlow 2 saves is not a tensor: it is left out unless --only names it.
    """
    kind = os.path.splitext(target)[1].lower()
    if kind not in KINDS:
        raise CommandError(f"{target}: the name must end in {' or '.join(KINDS)}", USAGE)
    prefix = locate(path)
    with opened(prefix) as reader:
        names = chosen(reader, patterns)
        left_out = [name for name in names if name == OBJECT_GRAPH and not patterns]
        names = [name for name in names if name not in left_out]
        export(reader, names, target)
    told = f"kept {len(names)} tensor{'s' if len(names) != 1 else ''} in {printable(target)}"
    if left_out:
        told += f", left out {', '.join(printable(text_of(name)) for name in left_out)}"
    click.echo(told, err=True)
