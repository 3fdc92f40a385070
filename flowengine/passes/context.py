"""What a pass may ask beside the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowengine.ir.graph import Node, OutputPort
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
