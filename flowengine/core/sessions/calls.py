"""Functions that need the session of a trio program, called with the session of another one.

    saver.restore(session, "run")       # with a fe.blocking.Session: InvalidArgumentError, at this call

The session of a façade runs its steps on a thread of its own, so such a function cannot use it. Without a
check the call of a coroutine function would return a coroutine that a script does not await: the program goes
on as if it had run. The error shows the caller's line as it has to be.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, Final, TypeGuard, TypeVar, cast

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.sessions.view import SessionView

Function = TypeVar("Function", bound=Callable[..., Any])

#: The name of the parameter that takes a session.
_SESSION: Final = "session"


def takes_session(
    *, is_awaited_only: bool = False, blocking: str = "", name: str = ""
) -> Callable[[Function], Function]:
    """Return a decorator for functions with a parameter `session`, which refuses a façade's at the call.

    is_awaited_only   whether the function only awaits `session.run`, as sessions for asyncio can do, too
    blocking          what to call with a `fe.blocking.Session` instead, such as "fe.blocking.loop"
    name              of the function as users know it, where its module does not show that

    A decorated coroutine function is a plain function that returns the coroutine. From Python 3.12 on it is
    marked as a coroutine function for `inspect`.
    """

    def decorate(function: Function) -> Function:
        code = inspect.unwrap(function).__code__
        place = code.co_varnames.index(_SESSION, 0, code.co_argcount)

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            session = args[place] if place < len(args) else keywords.get(_SESSION)
            if _is_facade(session) and not (is_awaited_only and session._await):
                raise _refusal(name or _public_name(function), session, sys._getframe(1), blocking)
            return function(*args, **keywords)

        if inspect.iscoroutinefunction(inspect.unwrap(function)) and (
            mark := getattr(inspect, "markcoroutinefunction", None)
        ):
            mark(call)
        return cast("Function", call)

    return decorate


def refuse_facade(session: Any, what: str, advice: str) -> None:
    """Raise InvalidArgumentError for a façade's session: `what` needs a trio session, and what to write."""
    if _is_facade(session):
        raise InvalidArgumentError(f"{what} is for trio programs, and this is a {session._called}: {advice}")


def _is_facade(session: Any) -> TypeGuard[SessionView]:
    return isinstance(session, SessionView) and session._await is not None


def _refusal(name: str, session: SessionView, frame: FrameType, blocking: str) -> InvalidArgumentError:
    instead = blocking if session._await == "" else ""
    line = _mended_line(frame, session, instead) or _general_line(name, session, instead)
    return InvalidArgumentError(
        f"{name} runs in a trio program, and this is a {session._called}, so nothing was done. Write\n\n"
        f"    {line}\n"
    )


def _public_name(function: Callable[..., Any]) -> str:
    """`Saver.restore`, or `fe.train.loop`, as users know it."""
    if "." in function.__qualname__:
        return function.__qualname__
    package = [part for part in function.__module__.split(".") if part != "client"]
    return ".".join(["fe", *package[1:2], function.__name__])


def _general_line(name: str, session: SessionView, instead: str) -> str:
    """The call without the caller's arguments, where the source cannot be read."""
    if instead:
        return f"{instead}(session, ...)"
    owner, dot, method = name.partition(".")
    spoken = f"{owner.lower()}.{method}" if dot and owner != "fe" else name
    return f"{session._await}session.call({spoken}, ...)"


def _mended_line(frame: FrameType, session: SessionView, instead: str) -> str:
    """The caller's line with the call as it has to be; empty where the source cannot be read."""
    try:
        before, text, after = _source_of_call(frame)
        call = ast.parse(f"({text})", mode="eval").body
        if not isinstance(call, ast.Call):
            return ""
        mended = _mended(call, frame, session, instead)
    except (IndexError, SyntaxError, UnicodeDecodeError, ValueError):
        return ""
    if mended is None:
        return ""
    before = before.removesuffix("await ")
    return f"{before}{session._await}{ast.unparse(mended)}{after}".strip()


def _source_of_call(frame: FrameType) -> tuple[str, str, str]:
    """Return the text before a frame's call, on its line; the call itself; and the text after it."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        raise ValueError("the code has no positions")
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    encoded = [line.encode() for line in lines]
    before, after = encoded[0][:start], encoded[-1][end:]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return before.decode(), b"".join(encoded).decode(), after.decode()


def _mended(call: ast.Call, frame: FrameType, session: SessionView, instead: str) -> ast.expr | None:
    """The call as an expression that runs where the session's steps run; None where it names no session."""
    places = [place for place, each in enumerate(call.args) if _is_session(each, frame, session)]
    keyword = next((each for each in call.keywords if each.arg == _SESSION), None)
    given = call.args[places[0]] if places else None if keyword is None else keyword.value
    if given is None:
        return None
    if instead and isinstance(call.func, ast.Attribute):
        call.func = ast.parse(instead, mode="eval").body
        return call
    doing = ast.Attribute(given, "call", ast.Load())
    if places == [0]:
        return ast.Call(doing, [call.func, *call.args[1:]], call.keywords)
    # The session is not the first argument.
    inner = ast.Name(_SESSION, ast.Load())
    if places:
        call.args[places[0]] = inner
    elif keyword is not None:
        keyword.value = inner
    taken = ast.arguments([], [ast.arg(_SESSION)], None, [], [], None, [])
    return ast.Call(doing, [ast.Lambda(taken, call)], [])


def _is_session(given: ast.expr, frame: FrameType, session: SessionView) -> bool:
    """Whether an argument is the session: a name, or an attribute of one such as `self.session`."""
    path: list[str] = []
    while isinstance(given, ast.Attribute):
        path.insert(0, given.attr)
        given = given.value
    if not isinstance(given, ast.Name):
        return False
    found: Any = frame.f_locals.get(given.id, frame.f_globals.get(given.id))
    for name in path:
        found = getattr(found, "__dict__", {}).get(name)
    return found is session


__all__ = ["refuse_facade", "takes_session"]
