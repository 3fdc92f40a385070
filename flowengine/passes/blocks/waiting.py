"""What a node waits for: two that are to run as one have to wait for the same queues and branches."""

from __future__ import annotations

from typing import Final

from flowengine.ir.frames import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.ir.graph import Node
from flowengine.kernels.registry import KernelRegistry

_RECVS: Final = frozenset({"_Recv", "_HostRecv"})
_CONTROL: Final = ENTER_OPS | EXIT_OPS | MERGE_OPS | NEXT_ITERATION_OPS | SWITCH_OPS


def may_wait(node: Node, kernels: KernelRegistry) -> bool:
    """Whether what it gives may be late for ever, or dead: control flow, queues, functions, Recvs.

    What a Recv waits for may be made of what a member of the group before it gives.
    """
    if node.op in _RECVS:
        return True
    if node.op in _CONTROL or node.op_def is None or not node.output_types:
        return node.op in _CONTROL or node.op_def is None
    offers = kernels.candidates(node.op)
    return not offers or any(kernel.is_async for kernel in offers)
