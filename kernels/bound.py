"""A function with some of its arguments given beforehand, in the form that is called fastest.

`functools.partial` makes a dictionary of keywords at every call: 0.08 us, the time of a small kernel. A
Python function has a dictionary of defaults; a call of a copy with other defaults is as fast as a call of the
function itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


def with_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with these keywords given; a caller can give others in their place, as with `partial`."""
    if not keywords:
        return function
    if type(function) is not FunctionType or not keywords.keys() <= _keyword_only(function):
        return functools.partial(function, **keywords)
    code = function.__code__
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **keywords}
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__dict__.update(function.__dict__)
    return made


def _keyword_only(function: FunctionType) -> set[str]:
    code = function.__code__
    return set(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


__all__ = ["with_keywords"]
