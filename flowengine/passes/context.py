"""The context that passes receive beside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowengine.kernels.provider import LARGE_MICROSECONDS
from flowengine.passes.blocks.cutting import REGION_LIMITS, BodyLimits

if TYPE_CHECKING:
    from flowengine.ir.graph import Node, OutputPort
    from flowengine.ir.opdef import OpRegistry
    from flowengine.kernels.registry import KernelRegistry


@dataclass(frozen=True, slots=True)
class PassContext:
    """One request: its feeds, fetches and targets, and the optional passes that are on.

    feeds      ports whose value the caller supplies; consumers keep naming them
    fetches    ports whose value the caller wants
    targets    names of nodes to run
    kernels    the kernels of constant folding; None means no folding
    declared   the placeholders among the fed nodes, or a function's arguments: values fed there have the
               declared type
               and shape
    registry   the ops of bodies of functions; None keeps all calls
    memory_bytes_max   a limit on all results of folding, if a step's memory is limited
    function   the name of the function if the graph is its body; "" for any other graph
    """

    feeds: tuple[OutputPort, ...] = ()
    fetches: tuple[OutputPort, ...] = ()
    targets: tuple[str, ...] = ()
    fold_constants: bool = True
    merge_common_subexpressions: bool = True
    kernels: KernelRegistry | None = None
    declared: tuple[Node, ...] = ()
    fuse_elementwise: bool = True
    fuse_contractions: bool = True
    fold_batch_norms: bool = False
    memory_bytes_max: int | None = None
    registry: OpRegistry | None = None
    function: str = ""


@dataclass(slots=True)
class HotContext:
    """The known facts of a plan that runs often, while passes change its graph.

    request       the plan's request
    heavy         nodes that proved to be worth a worker thread
    costs         {node: microseconds} of nodes that were measured to take long
    limits        the limits of a region
    moved         {port of the graph before: the port that has its value now}
    """

    request: PassContext
    heavy: frozenset[str] = frozenset()
    costs: Mapping[str, float] = field(default_factory=dict)
    limits: BodyLimits = REGION_LIMITS
    moved: Mapping[OutputPort, OutputPort] = field(default_factory=dict)

    @property
    def large(self) -> frozenset[str]:
        """Return the nodes over tensors so large that a pass over memory matters."""
        return self.heavy | {name for name, cost in self.costs.items() if cost >= LARGE_MICROSECONDS}
