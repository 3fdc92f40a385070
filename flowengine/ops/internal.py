"""Ops that passes make and users never write."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import OpDef
from flowengine.ir.traits import EveryCore, NetworkLayer

#: Many synchronous nodes compiled into one; its attribute `program` has no written form.
REGION = OpDef.parse("_Region(inputs: Tin) -> outputs: Tout", "stateful; Tin, Tout: list(type) >= 0")

#: A chain of elementwise nodes over large tensors; its attribute `program` has no written form.
FUSED_ELEMENTWISE = OpDef.parse(
    "_FusedElementwise(inputs: Tin) -> output: T", "Tin: list(type) >= 1; T: type", NetworkLayer()
)

#: A product or normalisation with the elementwise nodes behind it.
FUSED_CONTRACTION = OpDef.parse(
    "_FusedContraction(inputs: Tin) -> output: T",
    "Tin: list(type) >= 1; T: type",
    EveryCore(),
    NetworkLayer(is_large=True),
)

#: Large nodes that run one after another; its attribute `program` has no written form.
FUSED_SEQUENCE = OpDef.parse(
    "_FusedSequence(inputs: Tin) -> outputs: Tout", "Tin, Tout: list(type) >= 0", EveryCore()
)

_POOLING: Final = "T: type; ksize, strides: list(int) >= 4; padding, data_format: string"

#: `MaxPool`, which also gives where it has found the maxima, in a form of its kernel's own: empty where the
#: gradient has to look for them.
MAX_POOL_WITH_PLACES = OpDef.parse("_MaxPoolWithPlaces(input: T) -> output: T, places: uint8", _POOLING)

#: `MaxPoolGrad`, which is told where the maxima are.
MAX_POOL_GRAD_AT_PLACES = OpDef.parse(
    "_MaxPoolGradAtPlaces(orig_input, orig_output, grad: T, places: uint8) -> output: T",
    _POOLING,
    NetworkLayer(),
)

#: `FusedBatchNormV3` by the statistics of the batch, and the Relu of what it gives instead of that.
BATCH_NORM_RELU = OpDef.parse(
    "_BatchNormRelu(x: T, scale, offset, mean, variance: U) "
    "-> y: T, batch_mean, batch_variance, reserve_space_1, reserve_space_2, reserve_space_3: U",
    "T, U: type; epsilon: float; data_format: string; is_training: bool",
)

#: A product of matrices and the step of gradient descent along it; `program` has no written form.
DESCENT_BY_PRODUCT = OpDef.parse(
    "_DescentByProduct(var: Ref(T), alpha, a, b: T) -> out: Ref(T)", "stateful; T: type"
)

#: Steps of one optimizer on several variables by the same numbers; `program` has no written form.
GATHERED_UPDATES = OpDef.parse(
    "_GatheredUpdates(variables: V * Ref(T), numbers: M * T, gradients: N * T) -> outputs: N * Ref(T)",
    "stateful; T: type; V: int >= 1; M: int >= 0; N: int >= 1",
)
#: The same of variables by resource handle.
GATHERED_RESOURCE_UPDATES = OpDef.parse(
    "_GatheredResourceUpdates(variables: V * resource, numbers: M * T, gradients: N * T)",
    "stateful; T: type; V: int >= 1; M: int >= 0; N: int >= 1",
)
