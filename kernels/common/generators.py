"""Positions of a session's random nodes in their sequences, to save with a checkpoint and restore.

A place is {"name/seed/seed2": "key:counter"} in hexadecimal digits: what msgpack and JSON both carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.proto import AttrValue
from flowengine.kernels.common.philox import CONTAINER, Generator
from flowengine.resources.container import ResourceManager

#: What the nodes of a call that is opened lie beneath, under the call's name.
_OPENED: Final = "called"
_LOW: Final = (1 << 64) - 1


def random_sequences(graph: NodeGraph) -> list[str]:
    """The sequences of the random nodes that have one, in the bodies of functions, too.

    The nodes of an opened call have names below the call's: "call/called" stands for all of them,
    "node/seed/seed2" for one.
    """
    keys = {
        _key(node.name, node.attrs["seed"], node.attrs["seed2"])
        for node in graph
        if "seed" in node.attrs and "seed2" in node.attrs
    }
    functions = getattr(graph.library, "function", ())
    named = {function.signature.name for function in functions}
    if named:
        keys |= {f"{node.name}/{_OPENED}" for node in graph if node.op in named or _names_function(node)}
    for function in functions:
        for node in function.node_def:
            if "seed" in node.attr and "seed2" in node.attr:
                keys.add(_key(node.name, node.attr["seed"].i, node.attr["seed2"].i))
            if node.op in named or any(_is_function(value) for value in node.attr.values()):
                keys.add(f"{node.name}/{_OPENED}")
    return sorted(keys)


def _names_function(node: Node) -> bool:
    values = node.attrs.values()
    return any(isinstance(each, FuncAttr) for value in values for each in _listed(value))


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _is_function(value: AttrValue) -> bool:
    return value.HasField("func") or bool(value.list.func)


def _drawn(resources: ResourceManager, sequences: Iterable[str]) -> Iterator[tuple[str, Generator]]:
    """Those of the sequences that anything was drawn from."""
    for key in sequences:
        if key.endswith(f"/{_OPENED}"):
            held = resources.all_of(CONTAINER, Generator).items()
            yield from ((name, generator) for name, generator in held if name.startswith(key))
        elif (generator := resources.find(CONTAINER, key, Generator)) is not None:
            yield key, generator


def places_of(resources: ResourceManager, sequences: Iterable[str]) -> dict[str, str]:
    """Return the positions of these sequences, of those that anything was drawn from."""
    return {
        key: f"{generator.key:x}:{_counter(generator):x}" for key, generator in _drawn(resources, sequences)
    }


def add_places(places: dict[str, str], others: Mapping[str, str]) -> None:
    """Add the places that another task knows; of a sequence that both know the one that is further counts.

    Places are set on every task, and the sequence continues on the task that runs its node.
    """
    for key, text in others.items():
        known = places.get(key)
        if known is None or _parse(key, known)[1] < _parse(key, text)[1]:
            places[key] = text


def set_places(resources: ResourceManager, sequences: Iterable[str], places: Mapping[str, str]) -> None:
    """Put these sequences at their places; those without one begin anew.

    Raises InvalidArgumentError for what is no place.
    """
    parsed = {key: _parse(key, text) for key, text in places.items()}
    for key in [key for key, _ in _drawn(resources, sequences)]:
        if resources.find(CONTAINER, key, Generator) is not None:
            resources.delete(CONTAINER, key, Generator)
    for key, (seed, counter) in parsed.items():
        generator = resources.lookup_or_create(CONTAINER, key, Generator, lambda: Generator(1, 1))
        generator.key, generator.counter, generator.kept = seed, counter, None


def _counter(generator: Generator) -> int:
    # A generator that starts from this place draws the kept number again.
    return generator.counter & ~_LOW if generator.kept is not None else generator.counter


def _key(name: str, seed: Any, seed2: Any) -> str:
    # As `philox.generator_of` names it.
    return f"{name}/{seed}/{seed2}"


def _parse(key: str, text: str) -> tuple[int, int]:
    seed, colon, counter = text.partition(":")
    try:
        if not colon:
            raise ValueError(text)
        return int(seed, 16) & _LOW, int(counter, 16) & ((1 << 128) - 1)
    except ValueError:
        raise InvalidArgumentError(f"{text!r} is no place in the sequence of '{key}'") from None


__all__ = ["add_places", "places_of", "random_sequences", "set_places"]
