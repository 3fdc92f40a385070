"""Datasets of files in further formats, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Any

from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import path_of, require_reading, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.datasets import origin_of, register_datasets
from flowengine.kernels.io.files import matching
from flowengine.kernels.registry import kernel
from flowengine.resources.data.files import lmdb_dataset, tf_record_dataset
from flowengine.resources.data.matching import MatchingFilesDataset

register_datasets(
    {
        "ExperimentalLMDBDataset LMDBDataset": lmdb_dataset,
        "TFRecordDatasetV2": tf_record_dataset,
    }
)


@kernel("ExperimentalMatchingFilesDataset", "MatchingFilesDataset", heavy=False)
def matching_files_dataset(patterns: Any, *, ctx: KernelContext, node: Node) -> MatchingFilesDataset:
    """A dataset (variant, rank 0) of the files that match patterns.

    Its elements raise PermissionDeniedError where the configuration forbids to read what a pattern names.
    """

    def matches(pattern: bytes) -> list[bytes]:
        path = path_of(pattern, "pattern")
        require_reading(ctx, path)
        try:
            return matching([path])
        except OSError as error:
            raise translated(error, path) from error

    return MatchingFilesDataset(origin_of(ctx, node, (patterns,)), patterns, matches)
