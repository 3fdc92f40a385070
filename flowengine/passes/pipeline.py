"""The passes in order: the only place that knows it. Read from top to bottom.

Three stages: what is done for any *request*; what is done once nodes are *placed* on several devices; and
what is done for a *hot* plan, one that runs often, by what its steps were seen to take. A hot plan's values
are those of the cold one, to the last bit: whatever changes bits is done in the first two stages, in every
process alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.blocks.fuse import fusing
from flowengine.passes.blocks.sequences import fuse_sequences
from flowengine.passes.claims import arrange, claim_for_good, claim_hot, tell
from flowengine.passes.context import HotContext, PassContext
from flowengine.passes.cut.compress import compress_transfers
from flowengine.passes.cut.host_memory import place_memories
from flowengine.passes.cut.partition import PartitionedGraph, partition
from flowengine.passes.cut.schedule_recv import schedule_receives
from flowengine.passes.simplify.compact_constants import keep_compact
from flowengine.passes.simplify.contradictions import refusing_contradictions
from flowengine.passes.simplify.cse import merge_common_subexpressions
from flowengine.passes.simplify.dereference_at_use import read_late
from flowengine.passes.simplify.fold import folding_constants
from flowengine.passes.simplify.fold_batch_norm import fold_batch_norms
from flowengine.passes.simplify.large_constants import refuse_large_constants
from flowengine.passes.simplify.prune import prune
from flowengine.passes.simplify.relax_controls import relax_controls
from flowengine.passes.simplify.skip_identities import skip_identities
from flowengine.passes.simplify.unknown_ops import refuse_unknown_ops
from flowengine.passes.simplify.unused import drop_unused_gradients

#: A pass gives a graph, or makes it in pieces where that takes long.
Pass: TypeAlias = Callable[[NodeGraph, PassContext], NodeGraph | Pieces[NodeGraph]]

HotPass: TypeAlias = Callable[[NodeGraph, HotContext], NodeGraph | Pieces[NodeGraph]]


def _open_calls(graph: NodeGraph, context: PassContext) -> NodeGraph:
    if graph.library is None:
        return graph
    # Here because few graphs call functions.
    from flowengine.passes.simplify.open_calls import open_calls

    return open_calls(graph, context)


def _relax(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    return relax_controls(graph, hot.request)


def _skip_identities(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    # What parts small nodes costs nothing: they become regions.
    return skip_identities(graph, hot.request) if hot.large else graph


def _sequences(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    changed = fuse_sequences(graph, hot.request, hot.heavy, hot.costs)
    if changed is not graph:
        tell(changed, hot)
    return changed


def _regions(graph: NodeGraph, hot: HotContext) -> Pieces[NodeGraph]:
    fused = yield from fusing(
        graph,
        hot.request,
        heavy=hot.heavy,
        costs=hot.costs,
        limits=hot.limits,
    )
    hot.moved = fused.moved
    return fused.graph


#: The request stage: (name, pass, whether the request wants it).
_REQUEST: Final[tuple[tuple[str, Pass, Callable[[PassContext], bool]], ...]] = (
    # Before anything else, so that all see the nodes of functions as they see those of the graph.
    ("open_calls", _open_calls, lambda context: context.registry is not None),
    # Everything after this is linear in what a step runs, not in what the user's graph holds.
    ("prune", prune, lambda context: True),
    # Calls were looked into before they were opened.
    ("refuse_unknown_ops", refuse_unknown_ops, lambda context: True),
    # Before anything is computed of what cannot be.
    ("refuse_contradictions", refusing_contradictions, lambda context: True),
    # Before anybody asks a constant for its value.
    ("refuse_large_constants", refuse_large_constants, lambda c: c.memory_bytes_max is not None),
    ("keep_compact", keep_compact, lambda context: True),
    ("drop_unused_gradients", drop_unused_gradients, lambda context: True),
    # Before CSE, which then finds more that is equal: constants that were computed in different ways.
    ("fold_constants", folding_constants, lambda context: context.fold_constants),
    ("merge_common_subexpressions", merge_common_subexpressions, lambda c: c.merge_common_subexpressions),
    # Once filters and statistics are constants.
    ("fold_batch_norms", fold_batch_norms, lambda context: context.fold_batch_norms),
    # What changes bits is claimed of every plan, by what every process sees alike, never by measured times.
    ("claims", claim_for_good, lambda context: True),
    # After everything that merges, places or cuts: values may cross devices, references may not.
    ("late_reads", read_late, lambda context: True),
    # Folding leaves behind the constants that went into a folded one, late reads the Identities.
    ("prune_again", prune, lambda context: True),
)


#: The hot stage: (name, pass).
_HOT: Final[tuple[tuple[str, HotPass], ...]] = (
    # Gradients wait for one another in groups, which would part what follows one another.
    ("relax_controls", _relax),
    ("skip_identities", _skip_identities),
    # Large nodes first: what is left of them becomes regions.
    ("claims", claim_hot),
    ("arrange", arrange),
    ("sequences", _sequences),
    ("regions", _regions),
)


def stages(graph: NodeGraph, context: PassContext) -> Iterator[tuple[str, NodeGraph]]:
    """(name of the pass, graph that it made), for each pass that is on, in order."""
    return (made for made in _staged(graph, context) if made is not None)


def prepare(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """From a session's graph to what a plan is made of."""
    return at_once(preparing(graph, context))


def preparing(graph: NodeGraph, context: PassContext) -> Pieces[NodeGraph]:
    """As `prepare`, in pieces. The graph may grow meanwhile: what it has now is what is prepared."""
    given, graph = graph, graph.snapshot()
    for made in _staged(graph, context):
        if made is not None:
            name, graph = made
            if name == "prune":
                given.note_needed(graph.nodes)
        yield
    return graph


def _staged(graph: NodeGraph, context: PassContext) -> Iterator[tuple[str, NodeGraph] | None]:
    """As `stages`; None where a pass may be interrupted."""
    pruned: NodeGraph | None = None
    for name, run, wanted in _REQUEST:
        if not wanted(context):
            continue
        # What was pruned and has not changed since has nothing more to lose.
        if run is not prune:
            graph = yield from _whole(run(graph, context))
        elif graph is not pruned:
            graph = pruned = prune(graph, context)
        yield name, graph


def _whole(made: NodeGraph | Pieces[NodeGraph]) -> Generator[None, None, NodeGraph]:
    return made if isinstance(made, NodeGraph) else (yield from made)


def heat(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    """From what `prepare` or `cut` returned to what a hot plan is made of; the same graph if that is it.

    hot   what is known of the nodes; told of those that stand for several, and of values that have moved
    """
    return at_once(heating(graph, hot))


def heating(graph: NodeGraph, hot: HotContext) -> Pieces[NodeGraph]:
    """As `heat`, in pieces."""
    for made in _heated(graph, hot):
        if made is not None:
            graph = made[1]
        yield
    return graph


def hot_stages(graph: NodeGraph, hot: HotContext) -> Iterator[tuple[str, NodeGraph]]:
    """As `stages`, for what `heat` does."""
    return (made for made in _heated(graph, hot) if made is not None)


def _heated(graph: NodeGraph, hot: HotContext) -> Iterator[tuple[str, NodeGraph] | None]:
    for name, run in _HOT:
        graph = yield from _whole(run(graph, hot))
        yield name, graph


def cut(
    graph: NodeGraph,
    context: PassContext,
    placement: Mapping[str, str],
    incarnations: Mapping[str, int],
    *,
    schedules_receives: bool = True,
    compressed_scopes: Sequence[str] = (),
) -> PartitionedGraph:
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


def in_memories(
    graph: NodeGraph,
    context: PassContext,
    near: KernelRegistry,
    far: KernelRegistry,
    holds: Callable[[DType], bool],
) -> NodeGraph:
    """From what `cut` returned for a device with memory of its own to what its plan is made of.

    context     the part's request, with the device's kernels
    near, far   the kernels of the CPU, and of the device
    holds       whether the device's memory can hold a type

    What changes bits is claimed here by the device's own provider: of the whole graph, those for CPUs did.
    """
    return claim_for_good(place_memories(graph, context, near, far, holds), context)
