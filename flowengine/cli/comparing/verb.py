"""`flowengine compare A B`: run or read both sides, and find the first tensor in which they differ."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import click

from flowengine.cli.comparing.losses import (
    check_trains,
    compare_losses,
    learning_rates,
    loss_lines,
    losses_document,
)
from flowengine.cli.comparing.report import comparison_document, comparison_lines, printable_line
from flowengine.cli.comparing.sides import ComparedSide, SideOptions, freeze, prepare, read_side, tensor_name
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import find_port, tag_option
from flowengine.cli.imports import import_option
from flowengine.cli.placement import config_of, placement_options
from flowengine.cli.results import dumps
from flowengine.cli.running.options import image_options
from flowengine.cli.running.request import check_standard_input
from flowengine.cli.running.steps import run_interruptible
from flowengine.cli.shell.names import complete_checkpoint
from flowengine.cli.tasks.clusterfile import target_at
from flowengine.core.errors import InvalidArgumentError

HELP: Final = """\
Find the first tensor in which a step of A and a step of B differ.

Each side is a graph, as for `flowengine run`, or a .npz file: a record of `flowengine run --record`, or whole
values under the names of tensors. Both sides run every node by itself, with the same feeds. A record gives
the other side the values that it was fed.

Floats differ if the error is more than --tolerance, relative to the element and to the tensor's typical one:
1e-3, or 3e-2 for types with 11 bits of precision and fewer. Constants, variables and feeds must agree a
thousand times closer. Whole numbers, truth values and strings must be equal.

With --steps N, the command compares the losses (--fetch) of N steps of training (--target): first with a
learning rate of zero, then with the real one.

\b
Exit codes: 0 equal, 1 different or a step failed, 2 wrong usage, 3 a side cannot be read, 4 an op or kernel
is missing, 5 a feed is missing or does not fit, 6 a step took longer than --timeout, 130 interrupted.
"""


@click.command("compare", help=HELP)
@click.argument("one", type=click.Path(), metavar="A")
@click.argument("other", type=click.Path(), metavar="[B]", required=False)
@click.option(
    "-x",
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=SOURCE",
    help="Feed a tensor on both sides, as `run` does.",
)
@click.option(
    "-y", "--fetch", "fetches", multiple=True, metavar="NAME", help="Compare what this tensor needs."
)
@click.option("-t", "--target", "targets", multiple=True, metavar="NODE", help="Run a node.")
@click.option("--init", "inits", multiple=True, metavar="NODE", help="Run a node once, before the step.")
@click.option(
    "--restore",
    "checkpoints",
    multiple=True,
    metavar="CHECKPOINT",
    help="Restore both sides from a checkpoint; twice: A from the first, B from the second.",
    shell_complete=complete_checkpoint,
)
@click.option("--signature", metavar="NAME", help="Compare calls of this signature.")
@click.option("--function", metavar="NAME", help="Compare calls of a function that TensorFlow 2 saved.")
@tag_option
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="OLD=NEW",
    help="The name of a scope or node of A, and the same in B; =NEW for everything.",
)
@click.option(
    "--freeze",
    "frozen",
    multiple=True,
    metavar="NAME",
    help="Feed B the value that this tensor has in A, so that the piece behind it is compared.",
)
@click.option(
    "--tolerance", type=click.FloatRange(min=0), metavar="R", help="The relative error that passes."
)
@click.option("-n", "--steps", type=click.IntRange(min=1), metavar="N", help="Compare the losses of N steps.")
@click.option(
    "--learning-rate",
    "rates",
    multiple=True,
    metavar="NAME",
    help="The tensor with the learning rate, if the ops of the optimizer do not show it.",
)
@click.option(
    "--at", metavar="PLACE", help="Run B at a task of a cluster, as for `run`; without B, A is both sides."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Time limit for a step, in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@image_options
@placement_options
@import_option
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(
    ctx: click.Context,
    one: str,
    other: str | None,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    inits: tuple[str, ...],
    checkpoints: tuple[str, ...],
    signature: str | None,
    function: str | None,
    tags: tuple[str, ...],
    maps: tuple[str, ...],
    frozen: tuple[str, ...],
    tolerance: float | None,
    steps: int | None,
    rates: tuple[str, ...],
    at: str | None,
    timeout: float | None,
    as_json: bool,
    image_size: tuple[int, int] | None,
    image_scale: float | None,
    image_offset: float | None,
    device_counts: tuple[str, ...],
    places: tuple[str, ...],
    soft: bool | None,
    debug: bool,
) -> None:
    from flowengine.tools.compare import NameMap, compare_records

    if other is None and not at:
        raise CommandError("name two sides: A B; or add --at PLACE to compare A here with A there", USAGE)
    if len(checkpoints) > 2:
        raise CommandError("--restore: give one checkpoint for both sides, or two", USAGE)
    check_standard_input(one, feeds)
    try:
        names = NameMap.parse(maps)
    except InvalidArgumentError as error:
        raise CommandError(f"--map {error.message}", USAGE) from error
    options = SideOptions(
        *(feeds, fetches, targets, inits, signature, function, tags, timeout),
        images=ImageOptions(image_size, image_scale, image_offset),
        config=config_of(device_counts, places, soft),
    )
    left = read_side(one, options, checkpoint=checkpoints[0] if checkpoints else None, at="")
    right = read_side(
        one if other is None else other,
        options,
        checkpoint=checkpoints[-1] if checkpoints else None,
        at=target_at(at or ""),
    )
    given = {"--feed": feeds, "--fetch": fetches, "--target": targets, "--init": inits, "--freeze": frozen}
    given |= {"--place": places, "--device-count": device_counts}
    if left.record is not None and right.record is not None and any(given.values()):
        unused = ", ".join(name for name, values in given.items() if values)
        raise CommandError(f"{unused}: both sides are records, which do not run", USAGE)
    if frozen and (steps is not None or right.record is not None):
        reason = "--steps trains whole models" if steps is not None else f"{right.path} is a record"
        raise CommandError(f"--freeze feeds tensors of B in one step: {reason}", USAGE)
    if steps is not None:
        for side in (left, right):
            check_trains(side)
    elif rates:
        raise CommandError("--learning-rate needs --steps N", USAGE)
    prepare(left, right, names, options.images)
    if steps is not None:
        _compare_trainings(ctx, left, right, steps, [[*rates], [*map(names, rates)]], tolerance, as_json)
        return
    keep = [tensor_name(each) for each in frozen]
    _run(ctx, left, keep)
    if keep:
        freeze(left, right, keep, names)
    _run(ctx, right, ())
    assert left.record is not None
    assert right.record is not None
    try:
        found = compare_records(left.record, right.record, tolerance=tolerance, names=names)
    except InvalidArgumentError as error:
        raise CommandError(f"{error.message}: --map OLD=NEW", USAGE) from error
    if as_json:
        click.echo(dumps(comparison_document(found)), nl=False)
    else:
        dropped = left.record.dropped + right.record.dropped
        for line in comparison_lines(found, (left.path, right.path), dropped):
            click.echo(printable_line(line))
    if found.differences:
        ctx.exit(STEP_ERROR)


def _run(ctx: click.Context, side: ComparedSide, keep: Any) -> None:
    """Run a side, if it is no record."""
    if side.request is not None:
        run_interruptible(partial(side.run, keep), ctx.obj["interrupt"])


def _compare_trainings(
    ctx: click.Context,
    one: ComparedSide,
    other: ComparedSide,
    steps: int,
    named: list[list[str]],
    tolerance: float | None,
    as_json: bool,
) -> None:
    rates = []
    for side, given in zip((one, other), named, strict=True):
        graph = side.step.source.graph
        found = [str(find_port(graph, each, USAGE, "--learning-rate", is_fed=True)) for each in given]
        found = found or learning_rates(graph, side.step.targets)
        if not found:
            raise CommandError(
                f"--steps: no op of an optimizer in {side.path} shows its learning rate: add --learning-rate "
                "NAME",
                USAGE,
            )
        rates.append(found)
    losses = []

    async def compare() -> None:
        losses.extend(await compare_losses(one, other, steps, rates))

    run_interruptible(compare, ctx.obj["interrupt"])
    lines, differ = loss_lines(losses, tolerance)
    if as_json:
        click.echo(dumps(losses_document(losses)), nl=False)
    else:
        for line in lines:
            click.echo(printable_line(line))
    if differ:
        ctx.exit(STEP_ERROR)
