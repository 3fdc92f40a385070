"""The loop behind `run_with_recovery`: start, run steps, wait after an interruption, start again."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import trio

from flowengine.checkpoint.state import latest_checkpoint
from flowengine.core.config import Config
from flowengine.core.errors import AbortedError, InvalidArgumentError, OutOfRangeError, UnavailableError
from flowengine.ir.graph import NodeGraph
from flowengine.session import Session
from flowengine.train.recovery_notes import RecoveryNotes, from_plain, set_state, state_of, to_plain
from flowengine.train.saver import Saver

_log: Final = logging.getLogger("flowengine.train")

#: One step: given the session and how many steps were made before.
Step: TypeAlias = Callable[[Session, int], Awaitable[Any]]
#: Nodes to run one after the other, or a coroutine function that does it.
Init: TypeAlias = str | Sequence[str] | Callable[[Session], Awaitable[Any]]

#: The errors of a lost task, a lost master or a restarted task.
RECOVERABLE: Final = (UnavailableError, AbortedError)

#: The name of checkpoints in the directory, before the step.
STEM: Final = "model.ckpt"
#: Between two attempts to begin anew: twice as long each time, from the first of these to the second.
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a run after an interruption.

    step       the number of steps that had run when it was interrupted
    resumed    the number of steps in the checkpoint from which it went on
    error      the error that interrupted it
    seconds    the time from the error until it went on
    attempts   the number of attempts to start again

    >>> from flowengine.train import Restart
    >>> restart = Restart(step=120, resumed=100, error=OSError(), seconds=1.5, attempts=2)
    >>> restart.step - restart.resumed  # steps that run again
    20
    """

    step: int
    resumed: int
    error: Exception
    seconds: float
    attempts: int


@dataclass(slots=True)
class RecoveredRun:
    """The result of `run_with_recovery`.

    step         the number of steps of the model, those of earlier processes included
    value        the result of the last step; None if this process ran none
    checkpoint   the newest checkpoint's prefix
    restarts     every `Restart`, in order

    >>> graph = fe.Graph()
    >>> count = graph.variable(0, name="count")
    >>> more, init = count.assign_add(1), graph.group(count.initializer, name="init")
    >>> async def step(session, number):
    ...     return await session.run(more)
    >>> async def main():
    ...     return await fe.train.run_with_recovery(graph, step, directory="run", steps=3)
    >>> run = trio.run(main)
    >>> isinstance(run, fe.train.RecoveredRun), run.step, run.value.tolist(), run.restarts
    (True, 3, 3, [])
    """

    step: int = 0
    value: Any = None
    checkpoint: str | None = None
    restarts: list[Restart] = field(default_factory=list)

    def _repr_html_(self) -> str:
        from flowengine.core import html

        rows = [("step", self.step), ("value", self.value), ("checkpoint", self.checkpoint)]
        return html.table([*rows, *(("restart", restart) for restart in self.restarts)])


@dataclass(frozen=True, slots=True)
class RecoverableRun:
    """A run to recover; see `run_with_recovery`."""

    graph: NodeGraph
    step: Step
    folder: str
    steps: int | None
    target: str
    config: Config
    init: Init
    local_init: Init
    saver: Saver
    global_step: Any
    save_steps: int | None
    save_seconds: float | None
    state: dict[str, Any]
    around: Callable[[Session], AbstractAsyncContextManager[Any]] | None
    containers: list[str]


class Recovery:
    """One call of `run_with_recovery`."""

    def __init__(
        self,
        run: RecoverableRun,
        max_restarts: int,
        max_wait_seconds: float,
        on_restart: Callable[[Restart], object] | None,
    ) -> None:
        self._run = run
        self._max_restarts = max_restarts
        self._max_wait = max_wait_seconds
        self._on_restart = on_restart
        self._result = RecoveredRun()
        #: Interruptions since the last checkpoint.
        self._in_a_row = 0
        #: The error that interrupted the run, and the number of steps before it; None if there was none.
        self._interrupted: tuple[Exception, int] | None = None
        self._since = 0.0
        self._attempts = 0
        self._unsaved = 0
        self._saved_at = 0.0
        #: State as it was before the run, for one that is interrupted before its first checkpoint.
        self._first = {name: to_plain(state_of(thing, name), name) for name, thing in run.state.items()}

    async def go(self) -> RecoveredRun:
        self._since = trio.current_time()
        pause = _PAUSE_SECONDS
        while True:
            has_begun = False
            try:
                async with AsyncExitStack() as stack:
                    session = await stack.enter_async_context(
                        Session(self._run.graph, target=self._run.target, config=self._run.config)
                    )
                    self._attempts += 1
                    await self._begin(session)
                    if self._run.around is not None:
                        await stack.enter_async_context(self._run.around(session))
                    has_begun = True
                    self._went_on()
                    await self._make_steps(session)
                return self._result
            except (*RECOVERABLE, ExceptionGroup) as raised:
                error = _cause(raised)
                if error is None:
                    raise
                if has_begun:
                    self._interrupt(error)
                    pause = _PAUSE_SECONDS
                    if self._in_a_row > 1:
                        # The same fault may need time to end.
                        await trio.sleep(min(_PAUSE_SECONDS * 2 ** (self._in_a_row - 2), _PAUSE_SECONDS_MAX))
                else:
                    await self._wait(error, pause)
                    pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    # -- beginnings ---------------------------------------------------------------------------------

    async def _begin(self, session: Session) -> None:
        """Restore everything from the latest checkpoint, or initialize it if the folder has none."""
        run = self._run
        latest = await trio.to_thread.run_sync(latest_checkpoint, run.folder)
        if run.containers:
            await session.reset(run.containers)
        await run.saver.remove_leftovers(os.path.join(run.folder, STEM))
        if latest is None:
            await session.set_random_places({})
            await _initialize(session, run.init)
            await _initialize(session, run.local_init)
            self._set_state(self._at_first())
            self._result.step = 0
            await self._save(session)
            return
        notes = await trio.to_thread.run_sync(RecoveryNotes.read, latest)
        await _initialize(session, run.local_init)
        await run.saver.restore(session, latest)
        if notes is None:
            # Another program has written it.
            notes = RecoveryNotes(await self._step_of(session, latest), {}, self._at_first())
        missing = sorted(run.state.keys() - notes.state.keys())
        if missing:
            raise InvalidArgumentError(
                f"{latest} holds no state '{missing[0]}': was it saved by another program?"
            )
        await session.set_random_places(notes.random)
        self._set_state(notes.state)
        self._result.step = notes.step
        self._result.checkpoint = latest
        self._unsaved = 0
        self._saved_at = trio.current_time()

    def _at_first(self) -> Mapping[str, Any]:
        """State as it was before the run, anew each time: who gets it may go on with the very lists in it."""
        return {name: from_plain(state) for name, state in self._first.items()}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        for name, thing in self._run.state.items():
            set_state(thing, state[name])

    async def _step_of(self, session: Session, prefix: str) -> int:
        counter = self._run.global_step
        if counter is not None:
            name = counter if isinstance(counter, str) else counter.name
            return int(await session.run(name if ":" in name else f"{name}:0"))
        digits = prefix.rpartition("-")[2]
        return int(digits) if digits.isascii() and digits.isdigit() else 0

    def _went_on(self) -> None:
        if self._interrupted is not None:
            error, step = self._interrupted
            restart = Restart(
                step, self._result.step, error, trio.current_time() - self._since, self._attempts
            )
            self._result.restarts.append(restart)
            _log.warning(
                "%s: resumes from step %d, %.1f s after it was interrupted at step %d",
                self._run.folder,
                restart.resumed,
                restart.seconds,
                restart.step,
            )
            if self._on_restart is not None:
                self._on_restart(restart)
        self._interrupted = None
        self._attempts = 0

    def _interrupt(self, error: Exception) -> None:
        """The run was interrupted; AbortedError where it was so too often."""
        self._in_a_row += 1
        step = self._result.step
        if self._in_a_row > self._max_restarts:
            raise AbortedError(
                f"the run in {self._run.folder} gave up at step {step}: it was interrupted {self._in_a_row} "
                f"times without a new checkpoint in between, at last by {type(error).__name__}: {error}"
            ) from error
        _log.warning("%s: interrupted at step %d: %s", self._run.folder, step, error)
        self._interrupted = error, step
        self._since = trio.current_time()

    async def _wait(self, error: Exception, pause: float) -> None:
        """It was not possible to go on: wait a little; UnavailableError where it has been long enough."""
        waited = trio.current_time() - self._since
        if waited + pause > self._max_wait:
            what = "go on" if self._interrupted is not None else "begin"
            raise UnavailableError(
                f"the run in {self._run.folder} gave up at step {self._result.step}: it could not {what} for "
                f"{waited:.1f} s, in {self._attempts} attempts, at last because of "
                f"{type(error).__name__}: {error}"
            ) from error
        _log.info("%s: cannot go on yet: %s", self._run.folder, error)
        await trio.sleep(pause)

    # -- steps --------------------------------------------------------------------------------------

    async def _make_steps(self, session: Session) -> None:
        run, result = self._run, self._result
        while run.steps is None or result.step < run.steps:
            try:
                result.value = await run.step(session, result.step)
            except OutOfRangeError:
                break
            result.step += 1
            self._unsaved += 1
            late = run.save_seconds is not None and trio.current_time() - self._saved_at >= run.save_seconds
            if late or (run.save_steps is not None and self._unsaved >= run.save_steps):
                await self._save(session)
        if self._unsaved:
            await self._save(session)

    async def _save(self, session: Session) -> None:
        run, step = self._run, self._result.step
        path = os.path.join(run.folder, STEM)
        state = {name: state_of(thing, name) for name, thing in run.state.items()}
        notes = RecoveryNotes(step, await session.random_places(), state)
        sync = session.config.resolved().sync_checkpoints
        await trio.to_thread.run_sync(self._write_notes, notes, f"{path}-{step}", sync)
        self._result.checkpoint = await run.saver.save(session, path, global_step=step)
        self._unsaved = self._in_a_row = 0
        self._saved_at = trio.current_time()

    def _write_notes(self, notes: RecoveryNotes, prefix: str, sync: bool) -> None:
        os.makedirs(self._run.folder, exist_ok=True)
        notes.write(prefix, sync=sync, files=self._run.saver.files)


def _cause(raised: Exception) -> Exception | None:
    """The error that interrupts a run, of those that were raised; None if one of them is no such error."""
    if not isinstance(raised, ExceptionGroup):
        return raised
    if raised.split(RECOVERABLE)[1] is not None:
        return None
    error: Exception = raised
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _initialize(session: Session, init: Init) -> None:
    if callable(init):
        await init(session)
        return
    for node in [init] if isinstance(init, str) else init:
        await session.run((), targets=[node])


__all__ = ["RECOVERABLE", "Init", "RecoverableRun", "RecoveredRun", "Recovery", "Restart", "Step"]
