"""Session for asyncio programs: the steps run in a trio thread, their callers await them here.

    async with fe.asyncio.Session(graph) as session:
        y = await session.run("y:0", {"x:0": 3.0})

Cancelling the awaiting asyncio task cancels the step and waits until it has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from flowengine.core import tracebacks
from flowengine.core.config import Config, RunOptions
from flowengine.core.errors import OpError
from flowengine.core.missing import public_module
from flowengine.core.sessions.run_arguments import FeedDict, Fetch, Key, OneFetch, RunArguments
from flowengine.portal import PortalSession
from flowengine.resources.container import ResourceManager
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.session import Session as _Session

if TYPE_CHECKING:
    from flowengine.graphs.variables.initialising import Listed
    from flowengine.graphs.variables.variable import GraphVariable
    from flowengine.saved_model.model import AwaitedModel


#: Whether a task may put its cancellation off: before 3.13 `asyncio.timeout` would not know it again.
_POSTPONES = sys.version_info >= (3, 13)


def _postponed(cancelled: asyncio.CancelledError) -> bool:
    """Have this task's cancellation come again at its next `await`; whether that can be."""
    task = asyncio.current_task()
    if not _POSTPONES or task is None or not task.cancelling():
        return False
    task.uncancel()
    task.cancel(*cancelled.args)
    return True


class Session(PortalSession):
    """A `flowengine.Session` for asyncio; arguments, results and errors are the same.

    Cancellation arrives as asyncio.CancelledError once the step has ended. From Python 3.13 on, a step that
    had ended by then gives its values, and the cancellation comes at the next `await`.
    """

    _called = "flowengine.asyncio.Session"
    _await = "await "

    async def _call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        call = self._open().start(function)
        waiting = asyncio.wrap_future(call.future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError as cancelled:
            call.cancel()
            # Until the step has ended its feeds are borrowed: come back only then, however often cancelled.
            while not waiting.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([waiting])
            if not waiting.cancelled() and waiting.exception() is None and _postponed(cancelled):
                return waiting.result()
            raise

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
        step = partial(
            self._session.run, fetches, feed_dict, targets=targets, options=options, run_metadata=run_metadata
        )
        try:
            return await self._call(step)
        except OpError as error:
            tracebacks.shorten(error)
            raise

    @tracebacks.hides_engine
    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """See `flowengine.Session.make_callable`."""
        step = self._session.make_callable(fetches, feeds, targets)

        async def call(*values: Any) -> Any:
            try:
                return await self._call(partial(step, *values))
            except OpError as error:
                tracebacks.shorten(error)
                raise

        return call

    @tracebacks.hides_engine
    async def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **keywords: Any) -> Any:
        """Call a trio coroutine function with the session behind this one, where its steps run.

        `await session.call(saver.save, "model.ckpt")` is what `await saver.save(session, "model.ckpt")` is
        in a trio program.
        """
        return await self._call(partial(function, self._session, *args, **keywords))

    async def initialize(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.initialize`."""
        return cast("list[GraphVariable]", await self.call(_Session.initialize, variables))

    async def uninitialized(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.uninitialized`."""
        return cast("list[GraphVariable]", await self.call(_Session.uninitialized, variables))

    initialise, uninitialised = initialize, uninitialized

    async def close(self) -> None:
        """End running steps with CancelledError and the thread with them. Closing twice does nothing."""
        if self._portal is None or self._portal.is_elsewhere:
            self._portal = None
            return
        await self._call(self._session.close)
        portal, self._portal = self._portal, None
        portal.close()

    async def __aenter__(self) -> Session:
        return self

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
    """See `flowengine.saved_model.load`; the model's calls are awaited in this asyncio program."""
    from flowengine.saved_model.loading import restored, source_of
    from flowengine.saved_model.model import AwaitedModel

    saved = await asyncio.to_thread(source_of, path, tags, config)
    session = Session(saved.graph, target=target, config=config, resources=resources)
    try:
        saved = await session.call(restored, saved)
    except BaseException:
        await session.close()
        raise
    return AwaitedModel(saved, session)


__all__ = ["Session", "load_saved_model"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
