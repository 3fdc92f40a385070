"""What a dataset or an iterator is, asked by nodes; tables out of datasets."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.hashing import fingerprint64
from flowengine.kernels.data.iterators import checked_iterator
from flowengine.kernels.data.saving import graph_of
from flowengine.kernels.registry import kernel
from flowengine.resources.data.dataset import checked_dataset


@kernel("DatasetCardinality", "ExperimentalDatasetCardinality", heavy=False)
def dataset_cardinality(input_dataset: Any) -> Any:
    """How many elements a dataset has (int64, rank 0); -1: without end, -2: nobody knows."""
    return np.int64(checked_dataset(input_dataset).cardinality())


@kernel("DatasetFingerprint", heavy=False)
def dataset_fingerprint(input_dataset: Any) -> Any:
    """A number (uint64, rank 0) that datasets of one graph have in common."""
    return np.uint64(fingerprint64(graph_of(checked_dataset(input_dataset))))


@kernel("GetOptions", heavy=False)
def get_options(input_dataset: Any) -> bytes:
    """The options that a dataset was given last, serialized (string, rank 0); empty for none."""
    found = checked_dataset(input_dataset)
    while True:
        options = found.origin.attrs.get("serialized_options")
        if isinstance(options, bytes):
            return options
        sources = found.sources()
        if not sources:
            return b""
        found = sources[0]


@kernel("IteratorGetDevice", "ExperimentalIteratorGetDevice", heavy=False)
def iterator_get_device(resource: Any) -> bytes:
    """The device that an iterator is on (string, rank 0)."""
    return checked_iterator(resource).device.encode()
