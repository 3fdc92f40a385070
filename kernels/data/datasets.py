"""Datasets as nodes: each gives a variant that holds one. What they do stands in `resources/data/`."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Final

from flowengine.core.errors import FailedPreconditionError
from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import path_of, require_reading, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.data import (  # noqa: F401 (they register the datasets)
    batches,
    caching,
    choosing,
    files,
    interleaving,
    parallel_interleaving,
    shuffling,
    windows,
)
from flowengine.resources.data.dataset import Dataset, Origin, make_dataset

_OPS: Final = """
    BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset
    FilterByLastComponentDataset FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
    FlatMapDataset GeneratorDataset InterleaveDataset MapDataset ModelDataset OptimizeDataset
    PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDatasetV2 ParallelMapDataset
    PrefetchDataset RangeDataset RepeatDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset
    ShuffleDatasetV2 SkipDataset SparseTensorSliceDataset TFRecordDataset TextLineDataset TakeDataset
    TensorDataset TensorSliceDataset UnbatchDataset UnwrapDatasetVariant WindowDataset
    WrapDatasetVariant ZipDataset
"""


def _opener(ctx: KernelContext) -> Callable[[bytes], BinaryIO]:
    def opened(name: bytes) -> BinaryIO:
        path = path_of(name)
        require_reading(ctx, path)
        if os.path.isdir(path):
            data = os.path.join(path, "data.mdb")
            if not os.path.exists(data):
                raise FailedPreconditionError(f"{path} is a directory")
            path = data
        try:
            return open(path, "rb")
        except OSError as error:
            raise translated(error, path) from error

    return opened


def origin_of(ctx: KernelContext, node: Node, inputs: tuple[Any, ...]) -> Origin:
    """What a node makes its dataset of."""
    return Origin(
        op=node.op,
        attrs=node.attrs,
        inputs=inputs,
        name=node.name,
        caller=ctx.functions,
        resources=ctx.resources,
        opener=_opener(ctx),
        may_write=partial(require_writing, ctx),
    )


@kernel(*_OPS.split(), heavy=False)
def made_dataset(*inputs: Any, ctx: KernelContext, node: Node) -> Dataset:
    """The dataset (variant, rank 0) that a node describes. InvalidArgumentError for unfit inputs."""
    return make_dataset(origin_of(ctx, node, inputs))
