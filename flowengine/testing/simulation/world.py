"""A whole cluster in one nursery, on a clock that jumps: real masters, workers, transport, simulated links.

async def main(world: World) -> None:
    async with world.client() as run:
        ...

world = simulate(main, seed=7, jobs={"ps": 1, "worker": 3})
print(world.log.text())

Each task of the cluster is a `flowengine.cluster.server.Server` on a host of its own. Everything that is left
to chance follows from the seed, so a simulation that went wrong goes wrong again.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.remote import RemoteSession
from flowengine.cluster.server import Server
from flowengine.cluster.spec import ClusterSpec, task_name
from flowengine.cluster.target import Target
from flowengine.core.files.secrets import write_new
from flowengine.core.targets import register_scheme
from flowengine.ir.graph import NodeGraph
from flowengine.testing.simulation.chance import generator, seeded
from flowengine.testing.simulation.hosts import Death, Host
from flowengine.testing.simulation.log import EventLog
from flowengine.testing.simulation.network import LinkModel, Network
from flowengine.testing.simulation.outcomes import EngineFault, Failure, Hang
from flowengine.testing.simulation.streams import SCHEME, current_place
from flowengine.transport.limits import Limits

#: What tasks listen at; each has a machine of its own.
_PORT: Final = 1
_CLUSTER: Final = "simulated"

#: What the engine runs with: everything inline, for a clock that jumps must not jump while threads work.
CONFIG: Final = fe.Config(worker_threads=False, sync_checkpoints=False, measure_costs=False)


class World:
    """A running simulation.

    seed       what everything follows from
    jobs       {job: number of tasks}
    disk       a folder that all hosts share, as checkpoints need
    limits     of every task's connections
    reach      what of the cluster a task knows: {task: the tasks}; all of them where it is not named
    """

    def __init__(
        self,
        seed: object,
        jobs: Mapping[str, int],
        nursery: trio.Nursery,
        disk: Path,
        *,
        model: LinkModel | None = None,
        limits: Limits | None = None,
        reach: Mapping[str, set[str]] | None = None,
        config: fe.Config = CONFIG,
    ) -> None:
        self.seed = seed
        self.log = EventLog(disk)
        self.network = Network(seed, self.log, model)
        self.disk = disk
        self.limits = limits
        self.config = config
        self.servers: dict[str, Server] = {}
        self.hosts: dict[str, Host] = {}
        self._reach = reach if reach is not None else {}
        self._nursery = nursery
        #: {host: the program that a client runs there}
        self._clients: dict[str, Callable[[], Awaitable[object]]] = {}
        self._key = generator(seed, "key").randbytes(32)
        self._key_file = disk / "cluster.key"
        write_new(self._key_file, self._key.hex().encode())
        self.tasks = {
            task_name(job, number): f"{job}{number}" for job, count in jobs.items() for number in range(count)
        }
        self.cluster = self._spec(set(self.tasks))
        for name in self.tasks.values():
            self.add_host(name)

    def _spec(self, tasks: set[str]) -> ClusterSpec:
        jobs: dict[str, dict[int, str]] = {}
        for task, host in self.tasks.items():
            if task in tasks:
                job, _, number = task.removeprefix("/job:").partition("/task:")
                jobs.setdefault(job, {})[int(number)] = f"{host}:{_PORT}"
        return ClusterSpec.of(jobs, name=_CLUSTER)

    def random(self, *names: object) -> Any:
        """A generator of its own, from the seed, for what these names name."""
        return generator(self.seed, *names)

    # -- hosts --------------------------------------------------------------------------------------

    def add_host(self, name: str) -> Host:
        """Another machine, on which nothing runs yet."""
        host = self.hosts[name] = Host(name, self.network, self.log, self.hosts, self.disk)
        return host

    def host(self, task: str) -> Host:
        """The host of a task, by the task's name or its own."""
        return self.hosts[self.tasks.get(task, task)]

    async def start(self, task: str) -> None:
        """Start a task's server, in a new life; returns when it listens."""
        host = self.host(task)

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            await host.run(lambda: self._serve(task, task_status))

        await self._nursery.start(live)

    async def _serve(self, task: str, task_status: trio.TaskStatus[None]) -> None:
        job, _, number = task.removeprefix("/job:").partition("/task:")
        known = self._reach.get(task)
        async with Server(
            self.cluster if known is None else self._spec(known | {task}),
            job,
            int(number),
            key=self._key,
            config=self.config,
            scheme=SCHEME,
            limits=self.limits,
        ) as server:
            self.servers[task] = server
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                if self.servers.get(task) is server:
                    del self.servers[task]

    async def restart(self, task: str) -> None:
        """Start what runs on a host again, unless it runs: a task's server, or a client's program."""
        if self.host(task).is_running:
            return
        body = self._clients.get(task)
        if body is not None:
            self._nursery.start_soon(self.host(task).run, body)
            return
        for name, host in self.tasks.items():
            if task in (name, host):
                await self.start(name)
        # Else it is a client whose program has ended meanwhile.

    async def crash(self, task: str, death: Death = Death.PROCESS) -> bool:
        """Crash the host of a task, or a host. Returns as `Host.crash`."""
        return await self.host(task).crash(death)

    def end_faults(self) -> None:
        """Let everything pass again, at its usual pace."""
        self.network.models.clear()
        self.network.unblock(*self.network.blocked.elements())

    def reset(self, first: str, second: str) -> None:
        """Break all connections between two hosts."""
        for near, far in ((first, second), (second, first)):
            for stream in tuple(self.hosts[near].streams):
                if stream.peer == far:
                    stream.fail("it was reset")

    # -- clients ------------------------------------------------------------------------------------

    async def run_client(self, name: str, body: Callable[[], Awaitable[object]]) -> None:
        """Run a program on a host of its own until it ends, however often it is killed and started anew.

        Raises what the program raises.
        """
        host = self.hosts.get(name) or self.add_host(name)
        over = trio.Event()

        errors: list[Exception] = []

        async def live() -> None:
            try:
                await body()
            except Exception as error:
                errors.append(error)
            over.set()

        self._clients[name] = live
        self._nursery.start_soon(host.run, live)
        await over.wait()
        del self._clients[name]
        if errors:
            raise errors[0]

    async def on(self, task: str, body: Callable[[], Awaitable[object]]) -> None:
        """Run a program on the host of a task, beside the task; it is not ended by a crash."""
        token = current_place.set(self.host(task))
        try:
            await body()
        finally:
            current_place.reset(token)

    def target(self, task: str, client: str = "") -> str:
        """The target of a session whose master is this task; for code that runs on a host of the world.

        client   under which name, so that who comes again under it ends what it began before
        """
        text = f"{SCHEME}://{self.tasks[task]}:{_PORT}?cluster={_CLUSTER}&key_file={self._key_file}"
        return f"{text}&client={client}" if client else text

    def session(self, graph: NodeGraph, task: str) -> fe.Session:
        """A session of the running host at a task's master."""
        return fe.Session(graph, target=self.target(task), config=self.config)


def _open(target: str, graph: NodeGraph, config: fe.Config) -> RemoteSession:
    found = Target.parse(target)
    address = f"{SCHEME}://{found.address.partition('://')[2]}"
    return RemoteSession(replace(found, address=address), graph, config)


register_scheme(SCHEME, _open)


class _Alarm(logging.Handler):
    """Keeps what the engine logs as an error: a fault of its own, that no peer and no graph can cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = "" if record.exc_info is None else logging.Formatter().formatException(record.exc_info)
        self.said.append(f"{record.name}: {record.getMessage()}\n{trace}".rstrip())


@contextmanager
def _alarmed() -> Iterator[_Alarm]:
    alarm, logger = _Alarm(), logging.getLogger("flowengine")
    level, propagates = logger.level, logger.propagate
    logger.addHandler(alarm)
    logger.setLevel(logging.ERROR)
    # What is expected in a simulation would be warned of elsewhere.
    logger.propagate = False
    try:
        yield alarm
    finally:
        logger.removeHandler(alarm)
        logger.setLevel(level)
        logger.propagate = propagates


def _single(error: Exception) -> Exception:
    """Return the exception in a group of one, however deep."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def simulate(
    main: Callable[[World], Awaitable[object]],
    *,
    seed: object,
    jobs: Mapping[str, int],
    seconds_max: float = 3600.0,
    **options: Any,
) -> World:
    """Start a cluster, run `main` on it, and end it; the world as it was then, with its log.

    seed          everything follows from it
    jobs          {job: number of tasks}
    seconds_max   simulated seconds that `main` may take
    options       more of `World`

    Raises what `main` raises, Hang where it does not end, and EngineFault where the engine has logged a fault
    of its own. Not within a trio run: this is one.
    """
    worlds: list[World] = []
    failures: list[Exception] = []

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
            async with trio.open_nursery() as nursery:
                world = World(seed, jobs, nursery, Path(folder), **options)
                worlds.append(world)
                nursery.start_soon(world.network.run)
                for task in world.tasks:
                    await world.start(task)
                with trio.move_on_after(seconds_max) as scope:
                    try:
                        await main(world)
                    except Exception as error:
                        failures.append(_single(error))
                if scope.cancelled_caught:
                    failures.append(Hang(f"seed {seed}: no end within {seconds_max:g} simulated seconds"))
                world.log.add("-", "the end")
                nursery.cancel_scope.cancel()

    with _alarmed() as alarm, seeded(seed):
        trio.run(
            run,
            clock=trio.testing.MockClock(autojump_threshold=0),
        )
    failures[:0] = [EngineFault(text) for text in alarm.said]
    if failures:
        error = failures[0]
        if isinstance(error, Failure):
            error.log = worlds[0].log
        raise error
    return worlds[0]


__all__ = ["CONFIG", "World", "simulate"]
