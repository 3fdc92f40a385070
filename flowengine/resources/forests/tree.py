"""A tree of a random forest, as TensorFlow's TensorForest keeps one: made elsewhere, and asked here."""

from __future__ import annotations

from threading import Lock

import numpy as np

from flowengine.core.accounting import Account
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.proto.boosted_trees_pb2 import Tree
from flowengine.resources.forests.messages import read, written
from flowengine.resources.forests.paths import Features, TreeArrays

#: What a node takes in a tree and in its arrays, about.
_NODE_BYTES = 400


class ForestTree:
    """A tree by name; it exists from `create` on.

    account    set by the resource manager: where the tree's bytes are booked
    """

    __slots__ = ("__weakref__", "_lock", "_paths", "_serialized", "account", "container", "name")

    def __init__(self, name: str, *, container: str = "") -> None:
        self.name = name
        self.container = container
        self.account: Account | None = None
        self._serialized = b""
        self._paths: TreeArrays | None = None
        self._lock = Lock()

    @property
    def exists(self) -> bool:
        return self._paths is not None

    def create(self, serialized: bytes) -> None:
        """Take a tree from its bytes, where there is none yet; InvalidArgumentError for what is no tree."""
        with self._lock:
            found = self._read(serialized)
            if self._paths is None:
                self._keep(*found)

    def restore(self, serialized: bytes) -> None:
        """Take a tree in place of the one that is there; NotFoundError where none is."""
        with self._lock:
            self._existing()
            self._keep(*self._read(serialized))

    def serialized(self) -> bytes:
        """The tree's bytes."""
        with self._lock:
            self._existing()
            return self._serialized

    def size(self) -> int:
        """How many nodes there are."""
        return len(self._existing())

    def predict(self, features: Array, logits: int) -> Array:
        """The values at the leaves of examples: (examples, features) float32 -> (examples, logits) float32.

        Zeros where the tree has no node. InvalidArgumentError where a leaf has fewer values.
        """
        paths = self._existing()
        if not len(paths):
            return np.zeros((len(features), logits), np.float32)
        rows = np.arange(len(features))
        leaves = paths.leaves(np.zeros(len(features), np.int64), Features.of_matrix(features), rows)
        sizes = paths.sizes[leaves]
        if (sizes < logits).any():
            raise InvalidArgumentError(
                f"a leaf has {int(sizes.min())} values, but {logits} logits are requested"
            )
        found: Array = paths.values[leaves][:, :logits]
        return np.ascontiguousarray(found)

    def _existing(self) -> TreeArrays:
        if self._paths is None:
            raise NotFoundError(
                f"Resource {self.container}/{self.name}/TensorForestTreeResource does not exist"
            )
        return self._paths

    def _read(self, serialized: bytes) -> tuple[bytes, TreeArrays]:
        tree = read(serialized, Tree(), "tree config")
        if self.account is not None:
            self.account.check(_NODE_BYTES * len(tree.nodes))
        return written(tree), TreeArrays(tree)

    def _keep(self, serialized: bytes, paths: TreeArrays) -> None:
        self._serialized, self._paths = serialized, paths
        if self.account is not None:
            self.account.book(self, len(serialized) + _NODE_BYTES * len(paths), self.name)


__all__ = ["ForestTree"]
