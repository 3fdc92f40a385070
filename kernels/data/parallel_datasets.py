"""Datasets whose elements are made several at a time, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.ragged_variants import RaggedVariant
from flowengine.kernels.data.datasets import register_datasets
from flowengine.kernels.io.example_batches import row_splits
from flowengine.kernels.io.example_features import decoded_key
from flowengine.kernels.io.examples import batch_of_examples, dense_features
from flowengine.resources.data.batches import BatchDataset
from flowengine.resources.data.dataset import Origin
from flowengine.resources.data.functional import FilterDataset, MapDataset
from flowengine.resources.data.parallel import (
    MapAndBatchDataset,
    ParallelMapDataset,
    ThreadMapDataset,
    parallel_calls,
)
from flowengine.resources.data.parallel_interleaving import (
    ParallelInterleaveDataset,
    ParallelInterleaveDatasetV2,
    ParallelInterleaveDatasetV4,
)
from flowengine.resources.elements import Element, HeldTensor


def parse_example_dataset(
    origin: Origin, input_dataset: Any, num_parallel_calls: Value, dense_defaults: tuple[Value, ...]
) -> ThreadMapDataset:
    """Make a dataset of ParseExample's results for batches of serialised examples.

    Its features are in the order of their keys.

    A sparse feature is a vector of three variants (indices, values, shape), a ragged one a variant.
    """
    attrs = origin.attrs
    sparse, dense = attrs["sparse_keys"], attrs["dense_keys"]
    ragged, split_types = attrs.get("ragged_keys") or (), attrs.get("ragged_split_types") or ()
    keys = [decoded_key(key) for key in (*sparse, *ragged)]
    types = (*attrs["sparse_types"], *(attrs.get("ragged_value_types") or ()))
    if len(types) != len(keys) or len(split_types) != len(ragged):
        raise InvalidArgumentError(f"{len(keys)} sparse and ragged features have {len(types)} types")
    specs = dense_features(
        [decoded_key(key) for key in dense], attrs["Tdense"], attrs["dense_shapes"], dense_defaults
    )
    named = (*sparse, *ragged, *dense)
    order = sorted(range(len(named)), key=named.__getitem__)
    unnamed = np.empty(0, object)

    def parsed(element: Element) -> Element:
        (serialized,) = element
        count = len(keys)
        found = batch_of_examples(serialized, unnamed, keys, types, specs)
        indices, values, shapes = found[:count], found[count : 2 * count], found[2 * count : 3 * count]
        made: list[Value] = [_variants(*parts) for parts in zip(indices, values, shapes, strict=True)]
        for place, dtype in enumerate(split_types, len(sparse)):
            splits = row_splits(indices[place][:, 0], serialized.size, dtype)
            made[place] = RaggedVariant((splits,), values[place])
        made += found[3 * count :]
        return tuple([made[place] for place in order])

    return ThreadMapDataset(origin, input_dataset, parsed, parallel_calls(num_parallel_calls))


def _variants(*tensors: Any) -> Any:
    made = np.empty(len(tensors), object)
    made[:] = [HeldTensor(each) for each in tensors]
    return made


register_datasets(
    {
        "ExperimentalMapAndBatchDataset MapAndBatchDataset": MapAndBatchDataset,
        "ExperimentalMapDataset": MapDataset,
        "ExperimentalParallelInterleaveDataset ParallelInterleaveDataset": ParallelInterleaveDataset,
        "LegacyParallelInterleaveDatasetV2 ParallelInterleaveDatasetV4": ParallelInterleaveDatasetV4,
        "ExperimentalParseExampleDataset ParseExampleDataset ParseExampleDatasetV2": parse_example_dataset,
        "ParallelBatchDataset": BatchDataset,
        "ParallelFilterDataset": FilterDataset,
        "ParallelInterleaveDatasetV3": ParallelInterleaveDatasetV2,
        "ParallelMapDatasetV2": ParallelMapDataset,
    }
)
