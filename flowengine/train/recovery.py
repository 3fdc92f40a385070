"""Training that survives what it runs on: checkpoints on the way, and going on from the last one.

    async def step(session, number):
        await session.run((), feeds(number), targets=["train"])

    await fe.train.run_with_recovery(graph, step, steps=10_000, directory="run", target=target)

A task that is killed, stopped or cut off ends the step that needs it with UnavailableError or AbortedError.
Then the session is given up, the lost task waited for, everything put back to the last checkpoint, and the
steps since made again. A process that is killed and started anew with the same directory goes on in the same
way. A step that depends on nothing but its number, the graph's variables and random nodes, and the `state`
that is given, ends the run with the very values of a run in which nothing happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from flowengine.core.config import Config
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import NodeGraph
from flowengine.session import Session
from flowengine.train.recovery_loop import Init, RecoverableRun, RecoveredRun, Recovery, Restart, Step
from flowengine.train.recovery_notes import state_of
from flowengine.train.saver import Saver

#: Where TensorFlow's Saver takes the file's name, and what it runs to save and to restore.
_SAVER_NODES: Final = ("save/Const:0", "save/control_dependency:0", "save/restore_all")

_SAVE_SECONDS: Final = 600.0


async def run_with_recovery(
    graph: NodeGraph,
    step: Step,
    *,
    directory: str | os.PathLike[str],
    steps: int | None = None,
    target: str = "",
    config: Config | None = None,
    init: Init = "init",
    local_init: Init = (),
    saver: Saver | None = None,
    global_step: Any = None,
    save_steps: int | None = None,
    save_seconds: float | None = None,
    state: Mapping[str, Any] | None = None,
    around: Callable[[Session], AbstractAsyncContextManager[Any]] | None = None,
    clear: bool = True,
    max_restarts: int = 10,
    max_wait_seconds: float = 300.0,
    on_restart: Callable[[Restart], object] | None = None,
) -> RecoveredRun:
    """Make training steps until there are so many, through losses of tasks and restarts of this process.

    graph          what is trained
    step           `await step(session, number)` makes one step; `number` steps were made before. It is called
                   again with numbers that it has seen when the run is put back. OutOfRangeError from it, the
                   end of an input, ends the run
    directory      where checkpoints are; a run that finds some there goes on from the latest
    steps          how many steps the model is to make in all; None for until the input ends
    target         "" for this process, or a master such as "flow://host:port"
    config         the session's settings
    init           what sets the variables of a run that begins: nodes, or `await init(session)`
    local_init     likewise, what is run at every beginning, also when going on: tables, local variables
    saver          what saves and restores; None for all variables of a graph that was built here, or for the
                   nodes of TensorFlow's Saver ("save/restore_all" and so on) in one that was read
    global_step    the variable that counts steps, or its name: it says how many were made in a checkpoint
                   that something else has written
    save_steps, save_seconds   save when so many steps, or seconds, have passed since the last save; every ten
                   minutes if neither is given. The beginning and the end are saved as well
    state          {name: object} outside of the graph that is saved and put back with the variables:
                   NumPy generators, or what has `state_dict()` and `load_state_dict(state)`
    around         gives an async context for the steps of each session, such as the graph's queue runners
    clear          clear the containers of the graph's resources on every task when the run begins or goes on,
                   so that nothing of a step that was interrupted is left; for all who share them
    max_restarts   gives up after so many interruptions without a new checkpoint in between
    max_wait_seconds   gives up when it could not go on for so long after an interruption, or at the beginning
    on_restart     called with each `Restart`

    Returns what became of the run. Raises what the step raises, if that is no UnavailableError or
    AbortedError; UnavailableError when it gives up waiting, AbortedError when it gives up starting anew, both
    saying where the run stands and what the last error was; InvalidArgumentError for arguments that make no
    sense.

    >>> graph = fe.Graph()
    >>> count = graph.variable(0, name="count", trainable=False)
    >>> more, init = count.assign_add_op(1), graph.group(count.initializer, name="init")
    >>> async def step(session, number):
    ...     return await session.run(more)
    >>> async def main():
    ...     return await fe.train.run_with_recovery(graph, step, directory="run", steps=3, global_step=count)
    >>> trio.run(main).step
    3
    """
    need_graph(graph, "await fe.train.run_with_recovery(graph, step, directory=folder)")
    if steps is not None and steps < 0:
        raise InvalidArgumentError(f"steps={steps} must not be negative")
    if (save_steps is not None and save_steps < 1) or (save_seconds is not None and not save_seconds > 0):
        raise InvalidArgumentError(
            f"save_steps={save_steps} and save_seconds={save_seconds} must be positive"
        )
    if max_restarts < 0 or not max_wait_seconds >= 0:
        raise InvalidArgumentError(
            f"max_restarts={max_restarts} and max_wait_seconds={max_wait_seconds} must not be negative"
        )
    for name, thing in (state or {}).items():
        state_of(thing, name)
    if save_steps is None and save_seconds is None:
        save_seconds = _SAVE_SECONDS
    folder = _absolute(directory)
    run = RecoverableRun(
        graph=graph,
        step=step,
        folder=folder,
        steps=steps,
        target=_named(target, folder),
        config=replace(config if config is not None else Config(), abort_on_restart=True),
        init=init,
        local_init=local_init,
        saver=saver if saver is not None else _saver_of(graph, is_local=not target),
        global_step=global_step,
        save_steps=save_steps,
        save_seconds=save_seconds,
        state=dict(state or {}),
        around=around,
        containers=_containers(graph) if clear and target else [],
    )
    return await Recovery(run, max_restarts, max_wait_seconds, on_restart).go()


def _absolute(directory: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(directory))


def _saver_of(graph: NodeGraph, *, is_local: bool) -> Saver:
    """A saver of all variables: of the graph's nodes for it, else one that needs none or adds its own."""
    if all(name.partition(":")[0] in graph for name in _SAVER_NODES):
        return Saver.of_nodes(*_SAVER_NODES)
    saver = Saver()
    if not is_local:
        if not isinstance(graph, Graph):
            raise InvalidArgumentError(
                f"the graph has no {_SAVER_NODES[2]!r}: give a saver whose nodes run at the target"
            )
        saver.add_to(graph)
    return saver


def _containers(graph: NodeGraph) -> list[str]:
    """The containers that the graph's variables, queues and tables are in."""
    found = {node.attrs["container"] for node in graph if "container" in node.attrs}
    return sorted(os.fsdecode(each) if isinstance(each, bytes) else str(each) for each in found)


def _named(target: str, folder: str) -> str:
    """The target, with a name for this run there: who comes again under it ends the sessions of before."""
    if not target or "client=" in target:
        return target
    name = sha256(os.fsencode(folder)).hexdigest()[:12]
    return f"{target}{'&' if '?' in target else '?'}client=train-{name}"


__all__ = ["RecoveredRun", "Restart", "run_with_recovery"]
