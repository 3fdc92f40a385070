"""Trees of random forests, made elsewhere."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dims_of, ranked, scalars

#: The handle is of a tree.
_USES: Final = Uses("tree_handle")

define(
    "TensorForestTreeResourceHandleOp() -> resource: resource",
    "stateful; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorForestTreeIsInitializedOp(tree_handle: resource) -> is_initialized: bool",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorForestTreeSerialize(tree_handle: resource) -> tree_config: string",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorForestTreeSize(tree_handle: resource) -> tree_size: int32",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "TensorForestCreateTreeVariable(tree_handle: resource, tree_config: string)",
    "stateful",
    _USES,
    NotDifferentiable(),
)
@define(
    "TensorForestTreeDeserialize(tree_handle: resource, tree_config: string)",
    "stateful",
    _USES,
    NotDifferentiable(),
)
def serialized(c: ShapeContext) -> Shapes:
    check_scalars(c, 1)
    return []


@define(
    "TensorForestTreePredict(tree_handle: resource, dense_features: float) -> logits: float",
    "stateful; logits_dimension: int",
    _USES,
    NotDifferentiable(),
)
def predict(c: ShapeContext) -> Shapes:
    """(examples, features) -> (examples, logits)"""
    return [TensorShape([dims_of(ranked(c, 1, 2), 2)[0], c.attrs["logits_dimension"]])]
