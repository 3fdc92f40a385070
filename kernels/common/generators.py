"""Where the random nodes of a session stand in their sequences, to be kept with a checkpoint and set again.

A place is {"name/seed/seed2": "key:counter"} in hexadecimal digits: what msgpack and JSON both carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.common.philox import CONTAINER, Generator
from flowengine.resources.container import ResourceManager

_LOW: Final = (1 << 64) - 1


def random_sequences(graph: NodeGraph) -> list[str]:
    """The sequences of the nodes that draw from one of their own, in the bodies of functions, too."""
    keys = {
        _key(node.name, node.attrs["seed"], node.attrs["seed2"])
        for node in graph
        if "seed" in node.attrs and "seed2" in node.attrs
    }
    for function in getattr(graph.library, "function", ()):
        for node in function.node_def:
            if "seed" in node.attr and "seed2" in node.attr:
                keys.add(_key(node.name, node.attr["seed"].i, node.attr["seed2"].i))
    return sorted(keys)


def places_of(resources: ResourceManager, sequences: Iterable[str]) -> dict[str, str]:
    """Where these sequences stand, as far as anything was drawn from them."""
    return {
        key: f"{generator.key:x}:{_counter(generator):x}"
        for key in sequences
        if (generator := resources.find(CONTAINER, key, Generator)) is not None
    }


def add_places(places: dict[str, str], others: Mapping[str, str]) -> None:
    """Add the places that another task knows; of a sequence that both know the one that is further counts.

    Places are set on every task, and the sequence goes on where its node runs.
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
    for key in sequences:
        if resources.find(CONTAINER, key, Generator) is not None:
            resources.delete(CONTAINER, key, Generator)
    for key, (seed, counter) in parsed.items():
        generator = resources.lookup_or_create(CONTAINER, key, Generator, lambda: Generator(1, 1))
        generator.key, generator.counter, generator.kept = seed, counter, None


def _counter(generator: Generator) -> int:
    # What is drawn once and kept is drawn again by whoever begins where it was drawn.
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
