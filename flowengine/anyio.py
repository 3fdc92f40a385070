"""Session for programs that run on trio or on asyncio, whichever it turns out to be.

Entering it decides: in a trio program steps run in place, as those of `fe.Session`; in an asyncio program
they run in a thread, as those of `fe.asyncio.Session`. The library anyio itself is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, overload

from flowengine.core.config import Config
from flowengine.core.errors import FailedPreconditionError
from flowengine.core.public_names.missing import public_module
from flowengine.core.run_options import RunOptions
from flowengine.core.sessions.run_arguments import FeedDict, Fetch, Key, OneFetch, RunArguments
from flowengine.core.sessions.view import SessionView
from flowengine.devices.device import DeviceRegistry
from flowengine.graphs.given import checked_graph
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.place.costs import CostModel
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.placing import Placer
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.session import Session as _TrioSession
from flowengine.session import SessionStatistics

if TYPE_CHECKING:
    from flowengine.asyncio import Session as _AsyncioSession
    from flowengine.graphs.variables.initializing import Listed
    from flowengine.graphs.variables.variable import GraphVariable
    from flowengine.saved_model.model import AwaitedModel


class Session(SessionView):
    """A `flowengine.Session` for trio and asyncio; arguments, results and errors are the same.

    Use it with `async with`. Cancellation arrives as the event loop's own, once the step has ended. Raises
    FailedPreconditionError if it is used before it is entered.

    >>> graph = fe.Graph()
    >>> double = graph.placeholder("float32", [], name="x") * 2.0
    >>> async def main():
    ...     async with fe.anyio.Session(graph) as session:
    ...         twice = session.make_callable(double, feeds=["x:0"])
    ...         print(await session.run(double, {"x:0": 3.0}), await twice(5.0))
    ...     await session.close()
    >>> trio.run(main)
    6.0 10.0
    >>> import asyncio
    >>> asyncio.run(main())
    6.0 10.0
    """

    _called = "flowengine.anyio.Session"
    _await = "await "

    def __init__(
        self,
        graph: NodeGraph | None = None,
        *,
        target: str = "",
        config: Config | None = None,
        resources: ResourceManager | None = None,
        kernels: KernelRegistry | None = None,
        devices: DeviceRegistry | None = None,
        placer: Placer | None = None,
    ) -> None:
        self._graph = None if graph is None else checked_graph(graph)
        self._arguments: dict[str, Any] = {
            "target": target,
            "config": config,
            "resources": resources,
            "kernels": kernels,
            "devices": devices,
            "placer": placer,
        }
        self._session: _TrioSession | _AsyncioSession | None = None

    def _opened(self) -> _TrioSession | _AsyncioSession:
        if self._session is None:
            raise FailedPreconditionError("this session is not open: use `async with fe.anyio.Session(...)`")
        return self._session

    @property
    def graph(self) -> NodeGraph:
        return self._opened().graph

    @overload
    async def run(
        self, fetches: OneFetch, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    @overload
    async def run(
        self, fetches: dict[Key, Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> dict[Key, Any]: ...

    @overload
    async def run(
        self, fetches: list[Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> list[Any]: ...

    @overload
    async def run(
        self, fetches: Any, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """See `flowengine.Session.run`."""
        return await self._opened().run(
            fetches, feed_dict, targets=targets, options=options, run_metadata=run_metadata
        )

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """See `flowengine.Session.make_callable`."""
        return self._opened().make_callable(fetches, feeds, targets)

    async def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **keywords: Any) -> Any:
        """Call a trio coroutine `function` with the session behind this one, where its steps run.

        `args` and `keywords` follow the session. Raises what the function raises; cancelled, it cancels the
        call.

        >>> graph = fe.Graph()
        >>> async def add(session, a, b):
        ...     return await session.run(a + b)
        >>> async def main():
        ...     async with fe.anyio.Session(graph) as session:
        ...         print(await session.call(add, graph.constant(1.0), graph.constant(2.0)))
        >>> trio.run(main)
        3.0
        """
        session = self._opened()
        if isinstance(session, _TrioSession):
            return await function(session, *args, **keywords)
        return await session.call(function, *args, **keywords)

    async def initialize(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.initialize`."""
        return await self._opened().initialize(variables)

    async def uninitialized(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.uninitialized`."""
        return await self._opened().uninitialized(variables)

    @property
    def costs(self) -> CostModel:
        """See `flowengine.Session.costs`."""
        return self._opened().costs

    def statistics(self) -> SessionStatistics:
        """See `flowengine.Session.statistics`, and the example of `flowengine.Session`."""
        return self._opened().statistics()

    def extend(self, graph: NodeGraph) -> None:
        """See `flowengine.Session.extend`, and the example of `flowengine.Session`."""
        self._opened().extend(graph)

    def explain(
        self,
        fetches: Any,
        feeds: Sequence[Any] = (),
        *,
        targets: Sequence[Any] = (),
        dot: bool = False,
        source: bool = False,
        placement: bool = False,
        form: bool = False,
    ) -> str:
        """See `flowengine.Session.explain`, and the example of `flowengine.Session`."""
        return self._opened().explain(
            fetches, feeds, targets=targets, dot=dot, source=source, placement=placement, form=form
        )

    async def close(self) -> None:
        """End running steps with CancelledError. Closing twice, or before it was opened, does nothing."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Session:
        if self._session is None:
            self._session = self._made()
        return self

    def _shown_graph(self) -> NodeGraph | None:
        return self._graph if self._session is None else self._session.graph

    def _state(self) -> str:
        return "not entered" if self._session is None else self._session._state()

    def _facts(self) -> Iterable[tuple[str, object]]:
        return () if self._session is None else self._session._facts()

    def _made(self) -> _TrioSession | _AsyncioSession:
        import sniffio  # which trio brings along

        if sniffio.current_async_library() == "trio":
            return _TrioSession(self._graph, **self._arguments)
        from flowengine.asyncio import Session as _AsyncioSession

        return _AsyncioSession(self._graph, **self._arguments)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def load_saved_model(
    path: str | os.PathLike[str],
    *,
    tags: str | Collection[str] | None = None,
    config: Config | None = None,
    target: str = "",
    resources: ResourceManager | None = None,
) -> AwaitedModel:
    """Load a SavedModel whose calls are awaited on the event loop that runs this one.

    Arguments and errors are those of `flowengine.saved_model.load`; cancelled, it leaves nothing open.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> async def main():
    ...     async with await fe.anyio.load_saved_model("export") as model:
    ...         print((await model(x=[1.0, 2.0]))["y"])
    >>> trio.run(main)
    [2. 4.]
    """
    import sniffio  # which trio brings along

    options: dict[str, Any] = {"tags": tags, "config": config, "target": target, "resources": resources}
    if sniffio.current_async_library() == "trio":
        from flowengine.saved_model.loading import load

        return await load(path, **options)
    from flowengine.asyncio import load_saved_model as load_in_thread

    return await load_in_thread(path, **options)


__all__ = ["Session", "load_saved_model"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
