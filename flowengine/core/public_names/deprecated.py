"""Old spellings of public names: they work, and emit a DeprecationWarning at the caller's line.

@renamed_arguments(initialise="initialize")
async def loop(session, step, *, initialize=True): ...
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed_arguments(**names: str) -> Callable[[Function], Function]:
    """Return a decorator for functions some of whose keyword arguments had other names: {old: new}.

    The function raises TypeError where both names of an argument are given. A decorated coroutine function is
    a plain function that returns the coroutine, so that the warning is one of the call.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for old in names.keys() & keywords.keys():
                new = names[old]
                if new in keywords:
                    raise TypeError(f"{function.__qualname__}() got both {new!r} and its old name {old!r}")
                warn_renamed(f"the argument {old!r} of {function.__qualname__}", repr(new))
                keywords[new] = keywords.pop(old)
            return function(*args, **keywords)

        return cast("Function", call)

    return decorate


def warn_renamed(old: str, new: str) -> None:
    """Emit a DeprecationWarning at the innermost line outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("flowengine."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{old} is now {new}, spelled as in TensorFlow", DeprecationWarning, stacklevel=level)


__all__ = ["renamed_arguments", "warn_renamed"]
