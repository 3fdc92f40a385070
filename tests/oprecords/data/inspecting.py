"""What a dataset or an iterator is."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they take objects, not tensors: tests/resources/data": """
        CompressElement DatasetCardinality DatasetFingerprint ExperimentalDatasetCardinality
        ExperimentalIteratorGetDevice GetOptions InitializeTableFromDataset IteratorGetDevice
        UncompressElement
    """,
}
