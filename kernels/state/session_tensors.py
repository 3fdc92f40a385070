"""Session tensors: a value that stays with the session under a handle, to be used by later steps.

A handle is text (`name;number;device`) that a step hands out and a later one takes as a feed: large
intermediate results need not leave the session between steps. The value lives in the default container of the
resource manager until it is deleted, the container is cleared, or the session that owns it is closed.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.elements import own

_NUMBERS: Final = itertools.count()


class SessionTensor:
    """A value under a handle; what is in it is never changed.

    name    the handle
    """

    __slots__ = ("dtype", "name", "value")

    def __init__(self, name: str, value: Value, dtype: DType) -> None:
        self.name = name
        self.value = value
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"<SessionTensor '{self.name}' {self.dtype}>"


def _keep(value: Value, dtype: DType, ctx: KernelContext, node: Node) -> SessionTensor:
    name = f"{node.name};{next(_NUMBERS)};{ctx.device}"
    (kept,) = own((value,))
    held = SessionTensor(name, to_array(kept), dtype)
    return ctx.resources.lookup_or_create("", name, SessionTensor, lambda: held)


def _name(handle: Any) -> str:
    text = to_array(handle)
    if text.ndim:
        raise InvalidArgumentError(f"the handle of a session tensor is a scalar, not {text.ndim}-dimensional")
    value: bytes = text.item()
    return value.decode(errors="replace")


def _missing(name: str) -> NotFoundError:
    return NotFoundError(
        f"The tensor with handle '{name}' is not in the session store: "
        "it was deleted, or the handle is of another session"
    )


@kernel("GetSessionHandle", heavy=False)
def get_session_handle(value: Value, *, ctx: KernelContext, node: Node, T: DType) -> Value:
    """Keep a value of any shape; its handle (string scalar)."""
    return _keep(value, T, ctx, node).name.encode()


@kernel("GetSessionHandleV2", heavy=False)
def get_session_handle_v2(value: Value, *, ctx: KernelContext, node: Node, T: DType) -> SessionTensor:
    """Keep a value of any shape; a resource whose `name` is its handle."""
    return _keep(value, T, ctx, node)


@kernel("GetSessionTensor", heavy=False)
def get_session_tensor(handle: Any, *, ctx: KernelContext, dtype: DType) -> Value:
    """The value under a handle; NotFoundError if there is none, InvalidArgumentError if of another type."""
    name = _name(handle)
    held = ctx.resources.find("", name, SessionTensor)
    if held is None:
        raise _missing(name)
    if held.dtype.base is not dtype.base:
        raise InvalidArgumentError(f"the tensor with handle '{name}' is {held.dtype}, not {dtype}")
    return held.value


@kernel("DeleteSessionTensor", heavy=False)
def delete_session_tensor(handle: Any, *, ctx: KernelContext) -> None:
    """Forget the value under a handle; NotFoundError if there is none."""
    name = _name(handle)
    if ctx.resources.find("", name, SessionTensor) is None:
        raise _missing(name)
    ctx.resources.delete("", name, SessionTensor)
