"""Iterators whose elements go to several devices in turns."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.data.optional import components
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: The tensors of an element.
ELEMENTS: Final = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"

define(
    "MultiDeviceIteratorGetNextFromShard(multi_device_iterator: resource, shard_num: int32, "
    "incarnation_id: int64) -> components: output_types",
    "stateful",
    ELEMENTS,
    Uses("multi_device_iterator"),
    NotDifferentiable(),
    shape=components,
)
define(
    "AnonymousMultiDeviceIterator() -> handle: resource, deleter: variant",
    "stateful; devices: list(string) >= 1",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MultiDeviceIteratorFromStringHandle(string_handle: string) -> multi_device_iterator: resource",
    "stateful; output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MultiDeviceIteratorInit(dataset: variant, multi_device_iterator: resource, max_buffer_size: int64) "
    "-> incarnation_id: int64",
    "stateful",
    Uses("multi_device_iterator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MultiDeviceIteratorToStringHandle(multi_device_iterator: resource) -> string_handle: string",
    "stateful",
    Uses("multi_device_iterator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DeleteMultiDeviceIterator(multi_device_iterator: resource, iterators: N * resource, deleter: variant)",
    "stateful; N: int >= 0",
    Uses("multi_device_iterator", "iterators"),
    NotDifferentiable(),
)
define(
    "AnonymousMultiDeviceIteratorV3() -> handle: resource",
    "stateful; devices: list(string) >= 1; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MultiDeviceIterator() -> handle: resource",
    "stateful; devices: list(string) >= 1; shared_name, container: string",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
