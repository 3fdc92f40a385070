"""Datasets made of another."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset
        ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset
        ExperimentalIgnoreErrorsDataset ExperimentalRandomDataset ExperimentalRebatchDataset
        ExperimentalScanDataset ExperimentalSleepDataset ExperimentalSlidingWindowDataset
        ExperimentalTakeWhileDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset
        GlobalShuffleDataset GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset
        IndexFlatMapDataset RandomDataset RandomDatasetV2
        RebatchDataset RebatchDatasetV2 SamplingDataset ScanDataset ShuffleAndRepeatDatasetV2
        ShuffleDatasetV3 SleepDataset SlidingWindowDataset TakeWhileDataset UniqueDataset
    """,
}
