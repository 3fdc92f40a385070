"""Structures: values in tuples, lists, dictionaries, named tuples, dataclasses and attrs classes, nested.

    flatten({"a": 1, "b": (2, 3)})                  # [1, 2, 3]
    pack_like({"a": 0, "b": (0, 0)}, [1, 2, 3])     # {"a": 1, "b": (2, 3)}

A dictionary is read in the order of its sorted keys, so that two of equal keys are alike. A dataclass or an
attrs class is read field by field. An object of another kind is a part itself, unless it has the two methods
of `HeldTensors`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError


@runtime_checkable
class HeldTensors(Protocol):
    """An object that holds tensors and can be made again with others in their places."""

    def __flowengine_parts__(self) -> Sequence[Any]:
        """Return the parts that it holds, in an order that it chooses."""

    def __flowengine_with_parts__(self, parts: Sequence[Any]) -> Any:
        """The same with other parts."""


def parts_of(structure: Any) -> Sequence[Any] | None:
    """Return the direct parts of a structure; None for any other value."""
    if isinstance(structure, list | tuple):
        return structure
    if isinstance(structure, Mapping):
        return [structure[key] for key in _keys(structure)]
    names = field_names(type(structure))
    if names is not None:
        return [getattr(structure, name) for name in names]
    if hasattr(type(structure), "__flowengine_parts__"):
        found: Sequence[Any] = structure.__flowengine_parts__()
        return found
    return None


def field_names(kind: type) -> Mapping[str, str] | None:
    """{field: argument that sets it} of a dataclass or an attrs class; None for a class that is neither."""
    if dataclasses.is_dataclass(kind):
        return {field.name: field.name for field in dataclasses.fields(kind) if field.init}
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is None:
        return None
    # Before attrs 22.2 the argument was always the name without underscores in front.
    return {
        each.name: getattr(each, "alias", None) or each.name.lstrip("_") for each in attributes if each.init
    }


def with_parts(structure: Any, parts: Sequence[Any]) -> Any:
    """A structure of the same kind with other parts in it."""
    return maker_of(structure)(parts)


def maker_of(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes a structure of the same kind, and with the same keys, of other parts.

    Later changes of the structure do not change the results of the function.
    """
    kind: Any = type(structure)
    if isinstance(structure, list | tuple):
        return (lambda parts: kind(*parts)) if hasattr(structure, "_fields") else kind
    if isinstance(structure, Mapping):
        return _mapping_maker(structure)
    names = field_names(kind)
    if names is not None:
        arguments = list(names.values())
        return lambda parts: kind(**dict(zip(arguments, parts, strict=True)))
    made: Callable[[Sequence[Any]], Any] = structure.__flowengine_with_parts__
    return made


def _mapping_maker(structure: Mapping[Any, Any]) -> Callable[[Sequence[Any]], Any]:
    kind: Any = type(structure)
    keys, order = _keys(structure), list(structure)

    def ordered(parts: Sequence[Any]) -> dict[Any, Any]:
        values = dict(zip(keys, parts, strict=True))
        return values if keys == order else {key: values[key] for key in order}

    if kind is dict:
        return ordered
    if isinstance(structure, dict):
        # A copy keeps other properties of a kind of dictionary, such as its default or order.
        template = copy.copy(structure)

        def filled(parts: Sequence[Any]) -> Any:
            other = copy.copy(template)
            for key, value in ordered(parts).items():
                other[key] = value  # not by `update`, by which a Counter would add
            return other

        return filled

    def converted(parts: Sequence[Any]) -> Any:
        values = ordered(parts)
        try:
            return kind(values)
        except TypeError:
            return values  # the constructor of this kind takes other arguments

    return converted


def flatten(structure: Any) -> list[Any]:
    """All that stands in a structure, from left to right; of what is no structure, itself."""
    return list(_leaves(structure))


def pack_like(structure: Any, leaves: Sequence[Any]) -> Any:
    """A structure like this one, of these. ValueError (as InvalidArgumentError) for too many or few."""
    rest = iter(leaves)
    try:
        packed = _packed(structure, rest)
    except StopIteration:
        raise _wrong_number(structure, leaves) from None
    if next(rest, rest) is not rest:
        raise _wrong_number(structure, leaves)
    return packed


def map_structure(function: Callable[..., Any], *structures: Any) -> Any:
    """The structure of what a function makes of each place: of the parts that several structures have there.

    Raises TypeError or ValueError (as InvalidArgumentError) where they are not alike.
    """
    first = structures[0]
    for other in structures[1:]:
        assert_alike(first, other)
    lists = [flatten(each) for each in structures]
    return pack_like(first, [function(*each) for each in zip(*lists, strict=True)])


def assert_alike(first: Any, second: Any, what: str = "the structures") -> None:
    """Raise TypeError or ValueError (as InvalidArgumentError) where two are not of one form."""
    mine, other = parts_of(first), parts_of(second)
    if mine is None and other is None:
        return
    if mine is None or other is None or type(first) is not type(second):
        is_plain = isinstance(first, list | tuple) and isinstance(second, list | tuple)
        if not is_plain or hasattr(first, "_fields") or hasattr(second, "_fields"):
            raise ConstructionTypeError(
                f"{what} are not alike: one is {_kind_of(first)}, the other {_kind_of(second)}"
            )
    assert mine is not None
    assert other is not None
    if isinstance(first, Mapping) and _keys(first) != _keys(second):
        raise ConstructionValueError(
            f"{what} are not alike: one has the keys {_keys(first)}, the other {_keys(second)}"
        )
    if len(mine) != len(other):
        raise ConstructionValueError(f"{what} are not alike: {len(mine)} parts, and {len(other)}")
    for one, another in zip(mine, other, strict=True):
        assert_alike(one, another, what)


def _leaves(structure: Any) -> Iterator[Any]:
    parts = parts_of(structure)
    if parts is None:
        yield structure
    else:
        for each in parts:
            yield from _leaves(each)


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    parts = parts_of(structure)
    if parts is None:
        return next(leaves)
    return with_parts(structure, [_packed(each, leaves) for each in parts])


def _keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys in order: sorted where they can be, else as they came."""
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def _kind_of(structure: Any) -> str:
    return f"a {type(structure).__name__}" if parts_of(structure) is not None else f"{structure!r}"


def _wrong_number(structure: Any, leaves: Sequence[Any]) -> ConstructionValueError:
    count = len(flatten(structure))
    return ConstructionValueError(f"the structure has {count} places, and {len(leaves)} values are given")
