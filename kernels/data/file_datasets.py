"""Datasets of files in further formats, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from flowengine.kernels.data.datasets import register_datasets
from flowengine.resources.data.files import lmdb_dataset, tf_record_dataset

register_datasets(
    {
        "ExperimentalLMDBDataset LMDBDataset": lmdb_dataset,
        "TFRecordDatasetV2": tf_record_dataset,
    }
)
