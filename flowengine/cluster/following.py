"""Followed steps, which are traced or guarded: the requests between client, master and workers.

    client   aligns its clock with the master's, RunFollowed ──► master   aligns its clock with the workers'
                                                                          FollowStep ──► every worker
                                                                          RunGraph, as in any step
    client   TakeTrace ──► master   TakePart ──► every worker

The messages of a step are those of any step, so other steps have no field more. A part stays with its task
until it is taken, so that a step that failed or was cancelled has its trace, too.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from flowengine.core.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from flowengine.core.run_options import RunOptions

T = TypeVar("T")

#: The time for which parts of a step that has failed or was cancelled are waited for.
PARTS_SECONDS: Final = 2.0


def to_table(options: RunOptions) -> dict[str, Any]:
    """Return trace and guard as a table that msgpack can carry."""
    return {
        "trace": options.trace or "",
        "trace_events": options.trace_events,
        "guard": bool(options.guard),
        "bounds": {}
        if isinstance(options.guard, bool)
        else {pattern: list(bounds) for pattern, bounds in options.guard.items()},
        "keep": options.guard_file is not None,
    }


def from_table(table: dict[str, Any]) -> RunOptions:
    """Return the options of a part, whose guard keeps values in memory, if it keeps any.

    Raises InvalidArgumentError for a table that `to_table` did not write.
    """
    try:
        trace, events, guard = table["trace"], table["trace_events"], table["guard"]
        bounds, keeps = table["bounds"], table["keep"]
        known = {str(pattern): (least, largest) for pattern, (least, largest) in bounds.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidArgumentError(
            "the options of a followed step are a table of trace, trace_events, guard, bounds and keep"
        ) from None
    return RunOptions(
        trace=trace or None,
        trace_events=events,
        guard=(known or True) if guard is True else False,
        guard_file=io.BytesIO() if keeps is True else None,
    )


async def known_to(task: str, call: Callable[[], Awaitable[T]]) -> T:
    """Call a task about a followed step. Raises UnimplementedError if the task is too old to know of one."""
    try:
        return await call()
    except NotFoundError as error:
        if "there is no method" not in error.message:
            raise
        raise UnimplementedError(
            f"{task} has a version of FlowEngine that can neither trace a step nor guard it: install this "
            "version there, or run the step without trace and guard"
        ) from None


__all__ = ["PARTS_SECONDS", "from_table", "known_to", "to_table"]
