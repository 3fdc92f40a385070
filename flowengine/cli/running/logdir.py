"""`flowengine run --logdir`: the graph, the values of steps, and their times, in an event file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flowengine.cli.running.training import step_of

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.runtime.run_metadata import RunMetadata

#: Notes what a step has fetched, by name, the number of the step, which counts from 1, and its times if it
#: was traced.
Note: TypeAlias = Callable[[dict[str, Any], int, "RunMetadata | None"], None]


@dataclass(frozen=True, slots=True)
class RunLog:
    """The event file of a run: the folder, and the graph to write."""

    folder: str
    graph: Graph


def note_nothing(values: dict[str, Any], step: int, metadata: RunMetadata | None) -> None:
    """The `Note` of a run without `--logdir`."""


@asynccontextmanager
async def log_of(log: RunLog | None, restored_step: int | None) -> AsyncIterator[Note]:
    """Write values while the block runs; nothing if the run has no `--logdir`.

    restored_step   how many steps the checkpoint has that the run goes on from; None for a new run
    """
    if log is None:
        yield note_nothing
        return
    from flowengine.tools.summaries.writer import Writer

    async with Writer(log.folder, restored_step=restored_step) as writer:
        writer.add_graph(log.graph)

        def note(values: dict[str, Any], step: int, metadata: RunMetadata | None) -> None:
            writer.add_values(_named(values), step)
            if metadata is not None:
                writer.add_run_metadata(metadata, f"step {step}", step)

        yield note


@asynccontextmanager
async def log_behind_latest(log: RunLog | None, directory: str) -> AsyncIterator[Note]:
    """Write values as `log_of` does, of a session that goes on from the latest checkpoint there."""
    import trio

    from flowengine.checkpoint.state import latest_checkpoint

    latest = await trio.to_thread.run_sync(latest_checkpoint, directory)
    async with log_of(log, None if latest is None else step_of(latest)) as note:
        yield note


def _named(values: dict[str, Any]) -> dict[str, Any]:
    """The values by the names of their tags: "loss" for "loss:0"."""
    return {name.removesuffix(":0"): value for name, value in values.items()}


__all__ = ["Note", "RunLog", "log_behind_latest", "log_of", "note_nothing"]
