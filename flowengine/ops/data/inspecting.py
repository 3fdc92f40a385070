"""What a dataset is: its length, its graph, its options; elements in another form."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

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
    NotDifferentiable(),
)
define(
    "IteratorGetDevice, ExperimentalIteratorGetDevice(resource: resource) -> device: string",
    "stateful",
    Uses("resource"),
    NotDifferentiable(),
    shape=scalars,
)
