"""Datasets whose elements come from several others, or from one of several."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "ChooseFastestBranchDataset(input_dataset: variant, ratio_numerator, ratio_denominator: int64, "
    "other_arguments: Targuments) -> handle: variant",
    "Targuments: list(type) >= 0; num_elements_per_branch: int >= 1; branches: list(func) >= 1; "
    "other_arguments_lengths: list(int) >= 1; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ChooseFastestDataset, ExperimentalChooseFastestDataset(input_datasets: N * variant) -> handle: variant",
    "N: int >= 2; num_experiments: int; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: N * variant) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; "
    "stop_on_empty_dataset: bool = false",
    Newer(("stop_on_empty_dataset",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalDirectedInterleaveDataset(selector_input_dataset: variant, "
    "data_input_datasets: N * variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ListDataset(tensors: Tinput_types) -> handle: variant",
    "stateful; Tinput_types, output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WeightedFlatMapDataset(input_datasets: N * variant, weights: M * double) -> handle: variant",
    "N, M: int >= 2; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WindowOp(inputs: Tinputs) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; Tinputs: list(type) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
