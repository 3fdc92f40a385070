"""`Summaries`: the hook by which a training loop writes event files, which TensorBoard shows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.files.paths import path_text
from flowengine.graphs.graph import Graph
from flowengine.tools.summaries.writer import Writer
from flowengine.train.hooks.checkpoints import Checkpoints
from flowengine.train.hooks.hook import Hook, LoopState


class Summaries(Hook):
    """Writes what a loop's steps return into an event file, every so many steps and at the end.

    logdir         the folder of the run; it is made if it is not there
    every_steps    how many steps are between two looks
    names          of the values to write: see `LoopState.value`. Without names, all that the steps return,
                   and the metrics of evaluations
    graph          whether the session's graph is written before the first step
    flush_seconds  how long a value may wait until it is in the file

    Numbers become scalars, arrays of numbers histograms, and Summaries, which summary ops return, are written
    as they are; other values are left out. The hook adds "global_step/sec", as TensorFlow names it, and
    "seconds_per_step". A loop that goes on from a checkpoint tells TensorBoard to leave out what the steps
    behind it had written: they are made again.

    However the loop ends, all is written that was added. The loop raises InvalidArgumentError for a name that
    no step fetches and no hook gives, and what `fe.summary.Writer` raises.

    >>> graph = fe.Graph()
    >>> w = graph.variable(5.0, name="w")
    >>> loss = fe.square(w)
    >>> step = fe.optimizers.SGD(0.25).minimize(loss)
    >>> with fe.blocking.Session(graph) as session:
    ...     hook = fe.train.Summaries("logs/loop", every_steps=10)
    ...     fetches = {"loss": loss, "weights": w}
    ...     fe.blocking.loop(session, step, steps=30, fetches=fetches, hooks=[hook], quiet=True).steps
    30
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        every_steps: int = 100,
        names: Collection[str] = (),
        graph: bool = True,
        flush_seconds: float = 10.0,
    ) -> None:
        if every_steps < 1:
            raise InvalidArgumentError(f"every_steps is at least 1, not {every_steps}")
        if isinstance(names, str):
            raise InvalidArgumentError(f"names is a list of names: write [{names!r}]")
        self._logdir = path_text(logdir, "fe.train.Summaries")
        self._every = every_steps
        self._names = tuple(names)
        self._with_graph = graph
        self._flush_seconds = flush_seconds
        self._writer: Writer | None = None
        self._unsettled: list[str] = []
        self._began = 0.0
        self._step = self._written = 0

    @property
    def writer(self) -> Writer:
        """The writer, for hooks that add more; FailedPreconditionError outside of the loop."""
        if self._writer is None:
            raise FailedPreconditionError("fe.train.Summaries has a writer only while its loop runs")
        return self._writer

    def around(self, state: LoopState) -> AbstractAsyncContextManager[Any]:
        return self._open(state)

    @asynccontextmanager
    async def _open(self, state: LoopState) -> AsyncIterator[None]:
        checkpoints = [each for each in state.hooks if isinstance(each, Checkpoints)]
        # A checkpoint may be of no step, and steps that were lost followed it.
        is_restored = bool(state.step) or any(each.latest is not None for each in checkpoints)
        restored = state.step if is_restored else None
        writer = Writer(self._logdir, restored_step=restored, flush_seconds=self._flush_seconds)
        async with writer:
            self._writer = writer
            try:
                yield
            finally:
                self._writer = None

    async def begin(self, state: LoopState) -> None:
        self._unsettled = [name for name in self._names if not state.expects(name, "Summaries")]
        if self._with_graph and isinstance(graph := state.session.graph, Graph):
            self.writer.add_graph(graph)
        self._began = trio.current_time()
        self._step = self._written = state.step

    async def after_step(self, state: LoopState) -> None:
        if self._unsettled:
            self._unsettled = [name for name in self._unsettled if not state.settles(name, "Summaries")]
        if state.step % self._every == 0:
            self._write(state)

    async def end(self, state: LoopState) -> None:
        if self._written != state.step:
            self._write(state)

    def _write(self, state: LoopState) -> None:
        found = state.numbers()
        if self._names:
            found = {name: value for name in self._names if (value := state.find(name)) is not None}
        self.writer.add_values(found, state.step)
        now = trio.current_time()
        steps, seconds = state.step - self._step, max(now - self._began, 1e-9)
        self.writer.add_values(
            {"global_step/sec": steps / seconds, "seconds_per_step": seconds / steps}, state.step
        )
        self._began, self._step = now, state.step
        self._written = state.step


__all__ = ["Summaries"]
