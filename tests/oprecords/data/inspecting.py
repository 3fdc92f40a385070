"""Properties, graphs and positions of datasets and iterators."""

from __future__ import annotations

from typing import Final

# What a dataset or an iterator is.

#: {why they have no record: ops}


# Datasets as graphs, and where iterators stand.

#: {why they have no record: ops}

EXCUSED: Final = {
    "they take objects, not tensors: tests/resources/data": """
        CompressElement DatasetCardinality DatasetFingerprint ExperimentalDatasetCardinality
        ExperimentalIteratorGetDevice GetOptions InitializeTableFromDataset IteratorGetDevice
        UncompressElement
    """,
    "they take or give objects, not tensors: tests/resources/data": """
        DatasetFromGraph DatasetToGraph DatasetToGraphV2 DeserializeIterator SerializeIterator
    """,
}
