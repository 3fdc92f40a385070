"""Iterators over datasets and optional values."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked_at_least, scalars, vector


def components(c: ShapeContext) -> Sequence[TensorShape]:
    """What the attribute says; every element is checked against it."""
    shapes: Sequence[TensorShape] = c.attrs["output_shapes"]
    if len(shapes) != c.num_outputs:
        raise InvalidArgumentError(f"output_shapes has {len(shapes)} elements for {c.num_outputs} outputs")
    return shapes


define(
    "IteratorGetNext",
    inputs=["iterator: resource"],
    outputs=["components: output_types"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=components,
)
define(
    "IteratorGetNextSync",
    inputs=["iterator: resource"],
    outputs=["components: output_types"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=components,
)
define(
    "OptionalGetValue",
    inputs=["optional: variant"],
    outputs=["components: output_types"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=components,
)
define(
    "DatasetToSingleElement",
    inputs=["dataset: variant"],
    outputs=["components: output_types"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=components,
)
define(
    "ReduceDataset",
    inputs=["input_dataset: variant", "initial_state: Tstate", "other_arguments: Targuments"],
    outputs=["components: output_types"],
    attrs=[
        "f: func",
        "Tstate: list(type) >= 1",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "use_inter_op_parallelism: bool = true",
    ],
    is_stateful=True,
    shape=components,
)
define(
    "MultiDeviceIteratorGetNextFromShard",
    inputs=["multi_device_iterator: resource", "shard_num: int32", "incarnation_id: int64"],
    outputs=["components: output_types"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=components,
)
define(
    "AnonymousIterator",
    outputs=["handle: resource"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "AnonymousIteratorV2",
    outputs=["handle: resource", "deleter: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "AnonymousMemoryCache", outputs=["handle: resource", "deleter: variant"], is_stateful=True, shape=scalars
)
define(
    "AnonymousMultiDeviceIterator",
    outputs=["handle: resource", "deleter: variant"],
    attrs=["devices: list(string) >= 1", "output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "AnonymousRandomSeedGenerator",
    inputs=["seed: int64", "seed2: int64"],
    outputs=["handle: resource", "deleter: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "DatasetToGraph",
    inputs=["input_dataset: variant"],
    outputs=["graph: string"],
    attrs=["stateful_whitelist: list(string) >= 0 = []"],
    shape=scalars,
)
define(
    "Iterator",
    outputs=["handle: resource"],
    attrs=[
        "shared_name: string",
        "container: string",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "IteratorFromStringHandle",
    inputs=["string_handle: string"],
    outputs=["resource_handle: resource"],
    attrs=["output_types: list(type) >= 0 = []", "output_shapes: list(shape) >= 0 = []"],
    is_stateful=True,
    shape=scalars,
)
define(
    "IteratorFromStringHandleV2",
    inputs=["string_handle: string"],
    outputs=["resource_handle: resource"],
    attrs=["output_types: list(type) >= 0 = []", "output_shapes: list(shape) >= 0 = []"],
    is_stateful=True,
    shape=scalars,
)
define(
    "IteratorGetNextAsOptional",
    inputs=["iterator: resource"],
    outputs=["optional: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "IteratorToStringHandle",
    inputs=["resource_handle: resource"],
    outputs=["string_handle: string"],
    is_stateful=True,
    shape=scalars,
)
define(
    "IteratorV2",
    outputs=["handle: resource"],
    attrs=[
        "shared_name: string",
        "container: string",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MultiDeviceIterator",
    outputs=["handle: resource"],
    attrs=[
        "devices: list(string) >= 1",
        "shared_name: string",
        "container: string",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MultiDeviceIteratorFromStringHandle",
    inputs=["string_handle: string"],
    outputs=["multi_device_iterator: resource"],
    attrs=["output_types: list(type) >= 0 = []", "output_shapes: list(shape) >= 0 = []"],
    is_stateful=True,
    shape=scalars,
)
define(
    "MultiDeviceIteratorInit",
    inputs=["dataset: variant", "multi_device_iterator: resource", "max_buffer_size: int64"],
    outputs=["incarnation_id: int64"],
    is_stateful=True,
    shape=scalars,
)
define(
    "OneShotIterator",
    outputs=["handle: resource"],
    attrs=[
        "dataset_factory: func",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MultiDeviceIteratorToStringHandle",
    inputs=["multi_device_iterator: resource"],
    outputs=["string_handle: string"],
    is_stateful=True,
    shape=scalars,
)
define(
    "OptionalFromValue",
    inputs=["components: Toutput_types"],
    outputs=["optional: variant"],
    attrs=["Toutput_types: list(type) >= 1"],
    shape=scalars,
)
define("OptionalHasValue", inputs=["optional: variant"], outputs=["has_value: bool"], shape=scalars)
define("OptionalNone", outputs=["optional: variant"], shape=scalars)


def map_defun(c: ShapeContext) -> Sequence[TensorShape]:
    """One result for every row of the arguments."""
    rows: Dimension = None
    for index in range(len(c.attrs["Targuments"])):
        rows = merge_dims(rows, ranked_at_least(c, index, 1)[0], "The rows of the arguments")
    return [vector(rows).concatenate(shape) for shape in c.attrs["output_shapes"]]


define(
    "MapDefun",
    inputs=["arguments: Targuments", "captured_inputs: Tcaptured"],
    outputs=["output: output_types"],
    attrs=[
        "Targuments: list(type) >= 1",
        "Tcaptured: list(type) >= 0 = []",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "f: func",
        "max_intra_op_parallelism: int = 1",
    ],
    shape=map_defun,
)
define("DeleteIterator", inputs=["handle: resource", "deleter: variant"], is_stateful=True)
define("DeleteMemoryCache", inputs=["handle: resource", "deleter: variant"], is_stateful=True)
define(
    "DeleteMultiDeviceIterator",
    inputs=["multi_device_iterator: resource", "iterators: N * resource", "deleter: variant"],
    attrs=["N: int >= 0"],
    is_stateful=True,
)
define("DeleteRandomSeedGenerator", inputs=["handle: resource", "deleter: variant"], is_stateful=True)
define("DeserializeIterator", inputs=["resource_handle: resource", "serialized: variant"], is_stateful=True)
define("MakeIterator", inputs=["dataset: variant", "iterator: resource"], is_stateful=True)
define(
    "SerializeIterator",
    inputs=["resource_handle: resource"],
    outputs=["serialized: variant"],
    is_stateful=True,
)
