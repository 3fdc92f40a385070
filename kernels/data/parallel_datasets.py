"""Datasets whose elements are made several at a time, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from flowengine.kernels.data.datasets import register_datasets
from flowengine.resources.data.batches import BatchDataset
from flowengine.resources.data.functional import FilterDataset, MapDataset
from flowengine.resources.data.parallel import MapAndBatchDataset, ParallelMapDataset
from flowengine.resources.data.parallel_interleaving import (
    ParallelInterleaveDataset,
    ParallelInterleaveDatasetV2,
    ParallelInterleaveDatasetV4,
)

register_datasets(
    {
        "ExperimentalMapAndBatchDataset MapAndBatchDataset": MapAndBatchDataset,
        "ExperimentalMapDataset": MapDataset,
        "ExperimentalParallelInterleaveDataset ParallelInterleaveDataset": ParallelInterleaveDataset,
        "LegacyParallelInterleaveDatasetV2 ParallelInterleaveDatasetV4": ParallelInterleaveDatasetV4,
        "ParallelBatchDataset": BatchDataset,
        "ParallelFilterDataset": FilterDataset,
        "ParallelInterleaveDatasetV3": ParallelInterleaveDatasetV2,
        "ParallelMapDatasetV2": ParallelMapDataset,
    }
)
