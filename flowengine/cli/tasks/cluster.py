"""`flowengine cluster`: create the files of a cluster, print its status, drain it, or start one here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError
from flowengine.cli.results import dumps
from flowengine.cli.shell.commands import SuggestingGroup
from flowengine.cli.tasks.clusterfile import cluster_of

if TYPE_CHECKING:
    from flowengine.cluster.spec import ClusterSpec

CLUSTER_HELP: Final = (
    "The cluster's file (TOML) or folder. The default is FLOWENGINE_CLUSTER, or else ./cluster.toml."
)

TIMEOUT_HELP: Final = "Time limit, in seconds."

CLIENT_HELP: Final = (
    "Create a certificate for this client, instead of for 'client'; with --renew, an additional one. "
    "May be repeated."
)

UP_HELP: Final = """\
Start a cluster on this machine, run COMMAND beside it, and end the cluster. The exit code is that of
COMMAND.

COMMAND finds the cluster in its environment: FLOWENGINE_TARGET is the target of a session, FLOWENGINE_CLUSTER
the cluster's file, FLOWENGINE_CLUSTER_KEY_FILE its key, and, with --tls, FLOWENGINE_CLUSTER_TLS its
certificates. Without COMMAND, the cluster runs until Ctrl-C.
"""


@click.group("cluster", cls=SuggestingGroup)
def command() -> None:
    """Create the files of a cluster, print its status, drain its tasks, or start one on this machine."""


@command.command("new")
@click.argument("folder", default=".")
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="JOB=HOST:PORT,...",
    help="A job and the addresses of its tasks, such as worker=10.0.0.6:7000,10.0.0.7:7000. May be repeated.",
)
@click.option(
    "--name",
    default="flowengine",
    show_default=True,
    help="The name of the cluster. Its tasks refuse tasks of other clusters.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="Also create a certificate authority, and a certificate for each task and client.",
)
@click.option("--client", "clients", multiple=True, metavar="NAME", help=CLIENT_HELP)
@click.option("--renew", is_flag=True, help="Replace the certificates in FOLDER.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def new(
    folder: str,
    jobs: tuple[str, ...],
    name: str,
    tls: bool,
    clients: tuple[str, ...],
    renew: bool,
    debug: bool,
) -> None:
    """Write cluster.toml and a new key into FOLDER. Copy the folder to every machine of the cluster.

    Existing files are never overwritten, except certificates with --renew. Certificates are valid for a year,
    and tasks warn in the last 30 days. Running tasks use new certificates for their next connections.
    """
    from flowengine.cluster.cluster_files import found_cluster
    from flowengine.cluster.spec import ClusterSpec

    if renew:
        if jobs or tls:
            raise CommandError(
                "--renew is for a cluster that is there: it takes no --job and no --tls", USAGE
            )
        _renew(cluster_of(folder), clients)
        return
    if not jobs:
        raise CommandError("name the tasks of the cluster: --job JOB=HOST:PORT,...", USAGE)
    if clients and not tls:
        raise CommandError("--client names certificates: it belongs to --tls or --renew", USAGE)
    file = found_cluster(folder, _addresses(jobs), name=name, tls=tls, clients=clients or ("client",))
    click.echo(file)
    less = ", of tls/ only authority.pem and its own certificate," if tls else ""
    click.echo(f"copy the folder{less} to each machine, and start its task there:", err=True)
    for job, tasks in ClusterSpec.from_toml(file).jobs.items():
        for task in tasks:
            click.echo(f"  flowengine worker --cluster {file} --job {job} --task {task}", err=True)


def _renew(spec: ClusterSpec, clients: tuple[str, ...]) -> None:
    from flowengine.cluster.authority import renew_certificates

    if not spec.tls:
        raise CommandError(
            f"cluster '{spec.name}' has no TLS: its file names no folder of certificates", USAGE
        )
    for path in renew_certificates(Path(spec.tls), spec, clients):
        click.echo(path)
    click.echo("copy them to their machines; running tasks use them for new connections", err=True)


def _addresses(jobs: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in jobs:
        job, equals, addresses = text.partition("=")
        if not equals or not addresses:
            raise CommandError(f"--job {text!r}: write JOB=HOST:PORT,... such as ps=10.0.0.5:7000", USAGE)
        found.setdefault(job.strip(), []).extend(each.strip() for each in addresses.split(","))
    return found


@command.command("status")
@click.option("--cluster", "cluster_file", metavar="FILE", help=CLUSTER_HELP)
@click.option("--task", metavar="NAME", help="Only this task, such as /job:ps/task:0.")
@click.option("--ready", is_flag=True, help="Treat a task that is being drained as unavailable.")
@click.option("--timeout", type=float, default=5.0, show_default=True, metavar="S", help=TIMEOUT_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def status(
    cluster_file: str | None, task: str | None, ready: bool, timeout: float, as_json: bool, debug: bool
) -> None:
    """Print the status of every task; the exit code is 1 if a task does not answer."""
    import trio

    from flowengine.core.errors import OpError

    answers = trio.run(_ask, cluster_of(cluster_file), task, timeout)
    missing = [
        name
        for name, answer in answers.items()
        if isinstance(answer, OpError) or (ready and answer["is_draining"])
    ]
    if as_json:
        document = {
            name: {"error": str(answer)} if isinstance(answer, OpError) else answer
            for name, answer in answers.items()
        }
        click.echo(dumps(document), nl=False)
    else:
        for name, answer in answers.items():
            click.echo(f"{name}: {_line(answer)}")
    if missing:
        raise CommandError(f"not {'ready' if ready else 'live'}: {', '.join(missing)}", STEP_ERROR)


async def _ask(spec: Any, task: str | None, seconds: float) -> dict[str, Any]:
    from flowengine.cluster.console import open_console
    from flowengine.core.errors import OpError

    async with open_console(spec, timeout_seconds=seconds) as console:
        if task is None:
            return dict(await console.status_of_all())
        spec.address(task)
        try:
            return {task: await console.status(task)}
        except OpError as error:
            return {task: error}


def _line(answer: Any) -> str:
    if isinstance(answer, Exception):
        return f"no answer ({answer})"
    worker, master = answer["worker"], answer["master"]
    state = "drains" if answer["is_draining"] else "up"
    steps = ", ".join(f"{worker[f'steps_{what}']} {what}" for what in ("run", "running", "failed"))
    return (
        f"{state} {answer['uptime_seconds']:.0f} s at {answer['address']}; "
        f"{len(answer['devices'])} devices; steps {steps}; "
        f"{worker['graphs']} graphs; {master['sessions']} sessions"
    )


@command.command("target")
@click.argument("task")
@click.option("--cluster", "cluster_file", metavar="FILE", help=CLUSTER_HELP)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def target(task: str, cluster_file: str | None, debug: bool) -> None:
    """Print the target of a session whose master is TASK, such as /job:worker/task:1."""
    from flowengine.cluster.local import target_of

    click.echo(target_of(cluster_of(cluster_file), task))


@command.command("drain")
@click.argument("task")
@click.option("--cluster", "cluster_file", metavar="FILE", help=CLUSTER_HELP)
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="S", help=TIMEOUT_HELP)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def drain(task: str, cluster_file: str | None, timeout: float, debug: bool) -> None:
    """Let TASK accept no more sessions and steps, and wait until the running ones have ended."""
    import trio

    from flowengine.cluster.console import open_console

    spec = cluster_of(cluster_file)
    spec.address(task)

    async def ask() -> None:
        async with open_console(spec, timeout_seconds=timeout) as console:
            await console.drain(task)

    trio.run(ask)
    click.echo(f"{task} is drained", err=True)


@command.command("up", help=UP_HELP, context_settings={"ignore_unknown_options": True})
@click.option(
    "--local",
    "jobs",
    required=True,
    metavar="JOB=N,...",
    help="Start N tasks of each job, such as ps=1,worker=2.",
)
@click.option("--tls", is_flag=True, help="Use TLS, with new certificates.")
@click.option("--restart", is_flag=True, help="Restart tasks that end before COMMAND ends.")
@click.option(
    "--log-level", default="warning", show_default=True, metavar="LEVEL", help="The log level of the tasks."
)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_context
def up(
    ctx: click.Context,
    jobs: str,
    tls: bool,
    restart: bool,
    log_level: str,
    debug: bool,
    arguments: tuple[str, ...],
) -> None:
    import trio

    code = trio.run(_up, _counts(jobs), tls, restart, log_level, arguments, ctx.obj["interrupt"])
    ctx.exit(code)


def _counts(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in text.split(","):
        job, equals, number = part.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or not int(number):
            raise CommandError(f"--local {text!r}: write JOB=N,... such as ps=1,worker=2", USAGE)
        counts[job.strip()] = int(number)
    return counts


async def _up(
    jobs: dict[str, int], tls: bool, restart: bool, log_level: str, arguments: tuple[str, ...], interrupt: Any
) -> int:
    import trio

    from flowengine.cluster.local import local_cluster, target_of

    code = 0
    with trio.CancelScope() as scope:
        interrupt.cancels(scope, trio.lowlevel.current_trio_token())
        try:
            async with AsyncExitStack() as stack:
                cluster = await stack.enter_async_context(
                    local_cluster(jobs, options=["--log-level", log_level], tls=tls)
                )
                if restart:
                    await stack.enter_async_context(_supervised(cluster))
                if not arguments:
                    for task, address in cluster.spec.tasks.items():
                        click.echo(f"{task} at {address}", err=True)
                    click.echo(f"{cluster.file}\n{target_of(cluster.spec, cluster.first_task)}")
                    await trio.sleep_forever()
                code = await _beside(arguments, cluster.environment())
        finally:
            interrupt.cancels(None, None)
    return code


@asynccontextmanager
async def _supervised(cluster: Any) -> AsyncIterator[None]:
    import trio

    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.supervise)
        try:
            yield
        except Exception as raised:  # raised below by itself, and not in a group
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


async def _beside(arguments: tuple[str, ...], variables: dict[str, str]) -> int:
    import trio

    try:
        process = await trio.run_process(
            list(arguments), env={**os.environ, **variables}, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise CommandError(f"there is no command {arguments[0]!r}", USAGE) from None
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
