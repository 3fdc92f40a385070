"""Where the random nodes of a session stand in their sequences, to be kept with a checkpoint and set again.

A place is {"name/seed/seed2": "key:counter"} in hexadecimal digits: what msgpack and JSON both carry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Graph
from flowengine.kernels.philox import CONTAINER, Generator
from flowengine.resources.container import ResourceManager

_LOW: Final = (1 << 64) - 1


def random_nodes(graph: Graph) -> list[str]:
    """Names of the nodes that draw from a sequence of their own."""
    return sorted(node.name for node in graph if "seed2" in node.attrs)


def places_of(resources: ResourceManager, names: Collection[str]) -> dict[str, str]:
    """The places of these nodes, as far as they have drawn."""
    wanted = frozenset(names)
    return {
        key: f"{generator.key:x}:{_counter(generator):x}"
        for key, generator in resources.all_of(CONTAINER, Generator).items()
        if _node(key) in wanted
    }


def set_places(resources: ResourceManager, names: Collection[str], places: Mapping[str, str]) -> None:
    """Put these nodes at their places; those without one begin anew.

    Raises InvalidArgumentError for what is no place.
    """
    parsed = {key: _parse(key, text) for key, text in places.items()}
    wanted = frozenset(names)
    for key in [each for each in resources.all_of(CONTAINER, Generator) if _node(each) in wanted]:
        resources.delete(CONTAINER, key, Generator)
    for key, (seed, counter) in parsed.items():
        generator = resources.lookup_or_create(CONTAINER, key, Generator, lambda: Generator(1, 1))
        generator.key, generator.counter, generator.kept = seed, counter, None


def _counter(generator: Generator) -> int:
    # What is drawn once and kept is drawn again by whoever begins where it was drawn.
    return generator.counter & ~_LOW if generator.kept is not None else generator.counter


def _node(key: str) -> str:
    return key.rsplit("/", 2)[0]


def _parse(key: str, text: str) -> tuple[int, int]:
    seed, colon, counter = text.partition(":")
    try:
        if not colon:
            raise ValueError(text)
        return int(seed, 16) & _LOW, int(counter, 16) & ((1 << 128) - 1)
    except ValueError:
        raise InvalidArgumentError(f"{text!r} is no place in the sequence of '{key}'") from None


__all__ = ["places_of", "random_nodes", "set_places"]
