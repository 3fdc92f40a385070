"""`flowengine run`: initialize, run steps of a graph, print or keep what they fetch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from flowengine.cli import results
from flowengine.cli.failure import USAGE, CommandError, printable
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import GraphSource, load_graph
from flowengine.cli.interrupt import Interrupt
from flowengine.cli.labels import Labels, check_fits, check_shapes, read_labels
from flowengine.cli.labels import document as best_document
from flowengine.cli.labels import texts as best_texts
from flowengine.cli.models.proposals import how_to_go_on, refuse_to_run_nothing
from flowengine.cli.models.restoring import remedied
from flowengine.cli.models.signatures import called_signature
from flowengine.cli.overview import shape_of
from flowengine.cli.pictures.drawing import checked_pictures
from flowengine.cli.pictures.naming import is_detector
from flowengine.cli.placement import config_of
from flowengine.cli.running.job import Invocation, RunReport
from flowengine.cli.running.logdir import RunLog
from flowengine.cli.running.options import HELP, SECTIONS, run_options
from flowengine.cli.running.recording import step_recording
from flowengine.cli.running.request import StepRequest, check_standard_input
from flowengine.cli.running.steps import percentiles, run_job
from flowengine.cli.running.tracing import step_trace
from flowengine.cli.running.training import MetaFacts, facts_of, prepared
from flowengine.cli.shell.commands import SectionedCommand
from flowengine.cli.tables.naming import STDOUT, table_in
from flowengine.cli.tables.request import TableOptions, check_rows_output
from flowengine.cli.tasks.clusterfile import target_at
from flowengine.core.errors import FailedPreconditionError


@click.command("run", help=HELP, cls=SectionedCommand, sections=SECTIONS)
@run_options
@click.pass_context
def command(
    ctx: click.Context,
    graph: str | None,
    feeds: tuple[str, ...],
    fetches: tuple[str, ...],
    targets: tuple[str, ...],
    inits: tuple[str, ...],
    finals: tuple[str, ...],
    steps: int,
    every: int | None,
    repeat: int | None,
    output: str | None,
    batch_size: int | None,
    keep_inputs: bool,
    keep_going: bool,
    force: bool,
    timeout: float | None,
    logdir: str | None,
    signature: str | None,
    function: str | None,
    tags: tuple[str, ...],
    restore: str | None,
    meta: str | None,
    checkpoint: str | None,
    save_every: int | None,
    resume: bool,
    recover: bool,
    at: str | None,
    labels_file: str | None,
    top: int | None,
    drawing: str | None,
    stats: bool,
    as_json: bool,
    image_size: tuple[int, int] | None,
    image_scale: float | None,
    image_offset: float | None,
    device_counts: tuple[str, ...],
    places: tuple[str, ...],
    soft: bool | None,
    log_device_placement: bool,
    debug: bool,
) -> None:
    graph = _named_graph(graph, meta, feeds)
    _check_checkpoints(checkpoint, restore, asks=bool(save_every or resume or recover))
    over_table = TableOptions(batch_size, keep_inputs, keep_going)
    over_table.check(feeds, _not_over_tables(ctx))
    _check_output(output, len(finals or fetches), feeds, force=force)
    chosen, pictures = read_labels(labels_file, top), checked_pictures(drawing, feeds, force=force)
    source = load_graph(graph, tags)
    loaded = source.graph
    asks_by_name = bool(fetches or targets or finals)
    call = called_signature(
        source, signature, is_wanted=bool(feeds), asks_by_name=asks_by_name, function=function
    )
    training = None
    if checkpoint is not None:
        facts = facts_of(source.meta, loaded)
        targets = targets or _trained_by(facts)
        training = prepared(checkpoint, save_every or 0, resume or recover, facts, recovers=recover)
    if not (asks_by_name or targets or call.facts):
        refuse_to_run_nothing(loaded, feeds, inits, output)
        click.echo(how_to_go_on(source, graph), nl=False)
        return
    request = StepRequest(source, graph, call, feeds, fetches, targets, inits)
    request.read_feeds(ImageOptions(image_size, image_scale, image_offset))
    request.find(finals)
    restoration = None if training else request.restoration(restore, may_look=not at)
    if training is not None:
        training.facts = replace(training.facts, local=[*training.facts.local, *request.starters])
    _check_labels(chosen, request)
    config = config_of(device_counts, places, soft, log=log_device_placement)
    recording = step_recording(ctx, force=force, recovers=recover)
    trace = step_trace(ctx, force=force)
    if trace is not None:
        config = trace.config(config, at)
    job = request.job(
        steps=steps,
        every=every or 0,
        repeat=repeat or 0,
        timeout_seconds=timeout,
        training=training,
        restoration=restoration,
        config=config if recording is None else recording.config(config),
        at=target_at(at or ""),
        keeps=output is not None,
        trace=trace,
        recording=recording,
        log=None if logdir is None else RunLog(logdir, loaded),
    )
    if request.table is not None:
        with _remedied(job, source, graph):
            over_table.run(job, request.table, output or STDOUT, ctx.obj["interrupt"])
        return
    report = _reported(job, source, graph, output, ctx.obj["interrupt"])
    _show(report, job, output, as_json, chosen, stats=stats, drawn=(pictures, drawing))


def _check_output(output: str | None, count: int, feeds: Sequence[str], *, force: bool) -> None:
    """CommandError (usage) if so many values, or rows of a table, cannot go into the file of `--output`."""
    if table_in(feeds):
        check_rows_output(output, force=force)
    elif output is not None:
        results.check_output(output, count, force=force)


def _named_graph(graph: str | None, meta: str | None, feeds: Sequence[str]) -> str:
    """The one path that the command line names; CommandError for none, for two, and for `-` fed as well."""
    named = meta if graph is None else graph
    if named is None or (graph is not None and meta is not None):
        raise CommandError("name one graph: GRAPH or --meta FILE", USAGE)
    check_standard_input(named, feeds)
    return named


def _check_checkpoints(checkpoint: str | None, restore: str | None, *, asks: bool) -> None:
    """CommandError where options of checkpoints do not fit together."""
    if checkpoint is None and asks:
        raise CommandError("--save-every, --resume and --recover need --checkpoint DIR", USAGE)
    if checkpoint is not None and restore is not None:
        raise CommandError(
            "--restore only reads and --checkpoint resumes from its own directory: use one of them", USAGE
        )


def _reported(
    job: Invocation, source: GraphSource, path: str, output: str | None, interrupt: Interrupt
) -> RunReport:
    """Run it; what was fetched before an interruption is kept."""
    report = RunReport()
    try:
        with _remedied(job, source, path):
            run_job(job, report, interrupt)
    except KeyboardInterrupt:
        if output is not None:
            interrupt.waits()
            _keep(report, job, output)
        raise
    finally:
        if job.trace is not None:
            job.trace.report()
    if job.recording is not None:
        job.recording.report()
    return report


@contextmanager
def _remedied(job: Invocation, source: GraphSource, path: str) -> Iterator[None]:
    """Add to the error of a variable without a value how it gets one."""
    try:
        yield
    except FailedPreconditionError as error:
        trains = job.training is not None
        raise remedied(error, source, path, restoration=job.restoration, trains=trains) from error


def _not_over_tables(ctx: click.Context) -> list[str]:
    """The options of this command line that mean nothing over a table."""
    names = (
        "targets",
        "finals",
        "checkpoint",
        "steps",
        "every",
        "repeat",
        "logdir",
        "labels_file",
        "top",
        "stats",
        "drawing",
        "as_json",
        "trace",
        "profile",
        "record",
        "record_values",
    )
    given = [
        each
        for each in ctx.command.params
        if each.name in names and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    return [max(each.opts, key=len) for each in given]


def _trained_by(facts: MetaFacts) -> tuple[str, ...]:
    """The nodes that a training step runs; CommandError where the graph does not say."""
    if not facts.train:
        raise CommandError(
            "--checkpoint: the graph does not say what a step trains: add --target NODE", USAGE
        )
    return tuple(facts.train)


def _check_labels(labels: Labels | None, request: StepRequest) -> None:
    """CommandError where no output can have the classes that `--labels` names."""
    graph = request.source.graph
    names = (*request.shown, *request.final_shown)
    ports = (*request.ports, *request.final_ports)
    if labels is not None and not is_detector(names):
        check_shapes(labels, {name: shape_of(graph, port) for name, port in zip(names, ports, strict=True)})


def _keep(report: RunReport, job: Invocation, output: str | None) -> None:
    """Write what `--output` promised, if there is any of it."""
    kept = report.finals if job.finals else report.values
    if output is not None and (kept or not (job.fetches or job.finals)):
        results.write(output, kept, _document(report, job, report.values | report.finals))
        _say(f"kept {len(kept)} value{'s' if len(kept) != 1 else ''} in {output}")


def _show(
    report: RunReport,
    job: Invocation,
    output: str | None,
    as_json: bool,
    chosen: Labels | None,
    *,
    stats: bool,
    drawn: tuple[Sequence[str], str | None],
) -> None:
    everything = report.values | report.finals
    view = None
    if is_detector(everything) or drawn[1] is not None:
        from flowengine.cli.pictures.view import view_of

        view = view_of(everything, chosen, *drawn)
    document = _document(report, job, everything)
    _keep(report, job, output)
    readable = results.readable
    if stats:
        from flowengine.cli.looking.stats import readable, statistics

        document["stats"] = {name: statistics(each) for name, each in everything.items() if each is not None}
    shown = {name: readable(name, value) for name, value in everything.items() if not as_json}
    if view is not None and view.results is not None:
        document["detections"] = view.document()
        shown = view.shown(shown) if not stats else shown
    elif chosen is not None:
        check_fits(chosen, everything)
        document["best"] = best_document(chosen, everything)
        shown |= best_texts(chosen, everything)
    if as_json:
        sys.stdout.write(results.dumps(document))
    elif output is None or chosen is not None or stats:
        for text in shown.values():
            print(text)
    if view is not None:
        view.draw()
    if report.latencies_ms:
        summary = percentiles(report.latencies_ms)
        _say(f"{len(report.latencies_ms)} runs, ms: " + "  ".join(f"{k} {v:.3g}" for k, v in summary.items()))
    elif job.steps > 1 or not everything:
        _say(f"{report.steps} step{'s' if report.steps != 1 else ''} in {report.seconds:.3g} s")
    if job.training is not None:
        resumed = f"from {job.training.resumed}, " if job.training.resumed else ""
        recovered = f", recovered {job.training.restarts} times" if job.training.restarts else ""
        _say(printable(f"{resumed}saved {job.training.saved or 'nothing'}{recovered}"))


def _document(report: RunReport, job: Invocation, values: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "values": {name: results.as_json(value) for name, value in values.items()},
        "steps": report.steps,
        "seconds": round(report.seconds, 6),
    }
    if job.training is not None:
        document["checkpoint"] = {"resumed": job.training.resumed, "saved": job.training.saved}
        if job.training.recovers:
            document["checkpoint"]["restarts"] = job.training.restarts
    if report.latencies_ms:
        document["latency_ms"] = {k: round(v, 6) for k, v in percentiles(report.latencies_ms).items()}
    return document


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
