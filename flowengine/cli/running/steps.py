"""The session behind `flowengine run`: initializers, steps, timed repeats, final fetches, in that order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flowengine.cli.interrupt import Interrupt
from flowengine.cli.progress import ProgressReport
from flowengine.cli.running.job import Invocation, RunReport
from flowengine.cli.running.logdir import log_of

if TYPE_CHECKING:
    from flowengine.core.run_options import RunOptions
    from flowengine.session import Session


def run_job(job: Invocation, report: RunReport, interrupt: Interrupt) -> None:
    """Run all steps in one session; what a step raises passes through, KeyboardInterrupt if interrupted.

    The report has what came of it until then.
    """
    run_interruptible(partial(_run_steps, job, report, interrupt), interrupt)


def run_interruptible(work: Callable[[], Awaitable[None]], interrupt: Interrupt) -> None:
    """Run a task in a trio run of its own; Ctrl-C cancels it, and raises KeyboardInterrupt here."""
    import trio

    async def steps() -> None:
        with trio.CancelScope() as scope:
            interrupt.cancels(scope, trio.lowlevel.current_trio_token())
            try:
                await work()
            finally:
                interrupt.cancels(None, None)
        if scope.cancelled_caught:
            raise KeyboardInterrupt

    trio.run(steps)


async def _run_steps(job: Invocation, report: RunReport, interrupt: Interrupt) -> None:
    import trio

    from flowengine.core.run_options import RunOptions
    from flowengine.session import Session

    options = RunOptions(timeout_seconds=job.timeout_seconds, guard=job.trace is not None and job.trace.guard)

    async def finish(session: Session) -> None:
        await _repeat(session, job, report, options)
        await _fetch_finals(session, job, report, options)

    if job.training is not None and job.training.recovers:
        from flowengine.cli.running.recovery import run_recovering

        await run_recovering(job, report, finish)
        return
    async with Session(job.graph, config=job.config, target=job.at) as session:
        initialize = partial(_initialize, session, job, options)
        try:
            if job.training is None:
                await set_up(session, job, options)
                await _train(session, job, report, options)
            else:
                async with job.training.around(session, job.inits, initialize) as after_step:
                    await _train(session, job, report, options, after_step)
            await finish(session)
        except trio.Cancelled:
            if job.keeps and report.steps and not report.finals:
                interrupt.waits()
                with trio.CancelScope(shield=True) as scope:
                    interrupt.cancels(scope, trio.lowlevel.current_trio_token())
                    await _fetch_finals(session, job, report, options)
            raise


async def _initialize(session: Session, job: Invocation, options: RunOptions, nodes: Iterable[str]) -> None:
    for node in nodes:
        await session.run((), job.feeds, targets=[node], options=options)


async def set_up(session: Session, job: Invocation, options: RunOptions) -> None:
    """Initialize and restore what the steps of a run without training need."""
    initialize = partial(_initialize, session, job, options)
    if job.restoration is None:
        await initialize((*job.inits, *job.starters))
    else:
        await job.restoration.restore(session, initialize, job.inits)


async def _train(
    session: Session,
    job: Invocation,
    report: RunReport,
    options: RunOptions,
    after_step: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    started = time.perf_counter()
    restored = None if job.training is None else job.training.restored_step
    before = restored or 0
    async with log_of(job.log, restored) as note:
        with ProgressReport(job.steps, every=job.every) as progress:
            try:
                for number in range(job.steps):
                    is_last = number == job.steps - 1 and not job.repeat
                    values, metadata = await job.run_step(session, options, number + 1, is_last=is_last)
                    report.values = dict(zip(job.names or job.fetches, values, strict=True))
                    progress.advance(report.values)
                    note(report.values, before + number + 1, metadata)
                    if after_step is not None:
                        await after_step()
            finally:
                report.steps = progress.done
                report.seconds = time.perf_counter() - started


async def _repeat(session: Session, job: Invocation, report: RunReport, options: RunOptions) -> None:
    report.latencies_ms.clear()
    for number in range(job.repeat):
        begun = time.perf_counter()
        done = job.steps + number + 1
        values, _ = await job.run_step(session, options, done, is_last=number == job.repeat - 1)
        report.latencies_ms.append((time.perf_counter() - begun) * 1e3)
        report.values = dict(zip(job.names or job.fetches, values, strict=True))


async def _fetch_finals(session: Session, job: Invocation, report: RunReport, options: RunOptions) -> None:
    if job.finals:
        values = await session.run(job.finals, job.feeds, options=options)
        report.finals = dict(zip(job.final_names or job.finals, values, strict=True))


def percentiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    """min, 50th, 90th, 99th percentile (the smallest latency that so many do not exceed), max and mean."""
    ordered = sorted(latencies_ms)
    ranks = {f"p{q}": ordered[max(0, -(-q * len(ordered) // 100) - 1)] for q in (50, 90, 99)}
    return {"min": ordered[0], **ranks, "max": ordered[-1], "mean": sum(ordered) / len(ordered)}
