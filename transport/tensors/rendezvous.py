"""A rendezvous within one process, in which Send leaves a value and Recv finds it: one step's table.

A producer never waits. A consumer may come before or after the value. A value is taken once; several
consumers of one key are served in the order in which they came. `abort` reaches all consumers, present and
future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import AlreadyExistsError, CancelledError
from flowengine.core.rendezvous import Received, RendezvousKey
from flowengine.transport.tensors.routes import Route


class _HeldValue(NamedTuple):
    value: Value
    is_dead: bool
    #: Called once, when the value is taken or dropped.
    release: Callable[[], object] | None


class _Waiter:
    """A task that waits for a value."""

    __slots__ = ("error", "held", "task")

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.task: Final = task
        self.held: _HeldValue | None = None
        self.error: Exception | None = None

    def give(self, value: Value, is_dead: bool) -> None:
        self.held = _HeldValue(value, is_dead, None)
        trio.lowlevel.reschedule(self.task)

    def fail(self, error: Exception) -> None:
        self.error = error
        trio.lowlevel.reschedule(self.task)


class _ValueCall:
    """A function to call with a value."""

    __slots__ = ("done",)

    def __init__(self, done: Received) -> None:
        self.done: Final = done

    def give(self, value: Value, is_dead: bool) -> None:
        self.done(value, is_dead, None)

    def fail(self, error: Exception) -> None:
        self.done(None, False, error)


class _AwaitedEdges:
    """Edges that are awaited as a whole: {edge: its number} of those without a value so far."""

    __slots__ = ("done", "left", "step")

    def __init__(
        self,
        step: int,
        routes: Mapping[Route, Any],
        done: Callable[[Any, Value, bool, Exception | None], None],
    ) -> None:
        self.step = step
        self.left = dict(routes)
        self.done = done

    def as_keys(self) -> list[RendezvousKey]:
        return [RendezvousKey(self.step, *route) for route in self.left]


class LocalRendezvous:
    """One step's values in flight. Implements `flowengine.core.rendezvous.Rendezvous`."""

    def __init__(self, on_wait: Callable[[RendezvousKey], Exception | None] | None = None) -> None:
        """`on_wait(key)` is called before a task waits; an error that it returns is raised there."""
        self._on_wait = on_wait
        self._held: dict[RendezvousKey, _HeldValue] = {}
        self._waiters: dict[RendezvousKey, deque[_Waiter | _ValueCall]] = {}
        self._expected: _AwaitedEdges | None = None
        self.error: Exception | None = None

    def __len__(self) -> int:
        return len(self._held)

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Leave a value; AlreadyExistsError if the key holds one. After `abort` it is dropped."""
        self.deliver(key, value, is_dead, None)

    def deliver(
        self, key: RendezvousKey, value: Value, is_dead: bool, release: Callable[[], object] | None
    ) -> None:
        """Leave a value as `send` does; `release()` is called once, when the value is taken or dropped."""
        held = _HeldValue(value, is_dead, release)
        if self.error is not None or self.give(key, value, is_dead):
            _release(held)
            return
        if key in self._held:
            _release(held)
            raise sent_twice(key)
        self._held[key] = held

    def give(self, key: RendezvousKey, value: Value, is_dead: bool) -> bool:
        """Hand a value to its waiter; False if there is none."""
        waiters = self._waiters.get(key)
        if waiters is None:
            return not key.path and self.give_along(key[1:5], value, is_dead)
        waiter = waiters.popleft()
        if not waiters:
            del self._waiters[key]
        waiter.give(value, is_dead)
        return True

    def give_along(self, route: Route, value: Value, is_dead: bool) -> bool:
        """Hand a value, as `give` does, to a consumer that expects it: see `expect`."""
        expected = self._expected
        if expected is None:
            return False
        number = expected.left.pop(route, None)
        if number is None:
            return False
        expected.done(number, value, is_dead, None)
        return True

    def expect(
        self,
        step: int,
        routes: Mapping[Route, Any],
        done: Callable[[Any, Value, bool, Exception | None], None],
    ) -> None:
        """Have `done` called with the values along these edges, outside any loop, and the edge's number.

        Nobody else may wait for them, and `on_wait` is not called. Present values are given at once; after
        `abort`, the error is.
        """
        self._expected = expected = _AwaitedEdges(step, routes, done)
        if self._held:
            for key in expected.as_keys():
                held = self._held.pop(key, None)
                if held is not None:
                    _release(held)
                    self.give_along(key[1:5], held.value, held.is_dead)
        if self.error is not None:
            self.fail_waiters(lambda _: True, self.error)

    def take(self, key: RendezvousKey) -> tuple[Value, bool] | None:
        """Return the value, if it is there. Raises the error of `abort`."""
        held = self._held.pop(key, None)
        if held is not None:
            _release(held)
            return held.value, held.is_dead
        if self.error is not None:
            # An error that many steps share would gather the tracebacks of all.
            raise self.error if self.error is not _ENDED else CancelledError(_ENDED.message)
        return None

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        """Wait for the value; take it and its dead bit.

        A present value is returned without a checkpoint. If cancelled, it leaves the value there.
        """
        found = self.take(key)
        if found is not None:
            return found
        if self._on_wait is not None:
            error = self._on_wait(key)
            if error is not None:
                raise error
        waiter = _Waiter(trio.lowlevel.current_task())
        self._waiters.setdefault(key, deque()).append(waiter)

        def give_up(_: object) -> trio.lowlevel.Abort:
            waiters = self._waiters[key]
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[key]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.held is not None, "a receiver was woken without a value"
        return waiter.held.value, waiter.held.is_dead

    def receive(self, key: RendezvousKey, done: Received) -> None:
        """Have `done` called once with the value, at once or when it is there, or with the error."""
        try:
            found = self.take(key)
            error = None if found is not None or self._on_wait is None else self._on_wait(key)
        except Exception as aborted:
            found, error = None, aborted
        if found is not None:
            done(*found, None)
        elif error is not None:
            done(None, False, error)
        else:
            self._waiters.setdefault(key, deque()).append(_ValueCall(done))

    def abort(self, error: Exception) -> None:
        """Fail every waiter, present and future, with this error (the first one counts)."""
        if self.error is not None:
            return
        self.error = error
        if self._held:
            held, self._held = self._held, {}
            for each in held.values():
                _release(each)
        if self._waiters or self._expected is not None:
            self.fail_waiters(lambda _: True, error)
        self._let_go()

    def _let_go(self) -> None:
        # A consumer may hold this table: the cycle would be left to the collector, for each step.
        self._expected = None
        self._on_wait = None

    def end(self) -> bool:
        """Close as `close` does, if nobody waits and nothing is held; return whether that is so."""
        if self._held or self._waiters or (self._expected is not None and self._expected.left):
            return False
        if self.error is None:
            self.error = _ENDED
        self._let_go()
        return True

    def forget(self) -> None:
        """Forget a key: see `Rendezvous.forget`."""
        self.error = _ENDED

    def close(self) -> None:
        """End the step."""
        self.abort(CancelledError(_ENDED.message))

    def waiting_keys(self) -> list[RendezvousKey]:
        """Return the awaited keys."""
        expected = self._expected
        return list(self._waiters) if expected is None else [*self._waiters, *expected.as_keys()]

    def holds(self, key: RendezvousKey) -> bool:
        """Return whether a value for this key is here."""
        return key in self._held

    def is_awaited(self, key: RendezvousKey) -> bool:
        """Return whether somebody waits for this key."""
        expected = self._expected
        return key in self._waiters or (expected is not None and not key.path and key[1:5] in expected.left)

    def fail_waiters(self, concerned: Callable[[RendezvousKey], bool], error: Exception) -> None:
        """Fail the waiters of the keys concerned."""
        for key in [key for key in self._waiters if concerned(key)]:
            # A waiter that fails may fail the others of its step before their turn has come.
            for waiter in self._waiters.pop(key, ()):
                waiter.fail(error)
        expected = self._expected
        if expected is None:
            return
        for key in expected.as_keys():
            if expected is self._expected and concerned(key):
                number = expected.left.pop(key[1:5], None)
                if number is not None:
                    expected.done(number, None, False, error)

    def drop(self, concerned: Callable[[RendezvousKey], bool]) -> None:
        """Drop the values of the keys concerned."""
        for key in [key for key in self._held if concerned(key)]:
            _release(self._held.pop(key))


def sent_twice(key: RendezvousKey) -> AlreadyExistsError:
    """Return the error of a key that gets a value while it holds one."""
    return AlreadyExistsError(
        f"{key.edge} was sent twice from {key.source_device} to {key.target_device} "
        f"in step {key.step}, path {key.path}"
    )


#: The error of a step that ended with nobody waiting; never raised itself.
_ENDED: Final = CancelledError("the step has ended")


def _release(held: _HeldValue) -> None:
    if held.release is not None:
        held.release()


__all__ = ["LocalRendezvous", "sent_twice"]
