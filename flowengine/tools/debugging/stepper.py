"""`fe.debug.Stepper`: runs one step of a session, and stops before the nodes that its caller names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.run_options import RunOptions
from flowengine.runtime.guarding.stepped import StepControl
from flowengine.tools.debugging.visited import VisitedNode, visited

if TYPE_CHECKING:
    from flowengine.runtime.guarding.watched import Tag
    from flowengine.runtime.planning.items import Item
    from flowengine.session import Session

#: Takes a node that is about to run, and returns whether to stop there.
Condition: TypeAlias = Callable[[VisitedNode], bool]


class Stepper:
    """One step of a session, which stops before nodes, so that a person can look at their inputs.

    session   a `fe.Session` of this process
    fetches, feeds, targets   as `Session.run` takes them

    Use it with `async with` in a trio program: the step begins, and stops before its first node. The step
    runs uncompiled, the bodies of functions too, one node at a time on the event loop; its values are those
    of any step to the bit. Nodes that only hand a value on are passed over. Other tasks and other steps
    continue while it is stopped. At the end of the block a step that has not ended is cancelled; what its
    nodes have written stays.

    node      the node before which the step has stopped; None if it has ended
    ran       the node that ran last, with its outputs; None before the first

    Raises InvalidArgumentError for a session at a target or in a sandbox, and what `Session.run` raises for
    the fetches and feeds. Calls raise the step's own error when it fails; `node` is then None.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [3], name="x")
    >>> with graph.name_scope("layer"):
    ...     y = fe.sqrt(x - 1.0, name="root")
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         async with fe.debug.Stepper(session, fe.reduce_sum(y), {x: [5.0, 2.0, 0.0]}) as stepper:
    ...             node = await stepper.go_on("layer/root")
    ...             print(node.name, node.op, node.inputs)
    ...             await stepper.go_on(when=lambda node: not node.has_finite_inputs)
    ...             print(stepper.node.op, stepper.ran.name)
    >>> trio.run(main)
    layer/root Sqrt (array([ 4.,  1., -1.], dtype=float32),)
    Sum layer/root
    """

    def __init__(
        self,
        session: Session,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
    ) -> None:
        self._session = session
        self._fetches = fetches
        self._feeds = feeds
        self._targets = targets
        self._control = StepControl(self._stops)
        self._until: tuple[str, ...] = ()
        self._when: Condition | None = None
        self._opened: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._ended = trio.Event()
        self._error: Exception | None = None
        self._values: Any = None

    @property
    def node(self) -> VisitedNode | None:
        """The node before which the step has stopped."""
        paused = self._control.paused
        return None if paused is None else visited(*paused)

    @property
    def ran(self) -> VisitedNode | None:
        """The node that ran last."""
        return None if self._control.ran is None else visited(*self._control.ran)

    @property
    def has_ended(self) -> bool:
        """Whether the step has ended, well or not."""
        return self._ended.is_set()

    async def step(self, count: int = 1) -> VisitedNode | None:
        """Run some nodes; return the one that is next, or None at the end of the step.

        count   how many nodes to run

        It waits while a node waits, such as a dequeue; cancelled, it leaves the step as it is, and a second
        call goes on waiting. Raises the step's error, and FailedPreconditionError outside of the block.
        """
        if count < 1:
            raise InvalidArgumentError(f"count is at least 1, not {count}")
        for _ in range(count):
            self._until, self._when = (), None
            if await self._advance() is None:
                break
        return self.node

    async def go_on(
        self, until: str | Sequence[str] = (), *, when: Condition | None = None
    ) -> VisitedNode | None:
        """Run on until a node is next; return it, or None at the end of the step.

        until   the name of a node, a pattern of names such as "layer/*", or several of them; none for any
                node. A name in the body of a function may leave out the calls around it
        when    is called with each such node, and returns whether to stop before it

        Without both the step runs to its end. Raises as `step` does, InvalidArgumentError for a name that no
        node has, and the error that `when` raises, which ends the step.
        """
        names = (until,) if isinstance(until, str) else tuple(until)
        for name in names:
            self.check(name)
        self._until, self._when = names, when if names or when is not None else _nowhere
        return await self._advance()

    async def finish(self) -> Any:
        """Run to the end of the step; return its fetched values. Raises as `step` does."""
        await self.go_on()
        return self._values

    def check(self, until: str) -> None:
        """Check a name for `go_on`.

        until   the name of a node, or a pattern of names

        Raises InvalidArgumentError if no node of the graph and its functions has such a name.

        >>> graph = fe.Graph()
        >>> y = graph.constant(1.0, name="y")
        >>> fe.debug.Stepper(fe.Session(graph), y).check("y*")
        """
        known = [*_names(self._session.graph)]
        # A node of a function's body is called by the calls around it, which are made while the step runs.
        if any(_matches(name, until) or until.endswith(f"/{name}") for name in known):
            return
        near = [name for name in known if name.endswith(f"/{until}")]
        near = near or get_close_matches(until, known[:20_000], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InvalidArgumentError(f"no node of the graph or its functions is called '{until}'{hint}")

    async def _advance(self) -> VisitedNode | None:
        if self._nursery is None:
            raise FailedPreconditionError(
                "this stepper has no step: use it in `async with fe.debug.Stepper(session, ...) as stepper`"
            )
        if self._control.is_paused:
            self._control.resume()
        await self._pause_or_end()
        return self.node

    async def _pause_or_end(self) -> None:
        """Wait until the step has stopped or ended; raise its error, once."""
        async with trio.open_nursery() as nursery:

            async def wait(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait, self._ended)
            nursery.start_soon(wait, self._control.reached)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _stops(self, item: Item, tag: Tag, inputs: Sequence[Any]) -> bool:
        if self._until and not any(_matches(item.name, each) for each in self._until):
            return False
        return self._when is None or bool(self._when(visited(item, tag, inputs)))

    async def _run(self) -> None:
        try:
            options = RunOptions(stepper=self._control)
            self._values = await self._session.run(
                self._fetches, self._feeds, targets=self._targets, options=options
            )
        except Exception as error:
            self._error = error
        finally:
            self._control.paused = None
            self._ended.set()

    async def __aenter__(self) -> Stepper:
        if self._opened is not None:
            raise FailedPreconditionError("a stepper runs one step: make another")
        self._opened = trio.open_nursery()
        self._nursery = await self._opened.__aenter__()
        try:
            self._nursery.start_soon(self._run)
            await self._pause_or_end()
        except BaseException as error:
            self._nursery.cancel_scope.cancel()
            await self._opened.__aexit__(None, None, None)
            raise error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._opened is not None
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        self._nursery = None
        await self._opened.__aexit__(None, None, None)
        return None


def _nowhere(node: VisitedNode) -> bool:
    return False


def _matches(name: str, until: str) -> bool:
    """Return whether a node is meant by a pattern, which may leave out the calls around the node."""
    return fnmatchcase(name, until) or fnmatchcase(name, f"*/called/{until}")


def _names(graph: Any) -> Iterator[str]:
    yield from graph.nodes
    for function in () if graph.library is None else graph.library.function:
        yield from (node.name for node in function.node_def)


__all__ = ["Condition", "Stepper"]
