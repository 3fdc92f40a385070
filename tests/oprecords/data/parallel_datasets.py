"""Datasets whose elements are made several at a time."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalParallelInterleaveDataset
        LegacyParallelInterleaveDatasetV2 MapAndBatchDataset ParallelBatchDataset
        ParallelFilterDataset ParallelInterleaveDataset ParallelInterleaveDatasetV3
        ParallelInterleaveDatasetV4 ParallelMapDatasetV2 ExperimentalParseExampleDataset
        ParseExampleDataset ParseExampleDatasetV2
    """,
}
