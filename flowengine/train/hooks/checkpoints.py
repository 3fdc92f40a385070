"""`Checkpoints`: the hook by which a training loop saves its model and goes on from where it was.

Each checkpoint has the variables, the count of steps, where random nodes stand in their sequences, and Python
state that is given. A step that depends on nothing else makes the same values, however often the loop was
killed and started anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import trio

from flowengine.checkpoint.state import latest_checkpoint
from flowengine.core.errors import InvalidArgumentError
from flowengine.session import Session
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.recovery_notes import RecoveryNotes, set_state, state_of
from flowengine.train.saver import Saver


class Checkpoints(Hook):
    """Saves a loop's model into a folder, and restores the latest checkpoint there before the first step.

    directory      the folder, which is created if it is missing
    every_steps, every_seconds   save when so many steps, or seconds, have passed since the last save; every
                   ten minutes if neither is given. The end is saved as well, and the beginning of a loop that
                   restores nothing
    saver          the `fe.train.Saver`; by default it saves all variables and keeps the five newest
                   checkpoints. At a session's target it adds its nodes to the graph before the first step;
                   tasks and client must see the folder under the same name
    state          {name: object} of objects outside of the graph to save and restore: NumPy generators, or
                   objects with `state_dict()` and `load_state_dict(state)`
    metric         name of the number by which a saver with `keep_best` keeps the best: see `LoopState.value`.
                   A checkpoint that is saved before the first evaluation has none

    The hook writes the MetaGraphDef of the graph, `.meta`, beside each checkpoint. Its "train_op" is the step
    of the loop, so `flowengine run` and TensorFlow can continue from there.

    A step waits until a checkpoint that is due is complete. If the hook is cancelled, or the process killed,
    while it writes a checkpoint, the one before stays the latest.

    Raises InvalidArgumentError for an invalid saver or time between saves.

    >>> graph = fe.Graph()
    >>> step = graph.variable(0.0, name="w").assign_add_op(1.0)
    >>> for steps in (3, 5):  # the second loop goes on where the first one ended
    ...     with fe.blocking.Session(graph) as session:
    ...         hook = fe.train.Checkpoints("run")
    ...         result = fe.blocking.loop(session, step, steps=steps, hooks=[hook], quiet=True)
    ...         print(result.steps, session.run("w"))
    3 3.0
    5 5.0

    A loop of your own makes the calls that `fe.train.loop` makes:

    >>> async def main():
    ...     hook = fe.train.Checkpoints("run")
    ...     async with fe.Session(graph) as session:
    ...         state = fe.train.LoopState(session)
    ...         async with hook.around(state):
    ...             await hook.restore(state)
    ...             await hook.begin(state)
    ...             await hook.before_step(state)
    ...             await session.run(step)
    ...             state.step += 1
    ...             await hook.after_step(state)
    ...             await hook.save(state)  # now, even if none is due
    ...             await hook.end(state)
    ...         print(state.step, await session.run("w"))
    >>> trio.run(main)
    6 6.0
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        saver: Saver | None = None,
        state: Mapping[str, Any] | None = None,
        metric: str | None = None,
    ) -> None:
        if (every_steps is not None and every_steps < 1) or (
            every_seconds is not None and every_seconds <= 0
        ):
            raise InvalidArgumentError(
                f"every_steps={every_steps} and every_seconds={every_seconds} must be positive"
            )
        if saver is not None and not isinstance(saver, Saver):
            raise InvalidArgumentError(
                f"saver={saver!r} is no fe.train.Saver, which is what a loop awaits, in a script as well"
            )
        for name, thing in (state or {}).items():
            state_of(thing, name)
        self._folder = os.path.abspath(os.fspath(directory))
        self._steps = every_steps
        self._seconds = 600.0 if every_steps is None and every_seconds is None else every_seconds
        self._saver = saver if saver is not None else Saver()
        self._state = dict(state or {})
        self._metric = metric
        self._is_settled = False
        self._saved = -1
        self._when = 0.0
        #: The prefix of the newest checkpoint, restored or saved; None before the first.
        self.latest: str | None = None

    async def restore(self, state: LoopState, *, initialize: bool = True) -> None:
        """Put the session and the loop back to the latest checkpoint of the folder, if it has one.

        initialize   whether it may initialize variables first if the restore needs that, because nodes of the
                     graph restore, or a device does not share the memory of the host
        """
        runs_nodes = self._saver.runs_nodes(state.session)
        await trio.to_thread.run_sync(lambda: os.makedirs(self._folder, exist_ok=True))
        latest = await trio.to_thread.run_sync(latest_checkpoint, self._folder)
        if latest is None:
            self.latest = None
            return
        if initialize and (runs_nodes or not _is_in_host_memory(state.session)):
            # Tables, iterators and variables that the nodes do not restore begin before; and which device's
            # memory a variable is in shows when it has been initialized.
            await state.session.initialize()
        await self._saver.restore(state.session, latest)
        notes = await trio.to_thread.run_sync(RecoveryNotes.read, latest)
        if notes is None:
            state.step = _step_in_name(latest)
        else:
            state.step = notes.step
            await state.session.set_random_places(notes.random)
            for name, thing in self._state.items():
                if name in notes.state:
                    set_state(thing, notes.state[name])
        self.latest, self._saved = latest, state.step

    async def begin(self, state: LoopState) -> None:
        self._when = trio.current_time()
        if self._metric is not None:
            self._is_settled = state.expects(self._metric, self._shown)
        if self.latest is None:
            # A folder that cannot be written, or a target that sees another one, shows at once.
            await self.save(state)

    async def after_step(self, state: LoopState) -> None:
        if self._metric is not None and not self._is_settled:
            self._is_settled = state.settles(self._metric, self._shown)
        due = self._steps is not None and state.step - self._saved >= self._steps
        if self._seconds is not None and trio.current_time() - self._when >= self._seconds:
            due = True
        if due:
            await self.save(state)

    async def end(self, state: LoopState) -> None:
        if self._saved != state.step or self.latest is None:
            await self.save(state)

    async def save(self, state: LoopState) -> None:
        """Save now, as the checkpoint of `state.step` steps; cancelled, the one before stays the latest."""
        session, step = state.session, state.step
        path = os.path.join(self._folder, "model.ckpt")
        kept = {name: state_of(thing, name) for name, thing in self._state.items()}
        notes = RecoveryNotes(step, await session.random_places(), kept)
        sync = session.config.resolved().sync_checkpoints
        files = self._saver.files
        # The notes first: a checkpoint counts from the moment at which the state file names it.
        await trio.to_thread.run_sync(lambda: notes.write(f"{path}-{step}", sync=sync, files=files))
        metric = self._metric_of(state)
        # A program that goes on from there runs this step, and not every one that the graph lists.
        self._saver.description.train_op = tuple(state.targets) or None
        self.latest = await self._saver.save(
            session, path, global_step=step, metric=metric, write_meta_graph=True
        )
        self._saved, self._when = step, trio.current_time()

    def _metric_of(self, state: LoopState) -> float | None:
        """The metric, or None before the first evaluation."""
        if self._metric is None:
            return None
        if state.find(self._metric) is None:
            state.expects(self._metric, self._shown)
            return None
        return state.value(self._metric)

    @property
    def _shown(self) -> str:
        return f"Checkpoints(metric='{self._metric}')"


def _is_in_host_memory(session: Session) -> bool:
    return all(device.shares_host_memory for device in session.devices)


def _step_in_name(prefix: str) -> int:
    """The count of steps at the end of a checkpoint's name; 0 without one."""
    number = prefix.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


__all__ = ["Checkpoints"]
