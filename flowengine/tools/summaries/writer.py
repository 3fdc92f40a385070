"""`fe.summary.Writer`: a task of its own writes what others add, in trio and in asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType

import trio

from flowengine.core.errors import FailedPreconditionError
from flowengine.runtime.failures import first_of
from flowengine.tools.summaries.recorder import SummaryRecorder


class Writer(SummaryRecorder):
    """Writes an event file for TensorBoard: scalars, histograms, images, audio, text, graphs.

    Calls to add a value return at once, from any thread; a task in the background writes the file after
    `flush_seconds`, or sooner if many events wait. It runs in trio and in asyncio programs; scripts and
    notebooks use `fe.blocking.Writer`.

    logdir          the folder of the run, which is made if it is not there. TensorBoard shows each folder
                    below its `--logdir` as a run
    restored_step   if the program goes on from a checkpoint: the number of steps in it. The file then tells
                    TensorBoard to leave out what the folder has of later steps, because they are made again
    flush_seconds   how long a value may wait until it is written, 10 by default
    suffix          the end of the file's name, which is else as TensorFlow's

    Use it with `async with`; it may be entered again, for another file. Left by an error or by a
    cancellation, it still writes all that was added. Raises PermissionDeniedError, NotFoundError or
    ResourceExhaustedError if the folder or the file cannot be written: the block is cancelled, and raises it;
    the file has whole events only.

    >>> graph = fe.Graph()
    >>> async def main():
    ...     async with fe.summary.Writer("logs/run1") as writer:
    ...         writer.add_graph(graph)
    ...         writer.add_hparams({"rate": 0.1, "optimizer": "Adam"}, metrics=["loss"])
    ...         writer.add_scalar("loss", 0.5, step=1)
    ...         writer.add_histogram("weights", np.random.normal(size=[10, 10]), step=1)
    ...         writer.add_image("digits", np.zeros([2, 28, 28, 1]), step=1)
    ...         writer.add_audio("tone", np.zeros([1, 100, 1]), step=1, sample_rate=8000)
    ...         writer.add_text("notes", "**first** run", step=1)
    ...         writer.add_values({"rate": 0.1, "gradients": np.ones(10)}, step=1)
    ...         await writer.flush()
    >>> trio.run(main)
    """

    _called = "fe.summary.Writer"

    _block_left_open: AbstractAsyncContextManager[None]
    #: Lets the task write, from any thread.
    _wake: Callable[[], object]

    async def flush(self) -> None:
        """Write all that was added before. Cancelled, it has written all or nothing.

        Events that are not written yet stay in the queue. Raises the errors of the block.
        """
        self._opened()
        await _on_thread(self._flush)

    async def __aenter__(self) -> Writer:
        if self._file is not None:
            raise FailedPreconditionError(f"{self._called} is open already")
        block = self._trio_block() if trio.lowlevel.in_trio_task() else self._asyncio_block()
        await block.__aenter__()
        self._block_left_open = block
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._block_left_open.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _trio_block(self) -> AsyncIterator[None]:
        is_due = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            is_due.set()

        async def keep_writing() -> None:
            nonlocal is_due
            while True:
                with trio.move_on_after(self._seconds):
                    await is_due.wait()
                is_due = trio.Event()
                await self.flush()

        self._wake = lambda: token.run_sync_soon(wake, idempotent=True)
        await trio.to_thread.run_sync(self._open)
        is_failure = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_writing)
                yield
                nursery.cancel_scope.cancel()
            is_failure = False
        except BaseExceptionGroup as group:
            raise first_of(group) from None
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lambda: self._close(is_failure=is_failure))

    @asynccontextmanager
    async def _asyncio_block(self) -> AsyncIterator[None]:
        is_due = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def keep_writing() -> None:
            while True:
                try:
                    async with asyncio.timeout(self._seconds):
                        await is_due.wait()
                except TimeoutError:
                    pass
                is_due.clear()
                await self.flush()

        def wake() -> None:
            loop.call_soon_threadsafe(is_due.set)

        self._wake = wake
        await _on_thread(self._open)
        is_failure = True
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(keep_writing())
                yield
                writing.cancel()
            is_failure = False
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        finally:
            await _on_thread(lambda: self._close(is_failure=is_failure))

    def _write_soon(self) -> None:
        self._wake()


async def _on_thread(function: Callable[[], None]) -> None:
    """Call a function on a thread, and come back when it has returned; a cancellation comes after that."""
    if trio.lowlevel.in_trio_task():
        await trio.to_thread.run_sync(function)
        return
    call = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        call.exception()
        raise


__all__ = ["Writer"]
