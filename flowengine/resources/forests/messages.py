"""Contents of trees, read from the messages of TensorFlow's `boosted_trees.proto`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from flowengine.core.accounting import ask_for
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto.boosted_trees_pb2 import (
    BucketizedSplit,
    CategoricalSplit,
    DenseSplit,
    Leaf,
    LeafVector,
    Tree,
    TreeEnsemble,
    TreeNode,
)
from flowengine.ir.proto.reading import parsed

NodeSplit: TypeAlias = BucketizedSplit | CategoricalSplit | DenseSplit
Held = TypeVar("Held", Tree, TreeEnsemble)

#: A message of nothing is two bytes, and takes 48 in memory.
_BYTES_A_BYTE = 24


def read(serialized: bytes, message: Held, what: str) -> Held:
    """Trees from their bytes.

    Raises InvalidArgumentError, which says what cannot be parsed, for other bytes, and ResourceExhaustedError
    where there is no room for what they could hold.
    """
    ask_for(_BYTES_A_BYTE * len(serialized))
    try:
        return parsed(serialized, message)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"Unable to parse {what}: {error.message}") from None


def written(message: Tree | TreeEnsemble) -> bytes:
    """The bytes of trees."""
    return bytes(message.SerializeToString(deterministic=True))


def leaf_of(values: Sequence[float]) -> Leaf:
    """A leaf with one value or a vector of several."""
    return Leaf(scalar=values[0]) if len(values) == 1 else Leaf(vector=LeafVector(value=values))


def values_of(leaf: Leaf) -> Sequence[float]:
    return leaf.vector.value if leaf.HasField("vector") else [leaf.scalar]


def values_at(node: TreeNode) -> Sequence[float]:
    """Return the values of a leaf, or of the leaf before the split; an empty list if there was none."""
    if node.HasField("leaf"):
        return values_of(node.leaf)
    return values_of(node.metadata.original_leaf) if node.metadata.HasField("original_leaf") else []


def split_of(node: TreeNode) -> NodeSplit | None:
    """How a node splits; None for a leaf, and for a node that says nothing."""
    kind = node.WhichOneof("node")
    split: NodeSplit | None = None if kind in (None, "leaf") else getattr(node, kind)
    return split


__all__ = ["NodeSplit", "leaf_of", "read", "split_of", "values_at", "values_of", "written"]
