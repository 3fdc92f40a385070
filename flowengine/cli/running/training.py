"""`flowengine run --checkpoint`: where a training run begins or goes on, and its checkpoints on the way."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.failure import STEP_ERROR, UNREADABLE_GRAPH, USAGE, CommandError
from flowengine.core.errors import OpError
from flowengine.ir.traits import GivesVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.ir.graph import NodeGraph
    from flowengine.session import Session

#: What checkpoints are called in the directory, before the step.
STEM: Final = "model.ckpt"


@dataclass(frozen=True, slots=True)
class MetaFacts:
    """Facts about running a graph, from its MetaGraphDef's collections, as names of nodes.

    content        the MetaGraphDef itself
    initializers   of the variables that are saved; `local`: of the others, and of tables
    tables         the initializers of tables, which are among the `local` ones
    train          what a training step runs
    global_step    the variable that counts steps, or None
    runners        whether there are queues to be filled beside the steps
    """

    content: Any = None
    initializers: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    train: list[str] = field(default_factory=list)
    global_step: str | None = None
    runners: bool = False

    def unrestored(self, graph: NodeGraph) -> list[str]:
        """Return those of `local` that may run after a restore: they undo nothing of it."""
        if self.content is None or not self.content.HasField("saver_def"):
            return self.local
        from flowengine.train.saver_nodes import left_to_initialize

        return left_to_initialize(graph, self.local, _node(self.content.saver_def.restore_op_name))


@dataclass(slots=True)
class RunCheckpoints:
    """Checkpoints of one run.

    directory    where they are; made if its parent is there
    save_every   how many steps apart; 0 for one at the end only
    resume       whether to go on from the latest one, if there is one
    saved        the newest complete checkpoint of this run
    resumed      the one that it goes on from
    recovers     whether it goes on from the latest one when something that it runs on was lost, too
    restarts     how often it has
    """

    directory: str
    save_every: int
    resume: bool
    facts: MetaFacts
    saved: str | None = None
    resumed: str | None = None
    recovers: bool = False
    restarts: int = 0

    def prepare(self) -> None:
        """Look at the directory before anything runs; CommandError where it cannot be used."""
        from flowengine.checkpoint.state import latest_checkpoint

        try:
            latest = latest_checkpoint(self.directory)
        except OpError as error:
            raise CommandError(f"--checkpoint {self.directory}: {error.message}", UNREADABLE_GRAPH) from error
        if latest is not None and not self.resume:
            raise CommandError(
                f"--checkpoint {self.directory}: there is {os.path.basename(latest)} already: add --resume "
                "to go on from it, or name another directory",
                USAGE,
            )
        self.resumed = latest
        try:
            os.makedirs(self.directory, exist_ok=True)
        except OSError as error:
            raise CommandError(f"--checkpoint {self.directory}: {error.strerror}", STEP_ERROR) from error

    @property
    def restored_step(self) -> int | None:
        """How many steps the checkpoint has that the run goes on from; None if it begins."""
        return None if self.resumed is None else step_of(self.resumed)

    @asynccontextmanager
    async def around(
        self, session: Session, inits: Sequence[str], initialize: Callable[[Sequence[str]], Awaitable[None]]
    ) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        """Initialize, restore the checkpoint of a run that goes on, and save at the end of the block.

        The block calls the function that this yields after each step.

        inits        nodes that initialize instead of those that the MetaGraphDef names
        initialize   runs nodes, one after the other

        Where the MetaGraphDef lists queue runners they run meanwhile; the end of the input ends the block.
        """
        from flowengine.train import QueueRunners, Saver, save_every

        saver = Saver() if self.facts.content is None else Saver.from_meta_graph(self.facts.content)
        await initialize(inits or self.facts.initializers)
        if self.resumed is not None:
            try:
                await saver.restore(session, self.resumed)
            except OpError as error:
                text = f"{type(error).__name__}: {error.message}"
                raise CommandError(f"cannot resume from {self.resumed}: {text}", UNREADABLE_GRAPH) from error
        await initialize(self.facts.local if self.resumed is None else self.facts.unrestored(session.graph))
        counter = self.facts.global_step
        first = 0 if counter is not None else self.restored_step or 0
        path = os.path.join(self.directory, STEM)
        every = self.save_every or None
        never = None if every else float("inf")
        async with save_every(
            saver, session, path, steps=every, seconds=never, global_step=counter, first_step=first
        ) as saves:
            if self.facts.runners:
                async with QueueRunners(session, self.facts.content):
                    yield saves.after_step
            else:
                yield saves.after_step
        self.saved = saves.latest


def prepared(
    directory: str, save_every: int, resume: bool, facts: MetaFacts, *, recovers: bool
) -> RunCheckpoints:
    """Return the checkpoints of a run whose directory can be used; CommandError where it cannot."""
    made = RunCheckpoints(directory, save_every, resume, facts, recovers=recovers)
    made.prepare()
    return made


def step_of(prefix: str) -> int:
    """The number at the end of a checkpoint's name; 0 where there is none."""
    digits = prefix.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def facts_of(meta: Any, graph: Graph) -> MetaFacts:
    """Read the facts of a MetaGraphDef; for None, of other graphs, at most the step counter."""
    from flowengine.ir.proto import VariableDef

    if meta is None:
        return MetaFacts(global_step=_counter(graph, []))

    def names(key: str) -> list[str]:
        return list(meta.collection_def[key].node_list.value) if key in meta.collection_def else []

    def variables(key: str) -> list[Any]:
        entries = meta.collection_def[key].bytes_list.value if key in meta.collection_def else ()
        return [VariableDef.FromString(entry) for entry in entries]

    def initializers(key: str) -> list[str]:
        return [_node(variable.initializer_name) for variable in variables(key)]

    tables = [_node(each) for each in names("table_initializer")]
    counters = [_node(each) for each in names("global_step")]
    counters += [_node(variable.variable_name) for variable in variables("global_step")]
    return MetaFacts(
        content=meta,
        initializers=[_node(each) for each in names("init_op")] or initializers("variables"),
        local=initializers("local_variables") + tables,
        tables=tables,
        train=[_node(each) for each in names("train_op")],
        global_step=_counter(graph, counters),
        runners="queue_runners" in meta.collection_def,
    )


def _node(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _counter(graph: Graph, named: Sequence[str]) -> str | None:
    """The variable that counts steps: the one that the collection names, or one that is called so."""

    for name in (*named, "global_step"):
        if name in graph and graph[name].has(GivesVariable):
            return name
    return None
