"""Decision forests: what TensorFlow 1.15 did step by step, and properties of trees and of quantiles."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.accounting import call_for
from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.proto.boosted_trees_pb2 import (
    BucketizedSplit,
    CategoricalSplit,
    DenseSplit,
    Tree,
    TreeDebugOutput,
    TreeEnsemble,
    TreeNode,
)
from flowengine.resources.forests.ensemble import (
    NO_PRUNING,
    POST_PRUNING,
    PRE_PRUNING,
    BoostedEnsemble,
    SplitCandidate,
)
from flowengine.resources.forests.messages import leaf_of, split_of, values_at, written
from flowengine.resources.forests.paths import Features
from flowengine.resources.forests.quantiles import (
    QuantileStream,
    QuantileStreams,
    boundaries_of,
    compressed,
    error_of,
    merged,
    quantiles_of,
    specification,
    summary_of,
)

RECORDED: Final = Path(__file__).with_name("forests.jsonl")
CASES: Final = [json.loads(line) for line in RECORDED.read_text().splitlines()]


def _array(told: dict[str, Any]) -> Any:
    if "bytes" in told:
        texts = np.empty(len(told["bytes"]), object)
        texts[:] = [base64.b64decode(each) for each in told["bytes"]]
        return texts.reshape(told["shape"])
    return np.array([float(each) for each in told["values"]], told["dtype"]).reshape(told["shape"])


def _near(ours: Any, theirs: Any) -> bool:
    """Whether messages say the same, up to the rounding of sums in another order."""
    if isinstance(ours, Message):
        said = [[(field.name, value) for field, value in each.ListFields()] for each in (ours, theirs)]
        names = [[name for name, _ in each] for each in said]
        return names[0] == names[1] and all(_near(a, b) for (_, a), (_, b) in zip(*said, strict=True))
    if isinstance(ours, Sequence):
        return len(ours) == len(theirs) and all(map(_near, ours, theirs))
    if isinstance(ours, float):
        return bool(abs(ours - theirs) <= 3e-6 + 3e-5 * abs(theirs))
    same: bool = ours == theirs
    return same


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_steps_of_a_graph_give_tensorflows_values_and_ensembles(case: dict[str, Any]) -> None:
    graph = fe.Graph.from_graph_def(base64.b64decode(case["graph"]))
    with fe.blocking.Session(graph) as session:
        for step in case["steps"]:
            feeds = {name: _array(value) for name, value in step["feeds"].items()}
            got = session.run(step["fetches"], feeds, targets=step["targets"])
            for name, ours, told in zip(step["fetches"], got, step["values"], strict=True):
                theirs = _array(told)
                if name.startswith(("ser:1", "dbg:")):
                    kind = TreeEnsemble if name.startswith("ser") else TreeDebugOutput
                    pairs = zip(to_array(ours).ravel().tolist(), theirs.ravel().tolist(), strict=True)
                    for a, b in pairs:
                        assert kind.FromString(b).SerializeToString(deterministic=True) == b
                        assert _near(kind.FromString(a), kind.FromString(b)), name
                elif theirs.dtype == object:
                    assert to_array(ours).tolist() == theirs.tolist()
                else:
                    assert np.asarray(ours).dtype == theirs.dtype
                    np.testing.assert_allclose(ours, theirs, 3e-5, 3e-6, err_msg=name)


#: A tree of TensorForest, as TensorFlow 1.15 serialises it.
_FOREST_TREE: Final = bytes.fromhex(
    "0a0d220b0801150000003f180120020a0e0a0c0a0a0a080000803f000000400a0e0a0c0a0a0a080000404000008040"
)


def test_a_forests_tree_is_made_asked_saved_and_made_anew() -> None:
    graph = fe.Graph()
    ops = graph.ops
    handle = ops.TensorForestTreeResourceHandleOp(name="tree")
    config = graph.placeholder("string", [], name="config")
    features = graph.placeholder("float32", [None, None], name="x")
    create = ops.TensorForestCreateTreeVariable(handle, config)
    restore = ops.TensorForestTreeDeserialize(handle, config)
    there = ops.TensorForestTreeIsInitializedOp(handle)
    predicted = ops.TensorForestTreePredict(handle, features, logits_dimension=2)
    size, saved = ops.TensorForestTreeSize(handle), ops.TensorForestTreeSerialize(handle)
    with fe.blocking.Session(graph) as session:
        assert not session.run(there)
        with pytest.raises(NotFoundError, match="tree"):
            session.run(size)
        with pytest.raises(NotFoundError):
            session.run([], {config: _FOREST_TREE}, targets=[restore])
        with pytest.raises(InvalidArgumentError, match="parse"):
            session.run([], {config: b"\xff"}, targets=[create])
        session.run([], {config: _FOREST_TREE}, targets=[create])
        session.run([], {config: b""}, targets=[create])
        assert session.run(there)
        assert session.run(size) == 3
        assert session.run(saved) == _FOREST_TREE
        rows = [[0, 0.5], [0, 0.75], [9, np.nan]]
        assert session.run(predicted, {features: rows}).tolist() == [[1, 2], [3, 4], [3, 4]]
        with pytest.raises(InvalidArgumentError, match="feature 1"):
            session.run(predicted, {features: [[1.0]]})
        session.run([], {config: b""}, targets=[restore])
        assert session.run(predicted, {features: rows}).tolist() == [[0, 0]] * 3


def _random_tree(draw: Any, logits: int, splits: type[Any], depth: int = 3) -> Tree:
    tree = Tree()

    def node(level: int) -> int:
        place = len(tree.nodes)
        tree.nodes.add()
        if level == depth or draw(st.booleans()):
            values = draw(st.lists(st.integers(-8, 8), min_size=logits, max_size=logits))
            tree.nodes[place].leaf.CopyFrom(leaf_of(values))
            return place
        limit = "value" if splits is CategoricalSplit else "threshold"
        split = splits(feature_id=draw(st.integers(0, 2)), **{limit: draw(st.integers(0, 3))})
        split.left_id, split.right_id = node(level + 1), node(level + 1)
        name = {BucketizedSplit: "bucketized_split", CategoricalSplit: "categorical_split"}.get(splits)
        getattr(tree.nodes[place], name or "dense_split").CopyFrom(split)
        return place

    node(0)
    return tree


def _ensemble_of(trees: Sequence[Tree], weights: Sequence[float]) -> TreeEnsemble:
    held = TreeEnsemble(trees=trees, tree_weights=weights[: len(trees)])
    for _ in trees:
        held.tree_metadata.add()
    return held


def _splitting(feature: int, left: int, right: int) -> TreeNode:
    """A node whose split is by a feature's first bucket."""
    return TreeNode(bucketized_split=BucketizedSplit(feature_id=feature, left_id=left, right_id=right))


def _empty_leaf() -> TreeNode:
    node = TreeNode()
    node.leaf.SetInParent()
    return node


def _walk(tree: Tree, row: Any) -> list[float]:
    node = tree.nodes[0]
    while not node.HasField("leaf"):
        split = split_of(node)
        assert split is not None
        if isinstance(split, CategoricalSplit):
            goes_left = row[split.feature_id] == split.value
        else:
            goes_left = row[split.feature_id] <= split.threshold
        node = tree.nodes[split.left_id if goes_left else split.right_id]
    return list(values_at(node))


@given(st.data(), st.integers(1, 3))
def test_predictions_are_those_of_a_walk_through_each_tree(data: st.DataObject, logits: int) -> None:
    kinds = (BucketizedSplit, CategoricalSplit)
    trees = [_random_tree(data.draw, logits, kind) for kind in data.draw(st.lists(st.sampled_from(kinds)))]
    weights = [1.0, 0.5, 0.25] * len(trees)
    held = _ensemble_of(trees, weights)
    ensemble = BoostedEnsemble("e")
    ensemble.create(0, written(held))
    assert ensemble.serialized() == (0, written(held))
    rows = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1)), np.int32)
    wanted = np.zeros((len(rows), logits))
    for tree, weight in zip(trees, weights, strict=False):
        wanted += [[weight * value for value in _walk(tree, row)] for row in rows]
    features = Features.of_columns(list(rows.T))
    assert ensemble.predict(features, logits).tolist() == wanted.tolist()
    if trees:
        zeros = np.zeros(len(rows), np.int32)
        changes, _, nodes = ensemble.predict_further(zeros, zeros - 1, features, logits)
        assert changes.tolist() == wanted.tolist()
        last = zeros + len(trees) - 1
        again, trees_now, nodes_now = ensemble.predict_further(last, nodes, features, logits)
        assert not again.any()
        assert (trees_now == last).all()
        assert (nodes_now == nodes).all()


@given(st.data())
def test_a_forests_tree_says_what_a_walk_says(data: st.DataObject) -> None:
    from flowengine.resources.forests.tree import ForestTree

    tree = _random_tree(data.draw, 2, DenseSplit)
    held = ForestTree("t")
    held.create(written(tree))
    rows = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1)), np.float32)
    assert held.predict(rows, 2).tolist() == [_walk(tree, row) for row in rows]


@given(st.data(), st.sampled_from([NO_PRUNING, PRE_PRUNING, POST_PRUNING]))
def test_what_examples_brought_along_stays_right_while_trees_grow_and_are_pruned(
    data: st.DataObject, pruning: int
) -> None:
    """The changes since the last look add up to the prediction from the first tree on."""
    ensemble = BoostedEnsemble("e")
    ensemble.create(0, b"")
    rows = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1)), np.int32)
    features = Features.of_columns(list(rows.T))
    trees, nodes = np.zeros(len(rows), np.int32), np.full(len(rows), -1, np.int32)
    logits = np.zeros((len(rows), 1), np.float32)
    number = st.integers(-8, 8).map(np.float32)
    for _ in range(6):
        changes, trees, nodes = ensemble.predict_further(trees, nodes, features, 1)
        logits = logits + changes
        assert logits.tolist() == ensemble.predict(features, 1).tolist()
        first, last = ensemble.states()[4]
        best = {
            node: SplitCandidate(
                data.draw(st.integers(0, 2)),
                0,
                data.draw(st.integers(0, 3)),
                data.draw(number),
                [data.draw(number)],
                [data.draw(number)],
            )
            for node in range(first, last)
            if data.draw(st.booleans())
        }
        ensemble.grow(best, max_depth=2, pruning=pruning, logits=1)
        stamp, written = ensemble.serialized()
        other = BoostedEnsemble("f")
        other.create(stamp, written)
        assert other.serialized() == (stamp, written)
        assert other.states() == ensemble.states()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([_splitting(0, 1, 9), _empty_leaf()], "child 9"),
        ([_splitting(0, 0, 0)], "does not end"),
        ([_splitting(4, 1, 1), _empty_leaf()], "feature 4"),
        ([_splitting(0, 1, 1), TreeNode()], "neither"),
        ([], "without a node"),
    ],
)
def test_a_damaged_tree_is_refused(nodes: list[TreeNode], message: str) -> None:
    def predict() -> None:
        ensemble = BoostedEnsemble("e")
        ensemble.create(0, written(_ensemble_of([Tree(nodes=nodes)], [1.0])))
        ensemble.predict(Features.of_columns([np.zeros(2, np.int32)]), 1)

    with pytest.raises(InvalidArgumentError, match=message):
        predict()


def test_an_ensemble_of_bytes_that_contradict_each_other_is_refused() -> None:
    ensemble = BoostedEnsemble("e")
    with pytest.raises(InvalidArgumentError, match="0 weights"):
        ensemble.create(0, written(TreeEnsemble(trees=[Tree(nodes=[_empty_leaf()])])))
    with pytest.raises(InvalidArgumentError, match="parse"):
        ensemble.create(0, b"\x0a\xff")
    assert not ensemble.exists
    with pytest.raises(NotFoundError):
        ensemble.serialized()


def test_there_must_be_room_for_what_bytes_could_hold() -> None:
    """Two bytes are a node of nothing, which takes many times as much."""
    account, ensemble = _Account(1_000_000), BoostedEnsemble("e")
    with pytest.raises(fe.errors.ResourceExhaustedError):
        call_for(account, ensemble.create, 0, bytes.fromhex("0a00") * 100_000)
    assert not ensemble.exists


_VALUES: Final = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 4)), min_size=1, max_size=40)


def _summary(pairs: list[tuple[int, int]]) -> Any:
    values, weights = np.array(pairs, np.float32).T
    return summary_of(values, weights)


@given(_VALUES, _VALUES)
def test_a_merged_exact_summary_is_that_of_all_values(first: Any, second: Any) -> None:
    both = merged(_summary(first), _summary(second))
    assert both.tolist() == _summary(first + second).tolist()


@given(st.lists(_VALUES, min_size=1, max_size=6), st.sampled_from([0.3, 0.1, 0.05]), st.integers(1, 12))
def test_quantiles_are_within_the_error(batches: list[Any], error: float, count: int) -> None:
    """The bounds of each rank hold, and no rank is farther from an entry than the levels allow."""
    every = [pair for batch in batches for pair in batch]
    stream = QuantileStream(error, len(every))
    for batch in batches:
        values, weights = np.array(batch, np.float32).T
        stream.push(values, weights)
    summary = stream.summary()
    levels, block = specification(error, len(every))
    # Each level compresses what the one below it has compressed, and the buffer once more.
    error = (levels + 1) * max(error, 1 / block)
    exact = {row[0]: row for row in _summary(every).tolist()}
    for value, weight, least, greatest in summary.tolist():
        below, upto = exact[value][2], exact[value][3]
        assert least <= below
        assert upto <= greatest
        assert weight <= upto - below
    assert error_of(summary) <= error + 1e-6
    assert summary[0, 0] == min(exact)
    assert summary[-1, 0] == max(exact)
    total = sum(weight for _, weight in every)
    assert summary[-1, 3] == total
    quantiles = quantiles_of(summary, count)
    assert len(quantiles) == max(count, 2) + 1
    assert (np.diff(quantiles) >= 0).all()
    for rank, value in enumerate(quantiles.tolist()):
        wanted = rank * total / max(count, 2)
        below, upto = exact[value][2], exact[value][3]
        assert below - error * total - 1e-3 <= wanted <= upto + error * total + 1e-3
    boundaries = boundaries_of(summary, count)
    assert (np.diff(boundaries) > 0).all()
    assert {boundaries[0], boundaries[-1]} == {min(exact), max(exact)}


@given(_VALUES, st.integers(2, 10), st.sampled_from([0.0, 0.1]))
def test_compressing_adds_no_more_error_than_it_may(pairs: Any, size: int, error: float) -> None:
    summary = _summary(pairs)
    small = compressed(summary, size, error)
    assert error_of(small) <= max(1 / size, error) + 1e-6
    assert {tuple(row) for row in small.tolist()} <= {tuple(row) for row in summary.tolist()}


def test_streams_refuse_what_is_no_summary_of_theirs() -> None:
    streams = QuantileStreams("q")
    with pytest.raises(NotFoundError, match="q"):
        streams.boundaries(1)
    with pytest.raises(InvalidArgumentError, match="negative"):
        streams.create(0.1, 10, -1)
    streams.create(0.1, 10, 2)
    with pytest.raises(InvalidArgumentError, match="2 streams, not 1"):
        streams.add([_summary([(1, 1)])])
    with pytest.raises(InvalidArgumentError, match="rise"):
        streams.add([_summary([(1, 1)]), _summary([(1, 1), (2, 1)])[::-1]])
    assert [len(each) for each in streams.flush_summaries(2)] == [0, 0]
    with pytest.raises(InvalidArgumentError, match="ask for at least 3"):
        streams.flush(5, quantiles=True)
    streams.flush(5, quantiles=False)
    assert [each.tolist() for each in streams.boundaries(2)] == [[], []]


class _Account:
    """Books what owners hold; refuses what is over the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: dict[int, int] = {}

    def check(self, wanted: int = 0) -> None:
        if sum(self.held.values()) + wanted > self.limit:
            raise fe.errors.ResourceExhaustedError("too much")

    def book(self, owner: Any, size: int, holder: str) -> None:
        assert holder
        self.held[id(owner)] = size


def test_what_resources_hold_is_booked_and_bounded() -> None:
    account = _Account(20_000)
    ensemble = BoostedEnsemble("e")
    ensemble.account = account
    ensemble.create(0, b"")
    before = account.held[id(ensemble)]
    one = np.float32(1)
    ensemble.grow({0: SplitCandidate(0, 0, 0, one, [one], [one])}, max_depth=9, pruning=0, logits=1)
    assert account.held[id(ensemble)] > before
    account.limit = 0
    stamp, written = ensemble.serialized()
    with pytest.raises(fe.errors.ResourceExhaustedError):
        ensemble.grow({1: SplitCandidate(0, 0, 0, one, [one], [one])}, max_depth=9, pruning=0, logits=1)
    assert ensemble.serialized() == (stamp + 1, written)
    streams = QuantileStreams("q")
    streams.account = account
    streams.create(0.1, 100, 1)
    with pytest.raises(fe.errors.ResourceExhaustedError):
        streams.add([_summary([(1, 1)])])
