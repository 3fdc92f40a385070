"""A process in a box as its host sees it: started, watched from outside, ended, and asked why it died.

The host reads nothing of the graph, and believes nothing that the process says. It watches what the kernel
tells of it: memory, time of the processor, and its end.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import trio

import flowengine
from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config
from flowengine.core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.core.text import printable
from flowengine.sandbox.gauge import Gauge, died_of
from flowengine.sandbox.orders import WORD_BYTES_MAX, BoxOrders
from flowengine.transport.connection import Connection
from flowengine.transport.limits import MIB, Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.pair import PairStream, ends
from flowengine.transport.wire.identity import Identity, new_incarnation
from flowengine.transport.wire.states import Side

logger: Final = logging.getLogger("flowengine.sandbox")

#: What a process may take to lock itself in.
_START_SECONDS: Final = 60.0
#: How often memory and time are looked at while steps run.
_LOOK_SECONDS: Final = 0.02
#: What the graph's own bounds leave to the process around it: text, code, plans, what is on its way.
_SPARE_BYTES: Final = 64 * MIB
#: What a step may take over its time: its own deadline comes first, and tells more.
_SPARE_SECONDS: Final = 0.25
#: What every process in a box knows of its surroundings.
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}

_BEGIN: Final = "import sys; sys.path[:0] = sys.argv[2:]; from flowengine.sandbox.child import main; main()"


@dataclass(slots=True)
class _StepTimes:
    """When a step began, and what its process had taken of the processors when it was first looked at."""

    began: float
    cpu: float | None = None


class BoxProcess:
    """A process that has locked itself in, and the connection to it. Made by `start`."""

    def __init__(self, process: subprocess.Popen[bytes], box: Sandbox) -> None:
        self._process = process
        self._box = box
        self._handle = os.pidfd_open(process.pid)
        self._ended = trio.Event()
        #: Why this side has ended it; None where it did not.
        self._verdict: OpError | None = None
        self._gauge = Gauge(process.pid)
        #: {step: when it began, and the processor's time when it was first looked at}
        self._steps: dict[object, _StepTimes] = {}
        self._busy = trio.Event()
        #: What it is made of, as it says.
        self.levels: dict[str, str] = {}
        self.incarnation = new_incarnation()
        self.peer: Peer | None = None

    @property
    def is_alive(self) -> bool:
        """Whether calls can be made."""
        return self.peer is not None and self.peer.is_open and not self._ended.is_set()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    # -- steps --------------------------------------------------------------------------------------

    def step_began(self, step: object) -> None:
        """Watch a step's time from now on."""
        self._steps[step] = _StepTimes(trio.current_time())
        self._busy.set()

    def step_ended(self, step: object) -> None:
        """Watch it no more."""
        self._steps.pop(step, None)

    async def why_ended(self) -> OpError:
        """Wait until it is gone; what its steps are told."""
        self.kill()
        await self._ended.wait()
        if self._verdict is not None:
            return self._verdict
        return UnavailableError(f"the sandbox was ended {died_of(self._process.returncode)}")

    def kill(self, verdict: OpError | None = None) -> None:
        """End it at once."""
        if self._ended.is_set():
            return
        if self._verdict is None:
            self._verdict = verdict
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    # -- watching -----------------------------------------------------------------------------------

    async def drive(self, stream: PairStream, *, task_status: Any) -> None:
        """Drive the connection and watch the process, until one of them is over."""
        box = self._box
        most = box.memory_bytes + _SPARE_BYTES
        limits = Limits(message_bytes_max=most, incoming_bytes_max=most)
        identity = Identity("host", "sandbox", "host", self.incarnation)
        connection = Connection(
            Side.DIALLER,
            identity,
            address=stream.address,
            now=trio.current_time(),
            limits=limits,
            is_channel_authenticated=True,
        )
        self.peer = peer = Peer(stream, connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                await nursery.start(peer.run)
                self._gauge.settle(box.memory_bytes)
                task_status.started()
                await self._wait_exit(peer)
                nursery.cancel_scope.cancel()
        finally:
            self.kill()
            with trio.CancelScope(shield=True):
                await self._reap()

    async def _wait_exit(self, peer: Peer) -> None:
        async with trio.open_nursery() as nursery:

            async def by_peer() -> None:
                await peer.wait_ended()
                nursery.cancel_scope.cancel()

            nursery.start_soon(by_peer)
            await trio.lowlevel.wait_readable(self._handle)
            nursery.cancel_scope.cancel()

    async def _reap(self) -> None:
        await trio.lowlevel.wait_readable(self._handle)
        self._process.wait()
        os.close(self._handle)
        self._ended.set()

    async def _watch(self) -> None:
        """End the process where a step takes more than it may; its own bounds end the step before."""
        while True:
            if not self._steps:
                self._busy = trio.Event()
                await self._busy.wait()
            await trio.sleep(_LOOK_SECONDS)
            verdict = self._judge()
            if verdict is not None:
                logger.warning("%s", verdict.message)
                self.kill(verdict)
                return

    def _judge(self) -> OpError | None:
        box = self._box
        over = self._gauge.taken_bytes - box.memory_bytes
        if over > _SPARE_BYTES:
            return ResourceExhaustedError(
                f"the sandbox was ended: it took {over} bytes more than its {box.memory_bytes}"
            )
        now, cpu = trio.current_time(), self._gauge.cpu_seconds
        for times in self._steps.values():
            if times.cpu is None:
                times.cpu = cpu
            if now - times.began > box.seconds + _SPARE_SECONDS:
                return DeadlineExceededError(
                    f"the sandbox was ended: a step did not end within {box.seconds:g} s"
                )
            if cpu - times.cpu > box.seconds * box.cores + _SPARE_SECONDS:
                return DeadlineExceededError(
                    f"the sandbox was ended: a step took more than {box.seconds:g} s of each processor"
                )
        return None


def _orders(config: Config, box: Sandbox) -> BoxOrders:
    own = Path(flowengine.__file__).resolve().parent
    packages = [str(own), *(str(each.resolve()) for each in own.iterdir() if each.is_symlink())]
    modules = [str(Path(each).resolve()) for each in sys.path if each]
    # A folder of programs that is no environment's holds more than programs: only the imports' is opened.
    packages += [each for each in modules if each.endswith("-packages")]
    if box.imports:
        packages += modules
    settings = {
        each.name: value
        for each in fields(config)
        if each.name != "box" and (value := getattr(config, each.name)) is not None
    }
    return BoxOrders(
        parent=os.getpid(),
        packages=packages,
        modules=modules,
        write_bytes=box.write_bytes,
        read=list(box.read),
        write=list(box.write),
        require=list(box.require),
        imports=list(box.imports),
        exec_memory=box.exec_memory,
        settings=settings,
    )


async def start(config: Config, box: Sandbox) -> BoxProcess:
    """Start a process and wait until it has locked itself in.

    Raises FailedPreconditionError where a level is missing on this machine, UnavailableError where the
    process does not come up. It is driven by a system task of the run, until `kill`.
    """
    if not sys.platform.startswith("linux"):
        raise FailedPreconditionError("a sandbox needs Linux: Landlock and seccomp are parts of its kernel")
    ours, theirs = ends()
    try:
        # On this thread: a child dies with the thread that made it, and trio's own helpers may end any time.
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-I", "-c", _BEGIN, str(theirs.fileno()), *_module_folders()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        ours.close()
        raise UnavailableError(f"no process can be started: {error.strerror}") from None
    finally:
        theirs.close()
    found = BoxProcess(process, box)
    try:
        ours.setblocking(False)
        found.levels = await _first_word(ours, _orders(config, box))
    except BaseException:
        ours.close()
        found.kill()
        with trio.CancelScope(shield=True):
            await found._reap()
        raise
    opened = trio.Event()
    failed: list[OpError] = []

    async def drive() -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(found.drive, PairStream(ours, "sandbox", lends=False))
                opened.set()
        except* OpError as group:
            failed.extend(each for each in group.exceptions if isinstance(each, OpError))
        finally:
            opened.set()

    trio.lowlevel.spawn_system_task(drive, name="flowengine sandbox")
    await opened.wait()
    if not found.is_alive:
        raise failed[0] if failed else await found.why_ended()
    return found


def _module_folders() -> Sequence[str]:
    """Where this package is found, unless that is where every Python looks."""
    return [str(Path(flowengine.__file__).resolve().parents[1])]


async def _first_word(channel: socket.socket, orders: BoxOrders) -> dict[str, str]:
    """Give the orders and take the process's word."""
    line = bytearray()
    with trio.move_on_after(_START_SECONDS) as scope:
        waiting = memoryview(orders.to_line())
        while waiting:
            await trio.lowlevel.wait_writable(channel)
            with suppress(BlockingIOError):
                waiting = waiting[channel.send(waiting) :]
        while not line.endswith(b"\n") and len(line) < WORD_BYTES_MAX:
            await trio.lowlevel.wait_readable(channel)
            piece = channel.recv(WORD_BYTES_MAX - len(line))
            if not piece:
                break
            line += piece
    if scope.cancelled_caught:
        raise UnavailableError(f"the sandbox was not ready within {_START_SECONDS:g} s")
    try:
        word = json.loads(line)
        levels, error = dict(word["levels"]), str(word["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnavailableError("the sandbox ended before it was ready") from None
    if error:
        raise FailedPreconditionError(
            f"there can be no sandbox here: {printable(error)}; `flowengine sandbox --check` says what there "
            "is, and `require=` what must be there"
        )
    return {printable(name): printable(text) for name, text in levels.items()}


__all__ = ["BoxProcess", "start"]
