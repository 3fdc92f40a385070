"""Tasks in network namespaces of this machine, with a cable between each two of them that can be pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

import flowengine
from flowengine.cluster.console import open_console
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import OpError
from flowengine.core.files.secrets import write_new
from flowengine.transport.wire.identity import new_key

#: The first task is where this process is; the others have a namespace each.
TASKS = ("/job:worker/task:0", "/job:ps/task:0", "/job:worker/task:1")
_PORT = 7000


def why_not() -> str:
    """Why there can be no namespaces here; nothing if there can."""
    if shutil.which("ip") is None:
        return "needs the command ip"
    probe = "ip netns add fe-probe && ip netns del fe-probe && ip link add fe-p0 type veth peer name fe-p1"
    done = subprocess.run(["unshare", "-n", "sh", "-c", probe], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"network namespaces cannot be made: {done.stderr.strip()}"


class Network:
    """A cable, which is a pair of virtual interfaces, between each two of the tasks."""

    def __init__(self) -> None:
        number = os.getpid() % 1_000_000
        self.spaces = ["", *(f"fe{number}-{index}" for index in (1, 2))]
        self._net = 64 + number % 60
        #: {the two ends' places among the tasks: (interface at each of them)}
        self._cables: dict[tuple[int, int], tuple[str, str]] = {}

    def __enter__(self) -> Network:
        for space in self.spaces[1:]:
            _ip("netns", "add", space)
            self.ip(self.spaces.index(space), "link", "set", "lo", "up")
        for number, (one, other) in enumerate([(0, 1), (0, 2), (1, 2)]):
            ends = f"fe{self._net}{number}a", f"fe{self._net}{number}b"
            _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            self._cables[one, other] = ends
            for place, end in zip((one, other), ends, strict=True):
                if place:
                    _ip("link", "set", end, "netns", self.spaces[place])
                self.ip(place, "addr", "add", f"{self._end(number, end == ends[1])}/30", "dev", end)
                self.ip(place, "link", "set", end, "up")
        self._route()
        return self

    def _end(self, cable: int, is_second: bool) -> str:
        return f"10.213.{self._net}.{4 * cable + 1 + is_second}"

    def _route(self) -> None:
        # A task's address is an end of one cable; along another it is reached by a route.
        self.ip(1, "route", "add", self.address(2), "via", self._end(2, True))
        self.ip(2, "route", "add", self.address(1), "via", self._end(2, False))
        self.ip(2, "route", "add", self.address(0), "via", self._end(1, False))

    def __exit__(self, *_: object) -> None:
        for (one, _other), ends in self._cables.items():
            if not one:
                subprocess.run(["ip", "link", "del", ends[0]], check=False, capture_output=True)
        for space in self.spaces[1:]:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def ip(self, place: int, *arguments: str) -> None:
        """Run `ip` where a task is."""
        _ip(*(["-n", self.spaces[place]] if place else []), *arguments)

    def address(self, place: int) -> str:
        """The one address of a task."""
        return self._end(0, place == 1) if place < 2 else self._end(1, True)

    @contextmanager
    def pulled(self, one: int, other: int) -> Iterator[None]:
        """Without the cable between two tasks: neither is told anything."""
        # At the end that has no routes to lose: the other sees no carrier, and what it sends is lost.
        end = self._cables[one, other][1]
        self.ip(other, "link", "set", end, "down")
        try:
            yield
        finally:
            self.ip(other, "link", "set", end, "up")
            if other == 2:
                self._route_again(one)

    def _route_again(self, one: int) -> None:
        if one == 0:
            self.ip(2, "route", "replace", self.address(0), "via", self._end(1, False))
        else:
            self.ip(2, "route", "replace", self.address(1), "via", self._end(2, False))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@asynccontextmanager
async def tasks_in(
    network: Network, folder: Path, variables: Mapping[str, str]
) -> AsyncIterator[ClusterSpec]:
    """The tasks as processes, each in its namespace, for the time of the block."""
    key_file = folder / "cluster.key"
    write_new(key_file, new_key().hex().encode())
    addresses = {task: f"{network.address(place)}:{_PORT}" for place, task in enumerate(TASKS)}
    spec = ClusterSpec.of(
        {"ps": [addresses[TASKS[1]]], "worker": [addresses[TASKS[0]], addresses[TASKS[2]]]},
        name="spaces",
        key_file=str(key_file),
    )
    file = folder / "cluster.toml"
    file.write_text(spec.to_toml())
    environment = {**os.environ, **variables, "PYTHONPATH": str(Path(flowengine.__file__).parents[1])}
    processes = []
    try:
        for place, task in enumerate(TASKS):
            job, _, number = task.removeprefix("/job:").partition("/task:")
            command = [sys.executable, "-m", "flowengine", "worker", "--cluster", str(file), "--job", job]
            command += ["--task", number, "--log-level", "error"]
            if place:
                command = ["ip", "netns", "exec", network.spaces[place], *command]
            processes.append(
                await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, env=environment)
            )
        with trio.fail_after(60):
            async with open_console(spec) as console:
                for task in spec:
                    while True:
                        try:
                            await console.status(task)
                            break
                        except OpError:
                            await trio.sleep(0.05)
        yield spec
    finally:
        for process in processes:
            process.kill()
        with trio.CancelScope(shield=True):
            for process in processes:
                await process.wait()


__all__ = ["TASKS", "Network", "tasks_in", "why_not"]
