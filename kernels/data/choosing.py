"""Datasets of several others, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

from flowengine.kernels.data.datasets import register_datasets
from flowengine.resources.data.choosing import (
    ChooseFastestBranchDataset,
    ChooseFastestDataset,
    DirectedInterleaveDataset,
    WeightedFlatMapDataset,
    window,
)
from flowengine.resources.data.sources import ListDataset

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
