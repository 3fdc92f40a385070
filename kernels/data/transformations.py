"""Datasets made of another, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.data.datasets import made_dataset
from flowengine.kernels.registry import kernel

_OPS: Final = """
    DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset ExperimentalGroupByReducerDataset
    ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset ExperimentalRandomDataset
    ExperimentalRebatchDataset ExperimentalScanDataset ExperimentalSleepDataset
    ExperimentalSlidingWindowDataset ExperimentalTakeWhileDataset ExperimentalUnbatchDataset
    ExperimentalUniqueDataset GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset
    RandomDataset RandomDatasetV2 RebatchDataset RebatchDatasetV2 SamplingDataset ScanDataset
    ShuffleAndRepeatDatasetV2 ShuffleDatasetV3 SleepDataset SlidingWindowDataset TakeWhileDataset
    UniqueDataset
"""

kernel(*_OPS.split(), heavy=False)(made_dataset)
