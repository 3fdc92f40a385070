"""Ops that passes make and users never write."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import OpDef

#: Many synchronous nodes compiled into one; its attribute `program` has no written form.
REGION = OpDef.build(
    "_Region",
    inputs=["inputs: Tin"],
    outputs=["outputs: Tout"],
    attrs=["Tin: list(type) >= 0", "Tout: list(type) >= 0"],
    is_stateful=True,
)

#: A chain of elementwise nodes over large tensors; its attribute `program` has no written form.
FUSED_ELEMENTWISE = OpDef.build(
    "_FusedElementwise",
    inputs=["inputs: Tin"],
    outputs=["output: T"],
    attrs=["Tin: list(type) >= 1", "T: type"],
)

#: A product or normalisation with the elementwise nodes behind it.
FUSED_CONTRACTION = OpDef.build(
    "_FusedContraction",
    inputs=["inputs: Tin"],
    outputs=["output: T"],
    attrs=["Tin: list(type) >= 1", "T: type"],
)

#: Large nodes that run one after another; its attribute `program` has no written form.
FUSED_SEQUENCE = OpDef.build(
    "_FusedSequence",
    inputs=["inputs: Tin"],
    outputs=["outputs: Tout"],
    attrs=["Tin: list(type) >= 0", "Tout: list(type) >= 0"],
)

_POOLING: Final = (
    "T: type",
    "ksize: list(int) >= 4",
    "strides: list(int) >= 4",
    "padding: string",
    "data_format: string",
)

#: `MaxPool`, which also gives where it has found the maxima, in a form of its kernel's own: empty where the
#: gradient has to look for them.
MAX_POOL_WITH_PLACES = OpDef.build(
    "_MaxPoolWithPlaces",
    inputs=["input: T"],
    outputs=["output: T", "places: uint8"],
    attrs=_POOLING,
)

#: `MaxPoolGrad`, which is told where the maxima are.
MAX_POOL_GRAD_AT_PLACES = OpDef.build(
    "_MaxPoolGradAtPlaces",
    inputs=["orig_input: T", "orig_output: T", "grad: T", "places: uint8"],
    outputs=["output: T"],
    attrs=_POOLING,
)

#: `FusedBatchNormV3` by the statistics of the batch, and the Relu of what it gives instead of that.
BATCH_NORM_RELU = OpDef.build(
    "_BatchNormRelu",
    inputs=["x: T", "scale: U", "offset: U", "mean: U", "variance: U"],
    outputs=[
        "y: T",
        "batch_mean: U",
        "batch_variance: U",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ],
    attrs=["T: type", "U: type", "epsilon: float", "data_format: string", "is_training: bool"],
)

#: A product of matrices and the step of gradient descent along it; `program` has no written form.
DESCENT_BY_PRODUCT = OpDef.build(
    "_DescentByProduct",
    inputs=["var: Ref(T)", "alpha: T", "a: T", "b: T"],
    outputs=["out: Ref(T)"],
    attrs=["T: type"],
    is_stateful=True,
)

#: Steps of one optimizer on several variables by the same numbers; `program` has no written form.
GATHERED_UPDATES = OpDef.build(
    "_GatheredUpdates",
    inputs=["variables: V * Ref(T)", "numbers: M * T", "gradients: N * T"],
    outputs=["outputs: N * Ref(T)"],
    attrs=["T: type", "V: int >= 1", "M: int >= 0", "N: int >= 1"],
    is_stateful=True,
)
