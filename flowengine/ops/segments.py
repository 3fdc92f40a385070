"""Reductions over segments of rows."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "SegmentMax",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}"],
)
define(
    "SegmentMean",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
)
define(
    "SegmentMin",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}"],
)
define(
    "SegmentProd",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
)
define(
    "SegmentSum",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
)
define(
    "SparseSegmentMean",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
)
define(
    "SparseSegmentMeanGrad",
    inputs=["grad: T", "indices: Tidx", "segment_ids: int32", "output_dim0: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
)
define(
    "SparseSegmentMeanWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "SparseSegmentSqrtN",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
)
define(
    "SparseSegmentSqrtNGrad",
    inputs=["grad: T", "indices: Tidx", "segment_ids: int32", "output_dim0: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
)
define(
    "SparseSegmentSqrtNWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "SparseSegmentSum",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "SparseSegmentSumWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "UnsortedSegmentMax",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "UnsortedSegmentMin",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "UnsortedSegmentProd",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
)
define(
    "UnsortedSegmentSum",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
)
