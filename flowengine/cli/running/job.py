"""The request of one `flowengine run`, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowengine.cli.models.restoring import Restoration
from flowengine.cli.running.logdir import RunLog
from flowengine.cli.running.recording import StepRecording
from flowengine.cli.running.tracing import StepTrace
from flowengine.cli.running.training import RunCheckpoints

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.core.run_options import RunOptions
    from flowengine.graphs.graph import Graph
    from flowengine.runtime.run_metadata import RunMetadata
    from flowengine.session import Session


@dataclass(frozen=True, slots=True)
class Invocation:
    """The request of one invocation, with names resolved and feeds read."""

    graph: Graph
    fetches: list[str]
    finals: list[str]
    targets: list[str]
    inits: list[str]
    feeds: dict[str, Any]
    steps: int
    every: int
    repeat: int
    timeout_seconds: float | None
    training: RunCheckpoints | None = None
    config: Config | None = None
    #: The target of the session; "" for this process.
    at: str = ""
    #: Restores the variables after the nodes in `inits` have run.
    restoration: Restoration | None = None
    #: What the fetches are called where they are shown; their own names where it is empty.
    names: list[str] = field(default_factory=list)
    #: The same of the final ones.
    final_names: list[str] = field(default_factory=list)
    #: Begin iterators and fill tables that the steps use, where nothing else does.
    starters: list[str] = field(default_factory=list)
    #: Whether the values go into a file: then an interrupted run makes its final fetches all the same.
    keeps: bool = False
    #: Whether the last step is traced, and where that goes, or whether the steps are guarded.
    trace: StepTrace | None = None
    #: Records the last step; None if nobody asks for it.
    recording: StepRecording | None = None
    #: Writes the values of steps for TensorBoard; None if nobody asks for it.
    log: RunLog | None = None

    async def run_step(
        self, session: Session, options: RunOptions, number: int = 1, *, is_last: bool
    ) -> tuple[Any, RunMetadata | None]:
        """Run the step of a number; return its values, and its metadata if it is traced.

        is_last   whether it is the last one of all, which is traced or recorded if that is asked for
        """
        metadata = None
        if self.recording is not None and is_last:
            values = await self.recording.step(
                session,
                self.fetches,
                self.feeds,
                self.targets,
                number=number,
                timeout_seconds=self.timeout_seconds,
            )
            return values, None
        if self.trace is not None:
            options, metadata = self.trace.around(options, is_last=is_last)
        values = await session.run(
            self.fetches, self.feeds, targets=self.targets, options=options, run_metadata=metadata
        )
        return values, metadata


@dataclass(slots=True)
class RunReport:
    """The results of an invocation: the values of the last step and of `--final`, and the times."""

    values: dict[str, Any] = field(default_factory=dict)
    finals: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)


__all__ = ["Invocation", "RunReport"]
