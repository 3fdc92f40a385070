"""Reductions over segments whose number is given. Ids are in order, which is of no consequence here."""

from __future__ import annotations

from flowengine.kernels.math.segments import (
    unsorted_segment_max,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sum,
)
from flowengine.kernels.registry import kernel

kernel("SegmentSumV2", fresh=True, host=("num_segments",))(unsorted_segment_sum)
kernel("SegmentProdV2", fresh=True, host=("num_segments",))(unsorted_segment_prod)
kernel("SegmentMaxV2", fresh=True, host=("num_segments",))(unsorted_segment_max)
kernel("SegmentMinV2", fresh=True, host=("num_segments",))(unsorted_segment_min)
