"""Tasks that work for resources between steps: what prefetches, reads ahead or maps in parallel.

A resource manager has one *service nursery* in the trio run that uses it. A resource starts its tasks in a
`ServiceTasks` of its own, so that it can end them, and know when they have ended, without touching others.

    tasks = manager.services.new_tasks()
    tasks.start(fill_buffer, "prefetch")
    tasks.cancel()
    await tasks.ended()

The nursery is opened by the first task and closed with the manager.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from flowengine.core.errors import CancelledError

logger: Final = logging.getLogger("flowengine.resources")

#: What a task does.
Work: TypeAlias = Callable[[], Awaitable[None]]


class Services:
    """The service nursery of one resource manager."""

    __slots__ = ("_closed", "_due", "_groups", "_nursery", "_serving", "_stopped")

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        #: Begun before the nursery was open.
        self._due: list[tuple[ServiceTasks, Work, str, trio.CancelScope]] = []
        self._groups: set[ServiceTasks] = set()
        self._serving = False
        self._closed = False
        self._stopped: trio.Event | None = None

    def new_tasks(self) -> ServiceTasks:
        """A group of tasks for one resource, with none in it."""
        return ServiceTasks(self)

    @property
    def count(self) -> int:
        """How many tasks have not ended."""
        return sum(group.count for group in self._groups)

    def close(self) -> None:
        """Cancel every task; none can be started again. `ended` waits for them."""
        self._closed = True
        for group in tuple(self._groups):
            group.cancel()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    async def ended(self) -> None:
        """Wait until all tasks that were cancelled have ended, and after `close` for the nursery as well."""
        for group in tuple(self._groups):
            if group.is_cancelled:
                await group.ended()
        if self._closed and self._serving and self._stopped is not None:
            await self._stopped.wait()

    def _begin(self, group: ServiceTasks, work: Work, name: str, scope: trio.CancelScope) -> None:
        if self._closed:
            raise CancelledError("the session was closed: its resources can start no tasks")
        self._groups.add(group)
        if self._nursery is not None:
            self._nursery.start_soon(group._run, work, scope, name=f"flowengine {name}")
            return
        self._due.append((group, work, name, scope))
        if not self._serving:
            self._serving = True
            self._stopped = trio.Event()
            trio.lowlevel.spawn_system_task(self._serve, name="flowengine services")

    async def _serve(self) -> None:
        """The system task that holds the nursery."""
        assert self._stopped is not None
        try:
            async with trio.open_nursery() as nursery:
                if self._closed:
                    nursery.cancel_scope.cancel()
                self._nursery = nursery
                self._start_due(nursery)
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._serving = False
            self._closed = True
            self._stopped.set()

    def _start_due(self, nursery: trio.Nursery) -> None:
        """Begin what waited for the nursery, whose task keeps nothing of it: it lasts as the session does."""
        due, self._due = self._due, []
        for group, work, name, scope in due:
            nursery.start_soon(group._run, work, scope, name=f"flowengine {name}")

    def _emptied(self, group: ServiceTasks) -> None:
        self._groups.discard(group)


class ServiceTasks:
    """The tasks of one resource."""

    __slots__ = ("_none_left", "_scopes", "_services", "is_cancelled")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._scopes: set[trio.CancelScope] = set()
        self._none_left: trio.Event | None = None
        self.is_cancelled = False

    @property
    def count(self) -> int:
        """How many tasks have not ended."""
        return len(self._scopes)

    def start(self, work: Work, name: str) -> trio.CancelScope:
        """Begin a task; the scope cancels it alone. It records what goes wrong and raises nothing.

        Raises CancelledError where these tasks, or all services, were ended.
        """
        if self.is_cancelled:
            raise CancelledError(f"{name}: its resource was removed")
        scope = trio.CancelScope()
        self._services._begin(self, work, name, scope)
        self._scopes.add(scope)
        return scope

    def cancel(self) -> None:
        """End all tasks, and let none begin any more."""
        self.is_cancelled = True
        for scope in self._scopes:
            scope.cancel()

    async def ended(self) -> None:
        """Wait until no task is left. Cancelled, it waits no more; the tasks go on as they were."""
        if self._scopes:
            if self._none_left is None:
                self._none_left = trio.Event()
            await self._none_left.wait()

    async def _run(self, work: Work, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await work()
        except Exception:
            # A fault of ours, which would end everybody's tasks from here.
            logger.exception("a task of a resource has failed")
        finally:
            self._scopes.discard(scope)
            if not self._scopes:
                self._services._emptied(self)
                if self._none_left is not None:
                    self._none_left.set()
                    self._none_left = None


__all__ = ["ServiceTasks", "Services"]
