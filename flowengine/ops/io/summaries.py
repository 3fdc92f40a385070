"""Summaries as serialised protocol buffers."""

from __future__ import annotations

from flowengine.ir.traits import Bookkeeping, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "AudioSummary(tag: string, tensor: float) -> summary: string",
    "sample_rate: float; max_outputs: int >= 1 = 3",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AudioSummaryV2(tag: string, tensor, sample_rate: float) -> summary: string",
    "max_outputs: int >= 1 = 3",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "HistogramSummary(tag: string, values: T) -> summary: string",
    "T: realnumbertype = float",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ImageSummary(tag: string, tensor: T) -> summary: string",
    "max_images: int >= 1 = 3; T: {uint8, float, half, double} = float",
    "bad_color: tensor = uint8[255, 0, 0, 255]",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MergeSummary(inputs: N * string) -> summary: string",
    "N: int >= 1",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ScalarSummary(tags: string, values: T) -> summary: string",
    "T: realnumbertype",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorSummary(tensor: T) -> summary: string",
    "T: type; description: string = ''; labels: list(string) = []; display_name: string = ''",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> summary: string",
    "T: type",
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
