"""`flowengine bench`: how fast a graph runs here, by batch size and by how many steps run at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from flowengine.cli.bench.points import BenchPoint, BenchTimes, batched, random_value, synthetic_feeds
from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import GraphSource, check_node, find_port, load_graph, value_at
from flowengine.cli.imports import import_option
from flowengine.cli.models.feeds import read_feeds
from flowengine.cli.models.likely import proposed
from flowengine.cli.models.restoring import restoration_of
from flowengine.cli.models.signatures import CalledSignature, called_signature
from flowengine.cli.models.starting import starting
from flowengine.cli.placement import config_of, placement_options
from flowengine.cli.results import dumps
from flowengine.cli.running.steps import percentiles
from flowengine.cli.running.training import facts_of
from flowengine.cli.shell.names import (
    complete_checkpoint,
    complete_feed,
    complete_fetch,
    complete_node,
    complete_signature,
)

HELP: Final = """\
Measure how long steps of GRAPH take, and how many run in a second.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
--batch and --concurrency take lists, such as 1,8,32. The command measures each batch size with each number of
concurrent tasks, after a warm-up. Without --fetch, it calls the signature of a SavedModel, and fetches the
first likely output of any other graph.

Placeholders that no --feed names get random values of their type and shape: floats between 0 and 1, and
integers 0 or 1; an unknown dimension becomes 1. With --batch, rows are repeated, or left out, in every feed
whose first dimension is free.

--tensorflow measures the same steps in TensorFlow, in a process of that Python, and prints the largest
difference between the values of both. --onnxruntime does so with ONNX Runtime, for which --onnx names the
converted graph.
"""

#: Seconds that each point is timed, unless the user says otherwise.
_SECONDS: Final = 1.0


def _sizes(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    parts = value.split(",") if value else []
    if not all(part.strip().isdigit() and int(part) for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of numbers from 1, such as 1,8,32")
    return list(dict.fromkeys(int(part) for part in parts))


@click.command("bench", help=HELP)
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@click.option(
    "-x",
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=SOURCE",
    help="Feed a tensor, as in run.",
    shell_complete=complete_feed,
)
@click.option(
    "-y",
    "--fetch",
    "fetches",
    multiple=True,
    metavar="NAME",
    help="Fetch a tensor in each step.",
    shell_complete=complete_fetch,
)
@click.option("--batch", callback=_sizes, default="", metavar="N,...", help="Batch sizes to measure.")
@click.option(
    "--concurrency",
    callback=_sizes,
    default="1",
    metavar="N,...",
    help="Numbers of tasks that run steps at a time.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
    metavar="S",
    help="Time each point for S seconds.",
)
@click.option(
    "--tensorflow",
    metavar="PYTHON",
    help="Also measure TensorFlow in a process of this Python, such as tf/bin/python.",
)
@click.option(
    "--onnxruntime",
    metavar="PYTHON",
    help="Also measure ONNX Runtime in a process of this Python.",
)
@click.option(
    "--onnx", type=click.Path(exists=True), metavar="FILE", help="The graph as ONNX, for --onnxruntime."
)
@click.option(
    "--signature",
    metavar="NAME",
    help="Call this signature of an exported graph.",
    shell_complete=complete_signature,
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Select a graph of a SavedModel by its tags."
)
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
@import_option
@placement_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(
    ctx: click.Context,
    graph: str,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    batch: list[int],
    concurrency: list[int],
    seconds: float,
    tensorflow: str | None,
    onnxruntime: str | None,
    onnx: str | None,
    signature: str | None,
    tags: tuple[str, ...],
    restore: str | None,
    inits: tuple[str, ...],
    device_counts: tuple[str, ...],
    places: tuple[str, ...],
    soft: bool | None,
    as_json: bool,
    debug: bool,
) -> None:
    from flowengine.cli.bench.beside import largest_difference, measure_onnxruntime, measure_tensorflow
    from flowengine.cli.bench.measuring import BenchJob, measure
    from flowengine.cli.doctor import version

    if (onnxruntime is None) != (onnx is None):
        raise CommandError("--onnxruntime PYTHON and --onnx FILE belong together", USAGE)
    source = load_graph(graph, tags)
    loaded = source.graph
    call = called_signature(source, signature, is_wanted=True, asks_by_name=bool(fetches))
    for node in inits:
        check_node(loaded, node, USAGE, "--init")
    asked = _asked(source, fetches, call)
    shown = list(fetches or (call.outputs if call.facts else asked))
    fed = _feeds(source, feeds, asked, call)
    restoration = restoration_of(source, graph, restore, may_look=not inits)
    sizes: list[int | None] = [*batch] or [None]
    points = [BenchPoint(size, count) for size in sizes for count in concurrency or [1]]
    wanted = [each.partition(":")[0] for each in asked]
    job = BenchJob(
        graph=loaded,
        fetches=[value_at(loaded, find_port(loaded, each, USAGE, "--fetch")) for each in asked],
        inits=inits,
        starters=starting(loaded, wanted, inits, fed, facts_of(source.meta, loaded).tables),
        feeds={point.batch: batched(loaded, fed, point.batch) for point in points},
        points=points,
        seconds=seconds,
        restoration=restoration,
        config=config_of(device_counts, places, soft),
    )
    timings, values = measure(job, f"FlowEngine {version()}", ctx.obj["interrupt"])
    difference = None
    if tensorflow is not None:
        others, theirs = measure_tensorflow(tensorflow, job, source)
        timings += others
        difference = largest_difference(values, theirs)
    if onnxruntime is not None and onnx is not None:
        names = {tensor: call.label(tensor) for tensor in [*fed, *asked]}
        names |= {call.output(each): each for each in shown}
        others, theirs = measure_onnxruntime(onnxruntime, onnx, job, source, names)
        timings += others
        apart = largest_difference(values, theirs)
        difference = max((each for each in (difference, apart) if each is not None), default=None)
    if as_json:
        click.echo(dumps(_document(timings, shown, fed, difference)), nl=False)
        return
    from flowengine.cli.bench.tables import show

    show(graph, timings, shown, difference)


def _asked(source: GraphSource, fetches: Sequence[str], call: CalledSignature) -> list[str]:
    """The tensors to fetch; CommandError (usage) where there is none that is likely."""
    names = fetches or (tuple(call.outputs) if call.facts else ())
    found = [str(find_port(source.graph, call.output(each), USAGE, "--fetch")) for each in names]
    found = found or [each.name for each in proposed(source.graph, source.hidden)[:1]]
    if not found:
        raise CommandError("the graph has no likely output: name one with --fetch", USAGE)
    return found


def _feeds(
    source: GraphSource, feeds: Sequence[str], asked: Sequence[str], call: CalledSignature
) -> dict[str, Any]:
    """The feeds, with a default or a random value for each placeholder that has none."""
    fed = read_feeds(source.graph, feeds, ImageOptions(), call)
    inputs = {} if call.facts is None else call.facts.inputs
    for each in inputs.values():
        if each.default is not None and not any(tensor in fed for tensor in each.tensors):
            fed[each.tensors[0]] = each.default
    names = synthetic_feeds(source.graph, asked, fed, source.hidden)
    fed |= {name: random_value(source.graph, name) for name in names}
    if names:
        shown = [call.label(name) for name in names]
        print(f"fed with random values: {', '.join(shown)}", file=sys.stderr, flush=True)
    return fed


def _document(
    timings: Sequence[BenchTimes], fetches: Sequence[str], fed: dict[str, Any], difference: float | None
) -> dict[str, Any]:
    points = []
    for each in timings:
        rows = each.point.batch
        points.append(
            {
                "engine": each.engine,
                "batch": rows,
                "concurrency": each.point.concurrency,
                "steps": len(each.latencies_ms),
                "seconds": round(each.seconds, 6),
                "steps_per_second": round(each.steps_per_second, 3),
                "rows_per_second": None if rows is None else round(each.steps_per_second * rows, 3),
                "latency_ms": {k: round(v, 6) for k, v in percentiles(each.latencies_ms).items()},
            }
        )
    largest = str(difference) if difference == float("inf") else difference
    return {"fetches": list(fetches), "feeds": list(fed), "points": points, "largest_difference": largest}
