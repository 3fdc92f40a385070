"""No op is asked for by its name outside of the rooms where ops are defined and computed.

What is asked of an op stands in its definition (`ir.traits`); the ops that are the engine's own stand in
`ir.names`. This looks at the source for what would ask in another way: the name of an op as a literal, and
the beginning or end of a name. Nodes may be *made* by name, through `ir.make`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowengine.ops.load import registry

ROOT = Path(__file__).resolve().parent.parent / "flowengine"

#: Where ops are defined and computed, and where graphs are written for a user or read for a client.
ROOMS = {
    *("ops", "kernels", "transport", "gradients", "functions", "graphs", "client", "saved_model", "tools"),
    *("tf1", "testing"),
}
FILES = {
    *("core/public_names/elsewhere.py", "ir/names.py", "ir/make.py"),
    *("train/replica_devices.py", "train/saver_nodes.py"),
}
#: Words that are the name of an op and something else: a kind of resource, the name of a node, a class.
OTHER_WORDS = {
    "resources/accumulator.py": {"ConditionalAccumulator", "SparseConditionalAccumulator"},
    "resources/barrier.py": {"Barrier"},
    "resources/queue_kinds.py": {"FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue"},
    "resources/table.py": {"HashTable", "MutableDenseHashTable", "MutableHashTable"},
    "train/__init__.py": {"Snapshot"},
    "train/fitting/batches.py": {"Batch"},
    "train/producers.py": {"CountUpTo"},
    "train/queues.py": {"Size"},
}
#: Methods that look at a part of a name.
_PARTS = {"startswith", "endswith", "removeprefix", "partition", "split", "find", "lower"}


def files() -> list[Path]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if inside.parts[0] not in ROOMS and "proto" not in inside.parts and str(inside) not in FILES:
            found.append(path)
    return found


def asked(tree: ast.AST, ops: frozenset[str]) -> Iterator[tuple[int, str]]:
    """(line, what) for each literal that is an op's name, and each look at a part of a node's op."""
    passed_over = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        # make.node(ops, "Merge", ...)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("make."):
            passed_over.update(map(id, node.args))
        # cast("Any", ...)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cast":
            passed_over.update(map(id, node.args[:1]))
        # __all__ = [...]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            passed_over.update(map(id, ast.walk(node.value)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in passed_over and node.value in ops:
            yield node.lineno, repr(node.value)
        if isinstance(node, ast.Attribute) and node.attr in _PARTS and _is_op(node.value):
            yield node.lineno, ast.unparse(node)


def _is_op(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("op", "op_type")


@pytest.fixture(scope="module")
def ops() -> frozenset[str]:
    own = {"_Region", "_FusedElementwise", "_FusedContraction", "_FusedSequence", "_DescentByProduct"}
    return frozenset({*registry(), *own, "_GatheredUpdates", "_MaxPoolWithPlaces", "_MaxPoolGradAtPlaces"})


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_op_is_asked_for_by_its_name(path: Path, ops: frozenset[str]) -> None:
    allowed = {repr(word) for word in OTHER_WORDS.get(str(path.relative_to(ROOT)), set())}
    found = [(line, what) for line, what in asked(ast.parse(path.read_text()), ops) if what not in allowed]
    assert not found, f"{path}: ask a trait (ir/traits.py), or make the node with ir/make.py: {found}"


@pytest.mark.parametrize(
    "text",
    [
        'node.op == "Identity"',
        'node.op in ("Const", "NoOp")',
        '_SET = frozenset({"MatMul"})',
        'TABLE = {"Relu": 1}',
        'node.op.startswith("Tensor" + "Array")',
        'error.op_type.endswith("Grad")',
        'Node("x", "Const")',
    ],
)
def test_each_way_to_ask_is_seen(text: str, ops: frozenset[str]) -> None:
    assert list(asked(ast.parse(text), ops))


@pytest.mark.parametrize("text", ['make.node(ops, "Merge", "m")', '"""Identity"""', 'f(node.op, "mine")'])
def test_what_makes_or_tells_is_not(text: str, ops: frozenset[str]) -> None:
    assert not list(asked(ast.parse(text), ops))
