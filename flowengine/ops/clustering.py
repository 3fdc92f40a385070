"""Choosing and finding cluster centres."""

from __future__ import annotations

from flowengine.ops.registry import define

define("KMC2ChainInitialization", inputs=["distances: float", "seed: int64"], outputs=["index: int64"])
define(
    "KmeansPlusPlusInitialization",
    inputs=["points: float", "num_to_sample: int64", "seed: int64", "num_retries_per_sample: int64"],
    outputs=["samples: float"],
)
define(
    "NearestNeighbors",
    inputs=["points: float", "centers: float", "k: int64"],
    outputs=["nearest_center_indices: int64", "nearest_center_distances: float"],
)
