"""Datasets of several others."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        ChooseFastestBranchDataset ChooseFastestDataset DirectedInterleaveDataset
        ExperimentalChooseFastestDataset ExperimentalDirectedInterleaveDataset ListDataset
        WeightedFlatMapDataset WindowOp
    """,
}
