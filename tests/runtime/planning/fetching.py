"""Structures with something besides, their comparison, and a graph whose tensor is fetched in many ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import flowengine as fe


class Named(dict[Any, Any]):
    """A dictionary with something besides."""

    note = ""


def noted(items: dict[Any, Any]) -> Named:
    found = Named(items)
    found.note = "kept"
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two trees are equal, with the classes of all structures and the order of all keys."""
    if one != other or not (np.isscalar(one) or type(one) is type(other)):
        return False
    if isinstance(one, Mapping):
        alike = list(one) == list(other) and getattr(one, "note", 0) == getattr(other, "note", 0)
        alike = alike and getattr(one, "default_factory", 0) == getattr(other, "default_factory", 0)
        return alike and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return all(map(same, one, other))
    return True


def squares() -> tuple[fe.Graph, fe.Tensor, fe.Tensor]:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    return graph, x, fe.square(x, name="y")
