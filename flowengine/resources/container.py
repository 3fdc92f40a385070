"""Named resources that outlive steps, and the nameless ones that do not.

A `ResourceManager` holds containers; a container holds resources by kind and name. Two graphs, or two
sessions given one manager, share a variable by naming the same container and name. A `StepContainer`
holds the TensorArrays and stacks of one step on one device.

    >>> manager = ResourceManager()
    >>> first = manager.lookup_or_create("", "words", list, list)
    >>> manager.lookup("", "words", list) is first
    True

A manager tells a resource that it is removed, where the resource wants to know: by `destroy()`, and by
`await end()` where tasks work for it. A resource with an attribute `is_removed` learns by that whether it was
removed by itself, and not with its container. Nothing here locks: a manager is used from one trio run, on one
thread, and says so where it is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.accounting import Account
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from flowengine.resources.services import Services


class NamedResource(Protocol):
    """A resource that a step's container can hold: it learns its name there."""

    name: str


T = TypeVar("T")
N = TypeVar("N", bound=NamedResource)

#: The container of a resource that names none.
DEFAULT_CONTAINER: Final = "localhost"

_NO_RUN: Final = (
    "fe.Session runs its steps in a trio program, and this is none: use fe.asyncio.Session in an asyncio "
    "program, fe.anyio.Session in one that may be either, fe.blocking.Session in scripts and notebooks"
)
_OTHER_RUN: Final = (
    "this resource manager belongs to the trio run that first used it and cannot be used from another run "
    "or thread. For scripts, notebooks and other threads use fe.blocking.Session, for asyncio programs "
    "fe.asyncio.Session; both keep one run of their own"
)


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """`resources`: how many resources each container holds."""

    resources: dict[str, int]


def _no_task() -> None:
    return None


class ResourceManager:
    """Containers of named resources: one private to a session, or one shared by several.

    A *kind* is the class under which a resource is looked up (`Variable`, `Queue`); resources of
    different kinds may have the same name, as in TensorFlow. The empty container name stands for
    `DEFAULT_CONTAINER`.

    A resource is found by `container`, `name` and `kind`, a class. Raises NotFoundError for one that does not
    exist, FailedPreconditionError if the manager is closed or used from another run.

    >>> from flowengine.core.errors import NotFoundError
    >>> manager = fe.ResourceManager()
    >>> words = manager.lookup_or_create("", "words", list, list)
    >>> manager.find("", "words", list) is words, manager.statistics().resources
    (True, {'localhost': 1})
    >>> manager.reset([""])
    >>> manager.find("", "words", list) is None
    True
    """

    __slots__ = (
        "_closed",
        "_containers",
        "_process",
        "_serial",
        "_services",
        "_token",
        "account",
        "generation",
        "last_task",
    )

    def __init__(self) -> None:
        #: With whom resources book what they hold, where anybody asks.
        self.account: Account | None = None
        #: Grows whenever a resource is removed or replaced: what was found before may be another's now.
        self.generation = 0
        #: {container: {(kind, name): resource}}
        self._containers: dict[str, dict[tuple[type[Any], str], Any]] = {}
        self._token: trio.lowlevel.TrioToken | None = None
        #: Gives the task that last ran a step here, if it still lives. A task belongs to one run for ever, so
        #: that task need not bind again.
        self.last_task: Callable[[], trio.lowlevel.Task | None] = _no_task
        #: That of the run: a child that was forked from it has none.
        self._process = 0
        self._closed = False
        self._serial = 0
        self._services: Services | None = None

    @property
    def services(self) -> Services:
        """The tasks that work for resources between steps; none before something starts one."""
        if self._services is None:
            self._services = Services()
        return self._services

    async def ended(self) -> None:
        """Wait until the tasks of resources that were removed have ended, after `close` those of all.

        Cannot be cancelled: the tasks are, and end soon.
        """
        if self._services is not None:
            with trio.CancelScope(shield=True):
                await self._services.ended()

    def bind_to_current_run(self) -> None:
        """Make the current trio run the owner, or check that it is.

        Raises FailedPreconditionError from any other run or thread, and after `close`.
        """
        if self._closed:
            raise FailedPreconditionError("this resource manager is closed")
        try:
            token = trio.lowlevel.current_trio_token()
        except RuntimeError:
            raise FailedPreconditionError(_NO_RUN if self._token is None else _OTHER_RUN) from None
        if self._token is None:
            self._token = token
            self._process = os.getpid()
        elif self._token is not token:
            raise FailedPreconditionError(_OTHER_RUN)

    @property
    def is_bound(self) -> bool:
        """Whether a trio run of this process has used it, and it is not closed."""
        return self._process == os.getpid() and not self._closed

    def is_bound_to(self, token: trio.lowlevel.TrioToken) -> bool:
        """Whether it belongs to this very run, and is not closed. May be asked on any thread."""
        return self._token is token and not self._closed

    def lookup_or_create(self, container: str, name: str, kind: type[T], factory: Callable[[], T]) -> T:
        """Return the resource of this kind and name, made by `factory` where there is none.

        Raises InvalidArgumentError where `factory` made something else than a `kind`, CancelledError where
        the manager is closed: nobody would end what a step makes that the close overtook.
        """
        if self._closed:
            raise CancelledError(SESSION_CLOSED)
        held = self._containers.get(container or DEFAULT_CONTAINER)
        if held is None:
            held = self._containers.setdefault(container or DEFAULT_CONTAINER, {})
        found = held.get((kind, name))
        if found is None:
            found = factory()
            if not isinstance(found, kind):
                raise InvalidArgumentError(
                    f"resource '{name}' was asked for as a {kind.__name__} but is a {type(found).__name__}"
                )
            if self.account is not None and hasattr(found, "account"):
                found.account = self.account
            held[kind, name] = found
        resource: T = found
        return resource

    def find(self, container: str, name: str, kind: type[T]) -> T | None:
        """Return the resource, or None."""
        found: T | None = self._containers.get(container or DEFAULT_CONTAINER, {}).get((kind, name))
        return found

    def lookup(self, container: str, name: str, kind: type[T]) -> T:
        """Return the resource; NotFoundError, listing other kinds under this name, where there is none."""
        found = self.find(container, name, kind)
        if found is None:
            raise self._missing(container, name, kind)
        return found

    def put(self, container: str, name: str, kind: type[T], resource: T) -> T:
        """Set a resource, in place of the one of this kind and name; returns it."""
        self.generation += 1
        self._containers.setdefault(container or DEFAULT_CONTAINER, {})[kind, name] = resource
        return resource

    def delete(self, container: str, name: str, kind: type[Any]) -> None:
        """Remove one resource and destroy it; NotFoundError where there is none."""
        self.generation += 1
        resource = self._containers.get(container or DEFAULT_CONTAINER, {}).pop((kind, name), None)
        if resource is None:
            raise self._missing(container, name, kind)
        _remove(resource)

    async def remove(self, resource: object) -> bool:
        """Remove and destroy this very resource, wherever it is held; whether it was there.

        What a handle has announced and nothing has created yet is not there: such a resource says so by
        `exists`. The resource's tasks have ended when this returns; cancelled, they end all the same.
        """
        if not getattr(resource, "exists", True):
            return False
        was_there = self._discard(resource)
        end = getattr(resource, "end", None)
        if end is not None:
            await end()
        return was_there

    def _discard(self, resource: object) -> bool:
        for held in self._containers.values():
            for key, value in held.items():
                if value is resource or getattr(value, "resource", None) is resource:
                    self.generation += 1
                    del held[key]
                    _remove(value)
                    return True
        return False

    def clear(self, container: str = "") -> None:
        """Remove and destroy all resources of one container; other containers keep theirs."""
        self.generation += 1
        for resource in self._containers.pop(container or DEFAULT_CONTAINER, {}).values():
            _destroy(resource)

    def reset(self, containers: Iterable[str]) -> None:
        """Clear containers; all of them if none is named. The manager is used on."""
        for container in list(containers) or list(self._containers):
            self.clear(container)

    def close(self) -> None:
        """Remove and destroy everything; the manager cannot be bound again, nor its resources start tasks."""
        self._closed = True
        self.last_task = _no_task
        if self._services is not None:
            self._services.close()
        self.reset(())

    def held(self, kind: type[T]) -> list[T]:
        """Return all resources of one kind, of every container, in the order in which they were made."""
        held = (pair for container in self._containers.values() for pair in container.items())
        return [resource for (each, _), resource in held if each is kind]

    def all_of(self, container: str, kind: type[T]) -> dict[str, T]:
        """{name: resource} of one kind in one container."""
        held = self._containers.get(container or DEFAULT_CONTAINER, {})
        return {name: resource for (each, name), resource in held.items() if each is kind}

    def unique_name(self, hint: str) -> str:
        """Return a name for a resource that must not be shared; no legal `shared_name` starts as it does."""
        self._serial += 1
        return f"_{self._serial}_{hint}"

    @staticmethod
    def is_shared(resource: object) -> bool:
        """Whether who has no handle of the resource can name it: not without a name, or by `unique_name`."""
        name = getattr(resource, "name", "")
        return bool(name) and not name.startswith("_")

    def statistics(self) -> ManagerStatistics:
        return ManagerStatistics({name: len(held) for name, held in self._containers.items()})

    def _missing(self, container: str, name: str, kind: type[Any]) -> NotFoundError:
        container = container or DEFAULT_CONTAINER
        held = self._containers.get(container)
        if held is None:
            return NotFoundError(
                f"Container {container} does not exist (looking for {kind.__name__} '{name}')"
            )
        others = sorted(k.__name__ for k, n in held if n == name)
        hint = f"; under this name there is a {', '.join(others)}" if others else ""
        return NotFoundError(f"Resource {container}/{name}/{kind.__name__} does not exist{hint}")


class StepContainer:
    """The TensorArrays and stacks of one step on one device.

    Each execution of a node that makes one gets its own name, so another iteration has another object.
    `clear` runs however the step ends.
    """

    __slots__ = ("_held", "_serial")

    def __init__(self) -> None:
        #: {unique name: object}
        self._held: dict[str, Any] = {}
        self._serial = 0

    def create(self, name_hint: str, resource: N) -> N:
        """Keep an object under a name that no other execution has; sets its `name` and returns it."""
        self._serial += 1
        name = f"{name_hint}_{self._serial}"
        self._held[name] = resource
        resource.name = name
        return resource

    def lookup_or_create(self, name: str, factory: Callable[[], T]) -> T:
        """The object of this very name, made by `factory` where there is none."""
        found = self._held.get(name)
        if found is None:
            found = self._held[name] = factory()
        resource: T = found
        return resource

    def find(self, name: str) -> Any | None:
        """The object of this very name, or None."""
        return self._held.get(name)

    def put(self, name: str, resource: object) -> None:
        """Keep an object under this very name, in place of any other."""
        self._held[name] = resource

    def lookup(self, name: str) -> Any:
        """The object of this name; NotFoundError where there is none in this step."""
        try:
            return self._held[name]
        except KeyError:
            raise NotFoundError(f"Resource {name} does not exist in this step") from None

    def delete(self, name: str) -> None:
        """Drop one object; nothing happens where there is none."""
        _destroy(self._held.pop(name, None))

    def clear(self) -> None:
        """Drop all objects and break what they refer to; harmless when repeated."""
        held, self._held = self._held, {}
        for resource in held.values():
            _destroy(resource)

    def __len__(self) -> int:
        return len(self._held)


def _remove(resource: Any) -> None:
    """Tell a resource that it is removed by itself, where it wants to know."""
    if hasattr(resource, "is_removed"):
        resource.is_removed = True
    _destroy(resource)


def _destroy(resource: Any) -> None:
    """Tell a resource that it is dropped, where it wants to know."""
    destroy = getattr(resource, "destroy", None)
    if destroy is not None:
        destroy()
