"""Datasets made of one other or of several, and settings of pipelines."""

from __future__ import annotations

from typing import Final

# Datasets made of another.

#: {why they have no record: ops}


# Datasets of several others.

#: {why they have no record: ops}


# Datasets that only say how TensorFlow computes another.

#: {why they have no record: ops}

EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset
        ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset
        ExperimentalIgnoreErrorsDataset ExperimentalRandomDataset ExperimentalRebatchDataset
        ExperimentalScanDataset ExperimentalSleepDataset ExperimentalSlidingWindowDataset
        ExperimentalTakeWhileDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset
        GlobalShuffleDataset GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset
        IndexFlatMapDataset RandomDataset RandomDatasetV2 RebatchDataset RebatchDatasetV2
        SamplingDataset ScanDataset ShuffleAndRepeatDatasetV2 ShuffleDatasetV3 SleepDataset
        SlidingWindowDataset TakeWhileDataset UniqueDataset ChooseFastestBranchDataset
        ChooseFastestDataset DirectedInterleaveDataset ExperimentalChooseFastestDataset
        ExperimentalDirectedInterleaveDataset ListDataset WeightedFlatMapDataset WindowOp
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
