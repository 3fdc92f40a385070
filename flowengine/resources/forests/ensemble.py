"""Boosted trees: an ensemble that grows, layer by layer, by the splits that training finds.

The last tree is the one that grows. When it is as deep as it may be it is finalised, pruned if that is asked
for, and followed by a tree of one leaf. The value of a leaf is the sum of what its path contributed. A node
that was split keeps the leaf that it was: predictions that examples brought along from an earlier step are
corrected by the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np

from flowengine.core.accounting import Account
from flowengine.core.arrays import Array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.ir.proto.boosted_trees_pb2 import (
    BucketizedSplit,
    CategoricalSplit,
    GrowingMetadata,
    Leaf,
    PrunedNode,
    Tree,
    TreeDebugOutput,
    TreeEnsemble,
    TreeMetadata,
    TreeNode,
)
from flowengine.resources.forests.messages import leaf_of, read, split_of, values_at, values_of, written
from flowengine.resources.forests.paths import Features, TreeArrays

NO_PRUNING: Final = 0
PRE_PRUNING: Final = 1
POST_PRUNING: Final = 2
#: The kinds of splits, by the names that ops give them.
DEFAULT_LEFT: Final = b"INEQUALITY_DEFAULT_LEFT"
DEFAULT_RIGHT: Final = b"INEQUALITY_DEFAULT_RIGHT"
EQUAL_DEFAULT_RIGHT: Final = b"EQUALITY_DEFAULT_RIGHT"
KINDS: Final = frozenset((DEFAULT_LEFT, DEFAULT_RIGHT, EQUAL_DEFAULT_RIGHT))
#: The weight of a tree whose leaves carry the learning rate.
_WEIGHT: Final = 1.0
#: The least change of the bias, relative to it, for which centring goes on.
_LEAST_CHANGE: Final = np.float32(0.01)
#: What a node takes in a tree and in its arrays, about.
_NODE_BYTES: Final = 600


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A split that training proposes for a node.

    left, right    what it adds to the logits of each side, learning rate included: float32
    kind           one of `KINDS`
    """

    feature_id: int
    dimension_id: int
    threshold: int
    gain: np.float32
    left: Sequence[np.float32]
    right: Sequence[np.float32]
    kind: bytes = DEFAULT_LEFT


class BoostedEnsemble:
    """An ensemble by name; it exists from `create` on.

    account    set by the resource manager: where the trees' bytes are booked
    """

    __slots__ = ("__weakref__", "_ensemble", "_lock", "_paths", "account", "container", "name", "stamp")

    def __init__(self, name: str, *, container: str = "") -> None:
        self.name = name
        self.container = container
        self.account: Account | None = None
        #: Grows with every update.
        self.stamp = -1
        self._ensemble: TreeEnsemble | None = None
        #: Of each tree its arrays; None where it has changed since.
        self._paths: list[TreeArrays | None] = []
        self._lock = Lock()

    @property
    def exists(self) -> bool:
        return self._ensemble is not None

    def create(self, stamp: int, serialized: bytes) -> None:
        """Take trees from their bytes, where there are none yet; InvalidArgumentError for other bytes."""
        with self._lock:
            found = self._read(serialized)
            if self._ensemble is None:
                self._keep(stamp, found)

    def restore(self, stamp: int, serialized: bytes) -> None:
        """Take trees in place of those that are there; NotFoundError before `create`."""
        with self._lock:
            self._existing()
            self._keep(stamp, self._read(serialized))

    def serialized(self) -> tuple[int, bytes]:
        """The stamp, and the trees as bytes."""
        with self._lock:
            return self.stamp, written(self._existing())

    def states(self) -> tuple[int, int, int, int, tuple[int, int]]:
        """The stamp, how many trees there are and how many of them are finalised, how many layers were tried,
        and the range of the last layer's nodes.
        """
        with self._lock:
            held = self._existing()
            trees = len(held.trees)
            finalised = trees if not trees or held.tree_metadata[-1].is_finalized else trees - 1
            growing = held.growing_metadata
            last = (growing.last_layer_node_start, max(1, growing.last_layer_node_end))
            return self.stamp, trees, finalised, growing.num_layers_attempted, last

    def predict(self, features: Features, logits: int) -> Array:
        """(examples, logits) float32: the sum of what all trees say."""
        total = np.zeros((features.examples, logits), np.float32)
        rows = np.arange(features.examples)
        roots = np.zeros(features.examples, np.int64)
        for paths, weight, _ in self._all_paths():
            total += weight * paths.values_at(paths.leaves(roots, features, rows), logits)
        return total

    def predict_further(
        self, tree_ids: Array, node_ids: Array, features: Features, logits: int
    ) -> tuple[Array, Array, Array]:
        """Compute the changes of predictions since examples were at tree nodes, and their current nodes.

        tree_ids, node_ids    (examples,) int32; a node of -1 stands for none, before the root of the tree
        returns               (examples, logits) float32, tree ids and node ids (examples,) int32
        """
        examples = features.examples
        changes = np.zeros((examples, logits), np.float32)
        every = self._all_paths()
        if not every:
            return changes, tree_ids.copy(), np.zeros(examples, np.int32)
        astray = (tree_ids < 0) | (tree_ids >= len(every))
        if astray.any():
            raise InvalidArgumentError(f"tree {int(tree_ids[astray][0])} is not in [0, {len(every)})")
        nodes = np.zeros(examples, np.int64)
        for place, (paths, weight, moved) in enumerate(every):
            # Examples whose tree is a later one are not there yet.
            rows = np.flatnonzero(tree_ids <= place)
            if not rows.size:
                continue
            here = np.zeros((len(rows), logits), np.float32)
            starts = np.zeros(len(rows), np.int64)
            cached = np.flatnonzero((tree_ids[rows] == place) & (node_ids[rows] >= 0))
            if cached.size:
                starts[cached], here[cached] = _since(paths, moved, node_ids[rows[cached]], logits)
            leaves = paths.leaves(starts, features, rows)
            changes[rows] += weight * (here + paths.values_at(leaves, logits))
            nodes[rows] = leaves
        return changes, np.full(examples, len(every) - 1, np.int32), nodes.astype(np.int32)

    def debug_outputs(self, features: Features) -> list[bytes]:
        """Of each example the features by which it was split and its logits on the way, as bytes."""
        every = self._all_paths()
        if not every:
            raise FailedPreconditionError(f"ensemble '{self.name}' has no tree to explain")
        first, weight, _ = every[0]
        bias = weight * first.values_at(np.zeros(1, np.int64), 1)[0, 0]
        outputs = [TreeDebugOutput(logits_path=[bias]) for _ in range(features.examples)]
        current = np.full(features.examples, bias, np.float32)
        past = np.zeros(features.examples, np.float32)
        for place, (paths, weight, _) in enumerate(every):
            nodes = np.zeros(features.examples, np.int64)
            paths.check_nodes(nodes)
            for _ in range(len(paths)):
                under_way = np.flatnonzero(~paths.is_leaf(nodes))
                if not under_way.size:
                    break
                split_by = paths.features_of(nodes[under_way]).tolist()
                nodes[under_way] = paths.next_nodes(nodes[under_way], features, under_way)
                current[under_way] = weight * paths.values_at(nodes[under_way], 1)[:, 0]
                logits = (current[under_way] + past[under_way]).tolist()
                for row, feature, logit in zip(under_way.tolist(), split_by, logits, strict=True):
                    outputs[row].feature_ids.append(feature)
                    outputs[row].logits_path.append(logit)
            counts = nodes > 0 if place else np.ones(len(nodes), bool)
            past[counts] += current[counts]
        return [each.SerializeToString(deterministic=True) for each in outputs]

    def grow(
        self, splits: Mapping[int, SplitCandidate], *, max_depth: int, pruning: int, logits: int
    ) -> None:
        """Split nodes of the last tree: a layer more.

        splits    {node of the tree that grows: its best split}
        logits    how many numbers a leaf has

        Where no split may be made, the stamp and the count of layers change and nothing else. For a split of
        what is no leaf InvalidArgumentError; nothing has changed then but the stamp.
        """
        with self._lock:
            held = self._existing()
            self.stamp += 1
            _check_leaves(held.trees[-1].nodes if held.trees else [TreeNode(leaf=Leaf())], splits, logits)
            if self.account is not None:
                self.account.check(2 * _NODE_BYTES * len(splits))
            growing = _count_attempt(held)
            if not held.trees:
                self._add_tree(held, [0.0] * logits)
            if not splits:
                return
            tree, metadata = held.trees[-1], held.tree_metadata[-1]
            start = len(tree.nodes)
            made = [n for n, each in sorted(splits.items()) if not (pruning == PRE_PRUNING and each.gain < 0)]
            for node_id in made:
                _split(tree, node_id, splits[node_id], logits)
            if not made:
                return
            self._paths[-1] = None
            metadata.num_layers_grown += 1
            last = (start, len(tree.nodes))
            if metadata.num_layers_grown >= max_depth:
                last = (0, 1)
                metadata.is_finalized = True
                if pruning == POST_PRUNING:
                    _prune(tree, metadata, logits)
                self._add_tree(held, [0.0] * logits)
            growing.last_layer_node_start, growing.last_layer_node_end = last
            self._book()

    def center_bias(self, change: np.float32) -> bool:
        """Add to the first tree's root; whether the change was large enough to go on centring."""
        with self._lock:
            held = self._existing()
            self.stamp += 1
            if not held.trees:
                self._add_tree(held, [float(change)])
                return True
            root = held.trees[0].nodes[0]
            values = values_at(root)
            bias = np.float32(values[0] if values else 0.0)
            with np.errstate(all="ignore"):
                goes_on = bool(np.abs(change / bias) > _LEAST_CHANGE)
            root.leaf.CopyFrom(Leaf(scalar=float(bias + change)))
            self._paths[0] = None
            return goes_on

    def _existing(self) -> TreeEnsemble:
        if self._ensemble is None:
            raise NotFoundError(
                f"Resource {self.container}/{self.name}/BoostedTreesEnsembleResource does not exist"
            )
        return self._ensemble

    def _read(self, serialized: bytes) -> TreeEnsemble:
        found = read(serialized, TreeEnsemble(), "tree ensemble proto")
        trees = len(found.trees)
        if len(found.tree_weights) != trees or len(found.tree_metadata) != trees:
            raise InvalidArgumentError(
                f"an ensemble of {trees} trees has {len(found.tree_weights)} weights and "
                f"{len(found.tree_metadata)} metadata"
            )
        if any(not tree.nodes for tree in found.trees):
            raise InvalidArgumentError("an ensemble has a tree without a node")
        if self.account is not None:
            self.account.check(_bytes_of(found))
        return found

    def _keep(self, stamp: int, ensemble: TreeEnsemble) -> None:
        self.stamp, self._ensemble = stamp, ensemble
        self._paths = [None] * len(ensemble.trees)
        self._book()

    def _book(self) -> None:
        if self.account is not None and self._ensemble is not None:
            self.account.book(self, _bytes_of(self._ensemble), self.name)

    def _add_tree(self, held: TreeEnsemble, values: list[float]) -> None:
        held.trees.add().nodes.add().leaf.CopyFrom(leaf_of(values))
        held.tree_weights.append(_WEIGHT)
        held.tree_metadata.add()
        self._paths.append(None)

    def _all_paths(self) -> list[tuple[TreeArrays, np.float32, Sequence[PrunedNode]]]:
        """The trees as they are now, with their weights, and where the nodes went that a tree had."""
        with self._lock:
            held = self._existing()
            found: list[tuple[TreeArrays, np.float32, Sequence[PrunedNode]]] = []
            for place, paths in enumerate(self._paths):
                if paths is None:
                    paths = self._paths[place] = TreeArrays(held.trees[place])
                metadata = held.tree_metadata[place]
                moved = metadata.post_pruned_nodes_meta if metadata.is_finalized else ()
                found.append((paths, np.float32(held.tree_weights[place]), moved))
            return found


def _bytes_of(ensemble: TreeEnsemble) -> int:
    return _NODE_BYTES * sum(len(tree.nodes) for tree in ensemble.trees)


def _since(paths: TreeArrays, moved: Sequence[PrunedNode], nodes: Array, logits: int) -> tuple[Array, Array]:
    """Find the current nodes of examples from earlier nodes, and correct their cached predictions.

    The results are the nodes, and the corrections as (nodes, logits) float32.
    """
    off = np.zeros((len(nodes), logits), np.float32)
    if moved:
        if nodes.max() >= len(moved):
            raise InvalidArgumentError(f"node {int(nodes.max())} is not in [0, {len(moved)})")
        changes = np.zeros((len(moved), logits), np.float32)
        for row, each in zip(changes, moved, strict=True):
            row[: len(each.logit_change)] = each.logit_change[:logits]
        off += changes[nodes]
        nodes = np.array([each.new_node_id for each in moved], np.int64)[nodes]
    paths.check_nodes(nodes)
    known = paths.sizes[nodes] > 0
    off[known] -= paths.values_at(nodes[known], logits)
    return nodes, off


def _check_leaves(nodes: Sequence[TreeNode], splits: Iterable[int], logits: int) -> None:
    """InvalidArgumentError where a node cannot be split: it is no leaf, or has other logits."""
    for node_id in splits:
        if not 0 <= node_id < len(nodes) or not nodes[node_id].HasField("leaf"):
            raise InvalidArgumentError(
                f"node {node_id} is no leaf of the tree that grows, which has {len(nodes)} nodes"
            )
        leaf = nodes[node_id].leaf
        if _is_kept(node_id, leaf) and len(values_of(leaf)) != logits:
            raise InvalidArgumentError(
                f"leaf {node_id} has {len(values_of(leaf))} values, its split {logits} logits"
            )


def _is_kept(node_id: int, leaf: Leaf) -> bool:
    """Whether a split keeps the leaf; the root's leaf of zero, as a tree begins, is not."""
    return node_id != 0 or leaf.HasField("vector") or leaf.scalar != 0


def _count_attempt(held: TreeEnsemble) -> GrowingMetadata:
    growing = held.growing_metadata
    growing.num_layers_attempted += 1
    trees = len(held.trees)
    if not trees or ((trees == 1 or held.tree_metadata[-2].is_finalized) and len(held.trees[-1].nodes) == 1):
        growing.num_trees_attempted += 1
    return growing


def _split(tree: Tree, node_id: int, each: SplitCandidate, logits: int) -> None:
    """Make a leaf a split with two leaves, which come at the end of the tree."""
    node = tree.nodes[node_id]
    left_id = len(tree.nodes)
    before: Sequence[float] = [0.0] * logits
    node.metadata.gain = float(each.gain)
    if _is_kept(node_id, node.leaf):
        node.metadata.original_leaf.CopyFrom(node.leaf)
        before = values_of(node.metadata.original_leaf)
    for contributions in (each.left, each.right):
        values = [float(np.float32(old) + new) for old, new in zip(before, contributions, strict=True)]
        tree.nodes.add().leaf.CopyFrom(leaf_of(values))
    said = {
        "feature_id": each.feature_id,
        "left_id": left_id,
        "right_id": left_id + 1,
        "dimension_id": each.dimension_id,
    }
    # One kind of node takes the place of the other.
    if each.kind == EQUAL_DEFAULT_RIGHT:
        node.categorical_split.CopyFrom(CategoricalSplit(value=each.threshold, **said))
    else:
        goes_right = int(each.kind == DEFAULT_RIGHT)
        node.bucketized_split.CopyFrom(
            BucketizedSplit(threshold=each.threshold, default_direction=goes_right, **said)
        )


def _prune(tree: Tree, metadata: TreeMetadata, logits: int) -> None:
    """Make leaves of the splits that lose, from the bottom up, and say where each node has gone."""
    nodes = tree.nodes
    #: {node that goes: (its parent, the parent's values less its own)}
    gone: dict[int, tuple[int, list[np.float32]]] = {}
    # Children come behind their parents, so that the reverse order is from the bottom up.
    for node_id in range(len(nodes) - 1, -1, -1):
        node = nodes[node_id]
        split = split_of(node)
        if split is None or not node.metadata.gain < 0:
            continue
        children = (split.left_id, split.right_id)
        if not all(nodes[child].HasField("leaf") for child in children):
            continue
        has_leaf = node.metadata.HasField("original_leaf")
        leaf = node.metadata.original_leaf if has_leaf else leaf_of([0.0] * logits)
        pruned = TreeNode()
        pruned.leaf.CopyFrom(leaf)
        node.CopyFrom(pruned)
        values = [np.float32(value) for value in values_at(node)]
        for child in children:
            own = values_at(nodes[child])
            gone[child] = (node_id, [a - np.float32(b) for a, b in zip(values, own, strict=True)])
    if not gone:
        return
    moved: dict[int, int] = {}
    for node_id in range(len(nodes)):
        if node_id not in gone:
            moved[node_id] = len(moved)
    for node_id in range(len(nodes)):
        change = [np.float32(0)] * logits
        place = node_id
        while place in gone:
            place, part = gone[place]
            change = [total + each for total, each in zip(change, part, strict=True)]
        metadata.post_pruned_nodes_meta.add(new_node_id=moved[place], logit_change=change)
    for node in nodes:
        split = split_of(node)
        if split is not None:
            split.left_id, split.right_id = moved[split.left_id], moved[split.right_id]
    tree.CopyFrom(Tree(nodes=[node for node_id, node in enumerate(nodes) if node_id in moved]))


__all__ = [
    "DEFAULT_LEFT",
    "DEFAULT_RIGHT",
    "EQUAL_DEFAULT_RIGHT",
    "KINDS",
    "NO_PRUNING",
    "POST_PRUNING",
    "PRE_PRUNING",
    "BoostedEnsemble",
    "SplitCandidate",
]
