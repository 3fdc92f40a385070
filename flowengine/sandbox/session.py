"""Sessions whose graph runs in a box: what `fe.Session` hands its calls to under `Config.sandbox`.

The graph goes to the process as the bytes that it is. Names of what is fed and fetched go as text, and the
process says what they mean; that, and the values that come back, is compared with what was asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config, box_of
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from flowengine.core.lru_cache import LruCache
from flowengine.core.run_options import RunOptions, remote_timeout_of
from flowengine.core.text import printable
from flowengine.graphs.opaque_graphs import GraphBytes, ModelFolder
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.planning.fetches import leaf_values, spread_feeds, unpack
from flowengine.runtime.planning.large_string_feeds import converted
from flowengine.runtime.planning.requests import request_key
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.sandbox import messages as w
from flowengine.sandbox.process import BoxProcess
from flowengine.sandbox.requests import AskedNames, BoxRequest
from flowengine.sandbox.signatures import believed
from flowengine.sandbox.spares import SpareBoxes, current_spares
from flowengine.sandbox.startup import start
from flowengine.saved_model.signatures import SignatureFacts
from flowengine.transport.errors import ConnectionLostError, RemoteProtocolError
from flowengine.transport.peer import Peer

#: So many deaths within so many seconds end the session: something is wrong that another process will meet.
_DEATHS_MAX: Final = 3
_DEATHS_SECONDS: Final = 10.0
#: What only a process can have caused that is gone, or says what no process of ours says.
_LOST: Final = (ConnectionLostError, RemoteProtocolError)
#: What of an error is text.
_TEXTS: Final = ("message", "node_name", "op_type", "device", "frame", "creation_site", "missing_op")


class BoxSession:
    """Steps of one graph in a process that has locked itself in. As `RemoteSession`.

    State lives and dies with the process: after a death the next step runs in a new one, with fresh variables
    and queues, and `incarnation` is another number.
    """

    def __init__(self, target: str, graph: NodeGraph, config: Config) -> None:
        box = box_of(config)
        if box is None:
            raise InvalidArgumentError(f"a session at {target!r} needs its bounds: give Config.sandbox(...)")
        if isinstance(graph, ModelFolder):
            box = replace(box, read=(*box.read, str(graph.path)))
        elif not isinstance(graph, GraphBytes) and not box.trusted_graph:
            raise InvalidArgumentError(
                "a graph that was read in this process is no stranger's any more: give a sandboxed session "
                "fe.GraphBytes(data), or say trusted_graph=True"
            )
        self._box: Sandbox = box
        self._graph = graph
        self._config = config
        self._version = -1
        self._process: BoxProcess | None = None
        #: Where other processes wait, once this session has asked for one.
        self._spares: SpareBoxes | None = None
        #: One step at a time opens, within a scope that `close` cancels.
        self._opening = trio.Lock()
        self._opener = trio.CancelScope()
        self._asked: LruCache[Any, AskedNames] = LruCache(w.REQUESTS_MAX)
        self._requests: LruCache[Any, BoxRequest] = LruCache(w.REQUESTS_MAX)
        self._deaths: deque[float] = deque(maxlen=_DEATHS_MAX)
        self._is_closed = False
        self._signatures: dict[str, SignatureFacts] = {}
        #: What is asked of the process and has no answer yet, the oldest first.
        self.running: dict[object, None] = {}

    @property
    def has_opened(self) -> bool:
        """Whether there is a process that only `close` ends."""
        return self._process is not None

    @property
    def incarnation(self) -> int:
        """The number of the process that holds the state; 0 before the first step."""
        return 0 if self._process is None else self._process.incarnation

    @property
    def levels(self) -> dict[str, str]:
        """The levels of isolation that make up the box; empty before the first step."""
        return {} if self._process is None else dict(self._process.levels)

    async def signatures(self) -> dict[str, SignatureFacts]:
        """Those of a SavedModel, as the process says; read now if it has not been. None of a bare graph."""
        await self._open()
        return self._signatures

    # -- steps --------------------------------------------------------------------------------------

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """As `Session.run`. Besides: ResourceExhaustedError or DeadlineExceededError where the process was
        ended for what it took, UnavailableError where it died, AbortedError for other steps of that process.
        """
        feed_dict = spread_feeds(feed_dict or {})
        leaves, pack = unpack(fetches)
        key = request_key(leaves, feed_dict, targets)
        asked = self._asked.get(key) if key is not None else None
        if asked is None:
            asked = AskedNames(self._graph, leaves, list(feed_dict), targets)
            if key is not None:
                self._asked.put(key, asked)
        return pack(await self._step(asked, list(feed_dict.values()), options, run_metadata))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """As `Session.make_callable`. What the names mean is only known with the first call."""
        leaves, pack = unpack(fetches)
        asked = AskedNames(self._graph, leaves, feeds, targets, as_values=True)
        size = len(asked.feeds)

        async def call(*values: Any) -> Any:
            if len(values) != size:
                raise InvalidArgumentError(f"this callable takes {size} values, it was given {len(values)}")
            return pack(await self._step(asked, values, None, None))

        return call

    async def _step(
        self,
        asked: AskedNames,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> list[Any]:
        timeout = None if options is None else remote_timeout_of(options)
        is_followed = options is not None and (options.trace is not None or options.guard)
        seconds = self._box.seconds if timeout is None else min(timeout, self._box.seconds)
        process = await self._open()
        began = trio.current_time()
        async with _RequestWatch(self, process):
            if options is not None and is_followed:
                results, request = await self._call_followed(
                    process, asked, values, seconds, options, run_metadata
                )
            else:
                results, request = await self._call(process, asked, values, seconds)
            owned = request.values(results)
        if run_metadata is not None:
            run_metadata.wall_seconds = trio.current_time() - began
        return leaf_values(owned, asked.slots)

    async def _call(
        self, process: BoxProcess, asked: AskedNames, values: Sequence[Any], seconds: float
    ) -> tuple[list[Any], BoxRequest]:
        peer = process.peer
        assert peer is not None
        while True:
            request = self._requests.get(asked.key)
            if request is None:
                request = await self._prepared(peer, asked)
                self._requests.put(asked.key, request)
            feeds = await converted(request.feeds, values)
            results = await process.run(request, seconds, feeds)
            if results is not None:
                return results, request
            # The process has dropped it meanwhile.
            self._requests.pop(asked.key)

    async def _prepared(self, peer: Peer, asked: AskedNames) -> BoxRequest:
        reply = await peer.call(w.PREPARE, asked.message().to_wire())
        return BoxRequest(asked, w.BoxMeaning.from_wire(reply.result), self._box.seconds)

    async def _call_followed(
        self,
        process: BoxProcess,
        asked: AskedNames,
        values: Sequence[Any],
        seconds: float,
        options: RunOptions,
        run_metadata: RunMetadata | None,
    ) -> tuple[list[Any], BoxRequest]:
        """As `_call`, traced or guarded: by a request that no other step uses."""
        from flowengine.sandbox.followed_steps import run_followed

        peer = process.peer
        assert peer is not None
        request = await self._prepared(peer, asked)
        feeds = await converted(request.feeds, values)
        results = await run_followed(
            peer,
            self._graph,
            request.number,
            lambda: process.run(request, seconds, feeds),
            options,
            run_metadata,
        )
        if results is None:
            raise UnavailableError("the sandbox dropped the request before its step: run it again")
        return results, request

    # -- the process --------------------------------------------------------------------------------

    async def _open(self) -> BoxProcess:
        """The process with the graph as it is now."""
        if self._is_closed:
            raise FailedPreconditionError("this session is closed: open another")
        process = self._process
        if process is not None and process.is_alive and self._version == self._graph.version:
            return process
        async with self._opening:
            if self._is_closed:
                raise CancelledError(SESSION_CLOSED)
            with trio.CancelScope() as self._opener:
                process = self._process
                if process is None or not process.is_alive:
                    self._check_deaths()
                    process = self._taken_spare() or await start(self._config, self._box)
                    if self._is_closed:
                        await _end(process)
                        raise CancelledError(SESSION_CLOSED)
                    self._process, self._version = process, -1
                if self._version != self._graph.version:
                    await self._send_graph(process)
                if self._spares is not None:
                    self._spares.begin(self._config, self._box)
            if process is None or self._is_closed:
                raise CancelledError(SESSION_CLOSED)
        return process

    async def _send_graph(self, process: BoxProcess) -> None:
        from flowengine.cluster.graphs import graph_tensor

        version, graph, peer = self._graph.version, self._graph, process.peer
        assert peer is not None
        is_new = self._version < 0
        message, data = w.BoxOpen("", []), []
        if isinstance(graph, ModelFolder):
            message = w.BoxOpen(str(graph.path), list(graph.tags or ()))
        elif isinstance(graph, GraphBytes):
            data = [np.frombuffer(graph.data, np.uint8)]
        else:
            data = [graph_tensor(graph)]
        self._requests.clear()
        async with _RequestWatch(self, process):
            self._signatures = believed(await peer.call(w.OPEN, message.to_wire(), data))
            if is_new and self._box.init:
                asked = w.BoxPrepare([], [], list(self._box.init), as_values=False)
                number = w.BoxMeaning.from_wire((await peer.call(w.PREPARE, asked.to_wire())).result).number
                await peer.call(w.RUN, w.BoxRun(number, self._box.seconds).to_wire())
        self._version = version

    def _check_deaths(self) -> None:
        now = trio.current_time()
        if len(self._deaths) == _DEATHS_MAX and now - self._deaths[0] < _DEATHS_SECONDS:
            self._is_closed = True
            raise FailedPreconditionError(
                f"this session is closed: its process died {_DEATHS_MAX} times within {_DEATHS_SECONDS:g} s"
            )

    async def died(self, process: BoxProcess, step: object, error: OpError) -> OpError:
        """Return the error for a step whose process is gone: the oldest gets the reason.

        The other steps get an AbortedError, which says that another step ended the process.
        """
        if isinstance(error, RemoteProtocolError):
            process.kill(UnavailableError(f"the sandbox was ended: {printable(error.message)}"))
        is_oldest = next(iter(self.running), step) is step
        if self._is_closed:
            return CancelledError(SESSION_CLOSED)
        why = await process.why_ended()
        if self._process is process:
            self._process = None
            self._deaths.append(trio.current_time())
        if is_oldest:
            return why
        return AbortedError(f"the sandbox, and its state, ended because of another step: {why.message}")

    def _taken_spare(self) -> BoxProcess | None:
        """A process that waits, by whichever session it was begun; None where there is none."""
        if not self._box.spare:
            return None
        if self._spares is None:
            self._spares = current_spares()
            self._spares.join(self._config, self._box)
        return self._spares.take(self._config, self._box)

    # -- what is held there -------------------------------------------------------------------------

    async def reset(self, containers: Sequence[str]) -> None:
        """Clear containers of the process; all of them if none is named. Its bounds are those of a step."""
        process = await self._open()
        assert process.peer is not None
        async with _RequestWatch(self, process):
            await process.peer.call(w.RESET, w.BoxReset(list(containers)).to_wire())

    async def random_places(self, sequences: Sequence[str]) -> dict[str, str]:
        """Not of a process that may be gone with the next step: FailedPreconditionError."""
        raise FailedPreconditionError("a sandboxed session's state ends with its process: it cannot be kept")

    async def set_random_places(self, sequences: Sequence[str], places: Mapping[str, str]) -> None:
        """As `random_places`."""
        await self.random_places(sequences)

    async def close(self) -> None:
        """End the process. Steps that run end with CancelledError."""
        self._is_closed = True
        self._opener.cancel()
        spares, self._spares = self._spares, None
        if spares is not None:
            spares.leave(self._config, self._box)
        process, self._process = self._process, None
        if process is not None:
            await _end(process)


class _RequestWatch:
    """While something is asked of the process: the time that it takes is bounded, and its errors are shown.

    An error of a process that is gone says why it is, and the next thing asked has a new process.
    """

    __slots__ = ("_process", "_session")

    def __init__(self, session: BoxSession, process: BoxProcess) -> None:
        self._session = session
        self._process = process

    async def __aenter__(self) -> None:
        self._session.running[self] = None
        self._process.step_began(self, trio.current_time())

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        process, session = self._process, self._session
        try:
            if isinstance(error, OpError):
                if process.is_alive and not isinstance(error, _LOST):
                    raise _cleaned(error) from None
                raise await session.died(process, self, error) from None
        finally:
            process.step_ended(self)
            session.running.pop(self, None)


async def _end(process: BoxProcess) -> None:
    """Kill a process whose session is closed. Cannot be cancelled: it ends soon."""
    process.kill(UnavailableError("the session was closed"))
    with trio.CancelScope(shield=True):
        await process.why_ended()


def _cleaned(error: OpError) -> OpError:
    """An error whose texts can be shown: bounded, without control characters."""
    for name in _TEXTS:
        text = getattr(error, name)
        if text is not None:
            setattr(error, name, printable(text))
    error.args = (error.message,)
    if error.input_shapes is not None:
        error.input_shapes = tuple(printable(each, 200) for each in error.input_shapes[:32])
    return error


def open_box(target: str, graph: NodeGraph, config: Config) -> BoxSession:
    """Open a sandboxed session: `fe.Session` calls this for a target `sandbox:`."""
    return BoxSession(target, graph, config)


__all__ = ["BoxSession", "open_box"]
