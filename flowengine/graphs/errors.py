"""Errors raised while a graph is built: each is the engine's own error, and Python's where one fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from flowengine.core import tracebacks
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.graphs.source_lines import creation_site

Function = TypeVar("Function", bound=Callable[..., Any])


class ConstructionError(InvalidArgumentError):
    """Arguments from which no node can be made; its text ends in the line of the program that gave them."""

    def __init__(self, message: str, *, faults: Sequence[str] = ()) -> None:
        super().__init__(message, faults=faults)
        self.creation_site = creation_site()

    def __str__(self) -> str:
        text = super().__str__()
        if self.creation_site and self.node_name is None:
            text += f" (at {self.creation_site})"
        return text


class ConstructionTypeError(ConstructionError, TypeError):
    """An argument of another type, or of another number of arguments, than there can be."""


class ConstructionValueError(ConstructionError, ValueError):
    """An argument of the right type that does not fit: a shape, an attribute's value, a name."""


def at_construction(error: InvalidArgumentError) -> ConstructionError:
    """The error of a constructor, with the place that it knows already and the line that is being run."""
    if isinstance(error, ConstructionError):
        return error
    found = ConstructionValueError(error.message, faults=error.faults)
    found.node_name, found.op_type, found.frame = error.node_name, error.op_type, error.frame
    found.input_shapes = error.input_shapes
    return found


def builds(function: Function) -> Function:
    """The same function; an error of its arguments is one of construction, and ends in its caller's line."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            try:
                return function(*args, **keywords)
            except InvalidArgumentError as error:
                if isinstance(error, ValueError | TypeError):
                    raise
                raise at_construction(error) from None
        except OpError as error:
            tracebacks.shorten(error)
            raise

    return cast("Function", call)
