"""Training that survives lost tasks and processes: it saves checkpoints and continues from the last one.

    async def step(session, number):
        await session.run((), feeds(number), targets=["train"])

    await fe.train.run_with_recovery(graph, step, steps=10_000, directory="run", target=target)

A task that is killed, stopped or cut off ends the step that needs it with UnavailableError or AbortedError.
Then the run closes the session, waits for the lost task, restores the last checkpoint, and repeats the steps
since. A process that is killed and started again with the same directory continues in the same way. If a step
depends on nothing but its number, the graph's variables and random nodes, and `state`, the run ends with the
values of an uninterrupted run.
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

#: The nodes of TensorFlow's Saver: the name of the file, the one that saves, the one that restores.
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

    graph          the graph to train
    step           `await step(session, number)` makes one step; `number` steps were made before. After an
                   interruption the run calls it again with numbers that it has seen. OutOfRangeError from it,
                   the end of an input, ends the run
    directory      the folder of the checkpoints; a run that finds some there continues from the latest
    steps          the number of steps that the model is to make in all; None to run until the input ends
    target         "" for this process, or a master such as "flow://host:port"
    config         the session's settings
    init           initializes the variables of a new run: nodes, or `await init(session)`
    local_init     likewise, but runs at every beginning, also when the run continues: tables, local variables
    saver          the `fe.train.Saver`; None to save all variables of a graph that was built here, or to use
                   the nodes of TensorFlow's Saver ("save/restore_all" and so on) in a graph that was read
    global_step    the variable that counts steps, or its name: the number of steps in a checkpoint that
                   another program has written
    save_steps, save_seconds   save when so many steps, or seconds, have passed since the last save; every ten
                   minutes if neither is given. The beginning and the end are saved as well
    state          {name: object} of objects outside of the graph to save and restore with the variables:
                   NumPy generators, or objects with `state_dict()` and `load_state_dict(state)`
    around         returns an async context for the steps of each session, such as the graph's queue runners
    clear          whether to clear the containers of the graph's resources on every task when the run begins
                   or continues, so that nothing of an interrupted step remains. Other programs that share the
                   containers lose their resources, too
    max_restarts   the number of interruptions without a new checkpoint between them after which it gives up
    max_wait_seconds   the time after which it gives up if it cannot begin, or continue after an interruption
    on_restart     called with each `Restart`

    Returns the `RecoveredRun`. Raises the errors of a step other than UnavailableError and AbortedError;
    UnavailableError if it gives up waiting, AbortedError if it gives up restarting, both with the step that
    the run has reached and the last error; InvalidArgumentError for invalid arguments.

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
