"""The service of a process in a box, over the wire protocol: open a graph, resolve names, run steps."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import trio

from flowengine.cluster.followed_part import FollowedPart
from flowengine.core.accounting import bytes_of
from flowengine.core.arrays import Value, to_array
from flowengine.core.buffers import keep_idle
from flowengine.core.config import Config
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, OpError
from flowengine.core.files.access import FileAccess
from flowengine.core.lru_cache import LruCache
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import OutputPort
from flowengine.kernels.load import registry as kernel_registry
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.fetches import as_values
from flowengine.runtime.planning.requests import Requests
from flowengine.runtime.planning.values import lent_values
from flowengine.sandbox import confine
from flowengine.sandbox import messages as w
from flowengine.sandbox.allowed_ops import AllowedKernels, AllowedOps
from flowengine.sandbox.shared_memory import Segment
from flowengine.sandbox.shared_values import PASSED_MIN, Passage, copying, may_pass
from flowengine.sandbox.signatures import encoded
from flowengine.sandbox.start_orders import HANDSHAKE_SECONDS, NO_MEMORY, BoxOrders, said
from flowengine.sandbox.steps import StepCall, StepTasks
from flowengine.saved_model.loading import restore
from flowengine.saved_model.reading import read_saved_model
from flowengine.session import Session
from flowengine.transport.calls.service import Answer, IncomingCall, Reply, Service
from flowengine.transport.connection import Connection
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.pair import PairStream
from flowengine.transport.wire.identity import Identity, new_incarnation
from flowengine.transport.wire.states import Side

_CLUSTER: Final = "sandbox"
#: A graph that makes the first step's libraries and threads before calls are closed.
_WARM_ELEMENTS: Final = 64
#: The same so large that a provider's library is loaded for it.
_LARGE_ELEMENTS: Final = 256
#: What only some kernels need: some 20 MB, which near a bound would be too much.
_LIBRARIES: Final = ("scipy.fft", "scipy.linalg", "scipy.sparse", "scipy.special")
#: Idle memory that is kept for large results: the host counts it, and ends what takes 64 MB too much.
_IDLE_BYTES: Final = 8 << 20


class _ChildRequest(NamedTuple):
    """A request: names of what is fed, fetched and run; NumPy's dtypes of what is fed.

    followed   the part that is recorded, if its one step is traced or guarded
    """

    feeds: tuple[str, ...]
    dtypes: tuple[Any, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    followed: FollowedPart | None = None


class BoxService:
    """The methods of one process: one graph, its variables and queues, its steps."""

    def __init__(
        self, config: Config, allowed: AllowedOps, passage: Passage | None, nursery: trio.Nursery
    ) -> None:
        """`allowed`: the ops that its graphs may use; `nursery`: where steps run."""
        self._config = config
        self._kernels = AllowedKernels(kernel_registry(config.resolved().kernel_provider), allowed)
        self._steps = StepTasks(nursery)
        self._passage = passage
        self._resources = ResourceManager()
        self._session: Session | None = None
        self._requests: Requests | None = None
        self._prepared: LruCache[int, _ChildRequest] = LruCache(w.REQUESTS_MAX)
        self._next = 1

    def service(self) -> Service:
        """The methods by name."""
        plain = {
            w.OPEN: self._open,
            w.PREPARE: self._prepare,
            w.FOLLOW: self._follow,
            w.TAKE_PART: self._take_part,
            w.READ_CLOCK: self._read_clock,
            w.RESET: self._reset,
            w.SETTLE: self._settle,
            w.FREED: self._freed,
        }
        return Service(plain, {w.RUN: self._begin})

    async def _open(self, request: IncomingCall) -> Reply:
        """Read a graph instead of the last one; what variables hold stays. A SavedModel's signatures."""
        message = w.BoxOpen.from_wire(request.arguments)
        signatures: Reply = Reply({})
        if message.path:
            # Its folder is among what may be read.
            saved = await trio.to_thread.run_sync(read_saved_model, message.path, message.tags or None)
            session = self._session_of(saved.graph)
            await restore(session, saved)
            signatures = encoded(saved.signatures)
        elif len(request.tensors) == 1 and isinstance(request.tensors[0], np.ndarray):
            graph = Graph.from_graph_def(request.tensors[0].tobytes())
            session = self._session_of(graph)
        else:
            raise InvalidArgumentError(f"'{w.OPEN}' comes with one graph")
        session.hand_out = lent_values
        self._session = session
        self._requests = Requests(session.graph)
        self._prepared.clear()
        return signatures

    def _session_of(self, graph: Graph) -> Session:
        return Session(graph, config=self._config, resources=self._resources, kernels=self._kernels)

    def _opened(self) -> tuple[Session, Requests]:
        if self._session is None or self._requests is None:
            raise FailedPreconditionError("no graph has been opened here")
        return self._session, self._requests

    def _prepare(self, request: IncomingCall) -> Any:
        message = w.BoxPrepare.from_wire(request.arguments)
        session, requests = self._opened()
        fetches = message.fetches
        if message.as_values:
            fetches = [as_values(session.graph, each) for each in fetches]
        read = requests.read(fetches, message.feeds, message.targets)
        names = tuple(map(str, read.wanted.ports))
        number, self._next = self._next, self._next + 1
        dtypes = tuple(spec.dtype.as_numpy_dtype for spec in read.feeds)
        prepared = _ChildRequest(tuple(map(str, read.ports)), dtypes, names, tuple(read.wanted.targets))
        self._prepared.put(number, prepared)
        # What is fetched is told in the caller's order; a name without a value is told as such.
        return w.BoxMeaning(
            number=number,
            feeds=[_described(spec.name, spec.dtype.name, spec.shape.dims) for spec in read.feeds],
            fetches=[self._fetched(session, port) for port in read.wanted.ports],
            positions=list(read.wanted.slots),
        ).to_wire()

    def _fetched(self, session: Session, port: OutputPort) -> dict[str, Any]:
        types = session.graph[port.node].output_types
        if port.slot >= len(types):
            raise NotFoundError(f"'{port}' cannot be fetched: the op of '{port.node}' is not known here")
        return _described(str(port), types[port.slot].base.name, None)

    def _begin(self, request: IncomingCall, answer: Answer) -> StepCall:
        message = w.BoxRun.from_wire(request.arguments)
        prepared = self._prepared.get(message.prepared)
        given = request.tensors
        if self._passage is not None and (message.places or message.done):
            self._passage.released(message.done)
            # Whatever becomes of the step: with the last reference to a feed its place is free.
            if prepared is not None and message.places:
                given = self._passage.lent(message.places, given, prepared.dtypes, self._book)
        for value in request.tensors:
            if getattr(value, "nbytes", 0) > PASSED_MIN:
                self._book(_bottom(value), bytes_of(value))
        call = StepCall(partial(self._run, prepared, given), message.timeout_seconds, answer)
        self._steps.begin(call)
        return call

    def _book(self, owner: Any, size: int) -> None:
        """Count what was fed among what the graph's values take."""
        account = self._resources.account
        if account is not None:
            account.book(owner, size, "what was fed")

    async def _run(self, prepared: _ChildRequest | None, tensors: list[Value]) -> Reply:
        session, _ = self._opened()
        if prepared is None:
            return Reply(w.DROPPED)
        if len(tensors) != len(prepared.feeds):
            raise InvalidArgumentError(
                f"the request takes {len(prepared.feeds)} feeds, it was given {len(tensors)}"
            )
        feeds = dict(zip(prepared.feeds, tensors, strict=True))
        # What lies in memory that passes is to be free again when the step is over.
        tensors.clear()
        if feeds and self._resources.account is not None:
            self._resources.account.check()
        try:
            if prepared.followed is None:
                values = list(await session.run(prepared.fetches, feeds, targets=prepared.targets))
            else:
                values = list(await self._run_followed(session, prepared, prepared.followed, feeds))
        finally:
            feeds.clear()
        return self._reply(session, values)

    # -- steps that are traced or guarded ------------------------------------------------------------

    def _follow(self, request: IncomingCall) -> None:
        message = w.BoxFollow.from_wire(request.arguments)
        prepared = self._prepared.get(message.prepared)
        if prepared is None:
            raise NotFoundError(f"there is no request {message.prepared}")
        self._prepared.put(message.prepared, prepared._replace(followed=FollowedPart(message.options)))

    async def _run_followed(
        self, session: Session, prepared: _ChildRequest, part: FollowedPart, feeds: dict[str, Value]
    ) -> Any:
        error: BaseException | None = None
        part.begin()
        try:
            return await session.run(
                prepared.fetches,
                feeds,
                targets=prepared.targets,
                options=part.options,
                run_metadata=part.metadata,
            )
        except BaseException as raised:
            error = raised
            raise
        finally:
            part.end(error)

    async def _take_part(self, request: IncomingCall) -> Reply:
        message = w.BoxTakePart.from_wire(request.arguments)
        prepared = self._prepared.pop(message.prepared)
        if prepared is None or prepared.followed is None:
            raise NotFoundError(f"request {message.prepared} is not followed")
        part, tensors = await prepared.followed.taken(message.seconds, perf_counter)
        return Reply(part.to_wire(), tensors)

    def _read_clock(self, _: IncomingCall) -> float:
        return perf_counter()

    def _reply(self, session: Session, values: list[Any]) -> Reply:
        passage = self._passage
        if passage is None or not (passage.has_done or any(map(may_pass, values))):
            return Reply(None, _arrays(values))
        # A value is there twice until the host has copied it: only as far as the graph leaves room for it.
        held = (session.statistics().used_bytes or 0) + passage.charged_bytes - passage.lent_bytes
        beside, places, copies = passage.sending(values, (self._config.session_memory_bytes or 0) - held)
        for _ in copying(copies):
            pass
        beside, done = _arrays(beside), passage.take_done()
        if not places and not done:
            return Reply(None, beside)
        return Reply(w.BoxValues(places, done).to_wire(), beside)

    async def _settle(self, _: IncomingCall) -> list[int]:
        """Wait until no step runs, after answers that nobody took. The places that feeds still lie in."""
        await self._steps.wait_idle()
        gc.collect()
        return [] if self._passage is None else self._passage.settle_read()

    def _freed(self, request: IncomingCall) -> list[int]:
        """Places of feeds that are free again, of which no answer has told. True: also by the collector."""
        if self._passage is None:
            return []
        if request.arguments is True and self._passage.lent_bytes:
            gc.collect()
        return self._passage.take_done()

    async def _reset(self, request: IncomingCall) -> None:
        self._resources.reset(w.BoxReset.from_wire(request.arguments).containers)
        await self._resources.ended()


def _described(name: str, dtype: str, dims: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "dims": None if dims is None else list(dims)}


def _arrays(values: list[Any]) -> list[Value]:
    """Values as they travel. A variable writes elsewhere while what was read of it is on its way."""
    return [each if isinstance(each, np.ndarray) else to_array(each) for each in values]


def _bottom(value: Any) -> Any:
    """The array that others are views of."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


async def _warm_up(config: Config, elements: int) -> None:
    """Run a step of every kind of library: its threads, and what it reads from the system, come now."""
    graph = Graph()
    a = graph.constant(np.ones((elements, elements), np.float32))
    product = graph.ops.MatMul(a=a, b=a)
    async with Session(graph, config=config) as session:
        await session.run(product)
    await trio.to_thread.run_sync(int)


async def _serve(orders: BoxOrders, levels: Mapping[str, str], channel: socket.socket) -> None:
    has_files = bool(orders.read or orders.write)
    access = FileAccess(orders.read, orders.write, orders.write_bytes) if has_files else "none"
    config = Config(**orders.settings, file_access=access)
    for module in orders.imports:
        importlib.import_module(module)
    if orders.warms or not orders.exec_memory:
        list(kernel_registry(config.resolved().kernel_provider))
    await _warm_up(config, _LARGE_ELEMENTS if orders.warms else _WARM_ELEMENTS)
    if orders.warms:
        for module in _LIBRARIES:
            importlib.import_module(module)
    try:
        confine.limit_sizes(orders.write_bytes)
        if confine.SECCOMP in levels:
            confine.close_calls(exec_memory=orders.exec_memory)
    except confine.ConfinementError as error:
        channel.sendall(said({}, str(error)))
        return
    channel.sendall(said(levels))
    keep_idle(_IDLE_BYTES)
    passage = None
    if orders.segments:
        into, out = (Segment(descriptor, size) for descriptor, size in orders.segments)
        passage = Passage(out, into, orders.idle_bytes)
    stream = PairStream(channel, "the host", lends=True)
    identity = Identity(_CLUSTER, _CLUSTER, "box", new_incarnation())
    now = trio.current_time()
    connection = Connection(
        Side.LISTENER,
        identity,
        address=stream.address,
        now=now,
        limits=Limits(handshake_seconds=HANDSHAKE_SECONDS),
        is_channel_authenticated=True,
    )
    async with trio.open_nursery() as nursery:
        allowed = AllowedOps(reads=bool(orders.read), writes=bool(orders.write))
        service = BoxService(config, allowed, passage, nursery).service()
        await Peer(stream, connection, service=service).run()
        nursery.cancel_scope.cancel()


def serve(orders: BoxOrders, levels: Mapping[str, str], channel: socket.socket) -> None:
    """Lock the rest and answer until the host is gone."""
    sys.path[:] = orders.modules
    try:
        trio.run(_serve, orders, levels, channel)
    except OpError:
        sys.exit(0)  # the host is gone, or speaks another language
    except BaseException as error:
        if _is_of_memory(error):
            sys.exit(NO_MEMORY)
        raise


def _is_of_memory(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_of_memory, error.exceptions))
    before = error.__cause__ or error.__context__
    return isinstance(error, MemoryError) or (before is not None and _is_of_memory(before))


__all__ = ["BoxService", "serve"]
