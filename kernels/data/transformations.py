"""Datasets made of one other or of several, and settings of pipelines."""

from __future__ import annotations

from flowengine.kernels.data.datasets import register_datasets
from flowengine.resources.data.batches import (
    DenseToSparseBatchDataset,
    RebatchDataset,
    RebatchDatasetV2,
    UnbatchDataset,
)
from flowengine.resources.data.by_number.flattened import IndexFlatMapDataset
from flowengine.resources.data.by_number.shuffled import GlobalShuffleDataset
from flowengine.resources.data.choosing import (
    AssertCardinalityDataset,
    ChooseFastestBranchDataset,
    ChooseFastestDataset,
    DirectedInterleaveDataset,
    IgnoreErrorsDataset,
    SamplingDataset,
    UniqueDataset,
    WeightedFlatMapDataset,
    window,
)
from flowengine.resources.data.functional import ScanDataset, TakeWhileDataset
from flowengine.resources.data.ordering import SameDataset
from flowengine.resources.data.selecting import SleepDataset
from flowengine.resources.data.shuffling import ShuffleAndRepeatDataset, ShuffleDatasetV3
from flowengine.resources.data.sources import ListDataset, RandomDataset
from flowengine.resources.data.windows import (
    GroupByReducerDataset,
    GroupByWindowDataset,
    SlidingWindowDataset,
)

# Datasets made of another, as nodes. What they do stands in `resources/data/`.

register_datasets(
    {
        "DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset": DenseToSparseBatchDataset,
        "ExperimentalGroupByReducerDataset GroupByReducerDataset": GroupByReducerDataset,
        "ExperimentalGroupByWindowDataset GroupByWindowDataset": GroupByWindowDataset,
        "ExperimentalIgnoreErrorsDataset IgnoreErrorsDataset": IgnoreErrorsDataset,
        "ExperimentalRandomDataset RandomDataset RandomDatasetV2": RandomDataset,
        "ExperimentalRebatchDataset RebatchDataset": RebatchDataset,
        "ExperimentalScanDataset ScanDataset": ScanDataset,
        "ExperimentalSleepDataset SleepDataset": SleepDataset,
        "ExperimentalSlidingWindowDataset SlidingWindowDataset": SlidingWindowDataset,
        "ExperimentalTakeWhileDataset TakeWhileDataset": TakeWhileDataset,
        "ExperimentalUnbatchDataset": UnbatchDataset,
        "ExperimentalUniqueDataset UniqueDataset": UniqueDataset,
        "GlobalShuffleDataset": GlobalShuffleDataset,
        "IndexFlatMapDataset": IndexFlatMapDataset,
        "RebatchDatasetV2": RebatchDatasetV2,
        "SamplingDataset": SamplingDataset,
        "ShuffleAndRepeatDatasetV2": ShuffleAndRepeatDataset,
        "ShuffleDatasetV3": ShuffleDatasetV3,
    }
)


# Datasets of several others, as nodes. What they do stands in `resources/data/`.

register_datasets(
    {
        "ChooseFastestBranchDataset": ChooseFastestBranchDataset,
        "ChooseFastestDataset ExperimentalChooseFastestDataset": ChooseFastestDataset,
        "DirectedInterleaveDataset ExperimentalDirectedInterleaveDataset": DirectedInterleaveDataset,
        "ListDataset": ListDataset,
        "WeightedFlatMapDataset": WeightedFlatMapDataset,
        "WindowOp": window,
    }
)


# Datasets that say how TensorFlow computes another, as nodes. See `resources/data/`.

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
