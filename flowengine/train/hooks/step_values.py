"""Names for the values that a training step returns, whatever structure they are in.

    leaves({"loss": 0.5, "parts": [1.0, 2.0]})    # {"loss": 0.5, "parts/0": 1.0, "parts/1": 2.0}

A value's name is its path: keys, fields and positions with "/" between them. A tensor that is fetched under
no key also has its own name, so `fetches=[loss]` gives "0" and the name of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import DType, as_dtype
from flowengine.graphs.structures import field_names
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.planning.fetches import FETCH_HOOK, name_of, port_of

#: The path of a value that is in no structure.
ALONE: Final = ""


@dataclass(frozen=True, slots=True)
class FetchedValue:
    """A value that each step fetches.

    path    where it is in the structure
    name    of the tensor or node
    dtype   of the tensor; None for a node, whose value is None, and for a tensor of an unknown op
    """

    path: str
    name: str
    dtype: DType | None

    @property
    def has_value(self) -> bool:
        """Whether a step returns a value for it: it is an output, and not a node that is run."""
        return ":" in self.name

    @property
    def shown(self) -> str:
        """The name for a message: the path, or the tensor's name if the path has no key in it."""
        return self.name if _is_position(self.path) else self.path


class FetchedValues:
    """The values that each step of a loop fetches, by name."""

    def __init__(self, graph: NodeGraph, fetches: Any) -> None:
        """Read the structure. Raises what `Session.run` raises for fetches that the graph does not have."""
        found = [_fetched(graph, path, fetch) for path, fetch in _walk(fetches)]
        self.values: Sequence[FetchedValue] = found
        self._by_name: dict[str, FetchedValue] = {}
        for each in found:
            if _is_position(each.path):
                for name in (each.name, each.name.partition(":")[0]):
                    self._by_name.setdefault(name, each)
        self._by_name.update((each.path, each) for each in found)

    def find(self, name: str) -> FetchedValue | None:
        """Return the value of this name, or None."""
        return self._by_name.get(name)

    def below(self, name: str) -> list[FetchedValue]:
        """Return the value of this name, or all values in the structure of this name."""
        one = self.find(name)
        if one is not None:
            return [one]
        return [each for each in self.values if each.path.startswith(f"{name}/")]

    def names(self) -> list[str]:
        """Return the names, for messages."""
        return [each.shown for each in self.values]


def leaves(values: Any) -> dict[str, Any]:
    """Return {path: value} of all values in a structure, without those that are None."""
    return {path: value for path, value in _walk(values) if value is not None}


def is_number(value: Any) -> bool:
    """Return whether a value is one number: a scalar, or an array with one element."""
    try:
        array = np.asarray(value)
    except ValueError:
        return False
    return bool(array.size == 1 and array.dtype.kind in "biufV")


def to_number(value: Any) -> float:
    """Return the one number that a scalar, or an array with one element, holds."""
    return float(np.asarray(value).reshape(()))


def is_floating(value: Any) -> bool:
    """Return whether a value has a floating-point or complex type, such as bfloat16."""
    try:
        return _can_be_nan(as_dtype(np.asarray(value).dtype))
    except (TypeError, ValueError):
        return False


def can_be_nan(fetched: FetchedValue) -> bool:
    """Return whether a fetched value has a floating-point or complex type, as far as that is known."""
    if fetched.dtype is None:
        return fetched.has_value
    return _can_be_nan(fetched.dtype.base)


def _can_be_nan(dtype: DType) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def _fetched(graph: NodeGraph, path: str, fetch: Any) -> FetchedValue:
    name = name_of(graph, fetch)
    if ":" not in name:
        return FetchedValue(path, name, None)
    port = port_of(graph, name)
    types = graph[port.node].output_types
    # An op that is not known here, but at the session's target, has no types here.
    return FetchedValue(path, name, types[port.slot] if port.slot < len(types) else None)


def _walk(structure: Any, path: str = ALONE) -> Iterator[tuple[str, Any]]:
    """Each value of a structure with its path; both fetches and what a step returns for them."""
    members = _members(structure)
    if members is not None:
        for key, member in members:
            yield from _walk(member, f"{path}/{key}" if path else str(key))
    elif hasattr(type(structure), FETCH_HOOK):
        yield from _walk(structure.__flowengine_fetch__(), path)
    elif structure is not None:
        yield path, structure


def _members(structure: Any) -> Iterator[tuple[object, Any]] | None:
    if isinstance(structure, Mapping):
        return iter(structure.items())
    if isinstance(structure, list | tuple):
        places: Sequence[object] = getattr(structure, "_fields", range(len(structure)))
        return zip(places, structure, strict=True)
    names = field_names(type(structure))
    return None if names is None else iter([(name, getattr(structure, name)) for name in names])


def _is_position(path: str) -> bool:
    return all(part.isdigit() or not part for part in path.split("/"))


__all__ = ["FetchedValue", "FetchedValues", "can_be_nan", "is_floating", "is_number", "leaves", "to_number"]
