"""`Profile`: the hook by which a training loop traces one step in so many, and keeps the timelines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import trio

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.files.paths import path_text
from flowengine.kernels.common.file_access import translated
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.hooks.summaries import Summaries

#: The first steps are planned and compiled; they show little of those that follow.
_FIRST: Final = 10


class Profile(Hook):
    """Traces one step of a loop in so many, and writes its timeline into a folder.

    folder        gets `timeline-STEP.json` of each traced step, which Perfetto and `flowengine trace` read.
                  It is created if it is missing
    every_steps   how many steps are between two traced ones; `first` is the number of the first of them
    level         "nodes", or "blocks" for less: see `fe.RunOptions`
    keep          how many timelines stay in the folder, the newest ones; those of earlier loops stay, too

    If the loop has `fe.train.Summaries`, its event file gets the times as well, for TensorBoard's graph page.
    `latest` is the metadata of the last step that was traced.

    A step that fails while it is traced leaves the timeline of the part that ran. The loop raises
    InvalidArgumentError if a function runs the steps or `StepGuard` looks at them, PermissionDeniedError,
    NotFoundError or ResourceExhaustedError if the folder cannot be written.

    >>> graph = fe.Graph()
    >>> w = graph.variable(5.0, name="w")
    >>> step = fe.optimizers.SGD(0.25).minimize(fe.square(w))
    >>> hook = fe.train.Profile("logs/steps", every_steps=20)
    >>> with fe.blocking.Session(graph) as session:
    ...     fe.blocking.loop(session, step, steps=30, hooks=[hook], quiet=True).steps
    30
    >>> print(hook.latest.profile("op").entries[0].calls > 0, sorted(os.listdir("logs/steps")))
    True ['timeline-10.json', 'timeline-30.json']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int = 1000,
        first: int = _FIRST,
        level: Literal["blocks", "nodes"] = "nodes",
        keep: int = 5,
    ) -> None:
        for name, number in (("every_steps", every_steps), ("first", first), ("keep", keep)):
            if number < 1:
                raise InvalidArgumentError(f"{name} is at least 1, not {number}")
        self._folder = Path(path_text(folder, "fe.train.Profile"))
        self._every = every_steps
        self._first = first
        self._level = level
        self._keep = keep
        self._written: list[Path] = []
        self.latest: RunMetadata | None = None
        self._kept: RunMetadata | None = None

    async def begin(self, state: LoopState) -> None:
        if state.fetched is None:
            raise InvalidArgumentError(
                "Profile: a function runs the steps: let it trace one with fe.RunOptions(trace=...)"
            )
        replace(state.options, trace=self._level)  # raises for another level
        await trio.to_thread.run_sync(self._make_folder)

    async def before_step(self, state: LoopState) -> None:
        number = state.step + 1 - self._first
        if number >= 0 and number % self._every == 0:
            if state.options.guard:
                raise InvalidArgumentError("Profile: the step is guarded, so that it cannot be traced, too")
            state.options = replace(state.options, trace=self._level)
            state.metadata = self.latest = RunMetadata()

    async def after_step(self, state: LoopState) -> None:
        if state.metadata is None or state.metadata is not self.latest:
            return
        await self._keep_timeline(state.step)
        for each in state.hooks:
            if isinstance(each, Summaries):
                each.writer.add_run_metadata(state.metadata, f"step {state.step}", state.step)

    def around(self, state: LoopState) -> AbstractAsyncContextManager[Any]:
        return self._around(state)

    @asynccontextmanager
    async def _around(self, state: LoopState) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            # The step after `state.step` has not ended, if it is the one that is traced.
            if self.latest is not None and state.metadata is self.latest and self._kept is not self.latest:
                with trio.CancelScope(shield=True):
                    try:
                        await self._keep_timeline(state.step + 1)
                    except OpError as failure:
                        error.add_note(f"its timeline could not be written: {failure.message}")
            raise

    async def _keep_timeline(self, step: int) -> None:
        metadata = self._kept = self.latest
        assert metadata is not None
        path = self._folder / f"timeline-{step}.json"
        await trio.to_thread.run_sync(lambda: self._write(path, metadata.timeline()))

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise translated(error, str(self._folder)) from error

    def _write(self, path: Path, text: str) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
            self._written = [each for each in self._written if each != path] + [path]
            while len(self._written) > self._keep:
                self._written.pop(0).unlink(missing_ok=True)
        except OSError as error:
            raise translated(error, str(path)) from error
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)


__all__ = ["Profile"]
