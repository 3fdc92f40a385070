"""A task of a cluster inside a trio program: worker and master behind one address."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.cluster import local_sessions
from flowengine.cluster.certificates import certificates_in, task_certificate
from flowengine.cluster.credentials import (
    CLIENT,
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    WORKER,
    read_key,
)
from flowengine.cluster.handlers import TaskService
from flowengine.cluster.health import connect_seconds, limits_for
from flowengine.cluster.links import Links
from flowengine.cluster.master.master import Master
from flowengine.cluster.spec import TLS_SCHEME, ClusterSpec, device_prefix, task_name
from flowengine.cluster.worker.worker import Worker
from flowengine.core.config import Config
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError
from flowengine.devices.load import DEVICES
from flowengine.devices.settings import give_settings
from flowengine.kernels.checked import CheckedKernels
from flowengine.kernels.load import registry as kernel_registry
from flowengine.resources.container import ResourceManager
from flowengine.transport.calls.service import Service
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.server import listen, serve
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.wire.identity import Identity, new_incarnation

logger: Final = logging.getLogger("flowengine.cluster")


class Server:
    """One task of a cluster: its worker service, and a master service for clients that dial it.

    cluster     the `ClusterSpec` of all tasks
    job, task   the task of it that this server runs
    key         the cluster's key, 32 bytes; if None, from the cluster's key file or the environment
    config      settings of steps that run here: devices, memory, file access
    scheme      how addresses are reached: "tcp", "tls", "inproc" (within a process); if "", under TLS if the
                cluster has a folder of certificates
    security    the certificates for "tls"; if None, those of that folder. They are read anew when they change
    limits      bounds on messages and silence; by default those of `Config.silence_seconds`

    Use it with `async with`. When it ends, or is cancelled, its steps end with UnavailableError and its state
    is freed. Raises NotFoundError for a task that the cluster does not have; on entry UnavailableError if the
    address is taken, InvalidArgumentError without a key.

    >>> async def main():
    ...     cluster = fe.ClusterSpec.of({"worker": ["127.0.0.1:0"]})
    ...     async with fe.Server(cluster, "worker", 0, key=bytes(32), scheme="inproc") as server:
    ...         print(server.name)
    ...         await server.drain()
    >>> trio.run(main)
    /job:worker/task:0
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        job: str,
        task: int,
        *,
        key: bytes | None = None,
        config: Config | None = None,
        scheme: str = "",
        security: Any = None,
        limits: Limits | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = task_name(job, task)
        address = cluster.address(self.name)
        self._key = key if key is not None else read_key(cluster.key_file)
        self._scheme = scheme = scheme or ("tls" if cluster.tls else "tcp")
        if security is None and scheme == "tls":
            security = certificates_in(cluster.tls, task_certificate(job, task))
        self._security = security
        self._settings = settings = (config if config is not None else Config()).resolved()
        self._limits = limits if limits is not None else limits_for(settings.silence_seconds)
        self.identity = Identity(WORKER, cluster.name, self.name, new_incarnation())
        self._address = f"{scheme}://{address}"
        kernels = kernel_registry(settings.kernel_provider)
        if settings.checked:
            kernels = CheckedKernels(kernels)
        self._exchange = Exchange(self.name)
        devices = DEVICES.make(
            settings.device_count, settings.device_memory_limits, task=device_prefix(job, task)
        )
        give_settings(devices, settings.of_devices)
        self.worker = Worker(
            task=self.name,
            incarnation=self.identity.incarnation,
            devices=devices,
            resources=ResourceManager(),
            settings=settings,
            kernels=kernels,
            exchange=self._exchange,
        )
        self._kernels = kernels
        self._master: Master | None = None
        self._links: Links | None = None
        self._near: local_sessions.NearMaster | None = None
        self._nursery_manager: Any = None
        self._nursery: trio.Nursery | None = None
        self._service: TaskService | None = None

    # -- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Server:
        """Listen. Raises UnavailableError if the address is taken, InvalidArgumentError without a key."""
        if self._key is None and self._scheme in ("tcp", "tls"):
            raise InvalidArgumentError(
                f"{self.name} has no key, and would be open to anybody: give key_file in the cluster's "
                f"file, set {KEY_FILE_VARIABLE} or {KEY_VARIABLE}, or give the Server its key: 32 bytes, the "
                "same for all tasks"
            )
        listener = await listen(self._address, security=self._security)
        self._address = listener.address
        self._nursery_manager = trio.open_nursery()
        self._nursery = await self._nursery_manager.__aenter__()
        self.worker.parts.nursery = self._nursery
        self._links = Links(
            self._nursery,
            identity=self.identity,
            key=self._key,
            exchange=self._exchange,
            addresses={task: f"{self._scheme}://{address}" for task, address in self.cluster.tasks.items()},
            limits=self._limits,
            security=self._security,
            connect_seconds=connect_seconds(self._settings.silence_seconds),
        )
        self._links.addresses[self.name] = self._address
        self._links.on_lost.append(self._lost)
        self._master = Master(
            identity=self.identity,
            worker=self.worker,
            links=self._links,
            kernels=self._kernels,
            nursery=self._nursery,
        )
        self._service = TaskService(self.cluster, self.worker, self._master, self._links)
        service = self._links.service = self._service.service()
        self._nursery.start_soon(self._master.notices.run)
        self._nursery.start_soon(self._master.watch.run)
        self._nursery.start_soon(self._serve, listener, service)
        self._near = local_sessions.enter(self._address, self.cluster.name, self._key, service)
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
            local_sessions.leave(self._near)
        if self._service is not None:
            self._service.is_ending = True
        self.worker.close()
        self._nursery.cancel_scope.cancel()
        if error is None or _holds_cancelled(error):
            return bool(await self._nursery_manager.__aexit__(kind, error, trace))
        # The body's own error is not put into a group with nothing else in it.
        await self._nursery_manager.__aexit__(None, None, None)
        return False

    @property
    def address(self) -> str:
        """The address on which the server listens: "tcp://127.0.0.1:7000"."""
        return self._address

    @property
    def target(self) -> str:
        """Return the target of a session whose master this is."""
        scheme = TLS_SCHEME if self._scheme == "tls" else "flow"
        return f"{scheme}://{self._address.partition('://')[2]}"

    async def drain(self) -> None:
        """Accept no more sessions and steps, and return when the running ones have ended."""
        if self._service is None:
            raise self._not_serving()
        await self._service.drain()

    @property
    def master(self) -> Master:
        """Return the task's master. Raises FailedPreconditionError before `async with`."""
        if self._master is None:
            raise self._not_serving()
        return self._master

    @property
    def links(self) -> Links:
        """Return the task's connections. Raises FailedPreconditionError before `async with`."""
        if self._links is None:
            raise self._not_serving()
        return self._links

    def _not_serving(self) -> FailedPreconditionError:
        return FailedPreconditionError(f"{self.name} does not serve yet: use `async with`")

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


def _holds_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_holds_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)


__all__ = ["Server"]
