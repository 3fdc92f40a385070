"""`flowengine worker`: one task of a cluster, until it is told to end."""

from __future__ import annotations

import json
import logging
import os
import signal
from dataclasses import replace
from typing import Any, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.imports import import_option
from flowengine.cli.log import StderrHandler
from flowengine.cli.placement import config_of

HELP: Final = """\
Run one task of a cluster: it runs the graphs that masters register, and is the master of its clients.

The cluster's file lists jobs and addresses. Without --cluster, --job and --task, the task reads all three
from the variable TF_CONFIG. After a SIGTERM, the task ends when its running steps have ended; after a second
SIGTERM or Ctrl-C, it ends at once.
"""

LEVELS: Final = ("debug", "info", "warning", "error")


@click.command("worker", help=HELP)
@click.option("--cluster", "cluster_file", metavar="FILE", help="The cluster's file (TOML).")
@click.option("--job", metavar="NAME", help="The job of this task.")
@click.option("--task", type=int, metavar="N", help="The number of the task in its job.")
@click.option(
    "--device-count",
    "device_counts",
    multiple=True,
    metavar="TYPE=N",
    help="Have N devices of a type, such as CPU=4.",
)
@click.option("--tls", metavar="FOLDER", help="Use TLS with the certificates of this folder.")
@import_option
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="Log messages of this level and above.",
)
@click.option("--log-json", is_flag=True, help="Log one JSON document on each line.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(
    ctx: click.Context,
    cluster_file: str | None,
    job: str | None,
    task: int | None,
    device_counts: tuple[str, ...],
    tls: str | None,
    log_level: str,
    log_json: bool,
    debug: bool,
) -> None:
    import trio

    start_logging(log_level, as_json=log_json)
    member = membership(cluster_file, job, task)
    if tls is not None:
        member = replace(member, cluster=replace(member.cluster, tls=tls))
    trio.run(_serve, member, config_of(device_counts, (), None), ctx.obj["interrupt"])


def membership(cluster_file: str | None, job: str | None, task: int | None) -> Any:
    """Which task of which cluster this process is."""
    from flowengine.cluster.spec import ClusterSpec, Membership, from_tf_config

    if cluster_file is None and job is None and task is None:
        text = os.environ.get("TF_CONFIG")
        if not text:
            raise CommandError("name this task: --cluster, --job and --task, or TF_CONFIG", USAGE)
        return from_tf_config(text)
    if cluster_file is None or job is None or task is None:
        raise CommandError("--cluster, --job and --task belong together", USAGE)
    member = Membership(ClusterSpec.from_toml(cluster_file), job, task)
    member.cluster.address(member.name)
    return member


async def _serve(member: Any, config: Any, interrupt: Any) -> None:
    import trio

    from flowengine.cluster.server import Server

    with trio.CancelScope() as scope:
        interrupt.cancels(scope, trio.lowlevel.current_trio_token())
        try:
            async with Server(member.cluster, member.job, member.task, config=config) as server:
                click.echo(f"{server.name} serves at {server.address}", err=True)
                await _wait_end(server)
        finally:
            interrupt.cancels(None, None)


async def _wait_end(server: Any) -> None:
    """Return when a SIGTERM has come and the steps that ran then have ended, or when a second one comes."""
    import trio

    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        await anext(signals)
        async with trio.open_nursery() as nursery:

            async def drain() -> None:
                await server.drain()
                nursery.cancel_scope.cancel()

            nursery.start_soon(drain)
            await anext(signals)
            nursery.cancel_scope.cancel()


class _JsonLines(logging.Formatter):
    """One JSON document a record: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


def start_logging(level: str, *, as_json: bool) -> None:
    """Log what the package says to standard error."""
    handler = StderrHandler()
    handler.setFormatter(
        _JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger("flowengine")
    # A process that starts a second worker logs each line once.
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, StderrHandler)]
    root.addHandler(handler)
    root.setLevel(level.upper())
