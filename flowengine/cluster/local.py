"""A cluster on this machine, task by task a process: for trying things out, tests and demonstrations.

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

#: Where what runs beside a local cluster finds it.
CLUSTER_VARIABLE: Final = "FLOWENGINE_CLUSTER"
TARGET_VARIABLE: Final = "FLOWENGINE_TARGET"

#: What a task may take to serve, and to end when asked to.
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
#: Of what is started again.
_PAUSE_SECONDS_MAX: Final = 5.0
_SHORT_LIFE_SECONDS: Final = 0.5

#: What Linux says of the ports that it gives to outgoing connections: the first and the last.
_OUTGOING_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: The first port that is tried for a task, and how many are.
_FIRST_PORT: Final = 10_000
_TRIES: Final = 1000


@dataclass(frozen=True)
class LocalCluster:
    """A running cluster.

    spec        its tasks and addresses
    file        the same as a file, with the key's file named in it
    processes   {task: process}
    """

    spec: ClusterSpec
    file: Path
    processes: dict[str, trio.Process]
    _options: Sequence[str]
    _cwd: str | None = None
    #: Tasks that are started again when they end.
    _kept: set[str] = field(default_factory=set)

    def target(self, job: str, task: int = 0) -> str:
        """The target of a session whose master is this task."""
        return target_of(self.spec, task_name(job, task))

    def environment(self) -> dict[str, str]:
        """Variables that tell a program where the cluster is: file, key, and the first task as target."""
        secrets = {KEY_FILE_VARIABLE: self.spec.key_file}
        if self.spec.tls:
            secrets[TLS_VARIABLE] = self.spec.tls
        target = target_to(self.spec, self.spec.address(self.first_task), secrets)
        return {CLUSTER_VARIABLE: str(self.file), TARGET_VARIABLE: target, **secrets}

    @property
    def first_task(self) -> str:
        """The task that programs take for their master unless they say another: the last job's first."""
        job = next(reversed(list(self.spec.jobs)))
        return task_name(job, min(self.spec.jobs[job]))

    async def start(self, task: str) -> None:
        """Start a task that has ended, or has not begun; it serves soon after."""
        job, _, number = task.removeprefix("/job:").partition("/task:")
        command = [sys.executable, "-m", "flowengine", "worker", "--cluster", str(self.file)]
        command += ["--job", job, "--task", number, *self._options]
        self.processes[task] = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, env=_environment(), cwd=self._cwd
        )

    async def kill(self, task: str) -> None:
        """End a task's process at once, as a crash would."""
        self.processes[task].kill()
        await self.processes[task].wait()

    async def supervise(self) -> None:
        """Start again whatever ends, until cancelled: what a real cluster's supervisor does."""
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
                # What does not live long is not started again and again at once.
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
        """Wait until every task answers, also one that `supervise` starts again meanwhile.

        UnavailableError naming one that has ended for good, or takes too long.
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
        """Ask every task to end, and end what does not."""
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
    """The target of a session whose master is this task; NotFoundError if there is none."""
    return target_to(spec, spec.address(task))


def target_to(spec: ClusterSpec, address: str, environment: Mapping[str, str] = os.environ) -> str:
    """The target of a session at an address of a cluster.

    It names the key's file and the folder of certificates, unless the environment names the same anyway.
    """
    query = {"cluster": spec.name}
    if spec.key_file and spec.key_file != environment.get(KEY_FILE_VARIABLE):
        query["key_file"] = spec.key_file
    if spec.tls and spec.tls != environment.get(TLS_VARIABLE):
        query["tls"] = spec.tls
    return f"{TLS_SCHEME if spec.tls else 'flow'}://{address}?{urlencode(query, safe='/')}"


def free_ports(count: int, outgoing: Path = _OUTGOING_PORTS) -> list[int]:
    """Ports of the loopback interface that nobody uses now.

    None that the system gives to outgoing connections, where it says which those are: such a port may be
    taken again before a task listens there.

    outgoing   the file that says so
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
    """Ports between those of well-known services and those of outgoing connections, in some order."""
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

    options    more arguments of `flowengine worker`
    cwd        the folder that they run in, which relative names of files in graphs are taken from
    tls        whether they speak under TLS, with certificates that are made for them
    Raises UnavailableError if a task does not come up.
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
