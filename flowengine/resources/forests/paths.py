"""A tree as arrays, by which many examples find their leaves at once: a layer of all of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.ir.proto.boosted_trees_pb2 import CategoricalSplit, DenseSplit, Tree
from flowengine.resources.forests.messages import NodeSplit, split_of, values_at

_LEAF: Final = 0
_AT_MOST: Final = 1
_EQUAL: Final = 2
_NOTHING: Final = 3


class Features:
    """The features of examples as the columns of one matrix.

    matrix    (examples, columns)
    starts    the first column of each feature
    widths    how many columns each has to choose from; 0 where an example has one number, whatever is chosen
    """

    __slots__ = ("matrix", "starts", "widths")

    def __init__(self, matrix: Array, starts: Array, widths: Array) -> None:
        self.matrix, self.starts, self.widths = matrix, starts, widths

    @classmethod
    def of_columns(cls, columns: Sequence[Array]) -> Features:
        """Of one array a feature: (examples,), or (examples, dimensions) where it has several."""
        count = len(columns[0])
        if any(len(column) != count for column in columns):
            raise InvalidArgumentError(
                f"features are of different numbers of examples: {[len(column) for column in columns]}"
            )
        flat = [column[:, None] if column.ndim == 1 else column for column in columns]
        starts = np.cumsum([0, *(column.shape[1] for column in flat[:-1])]).astype(np.int64)
        widths = np.array([0 if column.ndim == 1 else column.shape[1] for column in columns], np.int64)
        return cls(np.concatenate(flat, axis=1), starts, widths)

    @classmethod
    def of_matrix(cls, matrix: Array) -> Features:
        """Of a matrix with a column a feature."""
        count = matrix.shape[1]
        return cls(matrix, np.arange(count), np.zeros(count, np.int64))

    @property
    def examples(self) -> int:
        return len(self.matrix)


class TreeArrays:
    """The nodes of a tree as arrays; does not change.

    values    (nodes, most values of a node) float32, zeros where a node has fewer
    sizes     (nodes,) how many values each node has
    """

    __slots__ = ("_dimensions", "_features", "_kinds", "_left", "_right", "_thresholds", "sizes", "values")

    def __init__(self, tree: Tree) -> None:
        nodes, count = tree.nodes, len(tree.nodes)
        self._kinds = np.array([_KINDS[node.WhichOneof("node")] for node in nodes], np.int8)
        splits = [split_of(node) or _NO_SPLIT for node in nodes]
        self._features = np.array([each.feature_id for each in splits], np.int64)
        self._dimensions = np.array(
            [0 if isinstance(each, DenseSplit) else each.dimension_id for each in splits], np.int64
        )
        self._thresholds = np.array([_threshold(each) for each in splits])
        if all(isinstance(each, DenseSplit) or each is _NO_SPLIT for each in splits):
            self._thresholds = self._thresholds.astype(np.float32)
        self._left = np.array([each.left_id for each in splits], np.int64)
        self._right = np.array([each.right_id for each in splits], np.int64)
        split = (self._kinds == _AT_MOST) | (self._kinds == _EQUAL)
        for children in (self._left, self._right):
            astray = split & ((children < 0) | (children >= count))
            if astray.any():
                raise InvalidArgumentError(
                    f"a tree of {count} nodes has one with the child {int(children[astray][0])}"
                )
        listed = [values_at(node) for node in nodes]
        self.sizes = np.array([len(each) for each in listed], np.int64)
        self.values = np.zeros((count, max(map(len, listed), default=0)), np.float32)
        for row, each in zip(self.values, listed, strict=True):
            row[: len(each)] = each

    def __len__(self) -> int:
        return len(self._kinds)

    def check_nodes(self, nodes: Array) -> None:
        """InvalidArgumentError for a node that the tree has not."""
        astray = (nodes < 0) | (nodes >= len(self))
        if astray.any():
            raise InvalidArgumentError(f"node {int(nodes[astray][0])} is not in [0, {len(self)})")

    def is_leaf(self, nodes: Array) -> Array:
        found: Array = self._kinds[nodes] == _LEAF
        return found

    def features_of(self, nodes: Array) -> Array:
        """The features by which nodes split."""
        found: Array = self._features[nodes]
        return found

    def next_nodes(self, nodes: Array, features: Features, rows: Array) -> Array:
        """The child of each of some splits to which an example goes, whose row of the features is given.

        InvalidArgumentError for a split by a feature that is not there.
        """
        kinds = self._kinds[nodes]
        if (kinds == _NOTHING).any():
            raise InvalidArgumentError("a node of the tree is neither a leaf nor a split")
        chosen, dimensions = self._features[nodes], self._dimensions[nodes]
        astray = (chosen < 0) | (chosen >= len(features.starts))
        if astray.any():
            raise InvalidArgumentError(
                f"a tree splits by feature {int(chosen[astray][0])}, but there are {len(features.starts)}"
            )
        widths = features.widths[chosen]
        # A feature of one number for each example has no dimensions to choose from.
        dimensions = np.where(widths == 0, 0, dimensions)
        astray = (dimensions < 0) | (dimensions >= np.maximum(widths, 1))
        if astray.any():
            raise InvalidArgumentError(
                f"a tree splits by dimension {int(dimensions[astray][0])} of feature "
                f"{int(chosen[astray][0])}, which has {int(widths[astray][0])}"
            )
        values = features.matrix[rows, features.starts[chosen] + dimensions]
        limits = self._thresholds[nodes]
        goes_left = np.where(kinds == _EQUAL, values == limits, values <= limits)
        found: Array = np.where(goes_left, self._left[nodes], self._right[nodes])
        return found

    def leaves(self, nodes: Array, features: Features, rows: Array) -> Array:
        """The leaves to which examples come from some nodes; InvalidArgumentError where there is no end."""
        nodes = np.array(nodes, np.int64)
        self.check_nodes(nodes)
        for _ in range(len(self)):
            under_way = np.flatnonzero(~self.is_leaf(nodes))
            if not under_way.size:
                return nodes
            nodes[under_way] = self.next_nodes(nodes[under_way], features, rows[under_way])
        if not self.is_leaf(nodes).all():
            raise InvalidArgumentError("a path through the tree does not end")
        return nodes

    def values_at(self, nodes: Array, logits: int) -> Array:
        """(nodes, logits): the values of nodes; InternalError where a node has another number of them."""
        sizes = self.sizes[nodes]
        wrong = sizes != logits
        if wrong.any():
            raise InternalError(f"a node has {int(sizes[wrong][0])} values, not {logits} as there are logits")
        found: Array = self.values[nodes]
        return found[:, :logits]


_NO_SPLIT: Final[NodeSplit] = DenseSplit()


#: {kind of node: what becomes of an example there}
_KINDS: Final = {
    "leaf": _LEAF,
    "bucketized_split": _AT_MOST,
    "categorical_split": _EQUAL,
    "dense_split": _AT_MOST,
    None: _NOTHING,
}


def _threshold(split: NodeSplit) -> float:
    return split.value if isinstance(split, CategoricalSplit) else split.threshold


__all__ = ["Features", "TreeArrays"]
