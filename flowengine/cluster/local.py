"""A cluster on this machine, one process for each task: for trials, tests and demonstrations.

async with local_cluster({"ps": 1, "worker": 2}) as cluster:
    async with fe.Session(graph, target=cluster.target("worker", 0)) as session: ...
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import trio

import flowengine
from flowengine.cluster.cluster_files import found_cluster
from flowengine.cluster.console import open_console
from flowengine.cluster.credentials import KEY_FILE_VARIABLE, TLS_VARIABLE
from flowengine.cluster.memory_pages import huge_pages
from flowengine.cluster.spec import TLS_SCHEME, ClusterSpec, task_name
from flowengine.core.errors import OpError, UnavailableError

logger: Final = logging.getLogger("flowengine.cluster")

#: The variables that tell a program beside a local cluster where the cluster is.
CLUSTER_VARIABLE: Final = "FLOWENGINE_CLUSTER"
TARGET_VARIABLE: Final = "FLOWENGINE_TARGET"

#: The time limits for a task to start serving, and to end on request.
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
#: Limits for tasks that are restarted: the longest pause, and the life that counts as too short.
_PAUSE_SECONDS_MAX: Final = 5.0
_SHORT_LIFE_SECONDS: Final = 0.5

#: The file in which Linux names the first and last port of outgoing connections.
_OUTGOING_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: The first port that is tried for a task, and the number of tries.
_FIRST_PORT: Final = 10_000
_TRIES: Final = 1000


@dataclass(frozen=True)
class LocalCluster:
    """A running cluster.

    spec        its tasks and addresses
    file        the same as a file, which names the key's file
    processes   {task: process}
    """

    spec: ClusterSpec
    file: Path
    processes: dict[str, trio.Process]
    _options: Sequence[str]
    _cwd: str | None = None
    #: Tasks that are restarted when they end.
    _kept: set[str] = field(default_factory=set)

    def target(self, job: str, task: int = 0) -> str:
        """Return the target of a session whose master is this task."""
        return target_of(self.spec, task_name(job, task))

    def environment(self) -> dict[str, str]:
        """Return variables that tell a program where the cluster is: file, key, and a task as target."""
        secrets = {KEY_FILE_VARIABLE: self.spec.key_file}
        if self.spec.tls:
            secrets[TLS_VARIABLE] = self.spec.tls
        target = target_to(self.spec, self.spec.address(self.first_task), secrets)
        return {CLUSTER_VARIABLE: str(self.file), TARGET_VARIABLE: target, **secrets}

    @property
    def first_task(self) -> str:
        """Return the default master of programs: the first task of the last job."""
        job = next(reversed(list(self.spec.jobs)))
        return task_name(job, min(self.spec.jobs[job]))

    async def start(self, task: str) -> None:
        """Start a task that is not running; it serves soon after."""
        job, _, number = task.removeprefix("/job:").partition("/task:")
        command = [sys.executable, "-m", "flowengine", "worker", "--cluster", str(self.file)]
        command += ["--job", job, "--task", number, *self._options]
        self.processes[task] = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, env=_environment(), cwd=self._cwd
        )

    async def kill(self, task: str) -> None:
        """Kill a task's process, as a crash would."""
        self.processes[task].kill()
        await self.processes[task].wait()

    async def supervise(self) -> None:
        """Restart tasks that end, until cancelled, as the supervisor of a real cluster does."""
        async with trio.open_nursery() as nursery:
            for task in self.spec:
                nursery.start_soon(self._keep_running, task)

    async def _keep_running(self, task: str) -> None:
        pause = _PAUSE_SECONDS
        self._kept.add(task)
        try:
            while True:
                process, since = self.processes[task], trio.current_time()
                code = await process.wait()
                lived = trio.current_time() - since
                # A process that ends soon is restarted after ever longer pauses.
                pause = _PAUSE_SECONDS if lived > _SHORT_LIFE_SECONDS else min(2 * pause, _PAUSE_SECONDS_MAX)
                await trio.sleep(pause)
                if self.processes[task] is process:
                    logger.warning(
                        "%s ended with exit code %d after %.1f s: started again", task, code, lived
                    )
                    await self.start(task)
        finally:
            self._kept.discard(task)

    async def wait_ready(self) -> None:
        """Wait until every task answers, also one that `supervise` restarts meanwhile.

        Raises UnavailableError that names a task which has ended for good or takes too long.
        """
        with trio.move_on_after(_START_SECONDS) as scope:
            async with open_console(self.spec, timeout_seconds=2.0) as console:
                for task in self.spec:
                    await self._wait_answer(console, task)
        if scope.cancelled_caught:
            raise UnavailableError(f"the cluster does not answer after {_START_SECONDS:g} s")

    async def _wait_answer(self, console: Any, task: str) -> None:
        while True:
            try:
                await console.status(task)
            except OpError:
                code = self.processes[task].poll()
                if code is not None and task not in self._kept:
                    raise UnavailableError(f"{task} ended with exit code {code}: see its output") from None
                await trio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def end(self) -> None:
        """Ask every task to end, and kill those that do not."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_END_SECONDS):
                for process in self.processes.values():
                    await process.wait()
            for process in self.processes.values():
                if process.poll() is None:
                    process.kill()
                await process.wait()


def _environment() -> dict[str, str]:
    """Return the environment of new tasks.

    It is this process's environment without a variable that names another cluster, and with the path of this
    package.
    """
    environment = {name: text for name, text in os.environ.items() if name != TARGET_VARIABLE}
    environment = {**huge_pages(), **environment}
    root = str(Path(flowengine.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    return environment


def target_of(spec: ClusterSpec, task: str) -> str:
    """Return the target of a session whose master is this task. Raises NotFoundError if there is none."""
    return target_to(spec, spec.address(task))


def target_to(spec: ClusterSpec, address: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the target of a session at an address of a cluster.

    It names the key's file and the folder of certificates, unless the environment names the same ones.
    """
    query = {"cluster": spec.name}
    if spec.key_file and spec.key_file != environment.get(KEY_FILE_VARIABLE):
        query["key_file"] = spec.key_file
    if spec.tls and spec.tls != environment.get(TLS_VARIABLE):
        query["tls"] = spec.tls
    return f"{TLS_SCHEME if spec.tls else 'flow'}://{address}?{urlencode(query, safe='/')}"


def free_ports(count: int, outgoing: Path = _OUTGOING_PORTS) -> list[int]:
    """Return ports of the loopback interface that nobody uses now.

    If the system says which ports it gives to outgoing connections, none of them is returned: such a port may
    be taken again before a task listens there.

    outgoing   the file that names the ports of outgoing connections
    """
    sockets: list[socket.socket] = []
    candidates = _candidates(outgoing)
    try:
        while len(sockets) < count:
            each = socket.socket()
            sockets.append(each)
            try:
                each.bind(("127.0.0.1", next(candidates, 0)))
            except OSError:  # in use
                sockets.pop().close()
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _candidates(outgoing: Path) -> Iterator[int]:
    """Yield ports between those of well-known services and those of outgoing connections, in some order."""
    try:
        first = int(outgoing.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return
    ports = range(_FIRST_PORT, first)
    yield from random.Random().sample(ports, min(len(ports), _TRIES))


@asynccontextmanager
async def local_cluster(
    jobs: Mapping[str, int],
    *,
    options: Sequence[str] = (),
    name: str = "local",
    cwd: str | None = None,
    tls: bool = False,
) -> AsyncIterator[LocalCluster]:
    """Start {job: number of tasks} as processes of this machine; they end with the block.

    options    additional arguments of `flowengine worker`
    cwd        the folder in which they run; graphs resolve relative file names from it
    tls        whether they use TLS, with new certificates
    Raises UnavailableError if a task does not start.
    """
    with tempfile.TemporaryDirectory(prefix="flowengine-cluster-") as folder:
        ports = free_ports(sum(jobs.values()))
        addresses = {job: [f"127.0.0.1:{ports.pop()}" for _ in range(count)] for job, count in jobs.items()}
        file = found_cluster(folder, addresses, name=name, tls=tls)
        spec = ClusterSpec.from_toml(file)
        cluster = LocalCluster(spec, file, {}, options, cwd)
        try:
            for task in spec:
                await cluster.start(task)
            await cluster.wait_ready()
            yield cluster
        finally:
            with suppress(ProcessLookupError):
                await cluster.end()


__all__ = [
    "CLUSTER_VARIABLE",
    "TARGET_VARIABLE",
    "LocalCluster",
    "free_ports",
    "local_cluster",
    "target_of",
    "target_to",
]
