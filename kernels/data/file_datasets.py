"""Datasets of files in further formats, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.data.datasets import made_dataset
from flowengine.kernels.registry import kernel

_OPS: Final = """
    ExperimentalLMDBDataset LMDBDataset TFRecordDatasetV2
"""

kernel(*_OPS.split(), heavy=False)(made_dataset)
