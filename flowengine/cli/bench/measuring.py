"""Timed steps in a session of ours: so many tasks run one step after the other until the time is over."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.bench.points import BenchPoint, BenchTimes
from flowengine.cli.interrupt import Interrupt

if TYPE_CHECKING:
    from flowengine.cli.models.restoring import Restoration
    from flowengine.core.config import Config
    from flowengine.graphs.graph import Graph
    from flowengine.session import Session

#: The part of a point's time that warms it up: plans settle, caches fill.
WARM_UP: Final = 0.2
#: Steps that warm up at least, however long they take.
WARM_UP_STEPS: Final = 3


@dataclass(frozen=True, slots=True)
class BenchJob:
    """The request of one benchmark.

    fetches       tensors, fetched in each step
    inits         nodes to run before, once each; starters begin iterators and fill tables after that
    feeds         {batch size: the feeds of a point of that size}
    seconds       how long each point is timed
    """

    graph: Graph
    fetches: Sequence[str]
    inits: Sequence[str]
    starters: Sequence[str]
    feeds: Mapping[int | None, Mapping[str, Any]]
    points: Sequence[BenchPoint]
    seconds: float
    restoration: Restoration | None = None
    config: Config | None = None


def measure(
    job: BenchJob, engine: str, interrupt: Interrupt
) -> tuple[list[BenchTimes], dict[int | None, list[Any]]]:
    """Time all points in one session; return the times, and the values of a step of each batch size.

    Raises what a step raises, and KeyboardInterrupt where the user interrupts it.
    """
    import trio

    timings: list[BenchTimes] = []
    values: dict[int | None, list[Any]] = {}

    async def work() -> None:
        with trio.CancelScope() as scope:
            interrupt.cancels(scope, trio.lowlevel.current_trio_token())
            try:
                await _measure(job, engine, timings, values)
            finally:
                interrupt.cancels(None, None)
        if scope.cancelled_caught:
            raise KeyboardInterrupt

    trio.run(work)
    return timings, values


async def _measure(
    job: BenchJob, engine: str, timings: list[BenchTimes], values: dict[int | None, list[Any]]
) -> None:
    from flowengine.session import Session

    first = next(iter(job.feeds.values()))
    async with Session(job.graph, config=job.config) as session:

        async def initialize(nodes: Iterable[str]) -> None:
            for node in nodes:
                await session.run((), dict(first), targets=[node])

        if job.restoration is None:
            await initialize((*job.inits, *job.starters))
        else:
            await job.restoration.restore(session, initialize, job.inits)
        for point in job.points:
            feeds = dict(job.feeds[point.batch])
            values[point.batch] = list(await session.run(list(job.fetches), feeds))
            await _steps(session, job, feeds, point.concurrency, job.seconds * WARM_UP, WARM_UP_STEPS)
            latencies, seconds = await _steps(session, job, feeds, point.concurrency, job.seconds, 1)
            timings.append(BenchTimes(engine, point, latencies, seconds))


async def _steps(
    session: Session, job: BenchJob, feeds: dict[str, Any], concurrency: int, seconds: float, least: int
) -> tuple[list[float], float]:
    """Run steps in so many tasks for some seconds; each task runs at least so many."""
    import trio

    latencies: list[float] = []
    fetches = list(job.fetches)
    begun = time.perf_counter()

    async def run() -> None:
        done = 0
        while done < least or time.perf_counter() - begun < seconds:
            start = time.perf_counter()
            await session.run(fetches, feeds)
            latencies.append((time.perf_counter() - start) * 1e3)
            done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(concurrency):
            nursery.start_soon(run)
    return latencies, time.perf_counter() - begun


__all__ = ["WARM_UP", "WARM_UP_STEPS", "BenchJob", "measure"]
