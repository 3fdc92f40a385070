"""Summaries as serialised protocol buffers."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "AudioSummary",
    inputs=["tag: string", "tensor: float"],
    outputs=["summary: string"],
    attrs=["sample_rate: float", "max_outputs: int >= 1 = 3"],
    shape=scalars,
)
define(
    "AudioSummaryV2",
    inputs=["tag: string", "tensor: float", "sample_rate: float"],
    outputs=["summary: string"],
    attrs=["max_outputs: int >= 1 = 3"],
    shape=scalars,
)
define(
    "HistogramSummary",
    inputs=["tag: string", "values: T"],
    outputs=["summary: string"],
    attrs=["T: realnumbertype = float"],
    shape=scalars,
)
define(
    "ImageSummary",
    inputs=["tag: string", "tensor: T"],
    outputs=["summary: string"],
    attrs=[
        "max_images: int >= 1 = 3",
        "T: {uint8, float, half, double} = float",
        "bad_color: tensor = uint8[255, 0, 0, 255]",
    ],
    shape=scalars,
)
define(
    "MergeSummary",
    inputs=["inputs: N * string"],
    outputs=["summary: string"],
    attrs=["N: int >= 1"],
    shape=scalars,
)
define(
    "ScalarSummary",
    inputs=["tags: string", "values: T"],
    outputs=["summary: string"],
    attrs=["T: realnumbertype"],
    shape=scalars,
)
define(
    "TensorSummary",
    inputs=["tensor: T"],
    outputs=["summary: string"],
    attrs=["T: type", 'description: string = ""', "labels: list(string) = []", 'display_name: string = ""'],
    shape=scalars,
)
define(
    "TensorSummaryV2",
    inputs=["tag: string", "tensor: T", "serialized_summary_metadata: string"],
    outputs=["summary: string"],
    attrs=["T: type"],
    shape=scalars,
)
