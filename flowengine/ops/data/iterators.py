"""Iterators over datasets."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import Dimension
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable, Starts, Uses
from flowengine.ops.data.optional import components
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked_at_least, scalars, vector

#: The handle is of an iterator.
USES_ITERATOR: Final = Uses("iterator")

#: The tensors of an element.
ELEMENTS: Final = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"

define(
    "IteratorGetNext, IteratorGetNextSync(iterator: resource) -> components: output_types",
    "stateful",
    ELEMENTS,
    USES_ITERATOR,
    NotDifferentiable(),
    shape=components,
)
define(
    "DatasetToSingleElement(dataset: variant) -> components: output_types",
    "stateful",
    ELEMENTS,
    "metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=components,
)
define(
    "GetElementAtIndex(dataset: variant, index: int64) -> components: output_types",
    ELEMENTS,
    NotDifferentiable(),
    shape=components,
)
define(
    "ReduceDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) "
    "-> components: output_types",
    "stateful; f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0",
    ELEMENTS,
    "use_inter_op_parallelism: bool = true",
    "metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=components,
)
define("AnonymousIterator() -> handle: resource", "stateful", ELEMENTS, NotDifferentiable(), shape=scalars)
define(
    "AnonymousIteratorV2() -> handle: resource, deleter: variant",
    "stateful",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "Iterator() -> handle: resource",
    "stateful; shared_name, container: string",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IteratorFromStringHandle, "
    "IteratorFromStringHandleV2(string_handle: string) -> resource_handle: resource",
    "stateful; output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IteratorGetNextAsOptional(iterator: resource) -> optional: variant",
    "stateful",
    ELEMENTS,
    USES_ITERATOR,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IteratorToStringHandle(resource_handle: resource) -> string_handle: string",
    "stateful",
    Uses("resource_handle"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IteratorV2() -> handle: resource",
    "stateful; shared_name, container: string",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "OneShotIterator() -> handle: resource",
    "stateful; dataset_factory: func",
    ELEMENTS,
    "container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "MapDefun(arguments: Targuments, captured_inputs: Tcaptured) -> output: output_types",
    "Targuments: list(type) >= 1; Tcaptured: list(type) >= 0 = []",
    ELEMENTS,
    "f: func; max_intra_op_parallelism: int = 1",
    NotDifferentiable(),
)
def map_defun(c: ShapeContext) -> Shapes:
    """One result for every row of the arguments."""
    rows: Dimension = None
    for index in range(len(c.attrs["Targuments"])):
        rows = merge_dims(rows, ranked_at_least(c, index, 1)[0], "The rows of the arguments")
    return [vector(rows).concatenate(shape) for shape in c.attrs["output_shapes"]]


define("DeleteIterator(handle: resource, deleter: variant)", "stateful", Uses("handle"), NotDifferentiable())
define(
    "MakeIterator(dataset: variant, iterator: resource)",
    "stateful",
    USES_ITERATOR,
    Starts("iterator"),
    NotDifferentiable(),
)
