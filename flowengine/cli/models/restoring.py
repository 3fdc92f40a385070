"""Variables that have values before the first step: of a SavedModel, of `--restore`, of a checkpoint beside.

Nothing is written: training runs, which save as well, are `--checkpoint`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import STEP_ERROR, UNREADABLE_GRAPH, CommandError
from flowengine.cli.models.starting import handles_of, starters_of
from flowengine.cli.running.training import facts_of
from flowengine.core.errors import FailedPreconditionError, NotFoundError, OpError
from flowengine.ir.traits import GivesVariable

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource
    from flowengine.session import Session

#: What TensorFlow 1 calls the node that initializes all variables, unless it is told otherwise.
_INITIALIZERS: Final = re.compile(r"(.*/)?(init|init_all_vars|init_all_tables|initialize)(_\d+)?")


@dataclass(frozen=True, slots=True)
class Restoration:
    """A source of values for the variables.

    source       the graph
    checkpoint   the prefix; None where a SavedModel brings its own
    is_found     whether nobody named it: then it may lack what the graph has
    starters     nodes that begin iterators and fill tables, which no checkpoint holds
    """

    source: GraphSource
    checkpoint: str | None
    is_found: bool = False
    starters: tuple[str, ...] = ()

    async def restore(
        self,
        session: Session,
        initialize: Callable[[Iterable[str]], Awaitable[None]],
        inits: Sequence[str] = (),
    ) -> None:
        """Run the nodes of `--init`, restore, then initialize local variables and tables.

        In this order a variable of the checkpoint ends with the checkpoint's value, and a variable that the
        checkpoint lacks keeps its initial value. Raises what an initializer raises, and CommandError where
        the checkpoint cannot be read.
        """
        await initialize(inits)
        where = self.checkpoint or str(self.source.saved and self.source.saved.path)
        try:
            await self._restore(session, is_partial=self.is_found or bool(inits))
        except OpError as error:
            text = f"{type(error).__name__}: {error.message}"
            raise CommandError(f"cannot restore from {where}: {text}", UNREADABLE_GRAPH) from error

        if self.source.saved is None:
            facts = facts_of(self.source.meta, self.source.graph)
            await initialize(
                replace(facts, local=_once(facts.local, self.starters)).unrestored(session.graph)
            )
        else:
            await initialize(self.starters)

    async def _restore(self, session: Session, *, is_partial: bool) -> None:
        if self.source.saved is not None:
            from flowengine.saved_model.loading import restore

            await restore(session, self.source.saved, self.checkpoint)
            return
        from flowengine.train import Saver
        from flowengine.train.snapshot import listed

        assert self.checkpoint is not None
        meta = self.source.meta
        saver = Saver() if meta is None else Saver.from_meta_graph(meta)
        if saver.runs_nodes(session):
            await saver.restore(session, self.checkpoint)
            return
        names = await saver.restore(session, self.checkpoint, strict=not is_partial)
        if not names and not self.is_found:
            raise NotFoundError(
                f"it holds none of the graph's variables: {listed(saver.names(session), 'variable')}"
            )


def _once(first: Iterable[str], then: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *then]))


def restoration_of(
    source: GraphSource, path: str, named: str | None, *, may_look: bool
) -> Restoration | None:
    """Choose the source to restore: `--restore`, else the SavedModel's, else a checkpoint beside the graph.

    may_look   whether a checkpoint beside the file may be taken without being named

    Raises CommandError (cannot be read) for a checkpoint that is not there.
    """
    if named is not None:
        from flowengine.cli.checkpoint.reading import locate

        return Restoration(source, locate(named))
    if source.saved is not None:
        return Restoration(source, None)
    if not may_look or not has_variables(source):
        return None
    found = _beside(path)
    return None if found is None else Restoration(source, found, is_found=True)


def _beside(path: str) -> str | None:
    """The checkpoint that a graph's file lies beside: of the same name, or the latest of its folder."""
    from flowengine.checkpoint.state import exists, latest_checkpoint

    stem, ending = os.path.splitext(path)
    if ending == ".meta" and exists(stem):
        return stem
    try:
        return latest_checkpoint(os.path.dirname(path) or ".")
    except OpError:
        return None  # a file called `checkpoint` that is none is not what was asked for


def has_variables(source: GraphSource) -> bool:
    """Whether the graph has a variable that somebody must give a value."""
    return any(node.has(GivesVariable) for node in source.graph)


def remedied(
    error: FailedPreconditionError,
    source: GraphSource,
    path: str,
    *,
    restoration: Restoration | None,
    trains: bool,
) -> Exception:
    """Return the error of a variable without a value with what to do about it; any other as it is.

    A run that restored a checkpoint is to initialize what the checkpoint lacks, and to restore as well.
    """
    if "initialized" not in error.message:
        return error
    if starters := _starters(source, error):
        ways = " or ".join(f"--init {name}" for name in starters)
        return CommandError(f"{type(error).__name__}: {error}: add {ways}", STEP_ERROR)
    if not has_variables(source):
        return error
    inits = [name for name in source.graph.nodes if _INITIALIZERS.fullmatch(name)]
    way = f"--init {inits[0]}" if inits else "--init NODE, for the node that initializes"
    if restoration is not None and restoration.is_found:
        # Without --restore, --init alone would leave the checkpoint beside the graph unread.
        assert restoration.checkpoint is not None
        way = f"--restore {shlex.quote(restoration.checkpoint)} {way}"
    elif restoration is None and not trains:
        way = f"--restore {shlex.quote(_beside(path) or 'CHECKPOINT')} or {way}"
    return CommandError(f"{type(error).__name__}: {error}: add {way}", STEP_ERROR)


def _starters(source: GraphSource, error: FailedPreconditionError) -> list[str]:
    """The nodes that begin the iterator or fill the table without which a node failed."""
    graph = source.graph
    handles = handles_of(graph, error.node_name or "")
    return list(dict.fromkeys(name for handle in handles for name in starters_of(graph, handle)))
