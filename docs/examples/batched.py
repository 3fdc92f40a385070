"""A graph whose requests are computed together: `Batch` collects their rows, `Unbatch` gives each its own."""

from pathlib import Path

import numpy as np

import flowengine as fe

MODEL = Path(__file__).resolve().parent / "digits.pb"
#: A picture to try the graph with.
BLANK = np.zeros([1, 8, 8, 1], np.uint8)


def batched(path: Path = MODEL, *, wait_seconds: float = 0.002) -> fe.Graph:
    """The model of a file with one node more: fetch `batched` instead of `scores`.

    wait_seconds   how long the first request of a batch waits for others
    """
    graph = fe.Graph()
    image = graph.placeholder("uint8", [None, 8, 8, 1], name="image")
    (rows,), whose, mine = graph.ops.Batch(
        [image],
        num_batch_threads=1,
        max_batch_size=64,
        batch_timeout_micros=round(wait_seconds * 1e6),
        grad_timeout_micros=0,
    )
    # The model's own nodes, which read the batch's rows where they read the placeholder.
    definition = graph.to_graph_def()
    for node in fe.Graph.load(path).to_graph_def().node:
        if node.name != "image":
            node.input[:] = [rows.name if each == "image" else each for each in node.input]
            definition.node.append(node)
    whole = fe.Graph.from_graph_def(definition)
    whole.ops.Unbatch(
        whole.tensor("scores:0"),
        whole.tensor(whose.name),
        whole.tensor(mine.name),
        timeout_micros=30_000_000,
        name="batched",
    )
    return whole
