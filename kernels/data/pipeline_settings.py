"""Datasets that say how TensorFlow computes another, as nodes. See `resources/data/`."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.data.datasets import made_dataset
from flowengine.kernels.registry import kernel

_OPS: Final = """
    AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset
    BytesProducedStatsDataset ExperimentalAssertNextDataset ExperimentalAutoShardDataset
    ExperimentalBytesProducedStatsDataset ExperimentalLatencyStatsDataset
    ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset
    ExperimentalPrivateThreadPoolDataset ExperimentalSetStatsAggregatorDataset
    ExperimentalThreadPoolDataset FinalizeDataset LatencyStatsDataset MaxIntraOpParallelismDataset
    NonSerializableDataset OptimizeDatasetV2 OptionsDataset PrivateThreadPoolDataset RewriteDataset
    SetStatsAggregatorDataset ThreadPoolDataset
"""

kernel(*_OPS.split(), heavy=False)(made_dataset)
