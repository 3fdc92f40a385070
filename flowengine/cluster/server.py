"""A task of a cluster inside a trio program: worker and master behind one address.

async with fe.Server(cluster, "worker", 0, key=key) as server:
    await server.wait_drained()
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.cluster import messages as m
from flowengine.cluster import near
from flowengine.cluster.devices import described
from flowengine.cluster.health import connect_seconds, limits_for
from flowengine.cluster.links import Links
from flowengine.cluster.master import ClusterSession, Master
from flowengine.cluster.spec import ClusterSpec, device_prefix, task_name
from flowengine.cluster.worker import Master as Registrar
from flowengine.cluster.worker import Worker, is_cancelled_here, read_graph
from flowengine.core.config import Config
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    UnavailableError,
)
from flowengine.devices.load import DEVICES
from flowengine.kernels.load import registry as kernel_registry
from flowengine.resources.container import ResourceManager
from flowengine.transport.calls.service import NOTHING, Answer, Cancellable, Reply, Request, Service
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.server import listen, serve
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.wire.identity import Identity, check_key, new_incarnation

logger: Final = logging.getLogger("flowengine.cluster")

#: The role of a task, and of whoever only opens sessions.
WORKER: Final = "worker"
CLIENT: Final = "client"
#: Where a cluster's key is looked for if it is not given: the key itself, as hexadecimal digits, or a file.
KEY_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY"
KEY_FILE_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY_FILE"


def read_key(key_file: str = "") -> bytes | None:
    """The cluster's key: from this file, else from the environment; None if nothing says one.

    Raises NotFoundError for a file that is not there, InvalidArgumentError for a key that is too short.
    """
    key_file = key_file or os.environ.get(KEY_FILE_VARIABLE, "")
    if key_file:
        try:
            text = Path(key_file).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise NotFoundError(f"there is no key file {key_file}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"the key file {key_file} cannot be read: {error}") from None
    else:
        text = os.environ.get(KEY_VARIABLE, "").strip()
        if not text:
            return None
    try:
        return check_key(bytes.fromhex(text))
    except ValueError:
        where = key_file or KEY_VARIABLE
        raise InvalidArgumentError(f"{where} does not hold a key in hexadecimal digits") from None


class Server:
    """One task of a cluster: its worker service, and a master service for clients that dial it.

    cluster     who is in it
    job, task   which of its tasks this is
    key         the cluster's key; if None, the cluster's key file or the environment says it
    config      settings of what runs here: devices, memory, file access
    scheme      how addresses are reached: "tcp", "tls" (with `security`), "inproc" (within a process)

    Use it with `async with`. When it ends, its steps end with UnavailableError and its state is freed.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        job: str,
        task: int,
        *,
        key: bytes | None = None,
        config: Config | None = None,
        scheme: str = "tcp",
        security: Any = None,
        limits: Limits | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = task_name(job, task)
        address = cluster.address(self.name)
        self._key = key if key is not None or scheme == "tls" else read_key(cluster.key_file)
        self._scheme = scheme
        self._security = security
        self._settings = settings = (config if config is not None else Config()).resolved()
        self._limits = limits if limits is not None else limits_for(settings.silence_seconds)
        self.identity = Identity(WORKER, cluster.name, self.name, new_incarnation())
        self._address = f"{scheme}://{address}"
        kernels = kernel_registry(settings.kernel_provider)
        self._exchange = Exchange(self.name)
        self.worker = Worker(
            task=self.name,
            incarnation=self.identity.incarnation,
            devices=DEVICES.make(
                settings.device_count, settings.device_memory_limits, task=device_prefix(job, task)
            ),
            resources=ResourceManager(),
            settings=settings,
            kernels=kernels,
            exchange=self._exchange,
        )
        self._kernels = kernels
        self._master: Master | None = None
        self._links: Links | None = None
        self._near: near.NearMaster | None = None
        self._nursery_manager: Any = None
        self._nursery: trio.Nursery | None = None
        self._is_draining = False
        self._is_ending = False
        self._started_at = 0.0

    # -- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Server:
        """Listen. Raises UnavailableError if the address is taken, InvalidArgumentError without a key."""
        listener = await listen(self._address, security=self._security)
        self._address = listener.address
        self._nursery_manager = trio.open_nursery()
        self._nursery = await self._nursery_manager.__aenter__()
        self.worker.nursery = self._nursery
        service = Service(
            self._handlers(),
            {m.RUN: self._begin_run, m.RUN_GRAPH: self._run_graph},
            (m.RUN_GRAPH_AGAIN,),
        )
        self._links = Links(
            self._nursery,
            identity=self.identity,
            key=self._key,
            exchange=self._exchange,
            service=service,
            addresses={task: f"{self._scheme}://{address}" for task, address in self.cluster.tasks.items()},
            limits=self._limits,
            security=self._security,
            connect_seconds=connect_seconds(self._settings.silence_seconds),
        )
        self._links.addresses[self.name] = self._address
        self._links.on_lost.append(self._lost)
        self._master = Master(
            identity=self.identity, worker=self.worker, links=self._links, kernels=self._kernels
        )
        self._started_at = trio.current_time()
        self._nursery.start_soon(self._master.tell)
        self._nursery.start_soon(self._master.watch.run)
        self._nursery.start_soon(self._serve, listener, service)
        self._near = near.enter(self._address, self.cluster.name, self._key, service)
        logger.info("%s of cluster '%s' serves at %s", self.name, self.cluster.name, self._address)
        return self

    async def _serve(self, listener: Any, service: Service) -> None:
        await serve(
            listener,
            identity=self.identity,
            key=self._key,
            limits=self._limits,
            service=service,
            tensors=self._links,
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        assert self._nursery is not None
        if self._near is not None:
            near.leave(self._near)
        self._is_ending = True
        self.worker.close()
        self._nursery.cancel_scope.cancel()
        if error is None or _holds_cancelled(error):
            return bool(await self._nursery_manager.__aexit__(kind, error, trace))
        # The body's own error is not put into a group with nothing else in it.
        await self._nursery_manager.__aexit__(None, None, None)
        return False

    @property
    def address(self) -> str:
        """Where it listens: "tcp://127.0.0.1:7000"."""
        return self._address

    @property
    def target(self) -> str:
        """The target of a session whose master this is."""
        return f"flow://{self._address.partition('://')[2]}"

    async def drain(self) -> None:
        """Take no more sessions and steps, and return when those that run have ended."""
        self._is_draining = True
        await self.master.wait_idle()
        await self.worker.wait_idle()

    @property
    def master(self) -> Master:
        """The task's master. FailedPreconditionError before `async with`."""
        if self._master is None:
            raise FailedPreconditionError(f"{self.name} does not serve yet: use `async with`")
        return self._master

    @property
    def links(self) -> Links:
        """The task's connections. FailedPreconditionError before `async with`."""
        if self._links is None:
            raise FailedPreconditionError(f"{self.name} does not serve yet: use `async with`")
        return self._links

    def _lost(self, peer: Peer, error: OpError) -> None:
        who = peer.identity
        if who.role == CLIENT:
            self.master.client_lost(who)
            return
        self.worker.task_lost(who.task)
        current = self.links.open_peer(who.task)
        if current is None or current.identity.incarnation != who.incarnation:
            self.worker.forget(who.task, who.incarnation)
            self.master.task_lost(who.task)

    # -- what is called -----------------------------------------------------------------------------

    def _handlers(self) -> dict[str, Callable[[Request], Any]]:
        return {
            m.CREATE_SESSION: self._create_session,
            m.EXTEND_SESSION: self._extend_session,
            m.PREPARE: self._prepare,
            m.RUN: self._run,
            m.CLOSE_SESSION: self._close_session,
            m.RESET: self._reset,
            m.RANDOM_PLACES: self._random_places,
            m.SET_RANDOM_PLACES: self._set_random_places,
            m.LIST_DEVICES: self._list_devices,
            m.STATUS: self._status,
            m.DRAIN: self._drain,
            m.REGISTER_GRAPH: _for_tasks(self._register_graph),
            m.PROBE_STEP: self._probe_step,
            m.GIVE_UP: self._give_up,
            m.END_STEPS: self._end_steps,
            m.DEREGISTER_GRAPHS: self._deregister_graphs,
        }

    def _create_session(self, request: Request) -> int:
        self._check_taking("sessions")
        message = m.CreateSession.from_wire(request.arguments)
        graph = read_graph(_only(request))
        return self.master.create_session(request.peer, graph, _config(message.config)).number

    def _extend_session(self, request: Request) -> None:
        message = m.ExtendSession.from_wire(request.arguments)
        self._session(request, message.session).replace_graph(read_graph(_only(request)))

    async def _prepare(self, request: Request) -> int:
        message = m.Prepare.from_wire(request.arguments)
        session = self._session(request, message.session)
        with self._ends():
            return await self.master.prepare(
                session, message.feeds, message.fetches, message.targets, message.dropped
            )

    async def _run(self, request: Request) -> Reply:
        self._check_taking("steps")
        message = m.Run.from_wire(request.arguments)
        session = self._session(request, message.session)
        if not self.master.knows(session, message.prepared):
            return Reply(None)
        with self._ends():
            values, metadata = await self.master.run(
                session,
                message.prepared,
                request.tensors,
                timeout_seconds=message.timeout_seconds,
                wants_metadata=message.wants_metadata,
            )
        return Reply(metadata, values)

    def _begin_run(self, request: Request, answer: Answer) -> Cancellable | None:
        """As `_run`, without a task; None where it needs one."""
        self._check_taking("steps")
        message = m.Run.from_wire(request.arguments)
        session = self._session(request, message.session)
        if message.timeout_seconds is not None or message.wants_metadata:
            return None

        def done(values: list[Any], error: BaseException | None) -> None:
            answer(Reply({}, values), self._seen_by_others(error))

        return self.master.begin_run(session, message.prepared, request.tensors, done)

    @contextmanager
    def _ends(self) -> Iterator[None]:
        try:
            yield
        except CancelledError as error:
            seen = self._seen_by_others(error)
            if seen is error or seen is None:
                raise
            raise seen from None

    def _seen_by_others(self, error: BaseException | None) -> BaseException | None:
        """What ends because this task ends was cancelled by nobody who waits for it: to them it is lost."""
        if isinstance(error, CancelledError) and (self._is_ending or is_cancelled_here()):
            return UnavailableError(f"{self.name} has ended: {error.message}")
        return error

    async def _close_session(self, request: Request) -> None:
        message = m.SessionNumber.from_wire(request.arguments)
        session = self._session(request, message.session)
        self.master.close_session(session)
        await session.wait_idle()

    async def _reset(self, request: Request) -> None:
        message = m.Reset.from_wire(request.arguments)
        if message.everywhere:
            await self.master.members.reset(message.containers)
        else:
            self.worker.reset(message.containers)

    async def _random_places(self, request: Request) -> dict[str, str]:
        sequences = m.RandomPlaces.from_wire(request.arguments).sequences
        if request.peer.role == WORKER:
            return self.worker.random_places(sequences)
        return await self.master.members.random_places(sequences)

    async def _set_random_places(self, request: Request) -> None:
        message = m.SetRandomPlaces.from_wire(request.arguments)
        if request.peer.role == WORKER:
            self.worker.set_random_places(message.sequences, message.places)
        else:
            await self.master.members.set_random_places(message.sequences, message.places)

    async def _list_devices(self, request: Request) -> list[dict[str, Any]]:
        if request.peer.role == WORKER:
            return self.worker.describe_devices()
        devices = await self.master.members.devices()
        return [described(offer) for task in self.links.addresses for offer in devices[task][1]]

    def _status(self, request: Request) -> dict[str, Any]:
        peers = [self._exchange.peer(task) for task in self.cluster]
        return {
            "task": self.name,
            "incarnation": self.identity.incarnation,
            "address": self._address,
            "uptime_seconds": trio.current_time() - self._started_at,
            "is_draining": self._is_draining,
            "connected": [peer.identity.task for peer in peers if peer is not None and peer.is_open],
            "devices": self.worker.describe_devices(),
            "worker": self.worker.statistics(),
            "master": self.master.statistics(),
        }

    async def _drain(self, request: Request) -> None:
        await self.drain()

    async def _register_graph(self, request: Request) -> None:
        message = m.RegisterGraph.from_wire(request.arguments)
        await self.worker.register(_registrar(request), message, request.tensors, self.links)

    def _run_graph(self, request: Request, answer: Answer) -> Cancellable:
        peer = request.peer
        if peer.role != WORKER:
            _check_task(request)
        message = m.RunGraph.from_wire(request.arguments)

        def done(found: m.Done | None, values: list[Any], error: BaseException | None) -> None:
            if found is m.WELL and not values:
                answer(NOTHING, None)
            else:
                answer(None if found is None else Reply(found.to_wire(), values), error)

        return self.worker.begin(Registrar(peer.task, peer.incarnation), message, request.tensors, done)

    def _probe_step(self, request: Request) -> dict[str, Any] | None:
        _check_task(request)
        standing = self.worker.probe(m.ProbeStep.from_wire(request.arguments).step)
        return None if standing is None else standing.to_wire()

    def _give_up(self, request: Request) -> None:
        _check_task(request)
        message = m.GiveUp.from_wire(request.arguments)
        self.worker.give_up(message.step, message.first)

    def _end_steps(self, request: Request) -> None:
        _check_task(request)
        self.worker.end_steps(m.EndSteps.from_wire(request.arguments).ended)

    def _deregister_graphs(self, request: Request) -> None:
        _check_task(request)
        message = m.DeregisterGraphs.from_wire(request.arguments)
        self.worker.deregister(_registrar(request), message.handles)

    def _session(self, request: Request, number: int) -> ClusterSession:
        return self.master.session(number, request.peer)

    def _check_taking(self, what: str) -> None:
        if self._is_draining:
            raise UnavailableError(f"{self.name} is being drained: it takes no more {what}")


def _holds_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_holds_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)


def _for_tasks(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
    async def checked(request: Request) -> Any:
        _check_task(request)
        return await handler(request)

    return checked


def _check_task(request: Request) -> None:
    if request.peer.role != WORKER:
        raise PermissionDeniedError(f"'{request.method}' is for the tasks of the cluster, not for clients")


def _registrar(request: Request) -> Registrar:
    return Registrar(request.peer.task, request.peer.incarnation)


def _only(request: Request) -> Any:
    if len(request.tensors) != 1:
        raise InvalidArgumentError(f"'{request.method}' comes with one graph, not {len(request.tensors)}")
    return request.tensors[0]


#: What a client may decide for its session; the rest is the server's own.
SESSION_FIELDS: Final = frozenset(
    {
        "fold_constants",
        "merge_common_subexpressions",
        "allow_soft_placement",
        "log_device_placement",
        "place",
        "abort_on_restart",
    }
)


def _config(fields: dict[str, Any]) -> Config:
    unknown = sorted(fields.keys() - SESSION_FIELDS)
    if unknown:
        raise InvalidArgumentError(
            f"a session elsewhere cannot be given {', '.join(unknown)}: these are settings of the task's own "
            f"process; it takes {', '.join(sorted(SESSION_FIELDS))}"
        )
    try:
        return Config(**fields)
    except TypeError as error:
        raise InvalidArgumentError(f"the session's settings cannot be read: {error}") from None


__all__ = ["CLIENT", "SESSION_FIELDS", "WORKER", "Server", "read_key"]
