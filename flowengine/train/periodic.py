"""Saving every N steps or seconds, while the steps go on.

async with fe.train.save_every(saver, session, "run/model.ckpt", steps=1000) as saves:
    for _ in range(10_000):
        await session.run((), targets=["train"])
        await saves.after_step()
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.failures import first_of
from flowengine.session import Session
from flowengine.train.saver import Saver
from flowengine.train.snapshot import Snapshot


class PeriodicSaves:
    """A periodic saver, which `save_every` returns. Call `after_step` after each step.

    saver, session, path, global_step   as for `flowengine.train.Saver.save`
    steps, seconds   how often it saves
    first_step       the number of earlier steps
    nursery          runs the saves
    latest           the prefix of the newest checkpoint that is complete; None before the first

    >>> graph = fe.Graph()
    >>> step = graph.variable(0.0, name="w").assign_add_op(1.0)
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         async with fe.train.save_every(fe.train.Saver(), session, "run/model", steps=2) as saves:
    ...             for _ in range(3):
    ...                 await session.run(step)
    ...                 print(await saves.after_step(metric=0.5))
    ...             await saves.finish()  # the end of the block does this, too
    ...             print(isinstance(saves, fe.train.PeriodicSaves), saves.latest)
    >>> trio.run(main)
    False
    True
    False
    True run/model-3

    Its calls raise the errors of a save, such as FailedPreconditionError.
    """

    def __init__(
        self,
        saver: Saver,
        session: Session,
        path: str | os.PathLike[str],
        *,
        steps: int | None,
        seconds: float | None,
        global_step: Any,
        first_step: int,
        nursery: trio.Nursery,
    ) -> None:
        self.latest: str | None = None
        self._saver = saver
        self._session = session
        self._path = path
        self._steps = steps
        self._seconds = seconds
        self._global_step = global_step
        self._calls = first_step
        self._nursery = nursery
        self._unsaved = 0
        self._metric: float | None = None
        self._began = trio.current_time()
        self._written: trio.Event | None = None

    async def after_step(self, *, metric: float | None = None) -> bool:
        """Save if it is time after a step; return whether a checkpoint of it has been started.

        `metric` is the present score of the model.
        """
        self._calls += 1
        self._unsaved += 1
        self._metric = metric
        due = self._steps is not None and self._unsaved >= self._steps
        if self._seconds is not None and trio.current_time() - self._began >= self._seconds:
            due = True
        if due:
            await self._begin()
        return due

    async def finish(self) -> None:
        """Save the steps since the last save, and wait until everything is written."""
        if self._unsaved:
            await self._begin()
        if self._written is not None:
            await self._written.wait()

    async def _begin(self) -> None:
        if self._written is not None:
            await self._written.wait()
        self._unsaved = 0
        self._began = trio.current_time()
        if self._saver.runs_nodes(self._session):
            # Its nodes read the variables in a separate step, which the next training step must not overtake.
            step = self._calls if self._global_step is None else self._global_step
            self.latest = await self._saver.save(
                self._session, self._path, global_step=step, metric=self._metric
            )
            return
        taken = self._saver.snapshot(self._session, global_step=self._global_step)
        if taken.step is None:
            taken.step = self._calls
        self._written = trio.Event()
        self._nursery.start_soon(self._write, taken, self._metric, self._written)

    async def _write(self, taken: Snapshot, metric: float | None, written: trio.Event) -> None:
        sync = self._session.config.resolved().sync_checkpoints
        self.latest = await self._saver.write(taken, self._path, metric=metric, sync=sync)
        written.set()


@asynccontextmanager
async def save_every(
    saver: Saver,
    session: Session,
    path: str | os.PathLike[str],
    *,
    steps: int | None = None,
    seconds: float | None = None,
    global_step: Any = None,
    first_step: int = 0,
    final: bool = True,
) -> AsyncIterator[PeriodicSaves]:
    """Return a context that saves checkpoints of a training loop: call its `after_step` after every step.

    steps, seconds   save when so many steps, or seconds, have passed since the last save; one or both
    global_step      the variable that counts steps, or its name; by default the calls are counted, starting
                     at `first_step`
    final            whether to save the last steps at the end of the block

    The values are those at the call of `after_step`, between two steps. They are written while the loop goes
    on; a save that is due before the last one is written waits for it. A save that fails ends the block with
    its error. A block that ends with an error or is cancelled saves no more, because the last step may have
    changed only some of the variables.

    Raises InvalidArgumentError without steps and seconds, if they are not positive, and if the saver finds
    nothing to save in the session's graph.

    `saver`, `session`, `path` and `global_step` are those of `flowengine.train.Saver.save`.

    >>> graph = fe.Graph()
    >>> w = graph.variable(0.0, name="w")
    >>> step = w.assign_add_op(1.0)
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         async with fe.train.save_every(fe.train.Saver(), session, "run/model", steps=2) as saves:
    ...             for _ in range(4):
    ...                 await session.run(step)
    ...                 await saves.after_step()
    ...     print(fe.train.latest_checkpoint("run"))
    >>> trio.run(main)
    run/model-4
    """
    if steps is None and seconds is None:
        raise InvalidArgumentError("save_every needs steps, seconds, or both")
    if (steps is not None and steps < 1) or (seconds is not None and not seconds > 0):
        raise InvalidArgumentError(f"steps={steps} and seconds={seconds} must be positive")
    saver.runs_nodes(session)  # which adds the nodes that a save at a target needs before the first step
    try:
        async with trio.open_nursery() as nursery:
            saves = PeriodicSaves(
                saver,
                session,
                path,
                steps=steps,
                seconds=seconds,
                global_step=global_step,
                first_step=first_step,
                nursery=nursery,
            )
            yield saves
            if final:
                await saves.finish()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
