"""A console for operators and their tools, which asks tasks about their status, as a client does.

async with open_console(spec, key=key) as console:
    print((await console.status("/job:ps/task:0"))["worker"])
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.credentials import CLIENT, client_certificates, read_key
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import OpError, UnauthenticatedError, UnavailableError
from flowengine.transport.dialling import connect
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import Identity, new_incarnation


class Console:
    """Connections to the tasks of a cluster, opened on first use."""

    def __init__(
        self, cluster: ClusterSpec, nursery: trio.Nursery, *, key: bytes, timeout_seconds: float
    ) -> None:
        self.cluster = cluster
        self._nursery = nursery
        self._key = key
        self._timeout = timeout_seconds
        self._scheme = "tls" if cluster.tls else "tcp"
        self._security = client_certificates(cluster.tls) if cluster.tls else None
        self._identity = Identity(CLIENT, cluster.name, f"console-{secrets.token_hex(6)}", new_incarnation())
        self._peers: dict[str, Peer] = {}

    async def call(self, task: str, method: str, arguments: Any = None) -> Any:
        """Call a method of a task and return its result. Raises UnavailableError if none arrives in time."""
        try:
            with trio.fail_after(self._timeout):
                peer = self._peers.get(task)
                if peer is None or not peer.is_open:
                    peer = self._peers[task] = await connect(
                        self._nursery,
                        f"{self._scheme}://{self.cluster.address(task)}",
                        identity=self._identity,
                        key=self._key,
                        security=self._security,
                        expected_task=task,
                    )
                return (await peer.call(method, arguments)).result
        except trio.TooSlowError:
            raise UnavailableError(f"{task} did not answer within {self._timeout:g} s") from None

    async def status(self, task: str) -> dict[str, Any]:
        """Return the status that a task reports: see `Server`."""
        found: dict[str, Any] = await self.call(task, m.STATUS)
        return found

    async def status_of_all(self) -> dict[str, dict[str, Any] | OpError]:
        """Return {task: its status, or the reason why it does not answer}."""
        answers: dict[str, dict[str, Any] | OpError] = dict.fromkeys(self.cluster, UnavailableError("-"))

        async def ask(task: str) -> None:
            try:
                answers[task] = await self.status(task)
            except OpError as error:
                answers[task] = error

        await together(partial(ask, task) for task in self.cluster)
        return answers

    async def drain(self, task: str) -> None:
        """Let a task accept no more sessions and steps; return when the running ones have ended."""
        await self.call(task, m.DRAIN)

    async def reset(self, task: str, containers: list[str], *, everywhere: bool) -> None:
        """Clear containers of one task, or of all tasks through its master."""
        await self.call(task, m.RESET, m.Reset(containers, everywhere).to_wire())


@asynccontextmanager
async def open_console(
    cluster: ClusterSpec, *, key: bytes | None = None, timeout_seconds: float = 5.0
) -> AsyncIterator[Console]:
    """Open a console for the duration of the block. Raises UnauthenticatedError if no key is known."""
    key = key if key is not None else read_key(cluster.key_file)
    if key is None:
        raise UnauthenticatedError(
            f"the key of cluster '{cluster.name}' is not known: name a key_file in its file, or set "
            "FLOWENGINE_CLUSTER_KEY_FILE"
        )
    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield Console(cluster, nursery, key=key, timeout_seconds=timeout_seconds)
        except Exception as raised:  # raised below by itself, and not in a group
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


__all__ = ["Console", "open_console"]
