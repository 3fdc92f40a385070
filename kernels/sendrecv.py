"""Send and Recv: how a value gets from one partition of a step to another, through its rendezvous.

They run whatever the deadness of their inputs and carry the dead bit, so the executor calls them in its own
way: `send(value, is_dead, path)` and `receive(path, done)`, where `path` is the frames and iterations that
the node runs in. Both ends compute the same key from their attributes and that path.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError
from flowengine.core.rendezvous import Received, Rendezvous, RendezvousKey
from flowengine.kernels.context import KernelContext
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
    if ctx.hardware is not None and not is_dead:
        value = ctx.hardware.copy_out(value)
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


def _rendezvous(ctx: KernelContext) -> Rendezvous:
    if ctx.rendezvous is None:
        raise FailedPreconditionError(
            "this step runs on one device: there is nobody to send a tensor to or to receive one from"
        )
    return ctx.rendezvous


@lru_cache(maxsize=4096)
def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
