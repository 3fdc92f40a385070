"""A session whose steps run at an address: `fe.Session(graph, target="flow://host:port")`.

The session sends the graph to the master once, and again when it was extended. It sends a request's names
once; a step is one message there and one back. A master of the same process is called without messages, see
`near`. The next step replaces a lost connection, with a new session on the same graph.
"""

from __future__ import annotations

import contextvars
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.credentials import CLIENT, read_key
from flowengine.cluster.followed_runs import line_of, run_followed
from flowengine.cluster.graphs import graph_tensor
from flowengine.cluster.handlers import SESSION_FIELDS
from flowengine.cluster.health import connect_seconds, limits_for
from flowengine.cluster.local_sessions import NearPeer, find
from flowengine.cluster.target import Target
from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.arrays import Value
from flowengine.core.config import Config
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
)
from flowengine.core.lru_cache import LruCache
from flowengine.core.run_options import RunOptions, remote_timeout_of
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.failures import leaves_of
from flowengine.runtime.planning.fetches import as_values, leaf_values, spread_feeds, unpack
from flowengine.runtime.planning.large_string_feeds import converted
from flowengine.runtime.planning.requests import Request, Requests, request_key
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.transport.calls.service import Reply
from flowengine.transport.calls.templates import CallTemplate, fixed_call
from flowengine.transport.dialling import connect
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import Identity, new_incarnation

#: The time that a master may take to close a session before the connection is closed.
_CLOSE_SECONDS: Final = 1.0


class _RemoteRequest(NamedTuple):
    """A request that the master knows: its number there, and a call that runs it without feeds or options."""

    number: int
    plain_step: CallTemplate


class _Link:
    """One connection to the master, and the session there."""

    def __init__(self, peer: Peer | NearPeer, scope: trio.CancelScope) -> None:
        self.peer = peer
        self.scope = scope
        self.session = 0
        self.version = -1
        #: {key of a request: its number there, and the call of a plain step}
        self.prepared: LruCache[Any, _RemoteRequest] = LruCache(m.REQUESTS_MAX)
        #: Requests that the master need not keep any more; the next request that is prepared reports them.
        self.dropped: list[int] = []

    async def close(self) -> None:
        """Close the session at the master, and the connection. Cannot be cancelled."""
        with trio.CancelScope(shield=True):
            if self.session:
                # The session there is closed first, so that steps under way end as steps of a closed session
                # do.
                with trio.move_on_after(_CLOSE_SECONDS), suppress(OpError):
                    await self.peer.call(m.CLOSE_SESSION, m.SessionNumber(self.session).to_wire())
            await self.peer.aclose("the session was closed")
        self.scope.cancel()

    def forget_all(self) -> None:
        """Forget all prepared requests, because the graph was extended."""
        self.dropped.extend(each.number for each in self.prepared.values())
        self.prepared.clear()


#: The description of a request for the master: feeds, fetches and targets.
Names: TypeAlias = tuple[tuple[str, ...], ...]


class _NamedRequest(NamedTuple):
    """A request, and its names."""

    request: Request
    names: Names


def _asked(request: Request) -> _NamedRequest:
    names = (
        tuple(map(str, request.ports)),
        tuple(map(str, request.wanted.ports)),
        tuple(request.wanted.targets),
    )
    return _NamedRequest(request, names)


class RemoteSession:
    """Steps of one graph at a master. `fe.Session` passes its calls to this if it has a target."""

    def __init__(self, target: Target, graph: NodeGraph, config: Config) -> None:
        self._target = target
        self._graph = graph
        self._fields = {
            each.name: value
            for each in fields(config)
            if each.name in SESSION_FIELDS and (value := getattr(config, each.name)) is not None
        }
        self._key = read_key(target.key_file)
        self._certificates = target.certificates()
        self._name = f"client-{target.client or secrets.token_hex(6)}"
        settings = config.resolved()
        self._aborts = settings.abort_on_restart
        self._limits = limits_for(settings.silence_seconds)
        self._connect_seconds = connect_seconds(settings.silence_seconds)
        self._link: _Link | None = None
        #: Only one step at a time opens, within a scope that `close` cancels.
        self._opening = trio.Lock()
        self._opener = trio.CancelScope()
        self._requests = Requests(graph)
        self._version = graph.version
        self._read: LruCache[Any, _NamedRequest] = LruCache(m.REQUESTS_MAX)
        self._is_closed = False

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Run a step as `Session.run` does.

        Raises UnavailableError or ConnectionLostError if the master is lost.
        """
        feed_dict = spread_feeds(feed_dict or {})
        if self._version != self._graph.version:
            self._requests = Requests(self._graph)
            self._read.clear()
            self._version = self._graph.version
        leaves, pack = unpack(fetches)
        key = request_key(leaves, feed_dict, targets)
        asked = self._read.get(key) if key is not None else None
        if asked is None:
            asked = _asked(self._requests.read(leaves, list(feed_dict), targets))
            if key is not None:
                self._read.put(key, asked)
        return pack(await self._step(asked, list(feed_dict.values()), options, run_metadata))

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """Return a callable, as `Session.make_callable` does."""
        leaves, pack = unpack(as_values(self._graph, fetches))
        asked = _asked(Requests(self._graph).read(leaves, list(feeds), targets))
        size = len(asked.request.feeds)

        async def call(*values: Any) -> Any:
            if len(values) != size:
                raise InvalidArgumentError(f"this callable takes {size} values, it was given {len(values)}")
            return pack(await self._step(asked, values, None, None))

        return call

    async def _step(
        self,
        asked: _NamedRequest,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> list[Any]:
        request = asked.request
        feeds = await converted(request.feeds, values)
        try:
            reply = await self._reply(asked, feeds, options, run_metadata)
        except OpError as error:
            if isinstance(error, (NotFoundError, UnavailableError)):
                self._check_open(error)
            line = line_of(self._graph, error.node_name, error.op_type)
            error.creation_site = error.creation_site or line or None
            raise
        results = reply.tensors if isinstance(reply.tensors, list) else list(reply.tensors)
        # The list must hold the only reference to values that nobody else needs, so that they are not copied.
        del reply
        owned = [spec.convert(results, index) for index, spec in enumerate(request.fetches)]
        return leaf_values(owned, request.wanted.slots)

    async def _reply(
        self,
        asked: _NamedRequest,
        feeds: Sequence[Value],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> Reply:
        """Run a step on the master and return its reply."""
        link = await self._open()
        started = 0.0 if run_metadata is None else trio.current_time()
        while True:
            prepared = link.prepared.get(asked.names)
            if prepared is None:
                prepared = await self._prepare(link, asked.names)
            if not feeds and options is None and run_metadata is None:
                reply = await link.peer.call_again(prepared.plain_step)
            else:
                message = m.Run(
                    session=link.session,
                    prepared=prepared.number,
                    timeout_seconds=None if options is None else remote_timeout_of(options),
                    wants_metadata=run_metadata is not None,
                )
                if options is not None and (options.trace is not None or options.guard):
                    graph = self._graph
                    reply = await run_followed(link.peer, graph, message, feeds, options, run_metadata)
                else:
                    reply = await link.peer.call(m.RUN, message.to_wire(), feeds)
            if reply.result is not None:
                if run_metadata is not None:
                    _fill(run_metadata, reply.result, trio.current_time() - started)
                return reply
            # The master has dropped it meanwhile.
            link.prepared.pop(asked.names)

    async def _prepare(self, link: _Link, names: Names) -> _RemoteRequest:
        feeds, fetches, targets = names
        dropped, link.dropped = link.dropped, []
        message = m.Prepare(link.session, list(feeds), list(fetches), list(targets), dropped)
        number = int((await link.peer.call(m.PREPARE, message.to_wire())).result)
        prepared = _RemoteRequest(number, fixed_call(m.RUN, list(m.Run(link.session, number))))
        evicted = link.prepared.put(names, prepared)
        if evicted is not None:
            link.dropped.append(evicted[1].number)
        return prepared

    # -- state at the master ------------------------------------------------------------------------

    async def reset(self, containers: Sequence[str]) -> None:
        """Clear containers on every task of the cluster."""
        await self._call(m.RESET, m.Reset(list(containers), everywhere=True))

    async def random_places(self, sequences: Sequence[str]) -> dict[str, str]:
        """Return positions of random sequences, as `Session.random_places` does."""
        return dict(await self._call(m.RANDOM_PLACES, m.RandomPlaces(list(sequences))))

    async def set_random_places(self, sequences: Sequence[str], places: Mapping[str, str]) -> None:
        """Set positions of random sequences, as `Session.set_random_places` does."""
        await self._call(m.SET_RANDOM_PLACES, m.SetRandomPlaces(list(sequences), dict(places)))

    async def _call(self, method: str, message: m.Message) -> Any:
        """Call a method of the master that does not run a step, and return its result."""
        try:
            link = await self._open()
            return (await link.peer.call(method, message.to_wire())).result
        except (NotFoundError, UnavailableError) as error:
            self._check_open(error)
            raise

    def _check_open(self, error: OpError) -> None:
        """Return CancelledError if the session was closed meanwhile, because its values are gone."""
        if self._is_closed:
            raise CancelledError(SESSION_CLOSED) from error

    # -- the connection -----------------------------------------------------------------------------

    @property
    def has_opened(self) -> bool:
        """Whether there is a connection that only `close` ends."""
        return self._link is not None

    async def _open(self) -> _Link:
        """Return the connection with a session there that has the current graph."""
        if self._is_closed:
            raise FailedPreconditionError("this session is closed: open another")
        link = self._link
        if link is not None and link.peer.is_open and link.version == self._graph.version:
            return link
        if link is not None and not link.peer.is_open and self._aborts:
            raise AbortedError(
                f"the connection to {self._target.address} was lost since this session used it: open another"
            )
        async with self._opening:
            if self._is_closed:
                raise CancelledError(SESSION_CLOSED)
            with trio.CancelScope() as self._opener:
                link = self._link
                if link is None or not link.peer.is_open:
                    link = await self._begun()
                    if self._is_closed:
                        await link.close()
                    else:
                        self._link = link
                elif link.version != self._graph.version:
                    version = self._graph.version
                    extension = m.ExtendSession(link.session)
                    await link.peer.call(m.EXTEND_SESSION, extension.to_wire(), self._taken())
                    link.forget_all()
                    link.version = version
            if link is None or self._is_closed:
                raise CancelledError(SESSION_CLOSED)
            return link

    async def _begun(self) -> _Link:
        """Open a connection, with a session there. If cancelled, it leaves neither."""
        link = await self._connect()
        try:
            link.version = self._graph.version
            message = m.CreateSession(self._fields)
            reply = await link.peer.call(m.CREATE_SESSION, message.to_wire(), self._taken())
            link.session = int(reply.result)
        except BaseException:
            await link.close()
            raise
        return link

    def _taken(self) -> list[Value]:
        """Return the graph in the form in which it is sent: its nodes stay unchanged."""
        self._graph.note_needed(self._graph.nodes)
        return [graph_tensor(self._graph)]

    async def _connect(self) -> _Link:
        if self._key is None:
            raise UnauthenticatedError(
                f"the key of cluster '{self._target.cluster}' is not known: give key_file in the target, or "
                "set FLOWENGINE_CLUSTER_KEY_FILE"
            )
        # A new client name for each connection, because the sessions of the last one are over.
        identity = Identity(CLIENT, self._target.cluster, self._name, new_incarnation())
        near = find(self._target.address, self._target.cluster, self._key)
        # A client with a name of its own dials, because a new connection closes its older sessions there.
        if near is not None and not self._target.client:
            return _Link(NearPeer(near, identity), trio.CancelScope())
        outcome: list[_Link | Exception] = []
        opened = trio.Event()
        scope = trio.CancelScope()

        async def drive() -> None:
            # The connection outlives the step that opened it, so no nursery of the caller may hold it.
            try:
                with scope:
                    async with trio.open_nursery() as nursery:
                        with trio.fail_after(self._connect_seconds):
                            peer = await connect(
                                nursery,
                                self._target.address,
                                identity=identity,
                                key=self._key,
                                security=self._certificates,
                                limits=self._limits,
                            )
                        outcome.append(_Link(peer, scope))
                        opened.set()
            except* trio.TooSlowError:
                outcome.append(
                    UnavailableError(
                        f"the master at {self._target.address} did not answer within "
                        f"{self._connect_seconds:g} s"
                    )
                )
            except* Exception as group:
                outcome.extend(each for each in leaves_of(group) if isinstance(each, Exception))
            finally:
                opened.set()

        trio.lowlevel.spawn_system_task(
            drive,
            name=f"flowengine client of {self._target.address}",
            # The streams are opened under the settings of the caller.
            context=contextvars.copy_context(),
        )
        try:
            await opened.wait()
        except BaseException:
            scope.cancel()
            raise
        if not outcome:
            raise CancelledError("the trio run is ending")
        found = outcome[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        """Close the session there and the connection. Steps that run end with CancelledError."""
        if self._is_closed:
            return
        self._is_closed = True
        self._opener.cancel()
        link, self._link = self._link, None
        if link is not None:
            await link.close()


def _fill(metadata: RunMetadata, tables: Any, seconds: float) -> None:
    """Fill in the metadata of a step, summed over all tasks."""
    metadata.wall_seconds = seconds
    metadata.items = metadata.heavy_items = metadata.async_items = 0
    for task, table in dict(tables).items():
        metadata.items += table["items"]
        metadata.heavy_items += table["heavy_items"]
        metadata.async_items += table["async_items"]
        metadata.devices.update(table["devices"])
        metadata.transfers.update({edge: (each[0], each[1]) for edge, each in table["transfers"].items()})
        metadata.details[task] = table


def open_remote(target: str, graph: NodeGraph, config: Config) -> RemoteSession:
    """Open a remote session: `fe.Session` calls this for a target `flow://...` or `flow+tls://...`."""
    return RemoteSession(Target.parse(target), graph, config)


__all__ = ["RemoteSession", "open_remote"]
