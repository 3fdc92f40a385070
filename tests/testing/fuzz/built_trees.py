"""Good graphs of boosted trees, streams of quantiles and trees of forests: each with what it works on.

BUILT_TREES["BoostedTreesPredict"](graph)      # an ensemble with a tree in it, and what it predicts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from flowengine.graphs.graph import Graph
from flowengine.ir.proto.boosted_trees_pb2 import BucketizedSplit, TreeEnsemble
from flowengine.resources.forests.ensemble import NO_PRUNING

_ONE: Final = np.float32(1)
_ROWS: Final = np.array([0, 1, 2, 3], np.int32)
#: A tree of a forest with a split and two leaves.
_FOREST_TREE: Final = bytes.fromhex(
    "0a0d220b0801150000003f180120020a0e0a0c0a0a0a080000803f000000400a0e0a0c0a0a0a080000404000008040"
)


def _i32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def _f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


# -- ensembles of boosted trees


def _ensemble(g: Graph) -> tuple[Any, Any]:
    """(an ensemble of no trees, the op that makes it)."""
    handle = g.ops.BoostedTreesEnsembleResourceHandleOp(shared_name="e")
    return handle, g.ops.BoostedTreesCreateEnsemble(handle, np.int64(0), b"")


def _grown(g: Graph, handle: Any) -> Any:
    """A tree with one split by the first feature."""
    left, right = _f32(-0.5).reshape(1, 1), _f32(0.5).reshape(1, 1)
    return g.ops.BoostedTreesUpdateEnsemble(
        *(handle, _i32(0), [_i32(0)], [_f32(2)], [_i32(1)], [left], [right], np.int32(2), np.float32(0.1)),
        pruning_mode=NO_PRUNING,
    )


def _grown_again(g: Graph, handle: Any) -> Any:
    left, right = _f32(-0.5).reshape(1, 1), _f32(0.5).reshape(1, 1)
    return g.ops.BoostedTreesUpdateEnsembleV2(
        *(handle, [_i32(0)], [_i32(0)], [_i32(0)], [_f32(2)], [_i32(1)], [left], [right]),
        *(
            [np.array([b"INEQUALITY_DEFAULT_LEFT"], object)],
            np.int32(2),
            np.float32(0.1),
            np.int32(NO_PRUNING),
        ),
    )


def _centred(g: Graph, handle: Any) -> Any:
    means = _f32(0.5).reshape(1, 1)
    return g.ops.BoostedTreesCenterBias(handle, means, means, _ONE, _ONE)


def _deserialised(g: Graph, handle: Any) -> Any:
    """A tree of one split, whose root was a leaf before."""
    message = TreeEnsemble()
    nodes = message.trees.add().nodes
    nodes.add(bucketized_split=BucketizedSplit(threshold=1, left_id=1, right_id=2))
    nodes[0].metadata.original_leaf.scalar = 0.5
    for _ in range(2):
        nodes.add().leaf.scalar = 0.5
    message.tree_weights.append(1)
    message.tree_metadata.add(num_layers_grown=1)
    text = message.SerializeToString(deterministic=True)
    return g.ops.BoostedTreesDeserializeEnsemble(handle, np.int64(3), text)


def _asked(g: Graph, op: str) -> object:
    """Return the outputs of an op for an ensemble with a tree in it."""
    handle, made = _ensemble(g)
    with g.control_dependencies([made]):
        grown = _grown(g, handle)
    with g.control_dependencies([grown]):
        return getattr(g.ops, op)(handle)


def _predicted(g: Graph, op: str, *known: Any) -> object:
    """Return the outputs of an op for four examples and an ensemble that was restored."""
    handle, made = _ensemble(g)
    with g.control_dependencies([made]):
        restored = _deserialised(g, handle)
    with g.control_dependencies([restored]):
        return getattr(g.ops, op)(handle, *known, [_ROWS], logits_dimension=1)


def _changed(g: Graph, change: Callable[[Graph, Any], Any]) -> object:
    """An ensemble after a change, serialised."""
    handle, made = _ensemble(g)
    with g.control_dependencies([made]):
        changed = change(g, handle)
    with g.control_dependencies([getattr(changed, "op", changed)]):
        return g.ops.BoostedTreesSerializeEnsemble(handle)


# -- streams of quantiles


def _streams(g: Graph) -> tuple[Any, Any]:
    """(streams of one feature, the op that adds four values to them)."""
    handle = g.ops.BoostedTreesQuantileStreamResourceHandleOp(shared_name="q")
    made = g.ops.BoostedTreesCreateQuantileStreamResource(handle, np.float32(0.1), np.int64(1))
    with g.control_dependencies([made]):
        told = g.ops.BoostedTreesMakeQuantileSummaries([_f32(1, 2, 3, 4)], _f32(1), np.float32(0.1))
        return handle, g.ops.BoostedTreesQuantileStreamResourceAddSummaries(handle, list(told))


def _boundaries(g: Graph) -> object:
    handle, added = _streams(g)
    with g.control_dependencies([added]):
        ended = g.ops.BoostedTreesQuantileStreamResourceFlush(handle, np.int64(3))
    with g.control_dependencies([ended]):
        return g.ops.BoostedTreesQuantileStreamResourceGetBucketBoundaries(handle, num_features=1)


def _summaries(g: Graph) -> object:
    handle, added = _streams(g)
    with g.control_dependencies([added]):
        return g.ops.BoostedTreesFlushQuantileSummaries(handle, num_features=1)


def _restored_boundaries(g: Graph) -> object:
    handle, added = _streams(g)
    with g.control_dependencies([added]):
        return g.ops.BoostedTreesQuantileStreamResourceDeserialize(handle, [_f32(1, 2)])


def _has_streams(g: Graph) -> object:
    handle, added = _streams(g)
    with g.control_dependencies([added]):
        return g.ops.IsBoostedTreesQuantileStreamResourceInitialized(handle)


# -- trees of forests


def _forest(g: Graph, op: str, *more: Any, **attrs: Any) -> object:
    handle = g.ops.TensorForestTreeResourceHandleOp(shared_name="t")
    with g.control_dependencies([g.ops.TensorForestCreateTreeVariable(handle, _FOREST_TREE)]):
        return getattr(g.ops, op)(handle, *more, **attrs)


BUILT_TREES: Final[Mapping[str, Callable[[Graph], object]]] = {
    "BoostedTreesCenterBias": partial(_changed, change=_centred),
    "BoostedTreesCreateEnsemble": partial(_changed, change=_grown),
    "BoostedTreesCreateQuantileStreamResource": _boundaries,
    "BoostedTreesDeserializeEnsemble": partial(_changed, change=_deserialised),
    "BoostedTreesEnsembleResourceHandleOp": partial(_changed, change=_grown),
    "BoostedTreesExampleDebugOutputs": lambda g: _predicted(g, "BoostedTreesExampleDebugOutputs"),
    "BoostedTreesFlushQuantileSummaries": _summaries,
    "BoostedTreesGetEnsembleStates": lambda g: _asked(g, "BoostedTreesGetEnsembleStates"),
    "BoostedTreesPredict": lambda g: _predicted(g, "BoostedTreesPredict"),
    "BoostedTreesQuantileStreamResourceAddSummaries": _boundaries,
    "BoostedTreesQuantileStreamResourceDeserialize": _restored_boundaries,
    "BoostedTreesQuantileStreamResourceFlush": _boundaries,
    "BoostedTreesQuantileStreamResourceGetBucketBoundaries": _boundaries,
    "BoostedTreesQuantileStreamResourceHandleOp": _boundaries,
    "BoostedTreesSerializeEnsemble": partial(_changed, change=_grown),
    "BoostedTreesTrainingPredict": lambda g: _predicted(
        g, "BoostedTreesTrainingPredict", _i32(0, 0, 0, 0), _i32(0, 0, 0, 0)
    ),
    "BoostedTreesUpdateEnsemble": partial(_changed, change=_grown),
    "BoostedTreesUpdateEnsembleV2": partial(_changed, change=_grown_again),
    "IsBoostedTreesEnsembleInitialized": lambda g: _asked(g, "IsBoostedTreesEnsembleInitialized"),
    "IsBoostedTreesQuantileStreamResourceInitialized": _has_streams,
    "TensorForestCreateTreeVariable": lambda g: _forest(g, "TensorForestTreeSize"),
    "TensorForestTreeDeserialize": lambda g: _forest(g, "TensorForestTreeDeserialize", _FOREST_TREE),
    "TensorForestTreeIsInitializedOp": lambda g: _forest(g, "TensorForestTreeIsInitializedOp"),
    "TensorForestTreePredict": lambda g: _forest(
        g, "TensorForestTreePredict", np.ones((2, 2), np.float32), logits_dimension=2
    ),
    "TensorForestTreeResourceHandleOp": lambda g: _forest(g, "TensorForestTreeSize"),
    "TensorForestTreeSerialize": lambda g: _forest(g, "TensorForestTreeSerialize"),
    "TensorForestTreeSize": lambda g: _forest(g, "TensorForestTreeSize"),
}


__all__ = ["BUILT_TREES"]
