"""Iterators without a name, and what datasets share: generators of seeds, caches."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "AnonymousIteratorV3() -> handle: resource",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousSeedGenerator(seed, seed2: int64, reshuffle: bool) -> handle: resource, deleter: variant",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DeleteSeedGenerator(handle: resource, deleter: variant)",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
)
define(
    "DummyIterationCounter() -> handle: resource",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DummyMemoryCache() -> handle: resource",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DummySeedGenerator() -> handle: resource",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousMemoryCache() -> handle: resource, deleter: variant",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousRandomSeedGenerator(seed, seed2: int64) -> handle: resource, deleter: variant",
    "stateful",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DeleteMemoryCache(handle: resource, deleter: variant)", "stateful", Uses("handle"), NotDifferentiable()
)
define(
    "DeleteRandomSeedGenerator(handle: resource, deleter: variant)",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
)
