"""Datasets that only say how TensorFlow computes another."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset
        BytesProducedStatsDataset ExperimentalAssertNextDataset ExperimentalAutoShardDataset
        ExperimentalBytesProducedStatsDataset ExperimentalLatencyStatsDataset
        ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset
        ExperimentalPrivateThreadPoolDataset ExperimentalSetStatsAggregatorDataset
        ExperimentalThreadPoolDataset FinalizeDataset LatencyStatsDataset
        MaxIntraOpParallelismDataset NonSerializableDataset OptimizeDatasetV2 OptionsDataset
        PrivateThreadPoolDataset RewriteDataset SetStatsAggregatorDataset ThreadPoolDataset
    """,
}
