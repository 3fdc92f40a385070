"""Functions of Python that nodes call: found by a token, for as long as a graph keeps them.

A node cannot hold a function, so it holds a token. Tokens are drawn at random: who sends a graph here cannot
name a function that was not sent to him. Only the process that built the graph has its functions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final
from weakref import WeakValueDictionary

from flowengine.core.errors import FailedPreconditionError


class HeldFunction:
    """A function that nodes call, and the token that they call it by.

    is_async   whether it is a coroutine function
    """

    __slots__ = ("__weakref__", "function", "is_async", "token")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        # A method, too, and an object that is called.
        self.is_async = iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
        self.token = f"python_{secrets.token_hex(16)}"
        _functions[self.token] = self


_functions: Final[WeakValueDictionary[str, HeldFunction]] = WeakValueDictionary()


def function_of(token: str) -> HeldFunction:
    """The function of a token; FailedPreconditionError where this process has none."""
    found = _functions.get(token)
    if found is None:
        raise FailedPreconditionError(
            "it calls a Python function that is not in this process. A graph that was written or sent to "
            "another process leaves its functions behind: run it in a session of the process that built it"
        )
    return found
