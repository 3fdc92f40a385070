"""Datasets as nodes: each gives a variant that holds one. What they do stands in `resources/data/`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

from flowengine.core.errors import FailedPreconditionError
from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import path_of, require_reading, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.data.batches import BatchDataset, PaddedBatchDataset, UnbatchDataset
from flowengine.resources.data.caching import CacheDataset
from flowengine.resources.data.dataset import DatasetValue, Origin
from flowengine.resources.data.files import fixed_length_record_dataset, text_line_dataset, tf_record_dataset
from flowengine.resources.data.functional import FilterDataset, MapDataset
from flowengine.resources.data.interleaving import FlatMapDataset, InterleaveDataset
from flowengine.resources.data.ordering import (
    ConcatenateDataset,
    RepeatDataset,
    SameDataset,
    SkipDataset,
    TakeDataset,
    ZipDataset,
)
from flowengine.resources.data.parallel import ParallelMapDataset, PrefetchDataset
from flowengine.resources.data.parallel_interleaving import ParallelInterleaveDatasetV2
from flowengine.resources.data.selecting import FilterByLastComponentDataset, ShardDataset
from flowengine.resources.data.shuffling import (
    OptimizeDataset,
    ShuffleAndRepeatDataset,
    ShuffleDataset,
    ShuffleDatasetV2,
)
from flowengine.resources.data.sources import (
    GeneratorDataset,
    RangeDataset,
    SparseTensorSliceDataset,
    TensorDataset,
    TensorSliceDataset,
    wrapped,
)
from flowengine.resources.data.windows import WindowDataset


def _opener(ctx: KernelContext) -> Callable[[bytes], BinaryIO]:
    def opened(name: bytes) -> BinaryIO:
        path = path_of(name)
        require_reading(ctx, path)
        if ctx.files.is_folder(path):
            data = os.path.join(path, "data.mdb")
            if not ctx.files.exists(data):
                raise FailedPreconditionError(f"{path} is a directory")
            path = data
        try:
            return ctx.files.open(path)
        except OSError as error:
            raise translated(error, path) from error

    return opened


def origin_of(ctx: KernelContext, node: Node, inputs: tuple[Any, ...]) -> Origin:
    """Return the origin of a node's dataset."""
    return Origin(
        op=node.op,
        attrs=node.attrs,
        inputs=inputs,
        name=node.name,
        caller=ctx.functions,
        resources=ctx.resources,
        opener=_opener(ctx),
        files=ctx.files,
        may_write=partial(require_writing, ctx),
    )


def register_datasets(makers: Mapping[str, Callable[..., DatasetValue]]) -> None:
    """Register kernels that give datasets (variant, rank 0).

    makers   {ops: what makes their dataset, from its origin and the inputs; it says what is wrong with them}
    """
    for ops, make in makers.items():
        kernel(*ops.split(), heavy=False)(_making(make))


def _making(make: Callable[..., DatasetValue]) -> Callable[..., DatasetValue]:
    def made_dataset(*inputs: Any, ctx: KernelContext, node: Node) -> DatasetValue:
        return make(origin_of(ctx, node, inputs), *inputs)

    return made_dataset


register_datasets(
    {
        "BatchDataset BatchDatasetV2": BatchDataset,
        "CacheDataset CacheDatasetV2": CacheDataset,
        "ConcatenateDataset": ConcatenateDataset,
        "FilterByLastComponentDataset": FilterByLastComponentDataset,
        "FilterDataset": FilterDataset,
        "FixedLengthRecordDataset FixedLengthRecordDatasetV2": fixed_length_record_dataset,
        "FlatMapDataset": FlatMapDataset,
        "GeneratorDataset": GeneratorDataset,
        "InterleaveDataset": InterleaveDataset,
        "MapDataset": MapDataset,
        "ModelDataset": SameDataset,
        "OptimizeDataset": OptimizeDataset,
        "PaddedBatchDataset PaddedBatchDatasetV2": PaddedBatchDataset,
        "ParallelInterleaveDatasetV2": ParallelInterleaveDatasetV2,
        "ParallelMapDataset": ParallelMapDataset,
        "PrefetchDataset": PrefetchDataset,
        "RangeDataset": RangeDataset,
        "RepeatDataset": RepeatDataset,
        "ShardDataset": ShardDataset,
        "ShuffleAndRepeatDataset": ShuffleAndRepeatDataset,
        "ShuffleDataset": ShuffleDataset,
        "ShuffleDatasetV2": ShuffleDatasetV2,
        "SkipDataset": SkipDataset,
        "SparseTensorSliceDataset": SparseTensorSliceDataset,
        "TFRecordDataset": tf_record_dataset,
        "TakeDataset": TakeDataset,
        "TensorDataset": TensorDataset,
        "TensorSliceDataset": TensorSliceDataset,
        "TextLineDataset": text_line_dataset,
        "UnbatchDataset": UnbatchDataset,
        "UnwrapDatasetVariant WrapDatasetVariant": wrapped,
        "WindowDataset": WindowDataset,
        "ZipDataset": ZipDataset,
    }
)
