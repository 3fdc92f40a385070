"""Properties, graphs and positions of datasets and iterators."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import Newer, NotDifferentiable, Starts, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

# What a dataset is: its length, its graph, its options; elements in another form.

define(
    "CompressElement(components: input_types) -> compressed: variant",
    "input_types: list(type) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "UncompressElement(compressed: variant) -> components: output_types",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=lambda c: list(c.attrs["output_shapes"]),
)
define(
    "DatasetCardinality(input_dataset: variant) -> cardinality: int64",
    "cardinality_options: string = ''",
    Newer(("cardinality_options",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalDatasetCardinality(input_dataset: variant) -> cardinality: int64",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DatasetFingerprint(input_dataset: variant) -> fingerprint: uint64",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "GetOptions(input_dataset: variant) -> serialized_options: string",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "InitializeTableFromDataset(table_handle: resource, dataset: variant)",
    "stateful",
    Uses("table_handle"),
    Starts("table_handle"),
    NotDifferentiable(),
)
define(
    "IteratorGetDevice, ExperimentalIteratorGetDevice(resource: resource) -> device: string",
    "stateful",
    Uses("resource"),
    NotDifferentiable(),
    shape=scalars,
)


# Datasets as graphs, and where iterators stand.

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
