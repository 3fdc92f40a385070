"""The passes in order: the only place that knows it. Read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from flowengine.ir.graph import Graph
from flowengine.passes.context import PassContext
from flowengine.passes.cut.compress import compress_transfers
from flowengine.passes.cut.partition import Partitioned, partition
from flowengine.passes.cut.schedule_recv import schedule_receives
from flowengine.passes.simplify.cse import merge_common_subexpressions
from flowengine.passes.simplify.fold import fold_constants
from flowengine.passes.simplify.fold_batch_norm import fold_batch_norms
from flowengine.passes.simplify.late_reads import read_late
from flowengine.passes.simplify.prune import prune
from flowengine.passes.simplify.unused import drop_unused_gradients

Pass: TypeAlias = Callable[[Graph, PassContext], Graph]

#: (name, pass, whether the request wants it).
_PASSES: Final[tuple[tuple[str, Pass, Callable[[PassContext], bool]], ...]] = (
    # Everything after this is linear in what a step runs, not in what the user's graph holds.
    ("prune", prune, lambda context: True),
    ("drop_unused_gradients", drop_unused_gradients, lambda context: True),
    # Before CSE, which then finds more that is equal: constants that were computed in different ways.
    ("fold_constants", fold_constants, lambda context: context.fold_constants),
    ("merge_common_subexpressions", merge_common_subexpressions, lambda c: c.merge_common_subexpressions),
    # Once filters and statistics are constants.
    ("fold_batch_norms", fold_batch_norms, lambda context: context.fold_batch_norms),
    # After everything that merges, places or cuts: values may cross devices, references may not.
    ("late_reads", read_late, lambda context: True),
    # Folding leaves behind the constants that went into a folded one, late reads the Identities.
    ("prune_again", prune, lambda context: True),
)


def stages(graph: Graph, context: PassContext) -> Iterator[tuple[str, Graph]]:
    """(name of the pass, graph that it made), for each pass that is on, in order."""
    pruned: Graph | None = None
    for name, run, wanted in _PASSES:
        if not wanted(context):
            continue
        # What was pruned and has not changed since has nothing more to lose.
        if run is not prune:
            graph = run(graph, context)
        elif graph is not pruned:
            graph = pruned = prune(graph, context)
        yield name, graph


def prepare(graph: Graph, context: PassContext) -> Graph:
    """From a session's graph to what a plan is made of."""
    return [graph, *(made for _, made in stages(graph, context))][-1]


def cut(
    graph: Graph,
    context: PassContext,
    placement: Mapping[str, str],
    incarnations: Mapping[str, int],
    *,
    schedules_receives: bool = True,
    compressed_scopes: Sequence[str] = (),
) -> Partitioned:
    """From what `prepare` returned to one graph a device.

    placement            {node: complete device name}
    incarnations         {device: number of its present life}
    compressed_scopes    name scopes whose float32 tensors may lose precision on their way
    """
    parts = partition(graph, context, placement, incarnations)
    # While a Recv still gives its tensor to those who use it, and not to what widens it for them.
    if schedules_receives:
        parts = schedule_receives(parts, context)
    return compress_transfers(parts, graph, compressed_scopes)
