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
    """One request: what is supplied, what is wanted, and which optional passes are on.

    feeds      ports whose value the caller supplies; consumers go on naming them
    fetches    ports whose value the caller wants
    targets    names of nodes to run
    kernels    what constant folding computes with; None leaves folding out
    declared   the placeholders among the fed nodes, or a function's arguments: what is fed there has the
               type and the shape that they declare
    registry   the ops that bodies of functions are made of; None leaves all calls as they are
    memory_bytes_max   what folding may make in all, where a step's memory is limited
    function   the function whose body the graph is; "" for a graph of its own
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

    request       what the plan is for
    heavy         nodes that were seen to be worth a worker thread
    costs         {node: microseconds} of those that were measured to take long
    limits        of a region
    moved         {port of the graph before: where its value is now}
    """

    request: PassContext
    heavy: frozenset[str] = frozenset()
    costs: Mapping[str, float] = field(default_factory=dict)
    limits: BodyLimits = REGION_LIMITS
    moved: Mapping[OutputPort, OutputPort] = field(default_factory=dict)

    @property
    def large(self) -> frozenset[str]:
        """Nodes over tensors so large that a pass over memory matters."""
        return self.heavy | {name for name, cost in self.costs.items() if cost >= LARGE_MICROSECONDS}
