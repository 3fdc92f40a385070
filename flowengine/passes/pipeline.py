"""The passes in order: only this module knows it. Read from top to bottom.

Three stages: passes for any *request*; passes after nodes are *placed* on several devices; and passes for a
*hot* plan, one that runs often, which use the measured times of its steps. A hot plan's values are those of
the cold one, to the last bit: passes that change bits belong to the first two stages, in every process alike.
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
from flowengine.passes.claims import arrange, claim_for_good, claim_hot, estimate_times
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

#: A pass returns a graph, or makes it in pieces if that takes long.
Pass: TypeAlias = Callable[[NodeGraph, PassContext], NodeGraph | Pieces[NodeGraph]]

HotPass: TypeAlias = Callable[[NodeGraph, HotContext], NodeGraph | Pieces[NodeGraph]]


def _open_calls(graph: NodeGraph, context: PassContext) -> NodeGraph:
    if graph.library is None:
        return graph
    # Imported here because few graphs call functions.
    from flowengine.passes.simplify.open_calls import open_calls

    return open_calls(graph, context)


def _relax(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    return relax_controls(graph, hot.request)


def _skip_identities(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    # Dividing small nodes costs nothing: they become regions.
    return skip_identities(graph, hot.request) if hot.large else graph


def _sequences(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    changed = fuse_sequences(graph, hot.request, hot.heavy, hot.costs)
    if changed is not graph:
        estimate_times(changed, hot)
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
    # First, so that all passes see the nodes of functions as they see those of the graph.
    ("open_calls", _open_calls, lambda context: context.registry is not None),
    # All later passes are linear in the nodes that a step runs, not in the user's graph.
    ("prune", prune, lambda context: True),
    # Calls were checked before they were opened.
    ("refuse_unknown_ops", refuse_unknown_ops, lambda context: True),
    # Before any pass computes values of such nodes.
    ("refuse_contradictions", refusing_contradictions, lambda context: True),
    # Before any pass asks a constant for its value.
    ("refuse_large_constants", refuse_large_constants, lambda c: c.memory_bytes_max is not None),
    ("keep_compact", keep_compact, lambda context: True),
    ("drop_unused_gradients", drop_unused_gradients, lambda context: True),
    # Before CSE, which then finds more equal nodes: constants that were computed in different ways.
    ("fold_constants", folding_constants, lambda context: context.fold_constants),
    ("merge_common_subexpressions", merge_common_subexpressions, lambda c: c.merge_common_subexpressions),
    # After filters and statistics have become constants.
    ("fold_batch_norms", fold_batch_norms, lambda context: context.fold_batch_norms),
    # Claims that change bits are made in every plan, from facts that all processes share, never from measured
    # times.
    ("claims", claim_for_good, lambda context: True),
    # After all passes that merge, place or cut: values may cross devices, references may not.
    ("late_reads", read_late, lambda context: True),
    # Folding leaves the constants that went into a folded one behind, late reads the Identities.
    ("prune_again", prune, lambda context: True),
)


#: The hot stage: (name, pass).
_HOT: Final[tuple[tuple[str, HotPass], ...]] = (
    # Gradients wait for one another in groups, which would divide consecutive nodes.
    ("relax_controls", _relax),
    ("skip_identities", _skip_identities),
    # Large nodes first: the rest of the nodes becomes regions.
    ("claims", claim_hot),
    ("arrange", arrange),
    ("sequences", _sequences),
    ("regions", _regions),
)


def stages(graph: NodeGraph, context: PassContext) -> Iterator[tuple[str, NodeGraph]]:
    """Yield (name of the pass, graph that it made), for each pass that is on, in order."""
    return (made for made in _staged(graph, context) if made is not None)


def prepare(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Turn a session's graph into the graph of a plan."""
    return at_once(preparing(graph, context))


def preparing(graph: NodeGraph, context: PassContext) -> Pieces[NodeGraph]:
    """Prepare as `prepare` does, in pieces. The graph may grow meanwhile: its present nodes are prepared."""
    given, graph = graph, graph.snapshot()
    for made in _staged(graph, context):
        if made is not None:
            name, graph = made
            if name == "prune":
                given.note_needed(graph.nodes)
        yield
    return graph


def _staged(graph: NodeGraph, context: PassContext) -> Iterator[tuple[str, NodeGraph] | None]:
    """Run passes as `stages` does; yield None where a pass may be interrupted."""
    pruned: NodeGraph | None = None
    for name, run, wanted in _REQUEST:
        if not wanted(context):
            continue
        # A graph that was pruned and has not changed since has nothing more to lose.
        if run is not prune:
            graph = yield from _whole(run(graph, context))
        elif graph is not pruned:
            graph = pruned = prune(graph, context)
        yield name, graph


def _whole(made: NodeGraph | Pieces[NodeGraph]) -> Generator[None, None, NodeGraph]:
    return made if isinstance(made, NodeGraph) else (yield from made)


def heat(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    """Turn the result of `prepare` or `cut` into the graph of a hot plan; perhaps the same graph.

    hot   known facts of the nodes; it records nodes that stand for several, and moved values
    """
    return at_once(heating(graph, hot))


def heating(graph: NodeGraph, hot: HotContext) -> Pieces[NodeGraph]:
    """Heat as `heat` does, in pieces."""
    for made in _heated(graph, hot):
        if made is not None:
            graph = made[1]
        yield
    return graph


def hot_stages(graph: NodeGraph, hot: HotContext) -> Iterator[tuple[str, NodeGraph]]:
    """Run the hot passes as `stages` does, for `heat`."""
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
    """Cut the result of `prepare` into one graph for each device.

    placement            {node: complete device name}
    incarnations         {device: number of its incarnation}
    compressed_scopes    name scopes whose float32 tensors may lose precision on their way
    """
    parts = partition(graph, context, placement, incarnations)
    # While a Recv still passes its tensor to its consumers, and not to a widening node.
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
    """Turn the result of `cut` for a device with memory of its own into the graph of its plan.

    context     the part's request, with the device's kernels
    near, far   the kernels of the CPU, and of the device
    holds       whether the device's memory can hold a type

    The device's own provider makes its claims that change bits here; those of CPUs did for the whole graph.
    """
    return claim_for_good(place_memories(graph, context, near, far, holds), context)
