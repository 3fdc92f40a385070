"""Datasets whose elements are made several at a time, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.data.datasets import made_dataset
from flowengine.kernels.registry import kernel

_OPS: Final = """
    ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalParallelInterleaveDataset
    LegacyParallelInterleaveDatasetV2 MapAndBatchDataset ParallelBatchDataset ParallelFilterDataset
    ParallelInterleaveDataset ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4
    ParallelMapDatasetV2
"""

kernel(*_OPS.split(), heavy=False)(made_dataset)
