"""Trees of random forests as nodes. The handle that flows is the tree."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.training.tree_ensembles import text_of
from flowengine.resources.forests.tree import ForestTree
from flowengine.resources.names import resource_name

HOST: Final = "trees are objects in host memory, and what TensorFlow has for CPUs alone"


@kernel("TensorForestTreeResourceHandleOp", heavy=False)
def tree_handle(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> ForestTree:
    """The tree of this container and name, which need not exist yet."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(where, name, ForestTree, lambda: ForestTree(name, container=where))


def _checked(handle: Any) -> ForestTree:
    if isinstance(handle, ForestTree):
        return handle
    raise InvalidArgumentError(f"the handle of a forest's tree is wanted, not a {type(handle).__name__}")


@kernel("TensorForestTreeIsInitializedOp", heavy=False)
def is_initialized(tree_handle: Any) -> Any:
    """Whether the tree was created (bool, rank 0)."""
    return np.bool_(_checked(tree_handle).exists)


@kernel("TensorForestCreateTreeVariable")
def create_tree(tree_handle: Any, tree_config: Any) -> None:
    """Make the tree of bytes, where there is none yet."""
    _checked(tree_handle).create(text_of(tree_config, "tree_config"))


@kernel("TensorForestTreeDeserialize")
def deserialize_tree(tree_handle: Any, tree_config: Any) -> None:
    """Make the tree anew, of bytes."""
    _checked(tree_handle).restore(text_of(tree_config, "tree_config"))


@kernel("TensorForestTreeSerialize", heavy=False)
def serialize_tree(tree_handle: Any) -> bytes:
    """The bytes of the tree."""
    return _checked(tree_handle).serialized()


@kernel("TensorForestTreeSize", heavy=False)
def tree_size(tree_handle: Any) -> Any:
    """How many nodes the tree has (int32, rank 0)."""
    return np.int32(_checked(tree_handle).size())


@kernel("TensorForestTreePredict", fresh=True)
def predict(tree_handle: Any, dense_features: Array, *, logits_dimension: int) -> Array:
    """The values at the leaves of examples: (examples, features) -> (examples, logits)."""
    if dense_features.ndim != 2:
        raise InvalidArgumentError(
            f"dense_features must be a matrix, not of shape {brackets(dense_features.shape)}"
        )
    if logits_dimension < 0:
        raise InvalidArgumentError(f"logits_dimension must not be negative, but is {logits_dimension}")
    return _checked(tree_handle).predict(dense_features, logits_dimension)
