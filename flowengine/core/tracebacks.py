"""Tracebacks that end in the user's line: frames of the engine say nothing to who calls it.

    session.run("y:0")      # InvalidArgumentError: ... points here, and at nothing below

What a kernel of the user's own did stays visible. A module that says `__tracebackhide__ = True`, such as that
of a device of one's own, is hidden, too: a frame keeps arrays alive. FLOWENGINE_TRACEBACK=full, or
`flowengine --debug`, shows every frame.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from flowengine.core.errors import OpError

Function = TypeVar("Function", bound=Callable[..., Any])

#: What lies between a caller and a kernel of the caller's own.
_HIDDEN: Final = frozenset(
    {
        *("asyncio", "concurrent", "cupy", "cupy_backends", "cupyx", "flowengine", "ml_dtypes", "numpy"),
        *("outcome", "scipy", "threading", "trio"),
    }
)
_shows_all = os.environ.get("FLOWENGINE_TRACEBACK", "") == "full"


def shorten(error: BaseException) -> None:
    """Take the engine's frames off an error, and off what it came from. To be followed by a bare `raise`."""
    if _shows_all:
        return
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        current = left.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            # What is not shown is shortened too: frames keep what their variables hold.
            current.__traceback__ = _users_part(current.__traceback__)
            left += (current.__cause__, current.__context__)


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is neither the engine's nor a library's below it."""
    while trace is not None:
        names = trace.tb_frame.f_globals
        name = names.get("__name__") or ""
        if name.partition(".")[0] not in _HIDDEN and not names.get("__tracebackhide__"):
            return trace
        trace = trace.tb_next
    return None


def hides_engine(function: Function) -> Function:
    """The same function or coroutine function; an OpError that it raises ends in its caller's line."""
    call: Any
    if iscoroutinefunction(function):

        @wraps(function)
        async def call(*args: Any, **keywords: Any) -> Any:
            try:
                return await function(*args, **keywords)
            except OpError as error:
                shorten(error)
                raise

    else:

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            try:
                return function(*args, **keywords)
            except OpError as error:
                shorten(error)
                raise

    return cast("Function", call)


@contextmanager
def shown_whole() -> Iterator[None]:
    """Meanwhile no frame is hidden."""
    global _shows_all
    before, _shows_all = _shows_all, True
    try:
        yield
    finally:
        _shows_all = before
