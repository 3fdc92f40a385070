"""Datasets of several others, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.data.datasets import made_dataset
from flowengine.kernels.registry import kernel

_OPS: Final = """
    ChooseFastestBranchDataset ChooseFastestDataset DirectedInterleaveDataset
    ExperimentalChooseFastestDataset ExperimentalDirectedInterleaveDataset ListDataset
    WeightedFlatMapDataset WindowOp
"""

kernel(*_OPS.split(), heavy=False)(made_dataset)
