"""Send and Recv: how a value gets from one partition of a step to another, through its rendezvous.

Send and Recv run whatever the deadness of their inputs and carry the dead bit, so the executor calls them in
its own way: `send(value, is_dead, path)` and `receive(path, done)`, where `path` is the frames and iterations
that the node runs in. Both ends compute the same key from their attributes and that path. Narrow and Widen
stand before and behind them where a transfer is compressed. On a device with memory of its own Send and Recv
work in host memory, and copies stand before and behind them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import FailedPreconditionError
from flowengine.core.rendezvous import Received, Rendezvous, RendezvousKey
from flowengine.ir.graph import Node
from flowengine.ir.marks import LEAVES_TASK
from flowengine.kernels.context import KernelContext, StepTransfers
from flowengine.kernels.registry import kernel

#: ((frame name, iteration), ...) from the root in.
Path: TypeAlias = tuple[tuple[str, int], ...]


@kernel("_Send", "_HostSend", heavy=False)
def send(
    value: Value,
    is_dead: bool,
    path: Path,
    *,
    tensor_name: bytes,
    send_device: bytes,
    send_device_incarnation: int,
    recv_device: bytes,
    ctx: KernelContext,
) -> None:
    """Leave the value, in host memory, where its Recv finds it. Never waits."""
    key = RendezvousKey(
        ctx.step_id,
        _text(send_device),
        send_device_incarnation,
        _text(tensor_name),
        _text(recv_device),
        path,
    )
    _rendezvous(ctx).send(key, value, is_dead)


@kernel("_Recv", "_HostRecv", heavy=False)
def receive(
    path: Path,
    done: Received,
    *,
    tensor_name: bytes,
    send_device: bytes,
    send_device_incarnation: int,
    recv_device: bytes,
    ctx: KernelContext,
) -> None:
    """Have `done` called with what the Send of the same key left, at once or when it does."""
    key = RendezvousKey(
        ctx.step_id,
        _text(send_device),
        send_device_incarnation,
        _text(tensor_name),
        _text(recv_device),
        path,
    )
    _rendezvous(ctx).receive(key, done)


@kernel("_Narrow", fresh=True)
def narrow(value: Value) -> Value:
    """The upper 16 bits of each float32; what is not a number stays none."""
    array = to_array(value)
    upper = (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    lost = np.isnan(array) & ((upper & np.uint16(0x7F)) == 0)
    if lost.any():
        upper = np.where(lost, upper | np.uint16(0x40), upper)
    return upper


@kernel("_Widen", fresh=True)
def widen(upper: Value) -> Value:
    """float32 with these upper 16 bits, and zeros below."""
    return (to_array(upper).astype(np.uint32) << np.uint32(16)).view(np.float32)


@kernel("_CopyToDevice", heavy=False)
def copy_to_device(tensor: Value, *, tensor_name: bytes, node: Node, ctx: KernelContext) -> Value:
    """The tensor in the memory of the step's device. Launched, and never waited for."""
    return _crossing(ctx).to_device(node.name, tensor, _text(tensor_name))


@kernel("_CopyToHost")
async def copy_to_host(tensor: Value, *, tensor_name: bytes, node: Node, ctx: KernelContext) -> Value:
    """The tensor in host memory, once it is there. Cancelled: the copy goes on, and nobody takes it.

    What only leaves for other tasks stays in the memory that the device has written it to.
    """
    leaves = bool(node.attrs.get(LEAVES_TASK))
    return await _crossing(ctx).to_host(node.name, tensor, _text(tensor_name), leaves=leaves)


def _crossing(ctx: KernelContext) -> StepTransfers:
    if ctx.crossing is None:
        raise FailedPreconditionError("this step's device shares the memory of its host: nothing is copied")
    return ctx.crossing


def _rendezvous(ctx: KernelContext) -> Rendezvous:
    if ctx.rendezvous is None:
        raise FailedPreconditionError(
            "this step runs on one device: there is nobody to send a tensor to or to receive one from"
        )
    return ctx.rendezvous


@lru_cache(maxsize=4096)
def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
