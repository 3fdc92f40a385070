"""Resources that datasets share: iterators without a name, generators of seeds, caches, stand-ins."""

from __future__ import annotations

from typing import Any

from flowengine.ir.graph import Node
from flowengine.kernels.data.iterators import anonymous_iterator
from flowengine.kernels.registry import kernel
from flowengine.resources.data.caching import MemoryCache
from flowengine.resources.data.shuffling import SeedGenerator
from flowengine.resources.data.sources import seeds_of

kernel("AnonymousIteratorV3", heavy=False)(anonymous_iterator)


@kernel("AnonymousSeedGenerator", heavy=False)
def anonymous_seed_generator(seed: Any, seed2: Any, reshuffle: Any) -> Any:
    """A generator of seeds (resource, rank 0), and what deletes it (variant, rank 0)."""
    made = SeedGenerator(*seeds_of(seed, seed2), reshuffles=bool(reshuffle))
    return made, made


@kernel("AnonymousRandomSeedGenerator", heavy=False)
def anonymous_random_seed_generator(seed: Any, seed2: Any) -> Any:
    """A generator that draws new seeds for each run (resource, rank 0), and what deletes it (variant)."""
    made = SeedGenerator(*seeds_of(seed, seed2))
    return made, made


@kernel("AnonymousMemoryCache", heavy=False)
def anonymous_memory_cache() -> Any:
    """A cache that iterators share (resource, rank 0), and what deletes it (variant, rank 0)."""
    made = MemoryCache()
    return made, made


@kernel("DeleteMemoryCache", heavy=False)
def delete_memory_cache(handle: Any, deleter: Any) -> None:
    """Nothing: a cache lives as long as somebody holds it."""


@kernel("DeleteRandomSeedGenerator", "DeleteSeedGenerator", heavy=False)
def delete_seed_generator(handle: Any, deleter: Any) -> None:
    """Nothing: a generator lives as long as somebody holds it."""


class NoResource:
    """A stand-in for a resource that is not wanted, with the op that gives it."""

    __slots__ = ("op",)

    def __init__(self, op: str) -> None:
        self.op = op


@kernel("DummyIterationCounter", "DummySeedGenerator", heavy=False)
def no_resource(*, node: Node) -> NoResource:
    """A handle (resource, rank 0) of nothing."""
    return NoResource(node.op)


@kernel("DummyMemoryCache", heavy=False)
def no_cache(*, node: Node) -> NoResource:
    """A handle (resource, rank 0) of no cache: each iterator keeps its own."""
    return NoResource(node.op)
