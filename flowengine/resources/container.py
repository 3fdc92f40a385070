"""Named resources that outlive steps, and the nameless ones that do not.

A `ResourceManager` holds containers; a container holds resources by kind and name. Two graphs, or two
sessions given one manager, share a variable by naming the same container and name. A `StepContainer`
holds the TensorArrays and stacks of one step on one device.

    >>> manager = ResourceManager()
    >>> first = manager.lookup_or_create("", "words", list, list)
    >>> manager.lookup("", "words", list) is first
    True

A manager calls `destroy()` of a resource that it removes, if the resource has that method, and awaits
`end()` if tasks work for the resource. If a resource has an attribute `is_removed`, the manager sets it when
it removes that resource alone, and not its whole container. Nothing here locks: a manager belongs to one trio
run, on one thread, and raises FailedPreconditionError elsewhere.
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
    """A resource that a step's container can hold; the container sets its name."""

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

    >>> manager = fe.ResourceManager()
    >>> words = manager.lookup_or_create("", "words", list, list)
    >>> manager.find("", "words", list) is words, manager.statistics().resources
    (True, {'localhost': 1})
    >>> manager.put("", "words", list, ["new"])
    ['new']
    >>> manager.held(list), manager.all_of("", list)
    ([['new']], {'words': ['new']})
    >>> manager.delete("", "words", list)
    >>> manager.reset([""])
    >>> manager.find("", "words", list) is None
    True
    >>> manager.unique_name("queue"), manager.is_shared(words)
    ('_1_queue', False)

    The tasks that work for resources run in the trio run of the steps:

    >>> async def main():
    ...     manager.bind_to_current_run()
    ...     print(manager.is_bound_to(trio.lowlevel.current_trio_token()))
    ...     words = manager.put("", "words", list, [])
    ...     print(await manager.remove(words))
    ...     manager.clear()
    ...     manager.close()
    ...     await manager.ended()
    >>> trio.run(main)
    True
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
        #: The account for the memory that resources hold, if the session counts it.
        self.account: Account | None = None
        #: Grows whenever a resource is removed or replaced, because earlier lookups may then be stale.
        self.generation = 0
        #: {container: {(kind, name): resource}}
        self._containers: dict[str, dict[tuple[type[Any], str], Any]] = {}
        self._token: trio.lowlevel.TrioToken | None = None
        #: Returns the task that last ran a step here, if it still exists. A task never changes its run, so
        #: that task need not bind again.
        self.last_task: Callable[[], trio.lowlevel.Task | None] = _no_task
        #: The process of the run: a forked child has no run.
        self._process = 0
        self._closed = False
        self._serial = 0
        self._services: Services | None = None

    @property
    def services(self) -> Services:
        """The tasks that work for resources between steps."""
        if self._services is None:
            self._services = Services()
        return self._services

    async def ended(self) -> None:
        """Wait until the tasks of removed resources have ended; after `close`, those of all resources.

        It cannot be cancelled: the tasks themselves were cancelled, and end soon.
        """
        if self._services is not None:
            with trio.CancelScope(shield=True):
                await self._services.ended()

    def bind_to_current_run(self) -> None:
        """Make the current trio run the owner, or check that it is the owner.

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
        """Whether it belongs to the run of this trio `token` and is open. May be called from any thread."""
        return self._token is token and not self._closed

    def lookup_or_create(self, container: str, name: str, kind: type[T], factory: Callable[[], T]) -> T:
        """Return the resource of this kind and name; call `factory` to make it if there is none.

        Raises InvalidArgumentError if `factory` returned something else than a `kind`, CancelledError if the
        manager is closed, because nothing would end a resource that a late step makes.
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
                    f"resource '{name}' is a {type(found).__name__}, not a {kind.__name__}"
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
        """Return the resource; NotFoundError, listing other kinds of this name, if there is none."""
        found = self.find(container, name, kind)
        if found is None:
            raise self._missing(container, name, kind)
        return found

    def put(self, container: str, name: str, kind: type[T], resource: T) -> T:
        """Set the resource of this kind and name, replacing an earlier one, and return it."""
        self.generation += 1
        self._containers.setdefault(container or DEFAULT_CONTAINER, {})[kind, name] = resource
        return resource

    def delete(self, container: str, name: str, kind: type[Any]) -> None:
        """Remove one resource and destroy it; NotFoundError if there is none."""
        self.generation += 1
        resource = self._containers.get(container or DEFAULT_CONTAINER, {}).pop((kind, name), None)
        if resource is None:
            raise self._missing(container, name, kind)
        _remove(resource)

    async def remove(self, resource: object) -> bool:
        """Remove and destroy this resource, in whichever container it is; return whether one held it.

        A resource that has a handle but was not created yet (`exists` is False) counts as not held. The
        resource's tasks have ended when this returns; cancelled, they still end.
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
        """Clear these containers, or all of them if none is given. The manager stays usable."""
        for container in list(containers) or list(self._containers):
            self.clear(container)

    def close(self) -> None:
        """Remove and destroy all resources; afterwards no run can use the manager, and no tasks start."""
        self._closed = True
        self.last_task = _no_task
        if self._services is not None:
            self._services.close()
        self.reset(())

    def held(self, kind: type[T]) -> list[T]:
        """Return all resources of one kind, of every container, in the order of their creation."""
        held = (pair for container in self._containers.values() for pair in container.items())
        return [resource for (each, _), resource in held if each is kind]

    def all_of(self, container: str, kind: type[T]) -> dict[str, T]:
        """Return {name: resource} of one kind in one container."""
        held = self._containers.get(container or DEFAULT_CONTAINER, {})
        return {name: resource for (each, name), resource in held.items() if each is kind}

    def unique_name(self, hint: str) -> str:
        """Return a name with `hint` for a private resource; it differs from every legal `shared_name`."""
        self._serial += 1
        return f"_{self._serial}_{hint}"

    @staticmethod
    def is_shared(resource: object) -> bool:
        """Whether other sessions can find the resource by a name that the program gave it."""
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
        hint = f"; another resource has this name: a {', '.join(others)}" if others else ""
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
        """Return the object of this name; call `factory` to make it if there is none."""
        found = self._held.get(name)
        if found is None:
            found = self._held[name] = factory()
        resource: T = found
        return resource

    def find(self, name: str) -> Any | None:
        """Return the object of this name, or None."""
        return self._held.get(name)

    def put(self, name: str, resource: object) -> None:
        """Keep an object under this name, replacing an earlier one."""
        self._held[name] = resource

    def lookup(self, name: str) -> Any:
        """Return the object of this name; NotFoundError if this step has none."""
        try:
            return self._held[name]
        except KeyError:
            raise NotFoundError(f"Resource {name} does not exist in this step") from None

    def delete(self, name: str) -> None:
        """Drop one object; nothing happens if there is none."""
        _destroy(self._held.pop(name, None))

    def clear(self) -> None:
        """Drop all objects and break what they refer to; harmless when repeated."""
        held, self._held = self._held, {}
        for resource in held.values():
            _destroy(resource)

    def __len__(self) -> int:
        return len(self._held)


def _remove(resource: Any) -> None:
    """Mark a resource as removed alone, if it has such a mark, and destroy it."""
    if hasattr(resource, "is_removed"):
        resource.is_removed = True
    _destroy(resource)


def _destroy(resource: Any) -> None:
    """Call `destroy` of a resource that is dropped, if it has that method."""
    destroy = getattr(resource, "destroy", None)
    if destroy is not None:
        destroy()
