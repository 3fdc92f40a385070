"""Plans whose claims are made before their first run, and stay in steps that are not compiled."""

from __future__ import annotations

import pytest

from flowengine.ir.graph import NodeGraph
from flowengine.passes import pipeline
from flowengine.passes.blocks.sequences import fuse_sequences
from flowengine.passes.claims import claim_hot
from flowengine.passes.context import HotContext, PassContext


def claim_at_once(
    monkeypatch: pytest.MonkeyPatch, *, sequences: bool = False, by_device: bool = False
) -> None:
    """Make the claims of hot plans in every plan, as if every node took 100 us.

    sequences   whether sequences are made, too
    by_device   whether a device's own provider claims, instead of those of the host
    """

    def claimed(graph: NodeGraph, context: PassContext) -> NodeGraph:
        names = frozenset(node.name for node in graph)
        hot = HotContext(context, names, dict.fromkeys(names, 100.0))
        graph = claim_hot(graph, hot)
        return fuse_sequences(graph, context, hot.heavy, hot.costs) if sequences else graph

    if by_device:
        monkeypatch.setattr(pipeline, "claim_for_good", claimed)
        return
    stages = [
        (name, claimed if name == "claims" else run, applies) for name, run, applies in pipeline._REQUEST
    ]
    monkeypatch.setattr(pipeline, "_REQUEST", tuple(stages))


__all__ = ["claim_at_once"]
