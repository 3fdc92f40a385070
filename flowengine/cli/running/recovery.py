"""`flowengine run --checkpoint DIR --recover`: training that goes on when tasks or this process were lost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from flowengine.cli.progress import ProgressReport
from flowengine.cli.running.job import Invocation, RunReport
from flowengine.cli.running.logdir import Note, log_behind_latest, note_nothing
from flowengine.core.run_options import RunOptions

if TYPE_CHECKING:
    from flowengine.session import Session


async def run_recovering(
    job: Invocation, report: RunReport, finish: Callable[[Session], Awaitable[None]]
) -> None:
    """Make steps until there are `job.steps` in all, then `finish(session)`, through interruptions."""
    from flowengine.train import QueueRunners, Saver, run_with_recovery

    training = job.training
    assert training is not None
    facts = training.facts
    options = RunOptions(timeout_seconds=job.timeout_seconds, guard=job.trace is not None and job.trace.guard)

    def running(nodes: Sequence[str]) -> Callable[[Session], Awaitable[None]]:
        async def run_all(session: Session) -> None:
            for node in nodes:
                await session.run((), job.feeds, targets=[node], options=options)

        return run_all

    note: Note = note_nothing

    @asynccontextmanager
    async def around(session: Session) -> AsyncIterator[None]:
        nonlocal note
        async with AsyncExitStack() as stack:
            note = await stack.enter_async_context(log_behind_latest(job.log, training.directory))
            if facts.runners:
                await stack.enter_async_context(QueueRunners(session, facts.content))
            yield
        await finish(session)

    started = time.perf_counter()
    with ProgressReport(job.steps, every=job.every) as progress:

        async def step(session: Session, number: int) -> Any:
            progress.done = number
            is_last = number == job.steps - 1 and not job.repeat
            values, metadata = await job.run_step(session, options, is_last=is_last)
            report.values = dict(zip(job.names or job.fetches, values, strict=True))
            report.steps += 1
            progress.advance(report.values)
            note(report.values, number + 1, metadata)

        result = await run_with_recovery(
            job.graph,
            step,
            directory=training.directory,
            steps=job.steps,
            target=job.at,
            config=job.config,
            # Also before a restore: a variable that the checkpoint lacks keeps its initial value.
            init=(),
            local_init=running([*(job.inits or facts.initializers), *facts.local]),
            saver=None if facts.content is None else Saver.from_meta_graph(facts.content),
            global_step=facts.global_step,
            save_steps=training.save_every or None,
            save_seconds=None if training.save_every else float("inf"),
            around=around,
        )
    report.seconds = time.perf_counter() - started
    training.saved = result.checkpoint
    training.restarts = len(result.restarts)
