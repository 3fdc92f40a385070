"""Datasets, which are objects."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset
        FilterByLastComponentDataset FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
        FlatMapDataset GeneratorDataset InterleaveDataset MapDataset ModelDataset OptimizeDataset
        PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDatasetV2 ParallelMapDataset
        PrefetchDataset RangeDataset RepeatDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset
        ShuffleDatasetV2 SkipDataset SparseTensorSliceDataset TFRecordDataset TextLineDataset TakeDataset
        TensorDataset TensorSliceDataset UnbatchDataset UnwrapDatasetVariant WindowDataset
        WrapDatasetVariant ZipDataset
    """,
}
