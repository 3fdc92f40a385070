"""Connectionist temporal classification beside TensorFlow 1.15's: losses, gradients, decoded paths."""

from __future__ import annotations

from typing import Any

import flowengine as fe
from flowengine.client.embedding import SparseParts
from tests.client import cases, replayed


def _found(graph: fe.Graph, case: dict[str, Any]) -> dict[str, Any]:
    logits, lengths = (graph.constant(case["inputs"][key]) for key in ("logits", "sequence_length"))
    function = getattr(fe.ctc, case["ours"])
    if case["ours"] == "loss":
        indices, values = (graph.constant(each) for each in cases.LABELS)
        labels = SparseParts(indices, values, graph.constant([3, 2], "int64"))
        value = function(labels, logits, lengths, **case["options"])
        return {"value": value, "d_logits": fe.gradients(value, logits)[0]}
    decoded = function(logits, lengths, **case["options"])
    paths = {
        f"path {number}": graph.ops.SparseToDense(path.indices, path.dense_shape, path.values, -1)
        for number, path in enumerate(decoded.decoded)
    }
    return {"chance": decoded.log_probability, **paths}


async def test_losses_and_decoders_are_those_of_tensorflow() -> None:
    graph = fe.Graph()
    fetched = {name: _found(graph, case) for name, case in replayed.by_name("ctc").items()}
    async with fe.Session(graph) as session:
        for name, got in (await session.run(fetched)).items():
            replayed.compare("ctc", name, got, rtol=1e-4, atol=1e-5)
