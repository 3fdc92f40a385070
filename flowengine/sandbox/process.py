"""A process in a box as its host sees it: asked, watched from outside, ended, and asked why it died.

The host reads nothing of the graph, and believes nothing that the process says. It watches what the kernel
tells of it: memory, time of the processor, and its end.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import trio

from flowengine.core.arrays import Array, Value
from flowengine.core.bounds import Sandbox
from flowengine.core.errors import (
    DeadlineExceededError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.sandbox import messages as w
from flowengine.sandbox.control_groups import MemoryGroup
from flowengine.sandbox.process_usage import THREADS_MAX, ProcessUsage, died_of
from flowengine.sandbox.requests import BoxRequest
from flowengine.sandbox.shared_values import Passage, copying, may_pass
from flowengine.sandbox.start_orders import HANDSHAKE_SECONDS, NO_MEMORY
from flowengine.transport.calls.service import Reply
from flowengine.transport.connection import Connection
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import MIB, Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.pair import PairStream
from flowengine.transport.wire.identity import Identity, new_incarnation
from flowengine.transport.wire.states import Side

logger: Final = logging.getLogger("flowengine.sandbox")

#: How often memory and time are looked at while steps run.
_LOOK_SECONDS: Final = 0.02
#: And while they have taken half of what they may.
_LOOK_CLOSELY_SECONDS: Final = 0.008
#: What the graph's own bounds leave to the process around it: text, code, plans, what is on its way.
_SPARE_BYTES: Final = 64 * MIB
#: As much of it can be had: what is asked for beyond is refused inside, before the process is ended.
_INNER_BYTES: Final = 32 * MIB
#: Between two looks so much can be had beyond that, until no more than these are left.
_ALWAYS_BYTES: Final = 9 * MIB
_LAST_BYTES: Final = 52 * MIB
#: What a process has to end when it has hung up.
_EXIT_SECONDS: Final = 0.25
#: What a step may take over its time: its own deadline comes first, and tells more.
_SPARE_SECONDS: Final = 0.25


@dataclass(slots=True)
class _StepTimes:
    """When a step began, and what its process had taken of the processors when it was first looked at."""

    began: float
    cpu: float | None = None


class BoxProcess:
    """A process that has locked itself in, and the connection to it. Made by `starting.start`."""

    def __init__(self, process: subprocess.Popen[bytes], box: Sandbox, passage: Passage | None) -> None:
        """`passage`: memory that both have; None where the system has none that can be sealed."""
        self._process = process
        self.passage = passage
        self._box = box
        self._handle = os.pidfd_open(process.pid)
        self._ended = trio.Event()
        #: Why this side has ended it; None where it did not.
        self._verdict: OpError | None = None
        self._gauge = ProcessUsage(process.pid)
        self._group = MemoryGroup.of(process.pid)
        self._was_full = False
        if passage is not None:
            self._gauge.shared_bytes = lambda: passage.charged_bytes
        #: {step: when it began, and the processor's time when it was first looked at}
        self._steps: dict[object, _StepTimes] = {}
        #: Calls whose answers will be taken; and whether some were not, since when memory is in doubt.
        self._in_flight = 0
        self._is_unsettled = False
        #: Whether a step with large feeds ended with an error, which says nothing of their memory.
        self._is_owed = False
        self._settling = trio.Lock()
        self._is_half_full = False
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

    def step_began(self, step: object, now: float) -> None:
        """Watch a step's time from now on."""
        if self._gauge.is_tight and not self._steps:
            self._gauge.rest()
            self._allow()
        self._steps[step] = _StepTimes(now)
        if not self._busy.is_set():
            self._busy.set()

    def step_ended(self, step: object) -> None:
        """Watch it no more."""
        self._steps.pop(step, None)

    async def run(self, request: BoxRequest, seconds: float, feeds: Sequence[Value]) -> list[Value] | None:
        """The values of a step, in memory of this process; None where the request is to be prepared again.

        As `Peer.call` for everything else. RemoteProtocolError for an answer that is none.
        """
        peer, passage = self.peer, self.passage
        assert peer is not None
        if passage is not None and self._is_unsettled and not self._in_flight:
            async with self._settling:
                if self._is_unsettled:
                    passage.settle_written(_places_of(await peer.call(w.SETTLE)))
                    passage.take_done()
                    self._is_unsettled = False
        self._in_flight += 1
        try:
            return await self._run(peer, request, seconds, feeds)
        except trio.Cancelled:
            # What its answer says of memory will not be heard.
            self._is_unsettled = True
            raise
        finally:
            self._in_flight -= 1

    async def _run(
        self, peer: Peer, request: BoxRequest, seconds: float, feeds: Sequence[Value]
    ) -> list[Value] | None:
        passage = self.passage
        if not feeds and seconds == self._box.seconds and not (passage is not None and passage.has_done):
            return await self._values(await peer.call_again(request.plain_step), request)
        message, beside = w.BoxRun(request.number, seconds), feeds
        fed = sum(getattr(each, "nbytes", 0) for each in feeds)
        if fed > self._box.memory_bytes:
            raise ResourceExhaustedError(
                f"what is fed takes {fed:,} bytes, the sandbox has {self._box.memory_bytes:,} for all values"
            )
        if passage is not None:
            if passage.used_bytes and any(map(may_pass, feeds)):
                is_owed, self._is_owed = self._is_owed, False
                passage.released(_places_of(await peer.call(w.FREED, is_owed)))
            sending = passage.sending(feeds, self._box.memory_bytes)
            try:
                await _copy(sending.copies)
                await trio.lowlevel.checkpoint_if_cancelled()
            except BaseException:
                passage.withdraw(sending)
                raise
            beside = sending.beside
            message = message._replace(places=sending.places, done=passage.take_done())
        try:
            reply = await peer.call(w.RUN, message.to_wire(), beside)
        except OpError:
            self._is_owed = self._is_owed or bool(message.places)
            raise
        return await self._values(reply, request)

    async def _values(self, reply: Reply, request: BoxRequest) -> list[Value] | None:
        if reply.result is None:
            return list(reply.tensors)
        if reply.result is w.DROPPED:
            return None
        passage, said = self.passage, None
        with suppress(OpError):
            said = w.BoxValues.from_wire(reply.result)
        if passage is None or said is None:
            raise RemoteProtocolError("the sandbox answered a step with something else than values")
        passage.released(said.done)
        if not said.places:
            return list(reply.tensors)
        values, offsets, copies = passage.receiving(said.places, reply.tensors, request.dtypes)
        try:
            await _copy(copies)
        finally:
            passage.received(offsets)
        return values

    async def why_ended(self) -> OpError:
        """Wait until it is gone; what its steps are told."""
        self.kill()
        await self._ended.wait()
        if self._verdict is not None:
            return self._verdict
        if self._was_full or self._process.returncode == NO_MEMORY:
            return ResourceExhaustedError(
                f"the sandbox ended: it needed more than its {self._box.memory_bytes} bytes"
            )
        return UnavailableError(f"the sandbox was ended {died_of(self._process.returncode)}")

    async def wait_ended(self) -> None:
        """Wait until it is gone, however long that is."""
        await self._ended.wait()

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
        limits = Limits(message_bytes_max=most, incoming_bytes_max=most, handshake_seconds=HANDSHAKE_SECONDS)
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
                await nursery.start(peer.run)
                self._gauge.settle(box.memory_bytes)
                if self._group is not None:
                    self._group.bound(most)
                self._allow()
                # Only now: before it has settled, all that it has would count as the graph's.
                nursery.start_soon(self._watch)
                task_status.started()
                await self._wait_exit(peer)
                nursery.cancel_scope.cancel()
        finally:
            self.kill()
            with trio.CancelScope(shield=True):
                await self.reap()

    async def _wait_exit(self, peer: Peer) -> None:
        async with trio.open_nursery() as nursery:

            async def by_peer() -> None:
                await peer.wait_ended()
                nursery.cancel_scope.cancel()

            nursery.start_soon(by_peer)
            await trio.lowlevel.wait_readable(self._handle)
            nursery.cancel_scope.cancel()
        # It has hung up, and may be about to say why by its exit code.
        with trio.move_on_after(_EXIT_SECONDS):
            await trio.lowlevel.wait_readable(self._handle)

    async def reap(self) -> None:
        """Wait for its end and give back what it had here."""
        await trio.lowlevel.wait_readable(self._handle)
        self._process.wait()
        os.close(self._handle)
        if self._group is not None:
            self._was_full = self._group.was_full
            self._group.remove()
        if self.passage is not None:
            self._gauge.shared_bytes = int
            self.passage.close()
        self._gauge.close()
        self._ended.set()

    async def _watch(self) -> None:
        """End the process where a step takes more than it may; its own bounds end the step before."""
        while True:
            if not self._steps:
                self._gauge.rest()
                self._allow()
                self._busy = trio.Event()
                await self._busy.wait()
            await trio.sleep(_LOOK_CLOSELY_SECONDS if self._is_half_full else _LOOK_SECONDS)
            verdict = self._judge()
            if verdict is not None:
                logger.warning("%s", verdict.message)
                self.kill(verdict)
                return

    def _allow(self) -> int:
        """Bound what it can ask for. What it takes more than the graph's values may."""
        over = self._gauge.taken_bytes - self._box.memory_bytes
        self._is_half_full = 2 * over > -self._box.memory_bytes
        self._gauge.allow(_INNER_BYTES - over, max(0, min(_ALWAYS_BYTES, _LAST_BYTES - over)))
        return over

    def _judge(self) -> OpError | None:
        box = self._box
        over = self._allow()
        if over > _SPARE_BYTES:
            return ResourceExhaustedError(
                f"the sandbox was ended: it took {over} bytes more than its {box.memory_bytes}"
            )
        if self._gauge.threads > THREADS_MAX:
            return ResourceExhaustedError(
                f"the sandbox was ended: it had {self._gauge.threads} threads and may have {THREADS_MAX}"
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


def _places_of(reply: Reply) -> list[int]:
    if type(reply.result) is not list:
        raise RemoteProtocolError("the sandbox speaks of memory in which no value lies")
    return reply.result


async def _copy(copies: Sequence[tuple[Array, Array]]) -> None:
    """Copy what is to be copied; others get turns. Cancelled, some of it is."""
    for _ in copying(copies):
        await trio.lowlevel.checkpoint()


__all__ = ["BoxProcess"]
