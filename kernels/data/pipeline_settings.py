"""Datasets that say how TensorFlow computes another, as nodes. See `resources/data/`."""

from __future__ import annotations

from flowengine.kernels.data.datasets import register_datasets
from flowengine.resources.data.choosing import AssertCardinalityDataset
from flowengine.resources.data.ordering import SameDataset

register_datasets(
    {
        "AssertCardinalityDataset": AssertCardinalityDataset,
        (
            "AssertNextDataset AssertPrevDataset AutoShardDataset BytesProducedStatsDataset "
            "ExperimentalAssertNextDataset ExperimentalAutoShardDataset "
            "ExperimentalBytesProducedStatsDataset ExperimentalLatencyStatsDataset "
            "ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset "
            "ExperimentalPrivateThreadPoolDataset ExperimentalSetStatsAggregatorDataset "
            "ExperimentalThreadPoolDataset FinalizeDataset LatencyStatsDataset "
            "MaxIntraOpParallelismDataset NonSerializableDataset OptimizeDatasetV2 OptionsDataset "
            "PrivateThreadPoolDataset RewriteDataset SetStatsAggregatorDataset ThreadPoolDataset"
        ): SameDataset,
    }
)
