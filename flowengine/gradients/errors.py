"""Errors for derivatives that cannot be computed."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError


class MissingGradientError(InvalidArgumentError, LookupError):
    """An op between y and x has no gradient function: the message names op, path, and the node's line."""


class GradientTypeError(ConstructionTypeError):
    """A gradient of another type than its tensor can have."""


class GradientValueError(ConstructionValueError):
    """A gradient of another shape or number than is asked for, or arguments that contradict each other."""


class GradientUnimplementedError(UnimplementedError, NotImplementedError):
    """An op that has a gradient in general has none with these attributes, or for matrices of this shape."""
