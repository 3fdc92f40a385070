"""Datasets as graphs, and where iterators stand."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: The tensors of an element.
ELEMENTS: Final = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"

define(
    "DatasetToGraph(input_dataset: variant) -> graph: string",
    "stateful_whitelist: list(string) >= 0 = []",
    "allow_stateful: bool = false",
    "strip_device_assignment: bool = false",
    Newer(("allow_stateful", "strip_device_assignment")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DeserializeIterator(resource_handle: resource, serialized: variant)",
    "stateful",
    Uses("resource_handle"),
    NotDifferentiable(),
)
define(
    "SerializeIterator(resource_handle: resource) -> serialized: variant",
    "stateful",
    "external_state_policy: int = 0",
    Newer(("external_state_policy",)),
    Uses("resource_handle"),
    NotDifferentiable(),
)
define(
    "DatasetFromGraph(graph_def: string) -> handle: variant",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DatasetToGraphV2(input_dataset: variant) -> graph: string",
    "external_state_policy: int = 0; strip_device_assignment: bool = false",
    NotDifferentiable(),
    shape=scalars,
)
