"""`fe.train.loop`: steps until the model is trained, with hooks for all that goes on beside them.

    async def evaluate(session):
        return await session.run(accuracy, {x: images, y: labels})

    result = await fe.train.loop(
        session,
        train,
        steps=10_000,
        feeds=batches,
        fetches={"loss": loss},
        hooks=[
            fe.train.Checkpoints("run", every_steps=1000),
            fe.train.Evaluation(evaluate, every_steps=500, name="accuracy"),
            fe.train.EarlyStopping("accuracy", patience=5, best="highest", every_steps=500),
        ],
    )

From a program without an event loop: `fe.blocking.loop(session, train, steps=10_000, ...)`.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import trio

from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.core.public_names.deprecated import renamed_arguments
from flowengine.core.run_options import RunOptions, timeout_of
from flowengine.core.sessions.calls import takes_session
from flowengine.runtime.planning.fetches import node_of
from flowengine.session import Session
from flowengine.train.hooks.checkpoints import Checkpoints
from flowengine.train.hooks.hook import Hook, LoopState
from flowengine.train.hooks.step_values import FetchedValues
from flowengine.train.progress.loop_progress import LoopProgress

#: The feeds of a step.
FeedDict: TypeAlias = Mapping[Any, Any]
#: A function of the number of steps made before, or feeds one after the other.
Feeds: TypeAlias = Callable[[int], FeedDict] | Iterable[FeedDict] | AsyncIterable[FeedDict]


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The result of a loop.

    steps    the number of steps that the model has made in all
    reason   the reason of its end: "steps", "end of input", or that of a hook
    values   the values that the last step returned
    metrics  {name: value} of the last evaluations

    >>> result = fe.train.LoopResult(100, "steps", {"loss": 0.5}, {"accuracy": 0.9})
    """

    steps: int
    reason: str
    values: Any
    metrics: dict[str, float]


@takes_session(blocking="fe.blocking.loop")
@renamed_arguments(initialise="initialize")
async def loop(
    session: Session,
    step: Any,
    *,
    steps: int | None = None,
    feeds: Feeds | None = None,
    fetches: Any = None,
    hooks: Sequence[Any] = (),
    initialize: bool = True,
    quiet: bool = False,
    options: RunOptions | None = None,
) -> LoopResult:
    """Make steps until there are so many, the input ends, or a hook stops it.

    session      a session whose graph is trained
    step         the operation that each step runs, or a list of them; or a function: `await step(session,
                 number)` makes one step and returns its values, `number` steps were made before
    steps        the number of steps that the model is to make in all, those before a restart included
    feeds        the feeds of the steps: a function of the number of steps made before, those before a restart
                 included; or an iterable of feed dictionaries, whose end ends the loop. Not with a function
                 as `step`
    fetches      the fetches of a step, for hooks: best a dictionary, whose keys name the values for hooks
    hooks        `Hook`s, and async context managers around the loop, such as `QueueRunners`
    initialize   whether to initialize variables that have no value yet, and that no checkpoint has set
    quiet        whether to show nothing. Otherwise standard error says how far the loop has got, with the
                 rate, the time left, the numbers that steps fetch and those of evaluations: one line that
                 is updated in a terminal, after half a second, and in a notebook; elsewhere a line each ten
                 seconds, and each minute in a long run
    options      the settings of each step, such as its timeout. Not with a function as `step`

    OutOfRangeError of a step, the end of a queue or dataset, ends the loop as the end of its input. The loop
    raises any other error, and ends if it is cancelled: the effects of the steps that were made stay, it
    leaves the contexts of hooks, and saves nothing more. Raises InvalidArgumentError for arguments that do
    not fit together.

    >>> graph = fe.Graph()
    >>> w = graph.variable(5.0, name="w")
    >>> loss = fe.square(w)
    >>> step = fe.optimizers.SGD(0.25).minimize(loss)
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         return await fe.train.loop(session, step, steps=3, fetches={"loss": loss}, quiet=True)
    >>> result = trio.run(main)
    >>> result.steps, result.reason, sorted(result.values)
    (3, 'steps', ['loss'])
    """
    if steps is not None and steps < 0:
        raise InvalidArgumentError(f"steps={steps} must not be negative")
    if steps is None and feeds is None and not hooks and not callable(step):
        raise InvalidArgumentError("nothing would end this loop: give steps=, feeds= or a hook that stops it")
    take = _taker(session, step, feeds, fetches, options)
    own = [each for each in hooks if isinstance(each, Hook)]
    fetched = None if callable(step) else FetchedValues(session.graph, fetches)
    targets = [] if callable(step) else [node_of(session.graph, each) for each in _targets(step)]
    state = LoopState(session, hooks=own, fetched=fetched, targets=targets)
    async with AsyncExitStack() as stack:
        for each in own:
            if isinstance(each, Checkpoints):
                await each.restore(state, initialize=initialize)
        for each in hooks:
            await stack.enter_async_context(each.around(state) if isinstance(each, Hook) else each)
        if initialize:
            await session.initialize()
        for each in own:
            await each.begin(state)
        with LoopProgress(steps, quiet=quiet) as progress:
            progress.begin(state.step)
            await _steps(state, take, steps, own, progress, options or RunOptions())
        for each in own:
            await each.end(state)
    return LoopResult(state.step, state.stopped, state.values, dict(state.metrics))


async def _steps(
    state: LoopState,
    take: Callable[[LoopState], Awaitable[Any]],
    steps: int | None,
    hooks: Sequence[Hook],
    progress: LoopProgress,
    options: RunOptions,
) -> None:
    """Steps, with what hooks do before and after each, until one of them or the number says stop."""
    while not state.stopped:
        if steps is not None and state.step >= steps:
            state.stop("steps")
            return
        state.options, state.metadata = options, None
        for each in hooks:
            await each.before_step(state)
        try:
            state.values = await take(state)
        except (OutOfRangeError, StopAsyncIteration):
            state.stop("end of input")
            return
        state.step += 1
        state.has_run = True
        for each in hooks:
            await each.after_step(state)
        progress.advance(state.step, state.numbers)
        # A step may end without having waited for anything: others have their turn, and cancellation.
        await trio.lowlevel.checkpoint()


def _taker(
    session: Session, step: Any, feeds: Feeds | None, fetches: Any, options: RunOptions | None
) -> Callable[[LoopState], Awaitable[Any]]:
    """Return the function that makes the next step; StopAsyncIteration where feeds have come to their end."""
    if callable(step):
        if feeds is not None or fetches is not None or options is not None:
            raise InvalidArgumentError(
                "a function as step feeds and fetches by itself: leave feeds=, fetches= and options= out"
            )
        return lambda state: step(session, state.step)
    if options is not None:
        timeout_of(options)  # raises if these are not RunOptions
    targets = _targets(step)
    wanted = fetches if fetches is not None else []
    following = _following(feeds)

    async def take(state: LoopState) -> Any:
        feed_dict = await following(state.step)
        return await session.run(
            wanted, feed_dict, targets=targets, options=state.options, run_metadata=state.metadata
        )

    return take


def _targets(step: Any) -> list[Any]:
    return list(step) if isinstance(step, list | tuple) else [step]


def _following(feeds: Feeds | None) -> Callable[[int], Awaitable[FeedDict]]:
    """Return a function that gives the feeds of the step with a number."""
    if feeds is None or callable(feeds):
        given = feeds

        async def of_number(number: int) -> FeedDict:
            return {} if given is None else given(number)

        return of_number
    if isinstance(feeds, AsyncIterable):
        later: AsyncIterator[FeedDict] = aiter(feeds)

        async def awaited(number: int) -> FeedDict:
            return await anext(later)

        return awaited
    rest: Iterator[FeedDict] = iter(feeds)

    async def following(number: int) -> FeedDict:
        try:
            return next(rest)
        except StopIteration:
            raise StopAsyncIteration from None

    return following


__all__ = ["Feeds", "LoopResult", "loop"]
