"""Write docs/examples/digits.pb: the classifier of digits.pb, trained here, its weights as constants.

    python tests/data/digits/freeze.py docs/examples/digits.pb

| node | what it is |
|---|---|
| `image` | fed: uint8 (N, 8, 8, 1), 0 to 255 |
| `scores` | probabilities of the ten classes, float32 (N, 10) |
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

import flowengine as fe

HERE: Final = Path(__file__).resolve().parent
STEPS: Final = 25
#: What the network was trained with is 0 to 16.
SCALE: Final = 1 / 15


def trained(graph: fe.Graph) -> dict[str, Any]:
    """{node name: value} of all weights after training on the digits that are not held out."""
    names = [node.name for node in graph if node.name.startswith("weights/")]
    with np.load(HERE / "digits.npz") as data, fe.blocking.Session(graph) as session:
        feeds = {"images": data["train_images"], "labels": data["train_labels"]}
        session.run("init")
        for _ in range(STEPS):
            session.run([], feeds, targets=["train"])
        values = session.run([f"{name}:0" for name in names])
    return dict(zip(names, values, strict=True))


def frozen(graph: fe.Graph) -> Any:
    """A GraphDef of what `scores` needs, from constants."""
    weights = trained(graph)
    head = fe.Graph()
    image = head.placeholder("uint8", [None, 8, 8, 1], name="image")
    head.ops.Mul(head.ops.Cast(image, DstT="float32", name="pixels"), np.float32(SCALE), name="images")
    for name, value in weights.items():
        head.constant(value, name=name)
    result = head.to_graph_def()
    known = {node.name for node in head}
    whole = graph.to_graph_def()
    nodes = {node.name: node for node in whole.node}
    needed, todo = set(known), ["scores"]
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += [each.removeprefix("^").partition(":")[0] for each in nodes[name].input]
    result.node.extend(node for node in whole.node if node.name in needed - known)
    return result


if __name__ == "__main__":
    definition = frozen(fe.Graph.load(HERE / "digits.pb"))
    Path(sys.argv[1]).write_bytes(definition.SerializeToString(deterministic=True))
